"""What the frame does, over all perturbations that are installed and one of a plug-in: tested here, once.

Every dialogue ends in every set or in the dead letters; a run on two workers, a rerun and a run after a kill write the
same bytes; what a perturbation needs to be listed, run, shown and released is a class.
"""

import json
import shutil
import sys
from pathlib import Path

import pytest
from commands import RELEASE
from kit import cases, json_of, raised, rows_of, run, write

import parapet
from parapet.pipelines import perturb
from parapet.pipelines.app import Parser
from parapet.schemas.errors import InputError
from parapet.schemas.layout import sample_root

PLUGIN = "dropped_articles"  # of docs/plugin_example

# Each perturbation with the options that it needs on a corpus of eight dialogues.
OPTIONS = {
    "typos": ["--env", "0.5"],
    "verbose": [],
    "simple": [],
    "paraphrase": [],
    "unseen_entities": [],
    "ood": ["--rates", "0.1,0.2"],
    # Short turns: what is heard is for test_speech_errors.
    "speech_errors": ["--wer", "0.8", "--snr=-12,30", "--longest", "45"],
    PLUGIN: ["--rate", "0.8"],
}


@pytest.fixture(scope="module", autouse=True)
def plugin(installed_example):
    """Makes the plug-in available to this process and to its children."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(installed_example)
        patch.setenv("PYTHONPATH", str(installed_example))
        yield
    sys.modules.pop("parapet_example", None)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    """The sample's test dialogues in two files, of which one is broken and the other has a dialogue that is none."""
    root = tmp_path_factory.mktemp("corpus")
    for split in ("train", "test"):
        shutil.copytree(sample_root() / split, root / split)
    first = root / "test/dialogues_001.json"
    dialogues = [{**dialogue, "turns": dialogue["turns"][:4]} for dialogue in json_of(first)]
    write(first, [*dialogues[:5], {"dialogue_id": "bad"}])
    write(root / "test/dialogues_002.json", dialogues[5:])
    write(root / "test/dialogues_003.json", json.dumps(dialogues)[:-9])
    return root


@pytest.fixture(scope="module")
def outputs(corpus, tmp_path_factory):
    """The outputs of every perturbation, made when they are asked for."""
    folder = tmp_path_factory.mktemp("outputs")

    class Outputs(dict[str, Path]):
        def __missing__(self, name):
            made = run("perturb", name, *OPTIONS[name], sgd=corpus, max_bad="60%", output=folder / name)
            return self.setdefault(name, made.folder)

    return Outputs()


def sets_of(name, output):
    """The folders of the sets."""
    folders = {path.parent.parent for path in output.rglob("schema.json")}
    assert folders, name
    return {folder.name if folder != output else name: folder for folder in sorted(folders)}


@pytest.mark.thorough
@pytest.mark.parametrize("name", OPTIONS)
def test_every_dialogue_is_in_every_set_or_left_out(name, corpus, outputs):
    output = outputs[name]
    letters = rows_of(output / "dead_letters.jsonl")
    whole = [(letter["file"], letter["dialogue_id"]) for letter in letters if not letter["where"].startswith("turns")]
    assert whole[:2] == [("dialogues_001.json", "bad"), ("dialogues_003.json", "")]
    assert [letter["reason"].partition(":")[0] for letter in letters[:2]] == ["not_sgd", "broken_file"]
    expected = {
        file: [one["dialogue_id"] for one in json_of(corpus / "test" / file) if len(one) > 1]
        for file in ("dialogues_001.json", "dialogues_002.json")
    }
    sets = sets_of(name, output)
    for folder in sets.values():
        assert {
            path.name: [one["dialogue_id"] for one in json_of(path)]
            for path in sorted((folder / "test").glob("dialogues_*.json"))
        } == expected
        assert (folder / "test" / "schema.json").read_bytes() == (corpus / "test" / "schema.json").read_bytes()
    counts = json_of(output / "run.json")["counts"]
    assert (counts["files"], counts["broken_files"], counts["dialogues"], counts["left_out"]) == (3, 1, 9, 1)
    assert [counts[f"dialogues/{name}/test"] for name in sets] == [8] * len(sets)


@cases(
    "argv message",
    (["droped_articles"], "there is no perturbation 'droped_articles': did you mean 'dropped_articles'?"),
    ([PLUGIN, "--raet", "1", "--output", "out"], "unknown flag --raet: did you mean --rate?"),
    ([PLUGIN, "--rate", "half", "--output", "out"], "argument --rate: 'half' is not a number"),
    (["ood", "--rates", "2", "--output", "out"], "--rates"),
    ([PLUGIN], "the following arguments are required: --output"),
    ([], "dropped_articles    plug-in of parapet-example 1.2.0"),
)
def test_mistakes(argv, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    printed = run("perturb", *argv, status=2)
    assert message in printed.output + printed.errors
    assert ("Traceback" in printed.errors, [*tmp_path.iterdir()]) == (False, [])


class Louder(parapet.Perturbation):
    """Users who shout."""

    name = "louder"

    def __init__(self, *, seed=0, share: float | None = None, marks=("!", "?"), twice=False):
        super().__init__(seed=seed)
        self.options = (share, marks, twice)


class OfSplit(Louder):
    def __init__(self, *, split="test"):
        super().__init__()


def test_keyword_arguments_are_options():
    raised(InputError, perturb.declared_options, OfSplit, match="'split', a name that Parapet uses")
    kind = perturb.combined(perturb.declared_options(Louder), perturb.Perturb, name="perturb louder")
    assert kind(output="out", marks="!").make().options == (None, "!", False)
    told = " ".join(Parser(kind).format_help().split())
    argument = "a keyword argument of the plug-in"
    assert f"--share TEXT {argument} --marks LIST {argument} (default: !,?) --twice" in told


DROPPED = """
[[corpora]]
path = "dropped_articles"
name = "dropped_articles"
kind = "without articles"
[[tables]]
path = "dropped_articles/turns/test"
name = "dropped_articles_turns"
kind = "rows"
key = ["dialogue_id", "turn"]
"""


def test_a_plugin_has_its_place_in_a_release(outputs, tmp_path):
    (folder,) = sets_of(PLUGIN, outputs[PLUGIN]).values()
    shutil.copytree(folder, tmp_path / PLUGIN)
    (tmp_path / "sgd").symlink_to(sample_root())
    config = write(tmp_path / "release.toml", RELEASE + DROPPED)
    run("release", "build", "--config", config, "--output", tmp_path / "out", "--quiet")
    (release,) = (path.parent for path in (tmp_path / "out").rglob("MANIFEST.json"))
    run("release", "verify", release, "--quiet")
    assert "dropped_articles_turns" in (release / "README.md").read_text()


def test_every_installed_perturbation_is_tested_here():
    assert set(parapet.perturbations()) == set(OPTIONS)
