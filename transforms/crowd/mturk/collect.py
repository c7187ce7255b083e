"""Collect what workers have submitted. It only reads from MTurk, so it can be run and interrupted at any time.

``assignments.jsonl`` has one boto3 assignment per line, as ``compose`` reads it.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import orjson

from parapet.schemas.errors import InputError, storable
from parapet.schemas.layout import parse_json_line
from parapet.transforms.crowd.mturk.batch import Batch, Told, write_whole
from parapet.transforms.crowd.mturk.client import chunks, code_of, in_parallel, pages

FILE = "assignments.jsonl"

GONE = "HITDoesNotExist"

_SAVE_EVERY = 30.0  # seconds; what a killed run has not saved is read again by the next one

Line = dict[str, Any]

_MEMBERS = (
    "AssignmentId", "WorkerId", "HITId", "AssignmentStatus", "AutoApprovalTime", "AcceptTime", "SubmitTime",
    "ApprovalTime", "RejectionTime", "RequesterFeedback", "Answer",
)  # fmt: skip


def line_of(assignment: Mapping[str, Any], annotation: str) -> Line:
    """Convert boto3's assignment to JSON types: times in ISO 8601, UTC, to the second."""
    line = {name: _plain(assignment[name]) for name in _MEMBERS if assignment.get(name) is not None}
    return {**line, "RequesterAnnotation": annotation}


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat(timespec="seconds")
    return storable(value) if isinstance(value, str) else value


def load(folder: Path) -> list[Line]:
    """Read the lines in their order. Raises InputError if the file was not written by ``collect``."""
    path = folder / FILE
    if not path.exists():
        return []
    lines = []
    for number, text in enumerate(path.read_bytes().splitlines(), 1):
        try:
            line = parse_json_line(text)
            if not {"AssignmentId", "WorkerId", "HITId", "RequesterAnnotation"} <= line.keys():
                raise ValueError("a field is missing")
        except (ValueError, AttributeError) as error:
            reason = f"not an assignment ({error}): move the file away and collect again"
            raise InputError(reason, path, f"row {number}") from None
        lines.append(line)
    return lines


def save(folder: Path, lines: Iterable[Line]) -> None:
    """Write all lines, sorted by task, HIT and assignment, with an atomic rename."""
    ordered = sorted(lines, key=lambda line: (line["RequesterAnnotation"], line["HITId"], line["AssignmentId"]))
    data = b"".join(orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE) for line in ordered)
    write_whole(folder / FILE, data, private=True)


def same_work(a: Line, b: Line) -> bool:
    """Whether two lines with the same assignment id are the same submission of the same worker."""
    return all(a.get(name) == b.get(name) for name in ("WorkerId", "HITId", "SubmitTime", "Answer"))


def is_final(line: Line) -> bool:
    """Whether the assignment is approved or rejected."""
    return line.get("AssignmentStatus") in ("Approved", "Rejected")


class Collected(msgspec.Struct):
    """The result of a run of ``collect``.

    Attributes:
      lines: all assignments, by id.
      new: the number of new assignments. ``changed``: the number with a changed status.
      gone: ids of HITs that no longer exist at MTurk.
    """

    lines: dict[str, Line]
    new: int = 0
    changed: int = 0
    gone: list[str] = []


def collect(batch: Batch, told: Told | None = None) -> Collected:
    """Read every HIT that is not complete and settled, and write ``assignments.jsonl``.

    Args:
      batch: the open batch.
      told: called with the number of HITs read.

    Raises:
      InputError: MTurk does not answer, or refuses; what was read until then is saved.
    """
    result = Collected({line["AssignmentId"]: line for line in load(batch.folder)})
    waiting = _unfinished(batch, result.lines.values())
    saved, read = time.monotonic(), 0
    try:
        for chunk in chunks(waiting, batch.parallel * 4):
            listings = in_parallel(lambda item: list_assignments(batch, *item), chunk, batch.parallel)
            for (hit_id, _), listing in zip(chunk, listings, strict=True):
                if listing is None:
                    result.gone.append(hit_id)
                for line in (listing or {}).values():
                    _merge(result, line)
            read += len(chunk)
            if told is not None:
                told(read, len(waiting))
            if time.monotonic() - saved > _SAVE_EVERY:
                save(batch.folder, result.lines.values())
                saved = time.monotonic()
    finally:
        save(batch.folder, result.lines.values())
    facts = {"assignments": len(result.lines), "hits": len(batch.hits())}
    batch.journal.write([("noted", f"gone:{hit_id}", "", {"gone": True}) for hit_id in result.gone])
    batch.journal.write([("noted", "collected", "", facts)])
    return result


def _unfinished(batch: Batch, lines: Iterable[Line]) -> list[tuple[str, str]]:
    """Return (HIT id, task id) of every HIT that may have changed."""
    final = Counter(line["HITId"] for line in lines if is_final(line))
    # If a call for more workers was interrupted, the HIT's number of assignments is unknown.
    unclear = {facts["hit_id"] for key, facts in batch.journal.open.items() if key.startswith("add:")}
    hits = batch.hits().values()
    return [
        (hit.hit_id, hit.task_id)
        for hit in hits
        if not hit.gone and (final[hit.hit_id] < hit.wanted or hit.hit_id in unclear)
    ]


def list_assignments(batch: Batch, hit_id: str, annotation: str = "") -> dict[str, Line] | None:
    """List what workers have submitted for a HIT, by assignment id; None if the HIT no longer exists at MTurk.

    Args:
      batch: the batch with the client.
      hit_id: the id of the HIT.
      annotation: the HIT's annotation, to be added to each line.

    Raises:
      ClientError: MTurk refuses.
      BotoCoreError: MTurk does not answer.
    """
    from botocore.exceptions import ClientError

    operation, statuses = batch.client.list_assignments_for_hit, ["Submitted", "Approved", "Rejected"]
    try:
        listed = list(pages(operation, "Assignments", HITId=hit_id, AssignmentStatuses=statuses))
    except ClientError as error:
        if code_of(error) == GONE:
            return None
        raise
    return {item["AssignmentId"]: line_of(item, annotation) for item in listed}


def _merge(result: Collected, line: Line) -> None:
    known = result.lines.get(line["AssignmentId"])
    if known is None:
        result.new += 1
    elif known.get("AssignmentStatus") != line.get("AssignmentStatus"):
        result.changed += 1
    result.lines[line["AssignmentId"]] = line
