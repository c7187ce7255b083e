"""Crowd corpora of any size, made from the bundled sample by repeating its services under new names.

Each service has the sample's answers once, or many times. Every other copy is worded a little differently, so that
texts are as diverse as in a large collection.
"""

from __future__ import annotations

import csv
import hashlib
import json
from pathlib import Path

from parapet.schemas import layout

# Common words that workers might add without changing the kind of their answer.
_WORDS = [
    "current",
    "preferred",
    "chosen",
    "desired",
    "given",
    "main",
    "exact",
    "full",
    "usual",
    "local",
    "actual",
    "stated",
    "expected",
    "final",
    "first",
    "second",
    "new",
    "known",
    "total",
    "basic",
    "general",
    "special",
    "single",
    "double",
    "early",
    "late",
    "daily",
    "weekly",
    "yearly",
    "public",
    "private",
    "open",
    "simple",
    "clear",
    "wanted",
    "needed",
    "listed",
    "named",
    "valid",
    "active",
    "regular",
    "standard",
    "common",
    "original",
    "personal",
    "official",
    "possible",
]


def make(root: Path, answers: int, services: int = 0) -> tuple[Path, list[Path]]:
    """Writes schemas and batch CSVs below ``root``, unless they exist.

    Args:
      root: a folder.
      answers: the approximate number of answers; a multiple of the sample's.
      services: the approximate number of services, a multiple of the sample's; 0 for as many as need the sample's
        answers only once each.
    """
    done = root / "done"
    corpus, responses = root / "schemas", [root / "names.csv", root / "descriptions.csv"]
    if done.exists():
        return corpus, responses
    (corpus / "train").mkdir(parents=True, exist_ok=True)
    sample = layout.sample_root()
    originals = list(layout.raw_by_name(layout.read_root(sample)).values())
    batches = [_read(sample / "crowd" / path.name) for path in responses]
    of_one_copy = sum(
        bool(text) for _, rows in batches for row in rows for name, text in row.items() if _is_answer(name)
    )
    copies = max(1, round(answers / of_one_copy))
    schemas = min(copies, max(1, round(services / len(originals)))) if services else copies
    schema = [{**raw, "service_name": _name(raw["service_name"], c)} for c in range(schemas) for raw in originals]
    (corpus / "train" / "schema.json").write_bytes(layout.schema_bytes(schema))
    for path, (columns, rows) in zip(responses, batches, strict=True):
        with path.open("w", newline="", encoding="utf-8") as handle:
            writer = csv.DictWriter(handle, columns, quoting=csv.QUOTE_ALL)
            writer.writeheader()
            for c in range(copies):
                writer.writerows(_copy(row, c, schemas) for row in rows)
    done.touch()
    return corpus, responses


def _read(path: Path) -> tuple[list[str], list[dict[str, str]]]:
    with path.open(newline="", encoding="utf-8") as handle:
        reader = csv.DictReader(handle)
        return list(reader.fieldnames or []), list(reader)


def _name(service: str, c: int) -> str:
    return f"{service}c{c}"


def _is_answer(column: str) -> bool:
    return column.startswith("Answer.") and column != "Answer.doNotRedirect"


def _copy(row: dict[str, str], c: int, schemas: int) -> dict[str, str]:
    """Turns an assignment of the sample into another worker's answer for the service's copy ``c % schemas``."""
    copy = dict(row)
    service = row["Input.service_name"]
    for column in ("Input.task_id", "Input.service_name", "RequesterAnnotation"):
        copy[column] = row[column].replace(service, _name(service, c % schemas))
    copy["AssignmentId"] = f"{row['AssignmentId']}C{c}"
    copy["WorkerId"] = f"{row['WorkerId'].split(',')[0]}C{c}"
    if c % 2 or c >= schemas:
        for column, text in row.items():
            if _is_answer(column) and text.strip():
                # Equal texts get the same words within a copy, so that duplicates remain duplicates.
                digest = hashlib.sha256(json.dumps([c, column, text.strip(" .").lower()]).encode()).digest()
                words = [_WORDS[digest[i] % len(_WORDS)] for i in range(1 if c < schemas else 2)]
                copy[column] = " ".join([text.rstrip(" ."), *words])
    return copy
