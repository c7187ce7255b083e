"""Collect what workers have submitted. It only reads from MTurk, so it can be run and interrupted at any time.

``assignments.jsonl`` has one boto3 assignment per line, as ``compose`` reads it.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import orjson

from parapet.schemas.errors import InputError, storable
from parapet.schemas.layout import parse_json_line
from parapet.transforms.crowd.mturk.batch import Batch, Told, write_whole
from parapet.transforms.crowd.mturk.client import UnusableAnswer, chunks, code_of, in_parallel, pages

FILE = "assignments.jsonl"
REPLACED = "replaced.jsonl"

GONE = "HITDoesNotExist"
LISTING = "ListAssignmentsForHIT"
MAX_ASSIGNMENTS = 20_000  # per HIT

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


def load(folder: Path, name: str = FILE) -> list[Line]:
    """Read the lines in their order. Raises InputError if the file was not written by ``collect``."""
    path = folder / name
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


def save(folder: Path, lines: Iterable[Line], name: str = FILE) -> None:
    """Write all lines, sorted by task, HIT and assignment, with an atomic rename."""
    ordered = sorted(lines, key=lambda line: (line["RequesterAnnotation"], line["HITId"], line["AssignmentId"]))
    data = b"".join(orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE) for line in ordered)
    write_whole(folder / name, data, private=True)


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
      replaced: earlier lines under ids that MTurk has reused for other work.
      gone: ids of HITs that no longer exist at MTurk.
      unreadable: (id, reason) of HITs with invalid listings; none of their assignments was taken.
    """

    lines: dict[str, Line]
    new: int = 0
    changed: int = 0
    replaced: list[Line] = []
    gone: list[str] = []
    unreadable: list[tuple[str, str]] = []


class Listing(NamedTuple):
    """The current assignments of a HIT by id, or the reason why they are missing.

    Attributes:
      gone: whether the HIT no longer exists at MTurk.
      unreadable: the problem with MTurk's response.
    """

    lines: dict[str, Line]
    gone: bool = False
    unreadable: str = ""


def collect(batch: Batch, told: Told | None = None, whole: bool = False) -> Collected:
    """Read every HIT that is not complete and settled, and write ``assignments.jsonl``.

    Args:
      batch: the open batch.
      told: called with the number of HITs read.
      whole: whether to fail if a HIT cannot be read, for callers that must know everyone who worked on it.

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
                if listing.gone:
                    result.gone.append(hit_id)
                if listing.unreadable:
                    result.unreadable.append((hit_id, listing.unreadable))
                for line in listing.lines.values():
                    _merge(result, line)
            read += len(chunk)
            if told is not None:
                told(read, len(waiting))
            if time.monotonic() - saved > _SAVE_EVERY:
                _save(batch, result)
                saved = time.monotonic()
    finally:
        _save(batch, result)
    facts = {"assignments": len(result.lines), "hits": len(batch.hits())}
    batch.journal.write([("noted", f"gone:{hit_id}", "", {"gone": True}) for hit_id in result.gone])
    batch.journal.write([("noted", "collected", "", facts)])
    if whole and result.unreadable:
        hit_id, why = result.unreadable[0]
        raise InputError(why, hit_id)
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


def list_assignments(batch: Batch, hit_id: str, annotation: str = "") -> Listing:
    """List what workers have submitted for a HIT.

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
    listed = pages(operation, "Assignments", MAX_ASSIGNMENTS, HITId=hit_id, AssignmentStatuses=statuses)
    lines: dict[str, Line] = {}
    try:
        for item in listed:
            if item["HITId"] != hit_id:
                raise UnusableAnswer(
                    f"MTurk's answer contains {item['AssignmentId']}, which belongs to another HIT", LISTING
                )
            line = line_of(item, annotation)
            if not same_work(lines.setdefault(item["AssignmentId"], line), line):
                reason = f"MTurk's answer contains {item['AssignmentId']} twice, with different answers"
                raise UnusableAnswer(reason, LISTING)
    except ClientError as error:
        if code_of(error) == GONE:
            return Listing({}, gone=True)
        raise
    except UnusableAnswer as error:
        return Listing({}, unreadable=str(error))
    return Listing(lines)


def _merge(result: Collected, line: Line) -> None:
    known = result.lines.get(line["AssignmentId"])
    if known is None:
        result.new += 1
    elif not same_work(known, line):
        result.replaced.append(known)
    elif known.get("AssignmentStatus") != line.get("AssignmentStatus"):
        result.changed += 1
    result.lines[line["AssignmentId"]] = line


def _save(batch: Batch, result: Collected) -> None:
    if result.replaced:
        # Lines replaced by another submission with the same id are kept, although they can no longer be paid.
        kept = [line for line in load(batch.folder, REPLACED) if line not in result.replaced]
        save(batch.folder, [*kept, *result.replaced], REPLACED)
    save(batch.folder, result.lines.values())
