"""Files of agents' tasks, as BFCL has them: JSON lines, and the right calls in a file of the same name beside them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from parapet.schemas.errors import InputError, surrogate_in
from parapet.schemas.json_text import parse_exactly

ANSWERS = "possible_answer"  # the folder beside a file of tasks, with the right calls in a file of the same name


def answers_beside(path: Path) -> Path:
    """Where the right calls of a file of tasks are."""
    return path.parent / ANSWERS / path.name


def is_task(item: Any) -> bool:
    """Whether parsed JSON is a task of BFCL: it has an id and the definitions of its functions."""
    return isinstance(item, dict) and isinstance(item.get("id"), str) and isinstance(item.get("function"), list)


def records(data: bytes) -> Iterator[tuple[str, Any]]:
    """Yields (place, object with an id) of each line, or why it cannot be read."""
    for number, line in enumerate(data.removeprefix(b"\xef\xbb\xbf").split(b"\n"), 1):
        if not line.strip():
            continue
        where = f"line {number}"
        try:
            record = parse_exactly(line)
            if not isinstance(record, dict) or not isinstance(record.get("id"), str):
                raise InputError("not_a_task: expected an object with an id")
            if surrogate_in(record) is not None:
                raise InputError("not_a_task: contains a lone surrogate, which is not a valid character")
        except InputError as error:
            yield where, InputError(error.reason, "", where)
        except ValueError as error:
            yield where, InputError(f"not_json: {error}", "", where)
        else:
            yield where, record


def by_id(data: bytes, path: object) -> dict[str, Any]:
    """The objects of a file by their ids. Raises InputError with the line where one cannot be read, or stands twice."""
    found: dict[str, Any] = {}
    for where, record in records(data):
        if isinstance(record, InputError):
            raise InputError(record.reason.partition(": ")[2] or record.reason, path, where)
        if record["id"] in found:
            raise InputError(f"{record['id']!r} appears twice", path, where)
        found[record["id"]] = record
    return found
