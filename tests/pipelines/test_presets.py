"""``--preset``, ``--steps`` and what goes with them: which flag wins, and what is refused."""

import dataclasses

import pytest
import torch
from inn_toy import texts, write_corpus
from kit import lacking, raised
from tiny_checkpoints import save_gpt2

from parapet.evaluation.models.systems.data import read_steps
from parapet.evaluation.models.systems.soloist import SoloistLearner
from parapet.pipelines.app import Parser, flags_of, from_table, read_config
from parapet.pipelines.models import MODELS, train_command
from parapet.schemas.errors import InputError
from parapet.transforms.core.checkpoints import inspect


def parsed(*argv, model="t5dst"):
    kind = train_command(model)
    return read_config(kind, vars(Parser(kind).parse(["--checkpoint", "t5", "--output", "out", *argv])[0]))


def refused(capsys, *argv):
    with pytest.raises(SystemExit) as stop:
        parsed(*argv)
    assert stop.value.code == 2
    return capsys.readouterr().err


def contradicts(*argv):
    return str(raised(InputError, parsed, *argv))


def test_t5dst_is_trained_as_the_paper_says():
    """Lee et al. 2022, Appendix A: the learning rate at ten points of the 50,000 steps; the lengths."""
    config = parsed("--preset", "sgdx")
    assert [config.learning_rate * config.rate(step, 50_000) for step in range(0, 50_000, 5_556)] == [1e-4] * 9
    assert config.learning_rate * config.rate(49_999, 50_000) == 1e-4
    assert (config.steps, config.batch_size, config.max_length, config.max_output) == (50_000, 16, 512, 256)
    assert (config.prompts, config.answers, config.negatives) == ("slots", "raw", 1.0)


def test_a_preset_in_a_suites_step():
    """Options of the step win over the preset, which wins over the defaults."""
    table = {"checkpoint": "t5", "output": "out", "preset": "sgdx", "steps": 70, "clip": 2}
    config = from_table(train_command("t5dst"), table)
    assert (config.steps, config.eval_steps, config.epochs, config.clip, config.prompts) == (70, 7, None, 2.0, "slots")


def test_what_contradicts_itself_is_refused(capsys):
    assert "argument --preset: invalid choice: 'sgd_x'" in refused(capsys, "--preset", "sgd_x")
    assert "argument --preset: expected one argument" in refused(capsys, "--preset")
    assert "--epochs: not allowed with --steps" in contradicts("--steps", "9", "--epochs", "1")
    assert "--patience: not allowed with --steps" in contradicts("--steps", "9", "--patience", "1")
    assert "--patience: not allowed with --steps" in contradicts("--preset", "sgdx", "--patience", "1")
    args = parsed("--preset=sgdx", "--epochs=2", "--patience=1", "--keep=best")
    assert (args.epochs, args.patience, args.keep) == (2, 1, "best")


# ``--preset raddle`` and ``--preset soloist`` of soloist against RADDLE (Peng et al. 2021), section 5.


EPOCHS, BATCH_SIZE, RATE = 20, 1, 5e-5  # section 5


def config(*argv):
    return dataclasses.replace(parsed(*argv, model="soloist"), device="cpu")


def test_pre_training_is_as_in_the_authors_script():
    of = config("--preset", "soloist")
    assert (of.epochs, of.steps, of.batch_size, of.learning_rate) == (None, 500_000, 20, RATE)
    assert (of.weight_decay, of.keep, of.consistency, of.schedule, of.warmup) == (0.0, "last", 0.33, "linear", 0.0)


def test_raddles_baselines_are_trained_as_the_paper_says():
    """Adam from 5e-5, batches of one turn, 20 epochs, nothing chosen on dev."""
    of = config("--preset", "raddle")
    assert (of.epochs, of.steps, of.batch_size, of.learning_rate) == (EPOCHS, None, BATCH_SIZE, RATE)
    assert (of.weight_decay, of.keep, of.consistency, of.clip) == (0.0, "last", 0.33, 1.0)
    assert [of.rate(step, 1000) for step in (0, 250, 500, 999)] == [1.0, 0.75, 0.5, 0.001]
    assert config("--preset", "raddle", "--consistency", "0").consistency == 0.0


def test_the_optimiser_is_adam(tmp_path):
    write_corpus(tmp_path / "corpus")
    save_gpt2(tmp_path / "gpt2", texts())
    steps = read_steps(str(tmp_path / "corpus"), "train").rows[:4]
    raddle = config("--preset", "raddle", "--max_length", "100")
    learner = SoloistLearner(raddle, inspect(str(tmp_path / "gpt2"), ("gpt2",)), steps, steps)
    (group,) = learner.optimiser.param_groups
    assert (group["weight_decay"], group["betas"], group["eps"], group["lr"]) == (0.0, (0.9, 0.999), 1e-8, RATE)
    assert [len(batch) for batch in list(learner.batches(torch.Generator()))] == [1] * 4


def test_epochs_take_the_place_of_a_presets_steps():
    args = parsed("--preset", "sgdx", "--epochs", "2")
    assert (args.epochs, args.patience, args.steps, args.eval_steps) == (2, 2, None, None)
    assert args.batch_size == 16


@pytest.mark.parametrize("model", MODELS)
def test_presets_are_options_of_their_model(model):
    """--help shows what each sets."""
    kind = train_command(model)
    presets, options = getattr(kind, "presets", dict)(), {flag.name for flag in flags_of(kind)}
    assert ("preset" in options) == bool(presets)
    text = " ".join(Parser(kind).format_help().partition("presets:")[2].split())
    for name, table in presets.items():
        assert options >= set(table)
        assert not lacking(text, f"{name} --", *(f"--{flag}" for flag in table))
