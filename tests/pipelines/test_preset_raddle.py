"""``--preset raddle`` and ``--preset soloist`` of soloist against RADDLE (Peng et al. 2021), section 5."""

import pytest
import torch
from inn_toy import texts, write_corpus
from tiny_checkpoints import save_gpt2

from parapet.evaluation.models.configs import SoloistConfig
from parapet.evaluation.models.systems.data import read_steps
from parapet.evaluation.models.systems.soloist import SoloistLearner
from parapet.pipelines.config_flags import read_config
from parapet.pipelines.models import family_of
from parapet.transforms.storage.checkpoints import inspect

EPOCHS, BATCH_SIZE, RATE = 20, 1, 5e-5  # section 5


def flags(*argv):
    return family_of("soloist").train_parser().parse(["--checkpoint", "gpt2", "--output", "out", *argv])[0]


def config(*argv):
    return read_config(SoloistConfig, flags(*argv), device="cpu")


def test_pre_training_is_as_in_the_authors_script():
    of = config("--preset", "soloist")
    assert (of.epochs, of.steps, of.batch_size, of.learning_rate) == (None, 500_000, 20, RATE)
    assert (of.weight_decay, of.keep, of.consistency, of.schedule, of.warmup) == (0.0, "last", 0.33, "linear", 0.0)


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
    assert [len(batch) for batch in list(learner.batches(torch.Generator()))] == [1] * 4
