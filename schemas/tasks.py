"""Files of agents' tasks in BFCL's format.

They are JSON Lines, with the expected calls in a file of the same name beside them.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from parapet.schemas.errors import InputError
from parapet.schemas.json_text import parse_json_line

ANSWERS = "possible_answer"  # the folder beside a file of tasks, with the expected calls in a file of the same name


def answers_beside(path: Path) -> Path:
    """Return the path of the expected calls for a file of tasks."""
    return path.parent / ANSWERS / path.name


def is_task(item: Any) -> bool:
    """Whether parsed JSON is a BFCL task: it has an id and the definitions of its functions."""
    return isinstance(item, dict) and isinstance(item.get("id"), str) and isinstance(item.get("function"), list)


def records(data: bytes) -> Iterator[tuple[str, Any]]:
    """Yield (place, object with an id, or the error) for each line."""
    for number, line in enumerate(data.removeprefix(b"\xef\xbb\xbf").split(b"\n"), 1):
        if not line.strip():
            continue
        where = f"line {number}"
        try:
            record = parse_json_line(line)
            if not isinstance(record, dict) or not isinstance(record.get("id"), str):
                raise InputError("not_a_task: expected an object with an id")
        except InputError as error:
            yield where, InputError(error.reason, "", where)
        except ValueError as error:
            yield where, InputError(f"not_json: {error}", "", where)
        else:
            yield where, record


def by_id(data: bytes, path: object) -> dict[str, Any]:
    """Read the objects of a file by id. Raises InputError with the line if one is invalid or duplicated."""
    answers: dict[str, Any] = {}
    for where, record in records(data):
        if isinstance(record, InputError):
            raise InputError(record.reason.partition(": ")[2] or record.reason, path, where)
        if record["id"] in answers:
            raise InputError(f"{record['id']!r} appears twice", path, where)
        answers[record["id"]] = record
    return answers
