"""The state of a batch: published HITs, submissions, payments, deadlines and cost. Does not use the network.

``ledger.csv`` lists every approved assignment and every bonus, to the cent; ``status.html`` shows the state as a page.
"""

import csv
import io
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

import msgspec

from parapet.transforms.core import disk
from parapet.transforms.crowd.answer_files import read_time, worker_hash
from parapet.transforms.crowd.hits.terms import CENT, fee_for, up_to_cent
from parapet.transforms.crowd.mturk.batch import VERDICTS, Batch, Line, PublishedHit, environment_of
from parapet.transforms.crowd.report import WORK_TIMES, Work, work_times
from parapet.transforms.report import numbers, report
from parapet.transforms.report.text import aligned, number

LEDGER, PAGE = "ledger.csv", "status.html"

# The requester should have this much time to look before MTurk pays automatically.
SOON = timedelta(hours=24)

# The column headings of the table.
HEAD = (
    "HITs", "wanted", "in", "waiting", "approved", "rejected", "out", "offer ends", "auto-approval", "paid", "at most",
)  # fmt: skip


class Row(msgspec.Struct, frozen=True):
    """A row of the ledger.

    Attributes:
      kind: ``reward``, ``bonus`` or ``rejected`` (which costs nothing).
      amount: dollars paid to the worker. ``fee``: dollars paid to MTurk, not rounded.
      by: ``us``, or ``elsewhere`` for the site, another program, or MTurk's auto-approval.
      at: the time when the payment was observed, ISO 8601.
    """

    kind: str
    task_id: str
    hit_id: str
    assignment_id: str
    worker_hash: str
    amount: Decimal
    fee: Decimal
    by: str
    at: str


def ledger_rows(batch: Batch, lines: Iterable[Line]) -> list[Row]:
    """Lists every known payment, sorted by task, HIT, assignment and kind.

    Args:
      batch: the batch.
      lines: the collected assignments.
    """
    hits, by_us = batch.hits(), batch.journal.with_prefix("pay")
    rows = []
    for line in lines:
        assignment_id, hit = line["AssignmentId"], hits.get(line["HITId"])
        facts = by_us.get(assignment_id, {})
        verdict = facts.get("verdict") or VERDICTS.get(line["AssignmentStatus"])
        if hit is not None and verdict:
            ids = (hit.task_id, hit.hit_id, assignment_id, worker_hash(batch.key, line["WorkerId"]))
            at = facts.get("at") or line.get("ApprovalTime") or line.get("RejectionTime") or ""
            money = (hit.reward, hit.fee) if verdict == "approve" else (Decimal(0), Decimal(0))
            kind = "reward" if verdict == "approve" else "rejected"
            rows.append(Row(kind, *ids, *money, facts.get("by", "elsewhere"), str(at)))
    for assignment_id, facts in batch.journal.with_prefix("bonus").items():
        hit, amount = hits[facts["hit_id"]], Decimal(facts["amount"])
        ids = (hit.task_id, hit.hit_id, assignment_id, facts["worker_hash"])
        # MTurk's fee for a bonus is that for one assignment.
        rows.append(Row("bonus", *ids, amount, fee_for(amount, 1), facts["by"], facts["at"]))
    return sorted(rows, key=lambda row: (row.task_id, row.hit_id, row.assignment_id, row.kind))


def write_ledger(batch: Batch, rows: Iterable[Row]) -> None:
    """Writes ``ledger.csv`` without worker ids and with money as plain decimals."""
    text = io.StringIO(newline="")
    rounded = (msgspec.structs.replace(row, fee=row.fee.quantize(CENT / 100)) for row in rows)
    csv.writer(text, lineterminator="\n").writerows([Row.__struct_fields__, *map(msgspec.structs.astuple, rounded)])
    disk.write(batch.folder / LEDGER, text.getvalue().encode())


