"""What every pipeline over dialogues does where its records are bad."""

import json
import re
import shutil

import pytest
from kit import cases, json_of, refused, run

PIPELINES = {
    "rewrite": ["--variants", "{sample}/sgd_x"],
    "augment": ["--sets", "none"],
    "few_shot": ["--sizes", "2", "--test", "2"],
    "unseen_entities": ["--training", "{sample}"],
    "unseen_services": [],
    "ood": ["--rates", "0.1"],
    "language_variations": ["--kinds", "simple", "--env", "none"],
}


def spoiled(sample, root, share):
    """The sample, of each file so many dialogues without turns."""
    shutil.copytree(sample, root)
    for path in root.glob("*/dialogues_*.json"):
        dialogues = json_of(path)
        for dialogue in dialogues[: round(share * len(dialogues))]:
            dialogue["turns"] = 7
        path.write_text(json.dumps(dialogues))
    return root


@pytest.mark.parametrize("pipeline", PIPELINES)
def test_nothing_made_is_a_failure(pipeline, sample, tmp_path):
    root = spoiled(sample, tmp_path / "sgd", 1)
    for split in ("train", "dev", "test"):
        (tmp_path / "x/v1" / split).mkdir(parents=True)
        shutil.copy(sample / split / "schema.json", tmp_path / "x/v1" / split)
    flags = [flag.format(sample=sample).replace(f"{sample}/sgd_x", f"{tmp_path}/x") for flag in PIPELINES[pipeline]]
    argv = [pipeline, "--sgd", str(root), *flags, "--output", str(tmp_path / "out"), "--quiet"]
    told = refused(*argv, max_bad="100%", status=1)
    assert re.search(r"(\d+) of \1 dialogues.* could not be \w+, so there is nothing to publish: not_sgd ", told), told
    assert not (tmp_path / "out/run.json").exists()


def test_no_file_and_no_dialogue(sample, tmp_path):
    root = spoiled(sample, tmp_path / "sgd", 0)
    argv = ["unseen_services", "--sgd", str(root), "--output", str(tmp_path / "out"), "--max_bad", "100%"]
    for path in root.glob("*/dialogues_*.json"):
        path.write_text("{")
    start = "error: 4 of 4 files could not be used, so there is nothing to publish: broken_file 4; the first: "
    assert run(*argv, status=1).errors.startswith(start)
    for path in root.glob("*/dialogues_*.json"):
        path.write_text("[]")
    assert run(*argv, status=1).errors == "error: there is no dialogue in the input, so there is nothing to publish\n"


@cases(
    "share said",
    ("1", "'1' is ambiguous: write 1% or 100%"),
    ("101%", "'101%' is not a share: give a percentage from 0% to 100%, or a fraction such as 0.05"),
    ("-0.1", "'-0.1' is not a share"),
    ("few", "'few' is not a share"),
)
def test_what_is_no_share(share, said, tmp_path):
    assert f"argument --max_bad: {said}" in refused("unseen_services", f"--max_bad={share}", output=tmp_path / "out")
