"""``--preset``, ``--steps`` and what goes with them: which flag wins, and what is refused."""

import argparse

import pytest

from parapet.evaluation.models.configs import T5DstConfig
from parapet.pipelines.config_flags import read_config
from parapet.pipelines.models import MODELS, family_of
from parapet.pipelines.models.presets import TrainingParser


def parsed(*argv: str, model: str = "t5dst") -> argparse.Namespace:
    return family_of(model).train_parser().parse(["--checkpoint", "t5", "--output", "out", *argv])[0]


def refused(capsys: pytest.CaptureFixture[str], *argv: str) -> str:
    with pytest.raises(SystemExit) as stop:
        parsed(*argv)
    assert stop.value.code == 2
    return capsys.readouterr().err


def test_a_preset_sets_what_other_flags_do_not():
    plain, preset = parsed(), parsed("--preset", "sgdx")
    assert (plain.epochs, plain.steps, plain.batch_size, plain.schedule) == (3, None, 32, "linear")
    assert (preset.epochs, preset.patience, preset.steps, preset.eval_steps) == (None, None, 50_000, 5_000)
    assert (preset.batch_size, preset.learning_rate, preset.schedule, preset.warmup) == (16, 1e-4, "constant", 0.0)
    before, after = (
        parsed(*argv) for argv in (("--batch-size=4", "--preset=sgdx"), ("--preset=sgdx", "--batch_size", "4"))
    )
    assert vars(before) == vars(after) == {**vars(preset), "batch_size": 4}
    assert parsed("--preset", "sgdx", "--steps", "200").eval_steps == 20
    assert parsed("--preset", "sgdx", "--steps", "5").eval_steps == 1
    assert parsed("--steps", "0").steps == parsed("--steps", "9", "--eval_steps", "0").eval_steps == 0  # refused later


def test_t5dst_is_trained_as_the_paper_says():
    """Lee et al. 2022, Appendix A: the learning rate at ten points of the 50,000 steps; the lengths."""
    config = read_config(T5DstConfig, parsed("--preset", "sgdx"), device="cpu")
    points = range(0, 50_000, 5_556)
    assert [config.learning_rate * config.rate(step, 50_000) for step in points] == [1e-4] * 9
    assert config.learning_rate * config.rate(49_999, 50_000) == 1e-4
    assert (config.steps, config.batch_size, config.max_length, config.max_output) == (50_000, 16, 512, 256)
    assert (config.prompts, config.answers, config.negatives) == ("slots", "raw", 1.0)


def test_epochs_take_the_place_of_a_presets_steps():
    args = parsed("--preset", "sgdx", "--epochs", "2")
    assert (args.epochs, args.patience, args.steps, args.eval_steps) == (2, 2, None, None)
    assert args.batch_size == 16


def test_steps_take_the_place_of_a_presets_epochs():
    family = family_of("t5dst")
    family.presets = {"short": {"epochs": 1, "patience": 9, "negatives": 0.5}}
    argv = ["--checkpoint", "t5", "--output", "out", "--preset", "short"]
    args, _ = family.train_parser().parse(argv)
    assert (args.epochs, args.patience, args.steps, args.negatives) == (1, 9, None, 0.5)
    args, _ = family.train_parser().parse([*argv, "--steps", "30", "--eval_steps", "7"])
    assert (args.epochs, args.patience, args.steps, args.eval_steps) == (None, None, 30, 7)


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
    assert "argument --patience: goes with --epochs" in refused(capsys, "--steps", "9", "--patience", "1")
    assert "argument --patience: goes with --epochs" in refused(capsys, "--preset", "sgdx", "--patience", "1")
    for argv in (("--keep", "last"), ("--preset=sgdx", "--epochs=2")):
        assert "argument --patience: goes with --keep best" in refused(capsys, *argv, "--patience", "1")
    args = parsed("--preset=sgdx", "--epochs=2", "--patience=1", "--keep=best")
    assert (args.epochs, args.patience, args.keep) == (2, 1, "best")
    assert "argument --eval_steps: goes with --steps" in refused(capsys, "--eval_steps", "9")
    assert "argument --eval_steps: goes with --steps" in refused(
        capsys, "--preset=sgdx", "--epochs=1", "--eval-steps=9"
    )


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