class TaskStatus(msgspec.Struct, frozen=True):
    """The state of one task, or of all together.

    Attributes:
      hits: the number of published HITs. ``gone``: of these, deleted elsewhere.
      wanted: the number of assignments requested. ``submitted``: submitted, whatever their status.
      approved: the number of approved submissions, as ``rejected`` and ``waiting`` (for payment) are of the others.
      out: open places without a submission.
      offer_ends: the time when the first HIT with open places expires; None if there is none.
      auto_approval: the time when MTurk automatically pays the first waiting assignment; None if none is waiting.
      paid: dollars so far, including fees and bonuses, rounded up to the cent for each task.
      committed: dollars at most, if every open or waiting place is taken and approved, rounded likewise.
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

    def cells(self) -> list[str]:
        """Returns the formatted numbers, in the order of :data:`HEAD`."""
        whole = (self.hits, self.wanted, self.submitted, self.waiting, self.approved, self.rejected, self.out)
        times = (f"{when:%d %b %H:%M}" if when else "" for when in (self.offer_ends, self.auto_approval))
        return [*(f"{n:,}" for n in whole), *times, f"${self.paid:,.2f}", f"${self.committed:,.2f}"]


class Status(msgspec.Struct, frozen=True):
    """The state of a whole batch.

    Attributes:
      environment: ``production``, ``sandbox`` or an address.
      collected_at: the time when ``collect`` last finished, ISO 8601; ``""`` if never.
      unclear: the number of calls with an unknown outcome, which the next run of their command looks up.
      workers: the number of workers with a submission.
      most_per_worker: the number of assignments that the busiest worker has submitted.
      max_per_worker: the limit of this number; 0 for none.
      work: median time and pay by kind of task, see :func:`work_times`.
    """

    environment: str
    collected_at: str
    unclear: dict[str, int]
    workers: int
    most_per_worker: int
    max_per_worker: int
    work: dict[str, dict[str, Any]]
    tasks: list[TaskStatus]
    total: TaskStatus


def status_of(batch: Batch, lines: Sequence[Line], rows: Sequence[Row]) -> Status:
    """Computes the state from the journal and ``assignments.jsonl``.

    Args:
      batch: the batch.
      lines: the collected assignments.
      rows: the rows of the ledger.
    """
    hits = batch.hits()
    by_task: dict[str, tuple[list[PublishedHit], list[Line], list[Row]]] = {}
    for hit in sorted(hits.values(), key=lambda hit: hit.task_id):
        by_task.setdefault(hit.task_id, ([], [], []))[0].append(hit)
    for line in lines:
        if line["HITId"] in hits:
            by_task[hits[line["HITId"]].task_id][1].append(line)
    for row in rows:
        by_task[row.task_id][2].append(row)
    tasks = [_add_up(task_id, *parts) for task_id, parts in by_task.items()]
    total = _add_up("total", list(hits.values()), lines, rows)
    money = {name: sum((getattr(task, name) for task in tasks), Decimal(0)) for name in ("paid", "committed")}
    collected_at = batch.journal.done.get("collected", {}).get("at", "")
    unclear = dict(Counter(facts["operation"] for facts in batch.journal.open.values()))
    by_worker = Counter(line["WorkerId"] for line in lines)
    return Status(
        environment=environment_of(batch.endpoint),
        collected_at=collected_at,
        unclear=unclear,
        workers=len(by_worker),
        most_per_worker=max(by_worker.values(), default=0),
        max_per_worker=batch.settings.max_per_worker,
        work=work_times(_work(line, hits[line["HITId"]]) for line in lines if line["HITId"] in hits),
        tasks=tasks,
        total=msgspec.structs.replace(total, **money),
    )


def _work(line: Line, hit: PublishedHit) -> Work:
    accepted, submitted = (read_time(line.get(name, ""))[0] for name in ("AcceptTime", "SubmitTime"))
    seconds = None if accepted is None or submitted is None else submitted - accepted
    return hit.task_id.rpartition(":")[2], seconds, hit.reward


def _add_up(task_id: str, hits: Sequence[PublishedHit], lines: Sequence[Line], rows: Sequence[Row]) -> TaskStatus:
    settled = {row.assignment_id: row.kind for row in rows if row.kind != "bonus"}
    kinds = Counter(settled.values())
    submitted = Counter(line["HITId"] for line in lines)
    settled_of_hit = Counter(line["HITId"] for line in lines if line["AssignmentId"] in settled)
    waiting = [line for line in lines if line["AssignmentId"] not in settled]
    deadlines = [datetime.fromisoformat(line["AutoApprovalTime"]) for line in waiting if line.get("AutoApprovalTime")]
    there = [hit for hit in hits if not hit.gone]
    open_hits = [hit for hit in there if hit.assignments > submitted[hit.hit_id]]
    unsettled = ((hit.reward + hit.fee) * max(0, hit.assignments - settled_of_hit[hit.hit_id]) for hit in there)
    paid = sum((row.amount + row.fee for row in rows), Decimal(0))
    return TaskStatus(
        task_id=task_id,
        hits=len(hits),
        gone=len(hits) - len(there),
        wanted=sum(hit.assignments for hit in hits),
        submitted=len(lines),
        approved=kinds["reward"],
        rejected=kinds["rejected"],
        waiting=len(waiting),
        out=sum(hit.assignments - submitted[hit.hit_id] for hit in open_hits),
        offer_ends=min((hit.expiration for hit in open_hits), default=None),
        auto_approval=min(deadlines, default=None),
        paid=up_to_cent(paid),
        committed=up_to_cent(sum(unsettled, paid)),
    )


def warnings(status: Status, now: datetime) -> list[str]:
    """Lists what the requester should act on, most urgent first."""
    total, urgent = status.total, []
    if total.auto_approval is not None and total.auto_approval < now + SOON:
        urgent.append(
            f"{total.waiting} assignments wait for a decision, and MTurk approves and pays them automatically from "
            f"{total.auto_approval:%Y-%m-%d %H:%M} UTC on: run 'parapet mturk pay' before that to reject some"
        )
    if total.gone:
        tasks = ", ".join(task.task_id for task in status.tasks if task.gone)
        what = f"{total.gone} HITs were deleted at MTurk"
        urgent.append(f"{what}: make new HITs for the answers that they lacked: {tasks}")
    if 0 < status.max_per_worker < status.most_per_worker:
        urgent.append(
            f"a worker has submitted {status.most_per_worker} assignments, and --max_per_worker is "
            f"{status.max_per_worker}: run 'parapet mturk collect' more often, which keeps workers from further ones"
        )
    for operation, n in sorted(status.unclear.items()):
        urgent.append(f"{n} calls of {operation} were interrupted or refused: run the same command again")
    return urgent


def table(status: Status, most: int = 40) -> str:
    """Formats the tasks as aligned text with the total last; only the total if there are more than ``most`` tasks."""
    tasks = [*(status.tasks if len(status.tasks) <= most else []), status.total]
    return aligned([["", *HEAD], *([task.task_id, *task.cells()] for task in tasks)])


def status_report(status: Status, warnings: Sequence[str]) -> report.Report:
    """Makes the report on a batch's state.

    Args:
      status: the result of :func:`status_of`.
      warnings: problems that need action, the most urgent first.
    """
    total = status.total
    places = {"production": "In production: real workers, real money", "sandbox": "In MTurk's sandbox"}
    place = places.get(status.environment, f"At {status.environment}")
    collected_at = status.collected_at[:16].replace("T", " ")
    when = f"As of {collected_at} UTC, when it was last collected." if collected_at else "Nothing was collected yet."
    return report.Report(
        command="mturk",
        title="A batch on MTurk",
        headline="Status of the batch",
        lead=f"{place}. {when}",
        notes=warnings,
        tiles=[
            report.Tile("assignments submitted", f"{total.submitted:,} of {total.wanted:,}"),
            report.Tile("assignments open", number(total.out)),
            report.Tile("waiting for payment", number(total.waiting)),
            report.Tile("workers", number(status.workers)),
            report.Tile("assignments of the busiest worker", number(status.most_per_worker)),
            report.Tile("paid so far, with fees", f"${total.paid:,.2f}"),
            report.Tile("at most, if all is approved", f"${total.committed:,.2f}"),
        ],
        sections=[
            report.Bars(
                title="Assignments",
                note=f"{total.submitted:,} of {total.wanted:,} assignments are submitted.",
                dots=[
                    report.Dot("approved", total.approved),
                    report.Dot("waiting for payment", total.waiting),
                    report.Dot("rejected", total.rejected),
                    report.Dot("not submitted yet", total.out),
                ],
            ),
            report.Table(
                title="Tasks",
                note="Times are UTC. “Offer ends” is when the first HIT with open assignments expires; “auto-approval” "
                "is when MTurk approves and pays the first waiting assignment by itself. Amounts include MTurk's fees "
                "and bonuses.",
                columns=["task", *HEAD],
                rows=[*([task.task_id, *task.cells()] for task in status.tasks), ["All tasks", *total.cells()]],
                total_rows=1,
                numbers_in="parapet mturk status --json",
            ),
            *numbers.sections_of({"work": status.work}, WORK_TIMES),
        ],
        links={"ledger.csv": "every payment; workers are keyed hashes"},
    )
