"""``--preset sgsacc`` of ft_t5 and pt_t5 against SGSAcc (Chen, Lin and Byrne 2023), section 3 and Appendix E."""

import pytest
import torch
from generation_toy import texts, write_toy
from kit import THOROUGH, edit, json_of, rows_of, run
from tiny_checkpoints import save_t5

from parapet.evaluation.generation.corpus import Candidate, read
from parapet.evaluation.generation.lexical import Lexical
from parapet.evaluation.generation.scoring import choose
from parapet.evaluation.models.configs import TrainingConfig
from parapet.evaluation.models.training import bucketed
from parapet.evaluation.sets import ORIGINAL
from parapet.pipelines.app import Parser, read_config
from parapet.pipelines.models import train_command

BATCH_SIZE, EPOCHS, RATE = 8, 3, 1e-4  # Appendix E
TRAIN_TURNS = 164_982  # section 4
MODELS = ("ft_t5", "pt_t5")


def flags(model, *argv):
    given = ["--preset", "sgsacc", "--checkpoint", "t5-small", "--output", "out", *argv]
    kind = train_command(model)
    return read_config(kind, vars(Parser(kind).parse(given)[0]))


@pytest.mark.parametrize("model", MODELS)
def test_steps_and_the_learning_rate_at_ten_points(model):
    of = flags(model)
    assert (of.epochs, of.steps, of.batch_size) == (EPOCHS, None, BATCH_SIZE)
    epoch = sum(1 for _ in bucketed(torch.ones(TRAIN_TURNS, dtype=torch.long), of.batch_size, torch.Generator()))
    assert epoch == 20_623
    total = EPOCHS * epoch
    rates = [of.learning_rate * TrainingConfig.rate(of, step, total) for step in range(0, total, total // 10)]
    assert (rates, of.learning_rate * of.rate(total - 1, total)) == ([RATE] * 11, RATE)


def test_what_the_paper_leaves_open_is_ours():
    args = flags("ft_t5")
    assert (args.max_input, args.max_output, args.clip) == (256, 128, 1.0)
    assert flags("ft_t5", "--batch_size", "4").batch_size == 4


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A corpus, a T5, and both models by the preset."""
    made = tmp_path_factory.mktemp("sgsacc")
    save_t5(made / "t5", texts(write_toy(made / "toy")), vocabulary=250, dropout=0.1)
    for split in ("dev", "test"):
        edit(made / f"toy/{split}/dialogues_001.json", lambda dialogues: dialogues[: 12 if THOROUGH else 3])
    for model in MODELS:
        given = ["--train", str(made / "toy"), "--checkpoint", str(made / "t5"), "--output", str(made / model)]
        run("train", model, "--preset", "sgsacc", "--max_output", "20", *given, "--quiet")
    return made


@pytest.mark.thorough
def test_the_ensemble_has_the_best_of_each_and_the_more_faithful_is_said(folder):
    """The settings of ``docs/papers.md``."""
    said = {"pt_t5": ["--checkpoint", str(folder / "t5")], "ft_t5": []}
    best = {}
    for model, more in said.items():
        out = folder / f"said_{model}"
        given = ["--model", str(folder / model), *more, "--reference", str(folder / "toy"), "--quiet"]
        run("predict", model, *given, "--beams", "5", "--candidates", "1", "--output", out)
        best[model] = said_in(out)
        assert all(len(row["candidates"]) == 1 for row in best[model].values())
    given = ["--model", str(folder / "ft_t5"), "--reference", str(folder / "toy"), "--quiet"]
    search = ["--beams", "5", "--candidates", "1", "--rerank", "lexical", "--also", str(folder / "said_pt_t5")]
    run("predict", "ft_t5", *given, *search, "--output", folder / "both")
    corpus = read(folder / "toy", "test")
    both = said_in(folder / "both")
    assert any(len(row["candidates"]) == 2 for row in both.values())
    for place, row in both.items():
        each = [best[model][place]["candidates"][0] for model in MODELS]
        # Two utterances, or one that both models say, with the higher of its likelihoods.
        assert {one["utterance"] for one in row["candidates"]} == {one["utterance"] for one in each}
        assert row["candidates"][0]["score"] == max(one["score"] for one in each)
    candidates = {place: [Candidate(**one) for one in row["candidates"]] for place, row in both.items()}
    said = {place: row["utterance"] for place, row in both.items()}
    assert choose(corpus.turns, candidates, corpus.words[ORIGINAL], Lexical()) == said


def said_in(out):
    rows = rows_of(out / "predictions/original/test/utterances.jsonl")
    return {(row["dialogue_id"], row["turn"]): row for row in rows}


@pytest.mark.parametrize("model", MODELS)
def test_a_training_by_the_preset(model, folder):
    log = rows_of(folder / model / "log.jsonl")
    epoch = -(-60 // BATCH_SIZE)
    expected = [(number, number * epoch, RATE) for number in range(1, EPOCHS + 1)]
    assert [(row["epoch"], row["step"], row["learning_rate"]) for row in log] == expected
    assert log[-1]["loss"] < log[0]["loss"]
    assert log[-1]["best"]  # its weights are the model's: dev chooses none
    options = json_of(folder / model / "run.json")["options"]
    table = train_command(model).presets()["sgsacc"]
    assert (options["preset"], {flag: options[flag] for flag in table}) == ("sgsacc", table)
