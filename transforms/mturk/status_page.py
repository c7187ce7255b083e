"""``status.html``: the state of a batch as a report."""

from __future__ import annotations

from collections.abc import Sequence

from parapet.transforms.mturk.status import HEAD, Status, TaskStatus, cells
from parapet.transforms.report import Bars, Report, Series, Table, Tile
from parapet.transforms.text import number

FILE = "status.html"


def status_report(status: Status, warnings: Sequence[str]) -> Report:
    """The report.

    Args:
      status: of :func:`parapet.transforms.mturk.status.status_of`.
      warnings: what to act on, most urgent first.
    """
    total = status.total
    states = {
        "approved": total.approved,
        "waiting for payment": total.waiting,
        "rejected": total.rejected,
        "not submitted yet": total.out,
    }
    return Report(
        command="mturk",
        title="A batch on MTurk",
        headline="Status of the batch",
        lead=f"{_place(status.environment)}. {_when(status.collected_at)}",
        notes=warnings,
        tiles=[
            Tile("assignments submitted", f"{total.submitted:,} of {total.wanted:,}"),
            Tile("assignments open", number(total.out)),
            Tile("waiting for payment", number(total.waiting)),
            Tile("workers", number(status.workers)),
            Tile("paid so far, with fees", f"${total.paid:,.2f}"),
            Tile("at most, if all is approved", f"${total.committed:,.2f}"),
        ],
        sections=[
            Bars(title="Assignments", categories=list(states), series=[Series("", tuple(states.values()))]),
            Table(
                title="Tasks",
                note="Times are UTC. “Offer ends” is when the first HIT with open assignments expires; “auto-approval” "
                "is when MTurk approves and pays the first waiting assignment by itself. Amounts include MTurk's fees "
                "and bonuses.",
                columns=["task", *HEAD],
                rows=[*([task.task_id, *_cells(task)] for task in status.tasks), ["All tasks", *_cells(total)]],
                total_rows=1,
                numbers_in="parapet mturk status --json",
            ),
        ],
        links={"ledger.csv": "every payment; workers are keyed hashes"},
    )


def _cells(task: TaskStatus) -> list[str]:
    """As on the terminal, but for the times: shorter, so that the money beside them needs no scrolling."""
    row = cells(task)
    for column, when in (("offer ends", task.offer_ends), ("auto-approval", task.auto_approval)):
        row[HEAD.index(column)] = f"{when:%d %b %H:%M}" if when else ""
    return row


def _place(environment: str) -> str:
    return {"production": "In production: real workers, real money", "sandbox": "In MTurk's sandbox"}.get(
        environment, f"At {environment}"
    )


def _when(collected_at: str) -> str:
    if not collected_at:
        return "Nothing was collected yet."
    return f"As of {collected_at[:16].replace('T', ' ')} UTC, when it was last collected."
