"""What tests of ``speech_errors`` share: small corpora, the command, and what it wrote."""

from pathlib import Path
from typing import Any

import kit
import pytest
from kit import json_of

Some = tuple[Path, list[Any], Path]


def run(out: Path, *flags: str, status: int = 0) -> kit.Result:
    return kit.run("speech_errors", *flags, output=out, status=status)


def files_of(folder: Path) -> dict[str, bytes]:
    return {name: content for name, content in kit.files_of(folder).items() if not name.startswith(".heard")}


def rows_of(out: Path, name: str, file: str = "test/dialogues_001") -> list[dict[str, Any]]:
    return kit.rows_of(out / name / "turns" / f"{file}.parquet")


def both(out: Path, name: str = "SR-20") -> list[dict[str, Any]]:
    """The rows of the two files of ``some``."""
    return [row for n in (1, 2) for row in rows_of(out, name, f"test/dialogues_{n:03}")]


def dialogues_of(folder: Path) -> dict[str, Any]:
    return kit.dialogues_of(folder / "test")


def write_corpus(root: Path, schema: Path, *files: list[Any]) -> Path:
    return kit.corpus(root, json_of(schema), test=list(files))


def three_dialogues(tmp_path_factory: pytest.TempPathFactory) -> Some:
    from parapet.schemas.layout import sample_root

    schema = sample_root() / "test" / "schema.json"
    chosen = [{**one, "turns": one["turns"][:6]} for one in kit.sample_dialogues()[:3]]
    return write_corpus(tmp_path_factory.mktemp("some") / "sgd", schema, chosen[:2], chosen[2:]), chosen, schema
