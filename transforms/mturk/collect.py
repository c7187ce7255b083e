"""Collecting: what workers have submitted so far. Reads only, so it may be run and cut off at any time."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from parapet.schemas.errors import InputError
from parapet.transforms.mturk import answers, collected
from parapet.transforms.mturk.answers import UnusableAnswer, pages
from parapet.transforms.mturk.batch import Batch
from parapet.transforms.mturk.calls import Told, chunks, in_parallel
from parapet.transforms.mturk.client import code_of

_SAVE_EVERY = 30.0  # seconds; what is lost by a kill is only read again

GONE = "HITDoesNotExist"
LISTING = "ListAssignmentsForHIT"


class Collected(msgspec.Struct):
    """What a run of ``collect`` found.

    Attributes:
      new: assignments that were not there before. ``changed``: whose status is another now.
      total: all that are there.
      replaced: ids under which MTurk now has other work than before.
      gone: ids of HITs that MTurk no longer has.
      unreadable: (id, why) of HITs whose assignments MTurk did not list as it should; nothing of them was taken.
      read: HITs that were read; the rest were complete before.
    """

    new: int = 0
    changed: int = 0
    total: int = 0
    replaced: list[str] = []
    gone: list[str] = []
    unreadable: list[tuple[str, str]] = []
    read: int = 0

    def require_all(self) -> None:
        """Raises InputError where HITs could not be read: who has worked on them is not known."""
        for hit_id, why in self.unreadable:
            raise InputError(why, hit_id)


class Listing(msgspec.Struct, frozen=True):
    """The assignments of a HIT as they are now, by id; or why there are none.

    Attributes:
      gone: whether MTurk no longer has the HIT.
      unreadable: what is wrong with MTurk's answer.
    """

    lines: dict[str, collected.Line] = {}
    gone: bool = False
    unreadable: str = ""


def collect(client: Any, batch: Batch, parallel: int = 1, told: Told | None = None) -> Collected:
    """Reads every HIT that is not complete and final, and writes ``assignments.jsonl``.

    Raises:
      InputError: MTurk does not answer, or refuses; what was read until then is kept.
    """
    lines = {line["AssignmentId"]: line for line in collected.load(batch.folder)}
    result = Collected()
    old: list[collected.Line] = []
    waiting = list(_unfinished(batch, lines))
    saved = time.monotonic()
    try:
        for chunk in chunks(waiting, max(parallel, 1) * 4):
            found = in_parallel(lambda item: list_assignments(client, *item), chunk, parallel)
            for (hit_id, _), listing in zip(chunk, found, strict=True):
                if listing.gone:
                    result.gone.append(hit_id)
                if listing.unreadable:
                    result.unreadable.append((hit_id, listing.unreadable))
                _merge(lines, listing.lines.values(), result, old)
            result.read += len(chunk)
            if told is not None:
                told(result.read, len(waiting))
            if time.monotonic() - saved > _SAVE_EVERY:
                _save(batch, lines, old)
                saved = time.monotonic()
    finally:
        _save(batch, lines, old)
    result.total = len(lines)
    batch.journal.write([("noted", f"gone:{hit_id}", "", {"gone": True}) for hit_id in result.gone])
    batch.journal.write([("noted", "collected", "", {"assignments": result.total, "hits": len(batch.hits())})])
    return result


def _unfinished(batch: Batch, lines: dict[str, collected.Line]) -> Iterator[tuple[str, str]]:
    """(HIT id, task id) of every HIT of which something may have changed."""
    final: dict[str, int] = {}
    for line in lines.values():
        final[line["HITId"]] = final.get(line["HITId"], 0) + collected.is_final(line)
    # Where more workers were asked for and the call was cut off, nobody knows how many there are to be.
    unclear = {facts["hit_id"] for key, facts in batch.journal.open.items() if key.startswith("add:")}
    for hit_id, hit in batch.hits().items():
        if not hit.gone and (final.get(hit_id, 0) < hit.wanted or hit_id in unclear):
            yield hit_id, hit.task_id


def list_assignments(client: Any, hit_id: str, annotation: str = "") -> Listing:
    """What workers have submitted of a HIT.

    Args:
      client: boto3's.
      hit_id: of the HIT.
      annotation: of the HIT, which each line is to have.

    Raises:
      ClientError: MTurk refuses.
      BotoCoreError: it does not answer.
    """
    from botocore.exceptions import ClientError

    operation, statuses = client.list_assignments_for_hit, ["Submitted", "Approved", "Rejected"]
    listed = pages(operation, "Assignments", answers.MAX_ASSIGNMENTS, HITId=hit_id, AssignmentStatuses=statuses)
    found: dict[str, collected.Line] = {}
    try:
        for item in listed:
            if item["HITId"] != hit_id:
                raise UnusableAnswer(f"MTurk's answer has {item['AssignmentId']} of another HIT", LISTING)
            line = collected.line_of(item, annotation)
            if not collected.same_work(found.setdefault(item["AssignmentId"], line), line):
                reason = f"MTurk's answer has {item['AssignmentId']} twice, with different work"
                raise UnusableAnswer(reason, LISTING)
    except ClientError as error:
        if code_of(error) == GONE:
            return Listing(gone=True)
        raise
    except UnusableAnswer as error:
        return Listing(unreadable=str(error))
    return Listing(found)


def _merge(
    lines: dict[str, collected.Line],
    assignments: Iterable[collected.Line],
    result: Collected,
    old: list[collected.Line],
) -> None:
    for line in assignments:
        known = lines.get(line["AssignmentId"])
        if known is None:
            result.new += 1
        elif not collected.same_work(known, line):
            result.replaced.append(line["AssignmentId"])
            old.append(known)
        elif known.get("AssignmentStatus") != line.get("AssignmentStatus"):
            result.changed += 1
        lines[line["AssignmentId"]] = line


def _save(batch: Batch, lines: dict[str, collected.Line], old: list[collected.Line]) -> None:
    if old:
        # What stood under an id that MTurk gave to another submission is kept, though nobody can pay for it any more.
        kept = collected.load(batch.folder, collected.REPLACED)
        collected.save(batch.folder, [*(line for line in kept if line not in old), *old], collected.REPLACED)
    collected.save(batch.folder, lines.values())
