"""How a batch stands: what is out, in, settled and about to end, and what it has cost. Reads no network."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

import msgspec

from parapet.transforms.mturk import ledger
from parapet.transforms.mturk.batch import Batch, OutHit
from parapet.transforms.mturk.collected import Line

# Before MTurk pays by itself there should be time to look.
SOON = timedelta(hours=24)


# The columns of the table, as people read them.
HEAD = (
    "HITs", "wanted", "in", "waiting", "approved", "rejected", "out", "offer ends", "auto-approval", "paid", "at most",
)  # fmt: skip


class TaskStatus(msgspec.Struct, frozen=True):
    """One task, or all together.

    Attributes:
      hits: HITs that are out. ``gone``: of those, deleted elsewhere.
      wanted: assignments asked for. ``submitted``: that are in, whatever became of them.
      approved: of those in. ``rejected`` and ``waiting`` (for payment) too.
      out: places that nobody has handed in yet.
      offer_ends: when the first HIT with such places goes off offer; None where there is none.
      auto_approval: when MTurk pays the first waiting assignment by itself; None where none waits.
      paid: dollars so far, fees and bonuses included, in cents. Of all together it is the exact sum, rounded up once;
        the figures of the tasks add up to it.
      committed: dollars if every place that is not settled is taken and approved: the most that it can still cost.
    """

    task_id: str
    hits: int
    gone: int
    wanted: int
    submitted: int
    approved: int
    rejected: int
    waiting: int
    out: int
    offer_ends: datetime | None
    auto_approval: datetime | None
    paid: Decimal
    committed: Decimal


class Status(msgspec.Struct, frozen=True):
    """The whole batch.

    Attributes:
      environment: ``production``, ``sandbox`` or an address.
      collected_at: when ``collect`` last ended, ISO 8601; ``""`` if never.
      unclear: calls that were begun and whose end is not known; the next run of their command looks them up.
      workers: how many have handed something in.
    """

    environment: str
    collected_at: str
    unclear: dict[str, int]
    workers: int
    tasks: list[TaskStatus]
    total: TaskStatus


def status_of(batch: Batch, lines: Sequence[Line], key: bytes) -> Status:
    """Adds up what the journal and ``assignments.jsonl`` say.

    Args:
      batch: the batch.
      lines: what was collected.
      key: for the workers' hashes in the ledger.
    """
    hits_of: dict[str, list[OutHit]] = {}
    for hit in batch.hits().values():
        hits_of.setdefault(hit.task_id, []).append(hit)
    lines_of: dict[str, list[Line]] = {}
    for line in lines:
        lines_of.setdefault(line["HITId"], []).append(line)
    rows = ledger.rows_of(batch, lines, key)
    settled = {row.assignment_id: row.kind for row in rows if row.kind != "bonus"}
    rows_of: dict[str, list[ledger.Row]] = {}
    for row in rows:
        rows_of.setdefault(row.task_id, []).append(row)
    tasks = [
        _add_up(
            task_id,
            hits,
            [line for hit in hits for line in lines_of.get(hit.hit_id, [])],
            settled,
            rows_of.get(task_id, []),
        )
        for task_id, hits in sorted(hits_of.items())
    ]
    paid = ledger.in_cents(task.paid for task in tasks)
    still = ledger.in_cents(task.committed - task.paid for task in tasks)
    tasks = [
        msgspec.structs.replace(task, paid=cents, committed=cents + more)
        for task, cents, more in zip(tasks, paid, still, strict=True)
    ]
    everything = [hit for hits in hits_of.values() for hit in hits]
    total = _add_up("total", everything, lines, settled, rows)
    total = msgspec.structs.replace(total, paid=sum(paid, Decimal(0)), committed=sum((*paid, *still), Decimal(0)))
    unclear: dict[str, int] = {}
    for facts in batch.journal.open.values():
        unclear[facts["operation"]] = unclear.get(facts["operation"], 0) + 1
    return Status(
        batch.environment,
        batch.journal.done.get("collected", {}).get("at", ""),
        unclear,
        len({line["WorkerId"] for line in lines}),
        tasks,
        total,
    )


def _add_up(
    task_id: str, hits: Iterable[OutHit], lines: Sequence[Line], settled: dict[str, str], rows: list[ledger.Row]
) -> TaskStatus:
    """The figures; money is not rounded yet."""
    hits = list(hits)
    in_by_hit: dict[str, int] = {}
    for line in lines:
        in_by_hit[line["HITId"]] = in_by_hit.get(line["HITId"], 0) + 1
    open_hits = [hit for hit in hits if not hit.gone and hit.wanted > in_by_hit.get(hit.hit_id, 0)]
    waiting = [line for line in lines if line["AssignmentId"] not in settled]
    deadlines = [datetime.fromisoformat(line["AutoApprovalTime"]) for line in waiting if line.get("AutoApprovalTime")]
    fates = [settled.get(line["AssignmentId"]) for line in lines]
    unsettled = {hit.hit_id: 0 if hit.gone else hit.wanted for hit in hits}
    for line in lines:
        if line["AssignmentId"] in settled and unsettled[line["HITId"]]:
            unsettled[line["HITId"]] -= 1
    open_money = sum(((hit.reward + hit.fee) * unsettled[hit.hit_id] for hit in hits), Decimal(0))
    return TaskStatus(
        task_id=task_id,
        hits=len(hits),
        gone=sum(hit.gone for hit in hits),
        wanted=sum(hit.wanted for hit in hits),
        submitted=len(lines),
        approved=fates.count("reward"),
        rejected=fates.count("rejected"),
        waiting=len(waiting),
        out=sum(hit.wanted - in_by_hit.get(hit.hit_id, 0) for hit in open_hits),
        offer_ends=min((hit.expiration for hit in open_hits), default=None),
        auto_approval=min(deadlines, default=None),
        paid=ledger.total(rows),
        committed=open_money + ledger.total(rows),
    )


def to_json(status: Status) -> Any:
    """The same as JSON: money as strings, times in ISO 8601."""
    return msgspec.to_builtins(status)


def warnings(status: Status, now: datetime) -> list[str]:
    """What a requester should act on, most urgent first."""
    total, found = status.total, []
    if total.auto_approval is not None and total.auto_approval < now + SOON:
        found.append(
            f"MTurk approves and pays by itself from {_time(total.auto_approval)} on: {total.waiting} assignments "
            "wait; run 'parapet mturk pay' before that if some are to be rejected"
        )
    if total.offer_ends is not None and total.offer_ends < now + SOON:
        ended = "ended" if total.offer_ends < now else "ends"
        found.append(
            f"the offer of HITs with {total.out} places that nobody has taken {ended} {_time(total.offer_ends)}; "
            "'parapet mturk topup --shortfall' puts them on offer again"
        )
    if total.gone:
        found.append(f"{total.gone} HITs were deleted elsewhere: what they lacked needs new ones")
    for operation, n in sorted(status.unclear.items()):
        found.append(f"{n} calls of {operation} were cut off or refused: run the same command again")
    return found


def _time(when: datetime) -> str:
    return f"{when:%Y-%m-%d %H:%M} UTC"


def table(status: Status, most: int = 40) -> str:
    """The tasks as aligned text, the total last; of more than ``most`` tasks only the total."""
    head = ["", *HEAD]
    shown = [*(status.tasks if len(status.tasks) <= most else []), status.total]
    rows = [head, *([_name(task), *cells(task)] for task in shown)]
    widths = [max(len(row[i]) for row in rows) for i in range(len(head))]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if i == 0 else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    )


def _name(task: TaskStatus) -> str:
    return task.task_id if len(task.task_id) <= 40 else task.task_id[:39] + "…"


def cells(task: TaskStatus) -> list[str]:
    """The figures of a task as a person reads them, in the order of the table."""
    whole = (task.hits, task.wanted, task.submitted, task.waiting, task.approved, task.rejected, task.out)
    times = (f"{when:%Y-%m-%d %H:%M}" if when else "" for when in (task.offer_ends, task.auto_approval))
    return [*(f"{n:,}" for n in whole), *times, f"${task.paid:,.2f}", f"${task.committed:,.2f}"]
