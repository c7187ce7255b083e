"""Suite files that cannot work: each ends in one line with file, place and reason, before anything is made."""

import pytest
from kit import cases, lacking, refused_at_once, write

NAMES = 'name = "a"\nmodel = "names"\n'

# What files are made of.
TYPOS, STEP = "[[sets]]\nperturbation='typos'\n", "[[steps]]\npipeline='few_shot'\n"
SYSTEM, NAMED = f"[[systems]]\n{NAMES}", "[[systems]]\nname='a'\n"
VARIANTS, NEAREST = "[variants]\npath='variants'\n", "[[steps]]\npipeline='train nearest'\ntrain='@babi/{}.txt'\n"
TRAIN, ROW = "systems[0].train", "tables[0].rows[0]"
FILL, PLACES = "fill = { key = 'x' }", "['a']\nours=['@b/x.json#/x', '@b/x.json#/y']"
T5DST, RESPONSE = "train={ model='t5dst', checkpoint='@t5' }\n", "response={ predictions='p.jsonl', token='13a' }\n"
CIRCLE = f"{STEP}name='one'\nsgd='@two'\n{STEP}name='two'\nsgd='@one'\n"
MINE = "[[sets]]\npath='states'\nname='mine'\n"
RELEASE = f"{TYPOS}[release]\nname='small'\nversion='1.0.0'\n"
GATED = TYPOS + SYSTEM.replace("names", "parapet.evaluation.dst.trackers:Names")
LEFT_OUT = "[[systems]]\nname = 'c'\npredictions = ''\nneeds = 'your predictions'\n"
SET_SOURCES, VARIANT_SOURCES = "exactly one of perturbation, path", "exactly one of path, responses, pivots"


def table(row="", columns="['a']", end=SYSTEM):
    return f"[[tables]]\ntitle='T'\nsource='S'\ncolumns={columns}\nrows=[{row}]\n{end}"


def row(more, *of):
    return table(f"{{ name = 'r', {more} }}", *of)


def unknown(place, option, meant, kind="option"):
    return place, f"there is no {kind} '{option}'", f"did you mean '{meant}'"


