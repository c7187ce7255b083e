"""Every command reports a local input that does not exist at once; a missing extra ends with the status of usage."""

import re
import shutil
from itertools import product

import pytest
from kit import cases, corpus, edit, json_of, lacking, refused, run, sample_dialogues, write

from parapet.pipelines import compose
from parapet.pipelines.app import Command, flags_of
from parapet.pipelines.command import check_there, execute
from parapet.pipelines.main import PIPELINES, actions_of, command_of
from parapet.schemas.errors import InputError, MissingExtra, install_line
from parapet.transforms.core.options import REQUIRED


class Practice(Command[None]):
    """Raises an error when it is checked, or when it runs."""

    name = "practice"
    error: Exception
    at_once: bool

    def check(self):
        if self.at_once:
            raise self.error

    def act(self, settings):
        raise self.error


@cases("error status", (MissingExtra("boto3", "mturk"), 2), (InputError("no such key", "a.csv"), 1))
def test_a_missing_extra_is_the_user_s_whenever_it_is_found(error, status, capsys):
    assert execute(Practice(error=error, at_once=False)) == status
    assert execute(Practice(error=error, at_once=True)) == 2
    assert str(error) in capsys.readouterr().err
    if isinstance(error, MissingExtra):
        assert str(error) == f"boto3 is not installed: {install_line('mturk')}"


def test_a_folder_is_refused_where_a_file_is_read(tmp_path):
    """By every flag of every command whose value is a file: some ended with the system's own error."""
    told = {}
    for command in PIPELINES:
        for action in actions_of(command) or {"": ""}:
            kind = command_of(command, action)
            required = {flag.name: "" for flag in flags_of(kind) if flag.default is REQUIRED}
            for flag in flags_of(kind):
                if flag.reads and flag.facts["metavar"] == "FILE":
                    value = [str(tmp_path)] if flag.many else str(tmp_path)
                    with pytest.raises(InputError) as refused:
                        check_there(kind(**required | {flag.name: value}))
                    told[command, action, flag.name] = (refused.value.reason, refused.value.path)
    assert len(told) > 30
    assert set(told.values()) == {("is a folder: give a file", str(tmp_path))}


@pytest.fixture(scope="module")
def typos(tmp_path_factory):
    return run("perturb", "typos", output=tmp_path_factory.mktemp("typos") / "out", workers="1").folder


def test_compose_takes_the_folder_of_a_batch(tmp_path, sample):
    """As compose_variations and evaluate do; it said that there is no such file."""
    (tmp_path / "batch").mkdir()
    batch = shutil.copy(sample / "crowd" / "assignments.jsonl", tmp_path / "batch")
    command = compose.Compose(responses=[str(tmp_path / "batch")], schemas=str(sample), output="out")
    assert command.sources.responses == [str(batch)]
    told = refused("compose", schemas=sample, responses=batch, decisions=tmp_path, output=tmp_path / "out")
    assert "is a folder: give a file" in told


def test_what_does_not_match_is_said_in_a_line(tmp_path, sample):
    for name in ("v1", "v2"):
        for split in ("train", "dev", "test"):
            schema = json_of(sample / split / "schema.json")
            others = [{**service, "service_name": f"Other{split}{i}_1"} for i, service in enumerate(schema)]
            write(tmp_path / "variants" / name / split / "schema.json", others)
    (line,) = refused("rewrite", "--quiet", variants=tmp_path / "variants", output=tmp_path / "out").splitlines()
    assert "no service of the corpus has a match in v1, v2; the first problem is: " in line


def test_a_file_without_dialogues_makes_no_tasks(tmp_path):
    flags = {"task": "rewrites", "dialogues": write(tmp_path / "examples.json", []), "workers": 1}
    told = refused("hits", **flags, output=tmp_path / "out", status=1)
    assert "--dialogues: contains no user turns, so nothing was written" in told
    assert not (tmp_path / "out" / "run.json").exists()


def test_a_folder_of_sets_says_what_is_in_it(typos, tmp_path):
    """One of its sets, or a corpus, is what is wanted; of other outputs it says which command wrote them."""
    error = refused("ood", sgd=typos, output=tmp_path / "out")
    assert not lacking(error, "contains no schema: ", "; these subfolders have one: typos: give one of them")
    told = refused("ood", sgd=typos / "typos/turns", output=tmp_path / "out")
    assert "; this folder is the output of 'parapet perturb typos'" in told


@cases(
    "command below",
    *(("rewrite", ""), ("rewrite", "typos"), ("augment --sets oracle", ""), ("statistics", "")),
    *(("evaluate --task dst --model names", ""), ("evaluate --task response --predictions reference", "")),
)
def test_sets_of_dialogues_are_no_schema_variants(typos, tmp_path, command, below):
    """They have the schemas of the corpus itself: distances were 0, dialogues were rewritten to the same names."""
    flag = "--oracle" if "oracle" in command else "--variants"
    error = refused(*command.split(), flag, typos / below, output=tmp_path / "out")
    assert f"{typos / below}: contains the output of 'parapet perturb typos'" in error
    assert f"{flag} takes variants of the schemas" in error


