"""``--preset raddle`` and ``--preset soloist`` of soloist against RADDLE (Peng et al. 2021), section 5."""

import argparse
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from inn_toy import texts, write_corpus
from kit import train
from tiny_gpt2 import save_gpt2

from parapet.evaluation.models.configs import SoloistConfig
from parapet.evaluation.models.systems.data import MARKS, read_steps
from parapet.evaluation.models.systems.soloist import Net, SoloistLearner
from parapet.pipelines.config_flags import read_config
from parapet.pipelines.models import family_of
from parapet.transforms.storage.checkpoints import inspect

EPOCHS, BATCH_SIZE, RATE = 20, 1, 5e-5  # section 5
GPT2 = 124_439_808  # parameters of its smallest checkpoint, 12 layers


def flags(*argv: str) -> argparse.Namespace:
    given = ["--checkpoint", "gpt2", "--output", "out", *argv]
    return family_of("soloist").train_parser().parse(given)[0]


def config(*argv: str) -> SoloistConfig:
    return read_config(SoloistConfig, flags(*argv), device="cpu")


def test_raddles_baselines_are_trained_as_the_paper_says():
    """Adam from 5e-5, batches of one turn, 20 epochs, nothing chosen on dev."""
    of = config("--preset", "raddle")
    assert (of.epochs, of.steps, of.batch_size, of.learning_rate) == (EPOCHS, None, BATCH_SIZE, RATE)
    assert (of.weight_decay, of.keep, of.consistency, of.clip) == (0.0, "last", 0.33, 1.0)
    total = 1000
    assert [of.rate(step, total) for step in (0, 250, 500, 999)] == [1.0, 0.75, 0.5, 0.001]
    assert config("--preset", "raddle", "--consistency", "0").consistency == 0.0


def test_pre_training_is_as_in_the_authors_script():
    of = config("--preset", "soloist")
    assert (of.epochs, of.steps, of.batch_size, of.learning_rate) == (None, 500_000, 20, RATE)
    assert (of.weight_decay, of.keep, of.consistency, of.schedule, of.warmup) == (0.0, "last", 0.33, "linear", 0.0)


def test_the_parameters_of_gpt_2_and_of_what_is_added():
    """A row of embeddings for each mark, and the head of the third task."""
    from transformers import GPT2Config, GPT2LMHeadModel

    with torch.device("meta"):
        gpt2 = GPT2LMHeadModel(GPT2Config())
    count = sum(one.numel() for one in gpt2.parameters())
    gpt2.resize_token_embeddings(gpt2.config.vocab_size + len(MARKS), mean_resizing=False)
    with torch.device("meta"):
        net = Net(gpt2)
    size = gpt2.config.n_embd
    assert (gpt2.config.n_layer, count) == (12, GPT2)
    assert sum(one.numel() for one in net.parameters()) == GPT2 + len(MARKS) * size + size + 1 == 124_449_025


@pytest.fixture(scope="module")
def toy(tmp_path_factory):
    folder = tmp_path_factory.mktemp("toy")
    write_corpus(folder / "corpus")
    save_gpt2(folder / "gpt2", texts())
    return folder


def test_the_optimiser_is_adam(toy):
    of = config("--preset", "raddle", "--max_length", "100")
    steps = read_steps(str(toy / "corpus"), "train").rows[:4]
    learner = SoloistLearner(of, inspect(str(toy / "gpt2"), ("gpt2",)), steps, steps)
    (group,) = learner.optimiser.param_groups
    assert (group["weight_decay"], group["betas"], group["eps"], group["lr"]) == (0.0, (0.9, 0.999), 1e-8, RATE)
    batches = list(learner.batches(torch.Generator()))
    assert [len(batch) for batch in batches] == [1] * 4


def test_what_was_pre_trained_is_fine_tuned(toy):
    """Pre-training on two corpora, then fine-tuning its checkpoint: SOLOIST as RADDLE has it."""

    def trained(
        name: str, preset: str, length: tuple[str, str], corpora: list[Path], checkpoint: Path
    ) -> dict[str, Any]:
        given = ["--train", *map(str, corpora), "--checkpoint", str(checkpoint), "--max_length", "100", *length]
        argv = ["soloist", "--quiet", "--preset", preset, *given, "--output", str(toy / name)]
        assert train(argv) == 0
        run: dict[str, Any] = json.loads((toy / name / "run.json").read_text())
        return run

    other = write_corpus(toy / "other")
    first = trained("grounded", "soloist", ("--steps", "4"), [toy / "corpus", other], toy / "gpt2")
    assert {one["flag"] for one in first["inputs"]} == {"train", "dev"}
    assert (first["options"]["preset"], first["options"]["steps"], first["options"]["batch_size"]) == ("soloist", 4, 20)
    second = trained("tuned", "raddle", ("--epochs", "1"), [other], toy / "grounded" / "checkpoint")
    tuned = second["options"]
    assert (tuned["preset"], tuned["epochs"], tuned["batch_size"]) == ("raddle", 1, 1)
    # The marks are there already: none is added a second time.
    assert second["result"]["parameters"] == first["result"]["parameters"]