# What is wrong: the file, and words that the message must have: where, and what is the matter.
BAD = {
    # TOML
    "not TOML": ("[corpus\n", ("bad.toml", "not TOML", "line 1")),
    "not UTF-8": ("title = '\udcff'\n", ("bad.toml", "not UTF-8 at byte 9")),
    "empty": ("", ("bad.toml", "empty", "[[sets]]")),
    # keys
    "unknown table": ("[corpora]\nsgd = 'x'\n", ("no key 'corpora'", "did you mean 'corpus'")),
    "unknown option of a set": (TYPOS + "envv=[0.1]\n", unknown("sets[0]", "envv", "env")),
    "option of a training": (NAMED + "train={ model='t5dst', epoch=3 }\n", unknown(TRAIN, "epoch", "epochs")),
    "option of a task": (NAMED + RESPONSE, unknown("systems[0].response", "token", "tokenizer")),
    "the output of a step": (STEP + "output='x'\n", ("steps[0]", "output: the suite chooses")),
    # types
    "the corpus is a text": ("corpus = 'x'\n", ("corpus", "object", "str")),
    "needs is a switch": (TYPOS + "needs=true\n", ("sets[0].needs", "text")),
    "a training without a model": (NAMED + "train={ epochs=3 }\n", ("systems[0].train", "model")),
    "a switch with a number": (TYPOS + "perturb_values=1\n", ("sets[0]", "perturb_values", "true or false")),
    # values
    "unknown split": ("[corpus]\nsplits = ['tests']\n", ("corpus.splits", "'tests'")),
    "no corpus": ("[corpus]\nsgd = ''\n", ("corpus.sgd", "--set corpus.sgd=PATH")),
    "unknown perturbation": ("[[sets]]\nperturbation='typoes'\n", ("sets[0]", "'typoes'", "did you mean 'typos'")),
    "unknown pipeline": ("[[steps]]\npipeline='few_shots'\n", ("steps[0]", "'few_shots'", "did you mean 'few_shot'")),
    "unknown model of train": ("[[steps]]\npipeline='train t5'\n", ("steps[0]", "'t5'", "'t5dst'")),
    "a suite in a suite": ("[[steps]]\npipeline='suite sample'\n", ("steps[0]", "'suite'")),
    "a rate above 1": (TYPOS + "env=[1.5]\n", ("sets[0]", "1.5")),
    "a required option is missing": ("[[steps]]\npipeline='train t5dst'\n", ("steps[0]", "checkpoint: is required")),
    "a name with a slash": (TYPOS + "name='../typos'\n", ("sets[0].name", "'../typos'")),
    "columns and numbers": (row("published = [1]", "['a','b']"), ("tables[0]", "published: 1 value for 2 columns")),
    "a place that is no pointer": (row("published = [1], ours = 'scores/a.json'"), (f"{ROW}.ours", "matching regex")),
    "a gate without a condition": ("[gates]\njoint_goal_accuracy='high'\n" + SYSTEM, ("gates", "expected a condition")),
    **{
        f"a gate on {gate}": (f"{system}[gates]\n'{gate}' = '{condition}'\n", (f"gates.{gate}", told))
        for gate, condition, told, system in (
            ("joint_goal_acuracy", ">= 0.4", "did you mean 'joint_goal_accuracy'", GATED),
            ("joint_goal_accuracy.typo", ">= 0.4", "did you mean 'joint_goal_accuracy.typos'", GATED),
            ("joint_goal_accuracy.variants", ">= 0.4", "there is no number", GATED),
            ("b.joint_goal_accuracy", ">= 0.4", "did you mean 'a.joint_goal_accuracy'", GATED),
            ("schema_sensitivity", "<= 0.3", "there is no number", GATED),
            ("joint_goal_accuracy", ">= 40", "metrics go from 0 to 1", GATED),
            ("c.joint_goal_accuracy", ">= 0.4", "there is no number", GATED + LEFT_OUT),
        )
    },
    "a release without a name": ("[release]\nversion='1.0.0'\n" + TYPOS, ("release", "lacks name")),
    # what excludes or needs each other
    "a system without a source": (NAMED, ("systems[0]", "model, predictions, train or endpoint")),
    "two sources of a system": (SYSTEM + "predictions='states'\n", ("systems[0]", "exactly one of model, predictions")),
    "a set without a source": ("[[sets]]\nname='a'\n", ("sets[0]", SET_SOURCES)),
    "two sources of the variants": (VARIANTS + "pivots=['zh']\n", ("variants", VARIANT_SOURCES)),
    "an empty option without needs": (NAMED + "model=''\n", ("systems[0] (scores/a/dst)", "model is not given")),
    # two of a name
    "two sets of one name": (TYPOS + TYPOS + "seed='1'\n", ("sets[1].name", "another step is called", "another name")),
    "a set has the name of a variant": (TYPOS + "name='v1'\n", ("sets[0]", "'v1'")),
    # references
    "a step that there is not": (STEP + "name='one'\nsgd='@ones'\n", ("@ones", "there is no step", "mean 'one'")),
    "steps in a circle": (CIRCLE, ("steps[", "circle", "one", "two")),
    "a number of no step": (row("published = [1], ours = '@scores/b/metrics.json#/x'"), ("tables[0] (r)", "@scores/b")),
    "too many places for the columns": (row(FILL, PLACES, TYPOS), ("tables[0]", "ours: 2 values for 1 column")),
    # what is not there
    "no such corpus": ("[corpus]\nsgd='nowhere'\n" + TYPOS, ("nowhere", "there is no such")),
    "no such model file": (NAMED + "model='nowhere.py:Tracker'\n", ("systems[0]", "nowhere.py")),
    # abbreviations
    "an empty input": ("[inputs]\nbabi=''\n" + NEAREST.format("task1"), ("steps[0] (train)", "train is not given")),
    "no file for a star": ("[inputs]\nbabi='states'\n" + NEAREST.format("*"), ("steps[0] (train)", "train is not")),
    "a checkpoint is not there": ("[inputs]\nt5='nowhere'\n" + NAMED + T5DST, ("systems[0]", "checkpoint", "nowhere")),
    "a step has the name of a result": (STEP + "name='index.html'\n", ("steps[0].name", "is a file of the suite")),
    # what a release cannot hold; the other keys: tests/transforms/release/test_release_plan_and_diff.py
    **{
        f"a release with {place}, {release}": (f"{sets}{RELEASE}{release}", (f"release.{place}: ",))
        for sets, release, place in (
            ("", "parent='x'\n", "parent"),
            ("".join(f"[[sets]]\npath='states'\nname='{name}'\n" for name in ("a.b", "a+b")), "", "corpora[2].name"),
            (MINE, "[[release.corpora]]\npath='states'\nname='mine'\nkind='copy'\n", "corpora[3].name"),
            (MINE, "[[release.corpora]]\npath='nowhere'\nkind='copy'\n", "corpora[3].path"),
            ("", "licence='LicenseRef-mine'\nlicence_file='nowhere'\n", "licence_file"),
            (MINE, "[[release.audits]]\npath='nowhere'\n", "audits[0].path"),
        )
    },
    "each is no list": (STEP + "each={ a = 1 }\n", ("steps[0].each", "list of tables")),
    "each lacks a key": (STEP + "name='f-{size}'\neach=[{ sizes = 1 }]\n", ("steps[0]", "{size}")),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_file_ends_in_one_line_before_anything_is_made(name, tmp_path):
    content, words = BAD[name]
    path = tmp_path / "bad.toml"
    path.write_bytes(content.encode("utf-8", "surrogateescape"))
    (tmp_path / "variants").mkdir()
    (tmp_path / "states").mkdir()
    assert not lacking(refused_at_once("suite", path, output=tmp_path / "out"), str(path), *words)


def test_a_set_whose_extra_is_missing(tmp_path, monkeypatch):
    from parapet.pipelines.suite import suite_file as options

    monkeypatch.setattr(options, "_is_installed", lambda extra: False)
    path = write(tmp_path / "bad.toml", TYPOS.replace("typos", "speech_errors"))
    line = refused_at_once("suite", path, output=tmp_path / "out")
    assert not lacking(line, "sets[0]", "requires the extra speech", "pip install")


@cases(
    "argv words",
    (["nowhere.toml"], ("nowhere.toml", "no such file", "sgdx")),
    (["sgd"], ("sgd", "did you mean 'sgdx'")),
    (["."], ("no such file",)),
    (["sgdx"], ("corpus.sgd", "--set corpus.sgd=PATH")),
    (["babi"], ("everything is left out", "--set inputs.babi=FOLDER")),
    (["sample", "--set", "corpus"], ("--set", "KEY=VALUE")),
    (["sample", "--set", "corpuss.sgd=x"], ("'corpuss'", "did you mean 'corpus'")),
    (["sample", "--set", "systems.name.model=x"], ("--set", "'name'", "did you mean 'names'")),
    (["sample", "--set", "systems.mine.modle=x"], ("systems[2]", "give name, and model")),
    (["sample", "--set", "systems.mine.model=x", "--set", "systems.mine.stile=x"], ("mine", "option 'stile'")),
    (["sample", "--set", "title.text=x"], ("--set", "title")),
    (["sample", "--jobs", "-1"], ("--jobs",)),
)
def test_bad_flags(argv, words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert not lacking(refused_at_once("suite", *argv, output=tmp_path / "out"), *words)
