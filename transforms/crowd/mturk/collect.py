"""Collecting: what workers have submitted so far. Reads only, so it may be run and cut off at any time.

``assignments.jsonl`` has one boto3 assignment a line, as ``compose`` reads it.
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
MAX_ASSIGNMENTS = 20_000  # of a HIT

_SAVE_EVERY = 30.0  # seconds; what is lost by a kill is only read again

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


class Collected(msgspec.Struct):
    """What a run of ``collect`` came to.

    Attributes:
      lines: all assignments, by id.
      new: how many were not there before. ``changed``: whose status is another now.
      replaced: what stood before under ids that MTurk has given to other work.
      gone: ids of HITs that MTurk no longer has.
      unreadable: (id, why) of HITs whose assignments MTurk did not list as it should; nothing of them was taken.
    """

    lines: dict[str, Line]
    new: int = 0
    changed: int = 0
    replaced: list[Line] = []
    gone: list[str] = []
    unreadable: list[tuple[str, str]] = []


class Listing(NamedTuple):
    """The assignments of a HIT as they are now, by id; or why there are none.

    Attributes:
      gone: whether MTurk no longer has the HIT.
      unreadable: what is wrong with MTurk's answer.
    """

    lines: dict[str, Line]
    gone: bool = False
    unreadable: str = ""


def collect(batch: Batch, told: Told | None = None, whole: bool = False) -> Collected:
    """Reads every HIT that is not complete and final, and writes ``assignments.jsonl``.

    Args:
      batch: the open batch.
      told: called with the number of HITs read.
      whole: whether it is an error when a HIT cannot be read: who has worked on it is not known.

    Raises:
      InputError: MTurk does not answer, or refuses; what was read until then is kept.
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
    """(HIT id, task id) of every HIT of which something may have changed."""
    final = Counter(line["HITId"] for line in lines if is_final(line))
    # Where more workers were asked for and the call was cut off, nobody knows how many there are to be.
    unclear = {facts["hit_id"] for key, facts in batch.journal.open.items() if key.startswith("add:")}
    hits = batch.hits().values()
    return [
        (hit.hit_id, hit.task_id)
        for hit in hits
        if not hit.gone and (final[hit.hit_id] < hit.wanted or hit.hit_id in unclear)
    ]


def list_assignments(batch: Batch, hit_id: str, annotation: str = "") -> Listing:
    """What workers have submitted of a HIT.

    Args:
      batch: with the client.
      hit_id: of the HIT.
      annotation: of the HIT, which each line is to have.

    Raises:
      ClientError: MTurk refuses.
      BotoCoreError: it does not answer.
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
        # What stood under an id that MTurk gave to another submission is kept, though nobody can pay for it any more.
        kept = [line for line in load(batch.folder, REPLACED) if line not in result.replaced]
        save(batch.folder, [*kept, *result.replaced], REPLACED)
    save(batch.folder, result.lines.values())