# Two dialogues of one id, in one file or in two of a split. The commands that are not here read as one of these.
READERS = [
    *("perturb typos --sgd X", "augment --sgd X --split test --sets none", "few_shot --sgd X"),
    *("ood --rates 0.1 --sgd X", "hits --task rewrites --dialogues X", "rewrite --sgd X --variants X/variants"),
    "evaluate --task dst --reference X --model names",
    "evaluate --task response --reference X --predictions reference",
    *("evaluate --task intent --reference X --predictions X", "evaluate --task ood --reference X --predictions X"),
]
OF_A_FILE = [
    *("evaluate --task generation --reference X --predictions reference", "train damd --train X"),
    "evaluate --task dst --reference X --predictions X",
]
TWICE = {
    1: r"dialogues_001\.json: (dialogue )?\[3\]: duplicate_id: dialogue '\d_0000\d' appears twice, first at \[1\]",
    2: r"dialogues_002\.json: (dialogue )?\[1\]: duplicate_id: dialogue '\d_0000\d' is in .*/dialogues_001\.json, too",
}


@pytest.fixture(scope="module")
def twice(tmp_path_factory):
    """By the number of files that have the id: corpora, with their schemas as variants."""
    roots = {}
    for files in TWICE:
        splits = {split: sample_dialogues(split)[:4] for split in ("train", "dev", "test")}
        for split, dialogues in splits.items():
            dialogues[3] = {**dialogues[3], "dialogue_id": dialogues[1]["dialogue_id"]}
            splits[split] = dialogues if files == 1 else [dialogues[:2], dialogues[2:]]
        roots[files] = corpus(tmp_path_factory.mktemp("twice") / "corpus", **splits)
        for path in roots[files].glob("*/schema.json"):
            write(roots[files] / "variants/v1" / path.parent.name / path.name, path.read_bytes())
    return roots


@cases("command files", *product(READERS, TWICE), *((command, 1) for command in OF_A_FILE))
def test_two_dialogues_with_one_id_are_refused_with_both_places(command, files, twice, tmp_path):
    line = [part.replace("X", str(twice[files])) for part in command.split()]
    assert re.search(TWICE[files], refused(*line, output=tmp_path / "out", status=(1, 2)))
    assert not (tmp_path / "out/run.json").exists()
    if command.startswith(("perturb", "ood", "rewrite")):
        made = run(*line, output=tmp_path / "out", max_bad="100%", quiet=True)
        ids = [one["dialogue_id"] for path in made.folder.rglob("test/dialogues_*.json") for one in json_of(path)]
        assert ids.count("1_00001") == 1
        assert {letter["file"] for letter in made.dead_letters} == {f"dialogues_00{files}.json"}


def test_if_every_dialogue_is_bad_nothing_is_published(sample, tmp_path):
    root = shutil.copytree(sample, tmp_path / "sgd")
    for path in root.glob("*/dialogues_*.json"):
        edit(path, lambda dialogues: [{**dialogue, "turns": 7} for dialogue in dialogues])
    flags = {"kinds": "simple", "env": "none", "max_bad": "100%"}
    told = refused("language_variations", **flags, sgd=root, output=tmp_path / "out", status=1)
    assert re.search(r"(\d+) of \1 dialogues.* could not be \w+, so there is nothing to publish: not_sgd ", told), told
    assert not (tmp_path / "out/run.json").exists()


@cases(
    "share said",
    ("1", "'1' is ambiguous: write 1% or 100%"),
    ("101%", "'101%' is not a share: give a percentage from 0% to 100%, or a fraction such as 0.05"),
    ("-0.1", "'-0.1' is not a share"),
    ("few", "'few' is not a share"),
)
def test_what_is_no_share(share, said, tmp_path):
    assert f"argument --max_bad: {said}" in refused("few_shot", f"--max_bad={share}", output=tmp_path / "out")


@pytest.mark.parametrize("value", ["NaN", "-Infinity", '[1, {"b": NaN}]'])
def test_what_is_not_json_in_an_unknown_key_is_a_bad_record(value, sample, tmp_path):
    shutil.copytree(sample, tmp_path / "sgd")
    path = tmp_path / "sgd/test/dialogues_001.json"
    path.write_text(path.read_text().replace('"dialogue_id"', f'"note": {value}, "dialogue_id"', 1))
    flags = {"sgd": tmp_path / "sgd", "output": tmp_path / "out", "quiet": True}
    told = refused("perturb", "typos", **flags, status=1)
    assert "dialogues_001.json: dialogue [0]: not_sgd: Out of range float values are not JSON compliant" in told
    made = run("perturb", "typos", **flags, max_bad="100%")
    (letter,) = made.dead_letters
    assert letter["reason"].startswith("not_sgd: Out of range float values")
    assert not [name for name, data in made.files.items() if b"NaN" in data and name.endswith("json")]
