"""``--preset``, ``--steps`` and what goes with them, beside the papers: which flag wins, and what is refused."""

import pytest
import torch
from generation_toy import texts as texts_of_cafes
from generation_toy import write_toy
from inn_toy import texts, write_corpus
from kit import argv_of, cases, edit, lacking, raised, rows_of, run
from tiny_checkpoints import save_gpt2, save_t5

from parapet.evaluation.models.soloist import SoloistLearner
from parapet.evaluation.models.systems import read_steps
from parapet.pipelines.app import Parser, flags_of, from_table, read_config
from parapet.pipelines.models import MODELS, train_command
from parapet.schemas.errors import InputError
from parapet.transforms.core.checkpoints import inspect


def config(model, *argv, files="chats"):
    """The options of a training, whose required flags are given."""
    kind = train_command(model)
    given = {name: f"babi-{files}-{name}.txt" for name in ("train", "dev", "candidates")} | {"checkpoint": "net"}
    names = {flag.name for flag in flags_of(kind)}
    line = argv_of(*argv, **{name: value for name, value in given.items() if name in names}, output="out")
    return read_config(kind, vars(Parser(kind).parse(line)[0]))


DAMD = {
    "vocabulary": 3000, "embedding": 50, "hidden": 100, "batch_size": 128, "epochs": 100, "patience": 5,
    "learning_rate": 0.005, "clip": 5.0, "steps": None, "warmup": 0.0, "keep": "best",
}  # fmt: skip
SOLOIST = {"learning_rate": 5e-5, "weight_decay": 0.0, "keep": "last", "consistency": 0.33}
SGSACC = {"epochs": 3, "steps": None, "batch_size": 8, "learning_rate": 1e-4, "max_output": 128, "clip": 1.0}


@cases(
    "model flags expected",
    # Lee et al. 2022, Appendix A.
    ("t5dst", "--preset sgdx", {"steps": 50_000, "batch_size": 16, "learning_rate": 1e-4, "max_length": 512}),
    ("t5dst", "--preset sgdx", {"max_output": 256, "prompts": "slots", "answers": "raw", "negatives": 1.0}),
    ("t5dst", "--preset sgdx --epochs 2", {"epochs": 2, "patience": 2, "steps": None, "eval_steps": None}),
    ("t5dst", "--preset=sgdx --epochs=2 --patience=1 --keep=best", {"epochs": 2, "patience": 1, "keep": "best"}),
    # The authors' script; RADDLE (Peng et al. 2021), section 5: nothing is chosen on dev.
    ("soloist", "--preset soloist", {**SOLOIST, "epochs": None, "steps": 500_000, "batch_size": 20}),
    ("soloist", "--preset raddle", {**SOLOIST, "epochs": 20, "steps": None, "batch_size": 1, "clip": 1.0}),
    ("soloist", "--preset raddle --consistency 0", {"consistency": 0.0}),
    # config.py and README.md of github.com/thu-spmi/damd-multiwoz, "normal training without data augmentation".
    *(("damd", f"--preset {preset}", DAMD) for preset in ("raddle", "damd")),
    # SGSAcc (Chen, Lin and Byrne 2023), Appendix E; the lengths are ours.
    ("ft_t5", "--preset sgsacc", {**SGSACC, "max_input": 256}),
    ("pt_t5", "--preset sgsacc", SGSACC),
    ("ft_t5", "--preset sgsacc --batch_size 4", {"batch_size": 4}),
)
def test_settings_are_those_of_the_papers_and_flags_win(model, flags, expected):
    of = config(model, *flags.split())
    assert {name: getattr(of, name) for name in expected} == expected


@cases(
    "model preset total shares",
    ("t5dst", "sgdx", 50_000, {0: 1, 25_000: 1, 49_999: 1}),
    ("ft_t5", "sgsacc", 61_869, {0: 1, 30_000: 1, 61_868: 1}),
    ("pt_t5", "sgsacc", 61_869, {0: 1, 30_000: 1, 61_868: 1}),
    ("soloist", "raddle", 1000, {0: 1.0, 250: 0.75, 500: 0.5, 999: 0.001}),
    ("soloist", "soloist", 1000, {0: 1.0, 250: 0.75, 500: 0.5, 999: 0.001}),
)
def test_the_learning_rate_over_the_steps(model, preset, total, shares):
    of = config(model, "--preset", preset)
    assert {step: of.rate(step, total) for step in shares} == shares


def test_the_learning_rate_of_damd_falls_while_dev_is_no_better():
    of = config("damd", "--preset", "damd")
    assert [of.rate(0, 9, [0.1, 0.3, 0.2, 0.3, 0.2, 0.4][:n]) for n in range(7)] == [1, 1, 1, 1, 1, 0.5, 0.5]


def test_a_preset_in_a_suites_step():
    """Options of the step win over the preset, which wins over the defaults."""
    table = {"checkpoint": "t5", "output": "out", "preset": "sgdx", "steps": 70, "clip": 2}
    of = from_table(train_command("t5dst"), table)
    assert (of.steps, of.eval_steps, of.epochs, of.clip, of.prompts) == (70, 7, None, 2.0, "slots")


