"""What tests of ``speech_errors`` share: small corpora, the command, and what it wrote."""

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from parapet.pipelines.main import main

Some = tuple[Path, list[Any], Path]


def run(out: Path, *flags: str) -> int:
    return main(["speech_errors", "--output", str(out), *flags])


def files_of(folder: Path) -> dict[str, bytes]:
    return {
        name: path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not (name := str(path.relative_to(folder))).startswith(".heard")
    }


def rows_of(out: Path, name: str, file: str = "test/dialogues_001") -> list[dict[str, Any]]:
    return pq.read_table(out / name / "turns" / f"{file}.parquet").to_pylist()


def both(out: Path, name: str = "SR-20") -> list[dict[str, Any]]:
    """The rows of the two files of ``some``."""
    return [row for n in (1, 2) for row in rows_of(out, name, f"test/dialogues_{n:03}")]


def dialogues_of(folder: Path, split: str = "test") -> dict[str, Any]:
    """By id, of all files of a split."""
    files = sorted((folder / split).glob("dialogues_*.json"))
    return {one["dialogue_id"]: one for file in files for one in json.loads(file.read_bytes())}


def write_corpus(root: Path, schema: Path, *files: list[Any]) -> Path:
    (root / "test").mkdir(parents=True)
    (root / "test" / "schema.json").write_bytes(schema.read_bytes())
    for i, dialogues in enumerate(files, 1):
        (root / "test" / f"dialogues_{i:03}.json").write_text(json.dumps(dialogues))
    return root


def three_dialogues(tmp_path_factory: pytest.TempPathFactory) -> Some:
    from parapet.schemas.layout import sample_root

    schema = sample_root() / "test" / "schema.json"
    every = json.loads((sample_root() / "test" / "dialogues_001.json").read_bytes())
    chosen = [{**one, "turns": one["turns"][:6]} for one in every[:3]]
    return write_corpus(tmp_path_factory.mktemp("some") / "sgd", schema, chosen[:2], chosen[2:]), chosen, schema
