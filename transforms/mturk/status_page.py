"""``status.html``: how a batch stands, as a page."""

from __future__ import annotations

from collections.abc import Sequence

from parapet.transforms.mturk.status import HEAD, Status, TaskStatus, cells
from parapet.transforms.pages import render
from parapet.transforms.svg import Part, stacked

FILE = "status.html"

# A batch of rewriting tasks has thousands; the rest is in 'status --json'.
MAX_ROWS = 500


def status_page(status: Status, warnings: Sequence[str]) -> str:
    """The page, whole.

    Args:
      status: of :func:`parapet.transforms.mturk.status.status_of`.
      warnings: what to act on, most urgent first.
    """
    total = status.total
    parts = [
        Part("approved", total.approved, "used"),
        Part("waiting for payment", total.waiting, "review"),
        Part("rejected", total.rejected, "rejected"),
        Part("not handed in yet", total.out, "duplicate"),
    ]
    told = ", ".join(f"{part.name} {part.value:,.0f}" for part in parts)
    tiles = [
        {"what": "assignments are in", "value": f"{total.submitted:,} of {total.wanted:,}"},
        {"what": "places still open", "value": f"{total.out:,}"},
        {"what": "wait for payment", "value": f"{total.waiting:,}"},
        {"what": "workers", "value": f"{status.workers:,}"},
        {"what": "paid so far, fees included", "value": f"${total.paid:,.2f}"},
        {"what": "at most, if all is approved", "value": f"${total.committed:,.2f}"},
    ]
    hidden = max(0, len(status.tasks) - MAX_ROWS)
    return render(
        "mturk_status.html.jinja",
        title="A batch on MTurk",
        brand="mturk",
        headline="How the batch stands",
        lead=f"{_place(status.environment)}. {_when(status.collected_at)}",
        warnings=warnings,
        tiles=tiles,
        bar=stacked("assignments", "Assignments", told, parts),
        legend=[{"style": part.style, "name": part.name, "value": f"{part.value:,.0f}"} for part in parts],
        head=HEAD,
        rows=[(task.task_id, _cells(task)) for task in status.tasks[:MAX_ROWS]],
        total=_cells(total),
        hidden=hidden,
    )


def _cells(task: TaskStatus) -> list[str]:
    """As on the terminal, but for the times: shorter, so that the money beside them needs no scrolling."""
    found = cells(task)
    for column, when in (("offer ends", task.offer_ends), ("auto-approval", task.auto_approval)):
        found[HEAD.index(column)] = f"{when:%d %b %H:%M}" if when else ""
    return found


def _place(environment: str) -> str:
    return {"production": "In production: real workers, real money", "sandbox": "In MTurk's sandbox"}.get(
        environment, f"At {environment}"
    )


def _when(collected_at: str) -> str:
    if not collected_at:
        return "Nothing was collected yet."
    return f"As of {collected_at[:16].replace('T', ' ')} UTC, when it was last collected."
