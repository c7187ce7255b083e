"""The published JSON Schemas of the records. ``python -m parapet.schemas.json_schemas`` writes ``schemas/json/``."""

import json
from inspect import cleandoc
from pathlib import Path
from typing import Any

import msgspec

from parapet.schemas import decisions, dialogue, release, rows, service

FOLDER = Path(__file__).with_name("json")

RECORDS: dict[str, tuple[type, str]] = {
    "schema": (list[service.Service], "A schema.json of the SGD layout"),
    "dialogues": (list[dialogue.Dialogue], "A dialogues_NNN.json of the SGD layout"),
    "assignment": (rows.Assignment, "One worker's submission of one task, the worker hashed"),
    "response": (rows.AuditRow, "A row of responses.parquet"),
    "dead_letter": (rows.DeadLetter, "A line of dead_letters.jsonl"),
    "decision": (decisions.Decision, "A row of a decisions CSV"),
    "manifest": (release.Manifest, "MANIFEST.json of a release"),
}


def json_schema(name: str) -> bytes:
    """Returns the JSON Schema (2020-12) of one kind of record."""
    record, title = RECORDS[name]
    schema = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": title, **msgspec.json.schema(record)}
    # Descriptions are docstrings, whose indentation Python removes since 3.13.
    schema = json.loads(json.dumps(schema), object_hook=_with_clean_description)
    return (json.dumps(schema, indent=2) + "\n").encode()


def _with_clean_description(part: dict[str, Any]) -> dict[str, Any]:
    text = part.get("description")
    return {**part, "description": cleandoc(text)} if isinstance(text, str) else part


def write() -> None:
    """Writes every schema file."""
    FOLDER.mkdir(exist_ok=True)
    for name in RECORDS:
        (FOLDER / f"{name}.schema.json").write_bytes(json_schema(name))


if __name__ == "__main__":
    write()
