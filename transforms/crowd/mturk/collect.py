"""Collect what workers have submitted. It only reads from MTurk, so it can be run and interrupted at any time.

``assignments.jsonl`` has one boto3 assignment per line, as ``compose`` reads it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from functools import partial
from operator import itemgetter
from pathlib import Path
from typing import Any

import orjson

from parapet.schemas.errors import InputError, storable
from parapet.schemas.layout import parse_json_line
from parapet.transforms.core import disk
from parapet.transforms.crowd.journal import Event
from parapet.transforms.crowd.mturk import client
from parapet.transforms.crowd.mturk.batch import VERDICTS, Batch, Line, Progress, PublishedHit

FILE = "assignments.jsonl"

_MEMBERS = (
    "AssignmentId", "WorkerId", "HITId", "AssignmentStatus", "AutoApprovalTime", "AcceptTime", "SubmitTime",
    "ApprovalTime", "RejectionTime", "RequesterFeedback", "Answer",
)  # fmt: skip


def line_of(assignment: Mapping[str, Any], hit: PublishedHit) -> Line:
    """Convert boto3's assignment to JSON types: times in ISO 8601, UTC, to the second; with facts of its HIT."""
    line = {name: _plain(assignment[name]) for name in _MEMBERS if assignment.get(name) is not None}
    return {**line, "RequesterAnnotation": hit.task_id, "Reward": f"{hit.reward:f}"}


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat(timespec="seconds")
    return storable(value) if isinstance(value, str) else value


def load(folder: Path) -> list[Line]:
    """Read the lines in their order. Raises InputError if the file is not of ``collect``."""
    path = folder / FILE
    if not path.exists():
        return []
    lines = []
    for number, text in enumerate(path.read_bytes().splitlines(), 1):
        try:
            line = parse_json_line(text)
            if not {"AssignmentId", "WorkerId", "HITId", "AssignmentStatus", "RequesterAnnotation"} <= line.keys():
                raise ValueError("a field is missing")
        except (ValueError, AttributeError) as error:
            reason = f"not an assignment ({error}): move the file away and collect again"
            raise InputError(reason, path, f"row {number}") from None
        lines.append(line)
    return lines


def collect(batch: Batch, progress: Progress | None = None) -> list[Line]:
    """Read every HIT that is not complete and settled, write ``assignments.jsonl``, and return its lines.

    Payments of interrupted runs that MTurk shows as made are noted in the journal.

    Args:
      batch: the open batch.
      progress: called with the number of HITs read.

    Raises:
      InputError: MTurk does not answer, or refuses.
    """
    lines = {line["AssignmentId"]: line for line in load(batch.folder)}
    final = Counter(line["HITId"] for line in lines.values() if line["AssignmentStatus"] in VERDICTS)
    waiting = [hit for hit in batch.hits().values() if not hit.gone and final[hit.hit_id] < hit.assignments]
    entries: list[tuple[Event, str, str, dict[str, Any]]] = []
    with client.explaining(), ThreadPoolExecutor(batch.parallel) as pool:
        listings = pool.map(partial(_list_assignments, batch.client), waiting)
        for number, (hit, listing) in enumerate(zip(waiting, listings, strict=True), 1):
            if listing is None:
                entries.append(("done", f"gone:{hit.hit_id}", "", {}))
            lines |= listing or {}
            if progress is not None:
                progress(number, len(waiting))
    for assignment_id, line in lines.items():
        verdict, begun = VERDICTS.get(line["AssignmentStatus"]), batch.journal.open.get(f"pay:{assignment_id}")
        if verdict and begun:
            facts = {"verdict": verdict, "by": "us" if verdict == begun["verdict"] else "elsewhere"}
            entries.append(("done", f"pay:{assignment_id}", "", facts))
    ordered = sorted(lines.values(), key=itemgetter("RequesterAnnotation", "HITId", "AssignmentId"))
    data = b"".join(orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE) for line in ordered)
    disk.write(batch.folder / FILE, data, private=True)
    batch.journal.write([*entries, ("done", "collected", "", {"assignments": len(lines), "hits": len(batch.hits())})])
    return ordered


def _list_assignments(mturk: Any, hit: PublishedHit) -> dict[str, Line] | None:
    """List what workers have submitted for a HIT, by assignment id; None if the HIT no longer exists at MTurk."""
    from botocore.exceptions import ClientError

    operation, statuses = mturk.list_assignments_for_hit, ["Submitted", "Approved", "Rejected"]
    try:
        listed = client.pages(operation, "Assignments", HITId=hit.hit_id, AssignmentStatuses=statuses)
        return {item["AssignmentId"]: line_of(item, hit) for item in listed}
    except ClientError as error:
        if client.code_of(error) == "HITDoesNotExist":
            return None
        raise
