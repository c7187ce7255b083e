"""``assignments.jsonl``: what workers have submitted, one boto3 assignment a line, as ``compose`` reads it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson

from parapet.schemas.errors import InputError, storable
from parapet.schemas.layout import parse_json_line
from parapet.transforms.mturk.batch import write_whole

FILE = "assignments.jsonl"
REPLACED = "replaced.jsonl"

Line = dict[str, Any]

_MEMBERS = (
    "AssignmentId", "WorkerId", "HITId", "AssignmentStatus", "AutoApprovalTime", "AcceptTime", "SubmitTime",
    "ApprovalTime", "RejectionTime", "RequesterFeedback", "Answer",
)  # fmt: skip


def line_of(assignment: Mapping[str, Any], annotation: str) -> Line:
    """boto3's assignment as JSON can hold it: times in ISO 8601, UTC, to the second."""
    line = {name: _plain(assignment[name]) for name in _MEMBERS if assignment.get(name) is not None}
    return {**line, "RequesterAnnotation": annotation}


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat(timespec="seconds")
    return storable(value) if isinstance(value, str) else value


def load(folder: Path, name: str = FILE) -> list[Line]:
    """The lines, in their order. Raises InputError where the file is not ours."""
    path = folder / name
    if not path.exists():
        return []
    found = []
    for number, text in enumerate(path.read_bytes().splitlines(), 1):
        try:
            line = parse_json_line(text)
            if not {"AssignmentId", "WorkerId", "HITId", "RequesterAnnotation"} <= line.keys():
                raise ValueError("a member is missing")
        except (ValueError, AttributeError) as error:
            reason = f"not an assignment ({error}): move the file away and collect again"
            raise InputError(reason, path, f"row {number}") from None
        found.append(line)
    return found


def save(folder: Path, lines: Iterable[Line], name: str = FILE) -> None:
    """Writes all lines, sorted by task, HIT and assignment, whole."""
    ordered = sorted(lines, key=lambda line: (line["RequesterAnnotation"], line["HITId"], line["AssignmentId"]))
    data = b"".join(orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE) for line in ordered)
    write_whole(folder / name, data, private=True)


def same_work(a: Line, b: Line) -> bool:
    """Whether two lines under one assignment id are the same submission of the same worker."""
    return all(a.get(name) == b.get(name) for name in ("WorkerId", "HITId", "SubmitTime", "Answer"))


def is_final(line: Line) -> bool:
    """Whether its payment is settled."""
    return line.get("AssignmentStatus") in ("Approved", "Rejected")
