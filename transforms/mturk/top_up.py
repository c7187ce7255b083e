"""Topping up: more workers for HITs that are out, where elements are short of good answers.

The other way, new HITs that ask only for what is missing, is ``publish`` with a folder of ``parapet hits --shortfall``.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import msgspec

from parapet.schemas.errors import InputError
from parapet.transforms.hits.page import top_up_assignments
from parapet.transforms.hits.terms import up_to_cent
from parapet.transforms.mturk.batch import Batch, OutHit
from parapet.transforms.mturk.calls import Call, Failure, Told, perform
from parapet.transforms.mturk.client import code_of, explaining
from parapet.transforms.mturk.collect import GONE
from parapet.transforms.mturk.decide import read_rows
from parapet.transforms.mturk.hits_folder import MOST

DUPLICATE = frozenset({"DuplicateRequest", "InvalidMaximumAssignmentsIncrease"})

# A HIT that ends sooner than this is put on offer for its lifetime again.
_SOON = timedelta(days=1)


class Addition(msgspec.Struct, frozen=True):
    """More workers for one HIT.

    Attributes:
      workers: how many more are asked for.
      to: the HIT's assignments after that.
      reopen: whether its time on offer has to be prolonged.
      cost: dollars, fees included.
    """

    hit_id: str
    task_id: str
    workers: int
    to: int
    reopen: bool
    cost: Decimal


class Plan(msgspec.Struct, frozen=True):
    """What a shortfall comes to.

    Attributes:
      digest: of the shortfall file; a top-up from one file is made once.
      full: task ids whose HITs have no room left below ten assignments: they need new HITs.
      unknown: task ids that the batch has no HIT of.
    """

    digest: str
    additions: list[Addition]
    full: list[str]
    unknown: list[str]


def read_lacks(path: str) -> tuple[str, dict[tuple[str, str], int]]:
    """The digest of a shortfall file, and what it lacks: (task id, form field) to good answers.

    Raises:
      InputError: not a ``shortfall.csv`` of ``compose``; with the row.
    """
    found: dict[tuple[str, str], int] = {}
    for number, row in read_rows(path, ("service_name", "task", "field", "have", "need")):
        try:
            lacks = max(1, int(row["need"]) - int(row["have"]))
        except ValueError:
            raise InputError("'have' and 'need' are not numbers", path, f"row {number}") from None
        found[f"{row['service_name']}:{row['task']}", row["field"]] = lacks
    if not found:
        raise InputError("nothing is missing: there is nothing to ask for", path)
    # With the manifest beside it: the same elements may be short again after other answers have come in.
    beside = Path(path).with_name("run.json")
    data = Path(path).read_bytes() + (beside.read_bytes() if beside.exists() else b"")
    return hashlib.sha256(data).hexdigest()[:16], found


def plan(
    batch: Batch, digest: str, lacks: Mapping[tuple[str, str], int], submitted: Mapping[str, int], now: datetime
) -> Plan:
    """How many more workers each HIT needs.

    Args:
      batch: the open batch.
      digest: of :func:`read_lacks`. ``lacks`` too.
      submitted: HIT id to assignments collected.
      now: with a time zone.
    """
    need: dict[str, int] = {}
    full, seen = set(), set()
    hits = {hit_id: hit for hit_id, hit in batch.hits().items() if not hit.gone}
    asking: dict[tuple[str, str], list[OutHit]] = {}
    for hit in hits.values():
        for field in hit.fields:
            asking.setdefault((hit.task_id, field), []).append(hit)
    for (task_id, field), missing in lacks.items():
        if (task_id, field) in asking:
            seen.add(task_id)
            chosen = min(asking[task_id, field], key=lambda hit: hit.wanted)  # the one with the most room
            need[chosen.hit_id] = max(need.get(chosen.hit_id, 0), top_up_assignments(missing))
    additions = []
    for hit_id, workers in need.items():
        hit = hits[hit_id]
        still_out = max(0, hit.wanted - submitted.get(hit_id, 0))  # places that nobody has taken yet
        room = MOST - hit.wanted if hit.assignments <= MOST else workers
        more = max(0, min(workers - still_out, room))
        if f"add:{digest}:{hit_id}" in batch.journal.done:
            continue
        if more < workers - still_out:
            full.add(hit.task_id)
        reopen = hit.expiration < now + _SOON and more + still_out > 0
        if more or reopen:
            cost = hit.reward * more + up_to_cent(hit.fee * more)
            additions.append(Addition(hit_id, hit.task_id, more, hit.wanted + more, reopen, cost))
    unknown = sorted({task_id for task_id, _ in lacks} - seen)
    return Plan(digest, additions, sorted(full), unknown)


def top_up(
    client: Any,
    batch: Batch,
    additions: Sequence[Addition],
    digest: str,
    now: datetime,
    told: Told | None = None,
    parallel: int = 1,
) -> list[Failure]:
    """Asks for more workers, and prolongs what has run out; gives what MTurk refused.

    Raises:
      InputError: no further call can go well; run it again when that is mended.
    """
    from botocore.exceptions import ClientError

    hits = batch.hits()
    prolong = [
        Call(
            f"prolong:{digest}:{each.hit_id}",
            "update_expiration_for_hit",
            {"HITId": each.hit_id, "ExpireAt": now + timedelta(seconds=hits[each.hit_id].lifetime_seconds)},
        )
        for each in additions
        if each.reopen and f"prolong:{digest}:{each.hit_id}" not in batch.journal.done
    ]

    def do_prolong(call: Call) -> dict[str, Any]:
        try:
            client.update_expiration_for_hit(**call.arguments)
        except ClientError:
            # An earlier attempt may have gone through: MTurk refuses the same end twice.
            end = client.get_hit(HITId=call.arguments["HITId"])["HIT"]["Expiration"]
            if abs(end - call.arguments["ExpireAt"]) > timedelta(seconds=2):
                raise
        return {"hit_id": call.arguments["HITId"], "expiration": call.arguments["ExpireAt"].isoformat()}

    failures = perform(batch.journal, prolong, do_prolong, parallel)
    add = [
        Call(
            f"add:{digest}:{each.hit_id}",
            "create_additional_assignments_for_hit",
            {
                "HITId": each.hit_id,
                "NumberOfAdditionalAssignments": each.workers,
                "UniqueRequestToken": batch.token(f"add:{digest}:{each.hit_id}"),
            },
            {"hit_id": each.hit_id, "to": each.to, "workers": each.workers},
        )
        for each in additions
        if each.workers and f"add:{digest}:{each.hit_id}" not in batch.journal.done
    ]
    failures += perform(batch.journal, add, lambda call: _add(client, call), parallel, told)
    return failures


def look_up(client: Any, batch: Batch) -> None:
    """Finds out what became of calls for more workers that were cut off: the HITs tell. To be called before a plan.

    A request token lives for a day only, and the plan may be another one by now.

    Raises:
      InputError: MTurk does not answer, or refuses.
    """
    hits = batch.hits()
    for key, facts in list(batch.journal.open.items()):
        if not key.startswith("add:") or hits[facts["hit_id"]].gone:
            continue
        with explaining("get_hit"):
            try:
                now = int(client.get_hit(HITId=facts["hit_id"])["HIT"]["MaxAssignments"])
            except Exception as error:
                if code_of(error) != GONE:
                    raise
                continue
        if now >= facts["to"]:
            batch.journal.write([("done", key, "get_hit", {"to": now})])


def _size(client: Any, call: Call) -> int:
    return int(client.get_hit(HITId=call.arguments["HITId"])["HIT"]["MaxAssignments"])


def _add(client: Any, call: Call) -> dict[str, Any]:
    from botocore.exceptions import ClientError

    try:
        client.create_additional_assignments_for_hit(**call.arguments)
    except ClientError as error:
        if code_of(error) not in DUPLICATE or _size(client, call) < call.facts["to"]:
            raise
    return {}
