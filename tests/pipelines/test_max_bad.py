"""What every pipeline over dialogues does where its records are bad."""

import re
import shutil
from pathlib import Path

import pytest
from kit import cases, edit, refused

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
    assert f"argument --max_bad: {said}" in refused("unseen_services", f"--max_bad={share}", output=tmp_path / "out")
