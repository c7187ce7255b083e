"""What every pipeline over dialogues does where its records are bad."""

import re
import shutil
from pathlib import Path

import pytest
from kit import cases, edit, json_of, refused, run, write

FLAGS = {"rewrite": ["--variants", "x"], "language_variations": ["--kinds", "simple", "--env", "none"]}


@pytest.mark.parametrize("pipeline", FLAGS)
def test_if_every_dialogue_is_bad_nothing_is_published(pipeline, sample, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shutil.copytree(sample, "x/v1", ignore=shutil.ignore_patterns("dialogues_*"))
    shutil.copytree(sample, "sgd")
    for path in Path("sgd").glob("*/dialogues_*.json"):
        edit(path, lambda dialogues: [{**dialogue, "turns": 7} for dialogue in dialogues])
    told = refused(pipeline, *FLAGS[pipeline], sgd="sgd", max_bad="100%", output=tmp_path / "out", status=1)
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


RELEASE = """
name = "sample"
version = "1.0.0"
licence = "CC0-1.0"
description = "The sample."
authors = [{name = "Ada"}]
corpora = [{path = "sgd", name = "original", kind = "original"}]
"""
READERS = [
    ["perturb", "typos", "--sgd=sgd"],
    ["rewrite", "--sgd=sgd", "--variants=sgd_x"],
    ["few_shot", "--sgd=sgd"],
    ["ood", "--sgd=sgd", "--rates=0.1"],
    ["augment", "--sgd=sgd", "--split=test", "--sets=none"],
    ["evaluate", "--task=dst", "--reference=sgd", "--model=names"],
    ["evaluate", "--task=response", "--reference=sgd", "--predictions=reference"],
    ["hits", "--task=rewrites", "--dialogues=sgd"],
    ["release", "build", "--config=release.toml"],
]


@pytest.mark.parametrize("argv", READERS, ids=lambda argv: " ".join(argv[:2]))
def test_an_id_in_two_files_of_a_split_is_refused_with_both_places(argv, sample, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shutil.copytree(sample, "sgd")
    shutil.copytree(sample, "sgd_x/v1", ignore=shutil.ignore_patterns("dialogues_*"))
    write(tmp_path / "release.toml", RELEASE)
    for split in ("train", "test"):
        first = json_of(tmp_path / f"sgd/{split}/dialogues_001.json")
        write(tmp_path / f"sgd/{split}/dialogues_007.json", [{**first[0], "dialogue_id": "alone"}, first[3]])
    told = refused(*argv, output=tmp_path / "out", status=(1, 2))
    assert re.search(
        r"(test|train)/dialogues_007\.json: (dialogue )?\[1\]: duplicate_id: dialogue '1_00003' is in sgd", told
    )
    assert re.search(r"sgd/(test|train)/dialogues_001\.json, too", told)
    assert not (tmp_path / "out/run.json").exists()
    if argv[0] in ("perturb", "rewrite", "ood"):
        made = run(*argv, output=tmp_path / "out", max_bad="100%", quiet=True)
        ids = [
            dialogue["dialogue_id"] for path in made.folder.rglob("test/dialogues_*.json") for dialogue in json_of(path)
        ]
        assert ids.count("1_00003") == 1
        assert {(letter["file"], letter["dialogue_id"]) for letter in made.dead_letters} == {
            ("dialogues_007.json", "[1]")
        }


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
