"""Keeping workers out: those on the block list, those at the cap, and from a task those who did its sibling."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from parapet.schemas.errors import InputError
from parapet.transforms.crowd.ingest import worker_hash
from parapet.transforms.mturk.batch import Batch
from parapet.transforms.mturk.calls import Call, Failure, Told, perform
from parapet.transforms.mturk.collected import Line
from parapet.transforms.mturk.qualifications import KEPT_OUT, done_name, sibling_of

_WORKER = re.compile(r"A[A-Z0-9]{1,63}")


class Granted(msgspec.Struct, frozen=True):
    """What a run granted: how many of which kind, and what was refused."""

    counts: dict[str, int]
    failures: list[Failure]


def grant(
    client: Any,
    batch: Batch,
    lines: Iterable[Line],
    blocked: Iterable[str],
    key: bytes,
    upcoming: Iterable[tuple[str, int]] = (),
    parallel: int = 1,
    told: Told | None = None,
) -> Granted:
    """Grants the qualifications that follow from what was collected and from the block list; each once.

    Args:
      client: boto3's.
      batch: the open batch, whose types are made.
      lines: all assignments collected.
      blocked: worker ids that are to see no further HIT of the batch.
      key: for the workers' hashes, by which the journal knows them.
      upcoming: (task id, round) of HITs that are about to get places, besides those that have some.
      parallel: calls under way at a time.
      told: called with the number done.
    """
    types = {name: facts["id"] for name, facts in batch.journal.with_prefix("type").items()}
    calls: dict[str, Call] = {}
    counts: Counter[str] = Counter()
    lines = list(lines)
    for why, name, worker in [*_by_rule(batch, lines, upcoming), *(("blocked", KEPT_OUT, each) for each in blocked)]:
        call_key = f"grant:{name}:{worker_hash(key, worker)}"
        if name in types and call_key not in calls and call_key not in batch.journal.done:
            arguments = {"QualificationTypeId": types[name], "WorkerId": worker, "SendNotification": False}
            calls[call_key] = Call(call_key, "associate_qualification_with_worker", arguments, {"why": why})
            counts[why] += 1

    def associate(call: Call) -> dict[str, Any]:
        # Granting again changes nothing, so a call that was cut off is simply made again.
        client.associate_qualification_with_worker(**call.arguments)
        return {}

    return Granted(dict(counts), perform(batch.journal, list(calls.values()), associate, parallel, told))


def _by_rule(batch: Batch, lines: list[Line], upcoming: Iterable[tuple[str, int]]) -> Iterator[tuple[str, str, str]]:
    # Only where there is something left to be kept out of: a batch that is done would cost thousands of calls.
    submitted = Counter(line["HITId"] for line in lines)
    upcoming = list(upcoming)
    places = {(hit.task_id, hit.round) for hit in batch.hits().values() if hit.wanted > submitted[hit.hit_id]}
    closed = {task_id if round_ else "" for task_id, round_ in [*places, *upcoming]}
    closed |= {sibling_of(task_id) for task_id, _ in [*places, *upcoming]}
    for line in lines:
        if line["RequesterAnnotation"] in closed:
            yield "sibling", done_name(line["RequesterAnnotation"]), line["WorkerId"]
    cap = batch.settings.max_per_worker
    if cap:
        for worker, n in sorted(Counter(line["WorkerId"] for line in lines).items()):
            if n >= cap:
                yield "cap", KEPT_OUT, worker


def read_block_list(path: str) -> list[str]:
    """Worker ids, one a line; ``#`` begins a comment.

    Raises:
      InputError: the file cannot be read, or a line is no worker id; the message does not repeat it.
    """
    try:
        text = Path(path).read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot be read: {error}", path) from None
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        worker = line.partition("#")[0].strip()
        if worker and not _WORKER.fullmatch(worker):
            raise InputError("not a worker id: an A, then capital letters and digits", path, f"row {number}")
        if worker:
            found.append(worker)
    return found
