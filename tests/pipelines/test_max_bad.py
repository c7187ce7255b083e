"""What every pipeline over dialogues does where its records are bad."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from pipelines.main import main

PIPELINES = {
    "rewrite": ["--variants", "{sample}/sgd_x"],
    "augment": ["--sets", "none"],
    "few_shot": ["--sizes", "2", "--test", "2"],
    "unseen_entities": ["--training", "{sample}"],
    "unseen_services": [],
    "ood": ["--rates", "0.1"],
    "language_variations": ["--kinds", "simple", "--env", "none"],
}


def spoiled(sample: Path, root: Path, share: float) -> Path:
    """The sample, of each file so many dialogues without turns."""
    shutil.copytree(sample, root)
    for path in root.glob("*/dialogues_*.json"):
        dialogues = json.loads(path.read_bytes())
        for dialogue in dialogues[: round(share * len(dialogues))]:
            dialogue["turns"] = 7
        path.write_text(json.dumps(dialogues))
    return root


@pytest.mark.parametrize("pipeline", PIPELINES)
def test_nothing_made_is_a_failure(
    pipeline: str, sample: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = spoiled(sample, tmp_path / "sgd", 1)
    for split in ("train", "dev", "test"):
        (tmp_path / "x/v1" / split).mkdir(parents=True)
        shutil.copy(sample / split / "schema.json", tmp_path / "x/v1" / split)
    flags = [flag.format(sample=sample).replace(f"{sample}/sgd_x", f"{tmp_path}/x") for flag in PIPELINES[pipeline]]
    argv = [pipeline, "--sgd", str(root), *flags, "--output", str(tmp_path / "out"), "--quiet"]
    assert main([*argv, "--max_bad", "100%"]) == 1
    told = capsys.readouterr().err
    assert re.search(r"(\d+) of \1 dialogues.* could not be \w+, so there is nothing to publish: not_sgd ", told), told
    assert not (tmp_path / "out/run.json").exists()
