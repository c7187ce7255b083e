"""``--preset``, ``--steps`` and what goes with them: which flag wins, and what is refused."""

import pytest
import torch
from inn_toy import texts, write_corpus
from tiny_checkpoints import save_gpt2

from parapet.evaluation.models.configs import SoloistConfig, T5DstConfig
from parapet.evaluation.models.systems.data import read_steps
from parapet.evaluation.models.systems.soloist import SoloistLearner
from parapet.pipelines.app import read_config
from parapet.pipelines.models import MODELS, family_of
from parapet.pipelines.models.presets import TrainingParser
from parapet.transforms.storage.checkpoints import inspect


def parsed(*argv, model="t5dst"):
    return family_of(model).train_parser().parse(["--checkpoint", "t5", "--output", "out", *argv])[0]


def refused(capsys, *argv):
    with pytest.raises(SystemExit) as stop:
        parsed(*argv)
    assert stop.value.code == 2
    return capsys.readouterr().err


def test_t5dst_is_trained_as_the_paper_says():
    """Lee et al. 2022, Appendix A: the learning rate at ten points of the 50,000 steps; the lengths."""
    config = read_config(T5DstConfig, parsed("--preset", "sgdx"), device="cpu")
    assert [config.learning_rate * config.rate(step, 50_000) for step in range(0, 50_000, 5_556)] == [1e-4] * 9
    assert config.learning_rate * config.rate(49_999, 50_000) == 1e-4
    assert (config.steps, config.batch_size, config.max_length, config.max_output) == (50_000, 16, 512, 256)
    assert (config.prompts, config.answers, config.negatives) == ("slots", "raw", 1.0)


def test_a_flag_without_a_value_can_be_of_a_preset():
    parser = TrainingParser("train x", "", "", "", {"small": {"shared": True, "seed": "5"}})
    parser.group("training")("--shared", action="store_true", help="")
    parser.group("training")("--seed", help="")
    assert parser.parse(["--preset", "small"])[0].shared
    assert not parser.parse([])[0].shared
    assert parser.parse(["--preset", "small", "--seed", "6"])[0].seed == "6"


def test_what_contradicts_itself_is_refused(capsys):
    assert "argument --preset: invalid choice: 'sgd_x'" in refused(capsys, "--preset", "sgd_x")
    assert "argument --preset: expected one argument" in refused(capsys, "--preset")
    assert "argument --epochs: not allowed with argument --steps" in refused(capsys, "--steps", "9", "--epochs", "1")
    assert "argument --patience: requires --epochs" in refused(capsys, "--steps", "9", "--patience", "1")
    assert "argument --patience: requires --epochs" in refused(capsys, "--preset", "sgdx", "--patience", "1")
    for argv in (("--keep", "last"), ("--preset=sgdx", "--epochs=2")):
        assert "argument --patience: requires --keep best" in refused(capsys, *argv, "--patience", "1")
    args = parsed("--preset=sgdx", "--epochs=2", "--patience=1", "--keep=best")
    assert (args.epochs, args.patience, args.keep) == (2, 1, "best")
    assert "argument --eval_steps: requires --steps" in refused(capsys, "--eval_steps", "9")
    assert "argument --eval_steps: requires --steps" in refused(capsys, "--preset=sgdx", "--epochs=1", "--eval-steps=9")


# ``--preset raddle`` and ``--preset soloist`` of soloist against RADDLE (Peng et al. 2021), section 5.


EPOCHS, BATCH_SIZE, RATE = 20, 1, 5e-5  # section 5


def config(*argv):
    return read_config(SoloistConfig, parsed(*argv, model="soloist"), device="cpu")


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
def test_presets_are_flags_of_their_model(model):
    """Each is parsed as it stands, and --help shows what it sets."""
    family = family_of(model)
    parser = family.train_parser()
    flags = {action.dest: action for action in parser._actions}
    assert ("preset" in flags) == bool(family.presets)
    for name, table in family.presets.items():
        text = " ".join(parser.format_help().partition("presets:")[2].split())
        assert text.startswith(f"{name} --") or f" {name} --" in text
        for flag, value in table.items():
            kind = flags[flag].type
            assert value is True or (kind or str)(str(value)) == value  # type: ignore[operator]
            assert f"--{flag}" in text