@cases(
    "flags reason",
    ("--preset sgd_x", "argument --preset: invalid choice: 'sgd_x'"),
    ("--preset", "argument --preset: expected one argument"),
    ("--steps 9 --epochs 1", "--epochs: not allowed with --steps"),
    ("--steps 9 --patience 1", "--patience: not allowed with --steps"),
    ("--preset sgdx --patience 1", "--patience: not allowed with --steps"),
)
def test_what_contradicts_itself_is_refused(flags, reason, capsys):
    error = raised((InputError, SystemExit), config, "t5dst", "--keep", "best", *flags.split())
    assert reason in f"{error}{capsys.readouterr().err}"


def test_the_optimiser_of_raddles_baselines_is_adam(tmp_path):
    write_corpus(tmp_path / "corpus")
    save_gpt2(tmp_path / "gpt2", texts())
    steps = read_steps(str(tmp_path / "corpus"), "train").rows[:4]
    raddle = config("soloist", "--preset", "raddle", "--max_length", "100", "--device", "cpu")
    learner = SoloistLearner(raddle, inspect(str(tmp_path / "gpt2"), ("gpt2",)), steps, steps)
    (group,) = learner.optimiser.param_groups
    assert (group["weight_decay"], group["betas"], group["eps"], group["lr"]) == (0.0, (0.9, 0.999), 1e-8, 5e-5)
    assert [len(batch) for batch in list(learner.batches(torch.Generator()))] == [1] * 4


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


# Tables 8 and 9 of the bAbI dialog paper: task, learning rate, margin, dimension, negative candidates, and whether
# there is a history, or the hops.
TABLE_8 = """\
1 0.01 0.01 32 100 True
2 0.01 0.01 128 100 False
3 0.01 0.1 128 1000 False
4 0.001 0.1 128 1000 False
5 0.01 0.01 32 100 True
6 0.001 0.01 128 100 False
concierge 0.001 0.1 64 100 False"""
TABLE_9 = """\
1 0.01 0.1 128 100 1
2 0.01 0.1 32 100 1
3 0.01 0.1 32 100 3
4 0.01 0.1 128 100 2
5 0.01 0.1 32 100 3
6 0.01 0.1 128 100 4
concierge 0.001 0.1 128 100 2"""
TABLES = [("embeddings", "table8", *row.split()) for row in TABLE_8.splitlines()]
TABLES += [("memn2n", "table9", *row.split()) for row in TABLE_9.splitlines()]


@cases("model preset task rate margin size negatives last", *TABLES)
def test_presets_are_the_rows_of_the_papers_tables(model, preset, task, rate, margin, size, negatives, last):
    of = config(model, "--preset", preset, "--task", task)
    assert (of.learning_rate, of.margin, of.size, of.negatives) == (
        float(rate), float(margin), int(size), int(negatives),
    )  # fmt: skip
    assert str(of.hops if model == "memn2n" else of.input == "history") == last


@pytest.mark.parametrize(("model", "preset"), [("embeddings", "table8"), ("memn2n", "table9")])
def test_the_task_is_that_of_the_files_and_flags_win(model, preset):
    preset = ["--preset", preset]
    named, given = config(model, *preset, files="task4"), config(model, *preset, "--task", "4")
    files = {name: getattr(named, name) for name in ("train", "dev", "candidates")}
    assert vars(named) == {**vars(given), **files}
    other = config(model, "--size", "7", *preset, "--task", "2", "--batch_size=8", files="task4")
    assert (other.size, other.batch_size, other.task) == (7, 8, "2")
    by_steps = config(model, *preset, "--steps", "30", files="task4")
    assert (by_steps.steps, by_steps.epochs, by_steps.learning_rate) == (30, None, given.learning_rate)
    for files in ("chats", "task7"):
        raised(InputError, config, model, *preset, files=files, match="has settings for the tasks 1, 2")


@pytest.mark.parametrize("model", ["ft_t5", "pt_t5"])
def test_a_training_by_the_preset(model, tmp_path):
    """SGSAcc, Appendix E."""
    toy = write_toy(tmp_path / "toy")
    save_t5(tmp_path / "t5", texts_of_cafes(toy), vocabulary=250, dropout=0.1)
    edit(toy / "dev/dialogues_001.json", lambda dialogues: dialogues[:3])
    given = {"train": toy, "checkpoint": tmp_path / "t5", "preset": "sgsacc", "max_output": 20}
    made = run("train", model, **given, quiet=True, output=tmp_path / "model")
    log, options = rows_of(made.folder / "log.jsonl"), made.manifest["options"]
    # 60 turns in batches of 8
    assert [(row["epoch"], row["step"], row["learning_rate"]) for row in log] == [(i, 8 * i, 1e-4) for i in (1, 2, 3)]
    assert log[-1]["loss"] < log[0]["loss"]
    assert log[-1]["best"]  # its weights are the model's: dev chooses none
    table = train_command(model).presets()["sgsacc"] | {"preset": "sgsacc"}
    assert options | table == options
