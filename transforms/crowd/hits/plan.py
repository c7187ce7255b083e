"""The cost of pages, and top-ups for what ``compose`` still needs. All amounts of money are Decimal."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from decimal import ROUND_DOWN, Decimal
from operator import itemgetter
from typing import Literal

import msgspec

from parapet.schemas.errors import InputError
from parapet.schemas.service import TASKS
from parapet.transforms.crowd.answer_files import read_rows
from parapet.transforms.crowd.hits.page import NotAsked, PageRecord, Settings
from parapet.transforms.crowd.hits.terms import CENT, EXTRA_FEE_FROM, HOUR, HitTask, Terms, fee_rate
from parapet.transforms.report.text import aligned, counted

# The assignments of a worker of SGD-X, whose authors paid 1 to 2 dollars for each, 2,000 in all, to over 400 workers.
SPREAD = 3


class PlanRow(msgspec.Struct, frozen=True):
    """One row of the cost table.

    Attributes:
      hits: the number of HITs. ``fields`` is the number of their form fields, ``assignments`` of submissions.
      reward: dollars paid to workers. ``fees`` are paid to MTurk; ``cost`` is the sum.
      estimated_minutes: the estimate for all assignments together.
      hourly_pay: dollars per hour at the estimated pace, rounded down.
    """

    hits: int
    fields: int
    assignments: int
    reward: Decimal
    fees: Decimal
    cost: Decimal
    estimated_minutes: Decimal
    hourly_pay: Decimal

    def cells(self) -> list[str]:
        """Format the numbers, with hours instead of minutes."""
        numbers = (f"{number:,}" for number in (self.hits, self.fields, self.assignments))
        amounts = (f"${amount:,.2f}" for amount in (self.reward, self.fees, self.cost))
        return [*numbers, *amounts, f"{self.estimated_minutes / 60:,.1f}", f"${self.hourly_pay:,.2f}"]


class Plan(msgspec.Struct, frozen=True):
    """The content of ``plan.json``: the cost by task and in total, and what no page asks about."""

    currency: Literal["USD"]
    tasks: dict[HitTask, PlanRow]
    total: PlanRow
    fee_rate: Decimal
    terms: Terms
    not_asked: list[NotAsked]

    def not_asked_by_reason(self) -> dict[str, list[str]]:
        """Return reason to the sorted ids of tasks that are left out."""
        by_reason: dict[str, list[str]] = {}
        for each in sorted(self.not_asked, key=lambda each: each.reason):
            by_reason.setdefault(each.reason, []).append(each.task_id)
        return by_reason

    def cells(self) -> dict[str, list[str]]:
        """Return the cells of each row of the cost table."""
        return {**{task: row.cells() for task, row in self.tasks.items()}, "total": self.total.cells()}

    def workers(self) -> str:
        """Say how few workers could do everything, see :func:`workers_needed`."""
        hits = [(task, self.terms.assignments) for task, row in self.tasks.items() for _ in range(row.hits)]
        return workers_needed(hits, self.terms.max_per_worker)

    def table(self) -> str:
        """Format the cost table as aligned text."""
        head = ["", "HITs", "fields", "assignments", "reward", "fees", "cost", "hours", "pay an hour"]
        return aligned([head, *([name, *cells] for name, cells in self.cells().items())])


def make_plan(records: Iterable[PageRecord], not_asked: Iterable[NotAsked], settings: Settings) -> Plan:
    """Add up the pages, and sort what is not asked. Raises InputError if there is nothing to ask about."""
    terms = settings.terms
    # Of each page, which may be large, only what its cost depends on.
    sizes = [(each.task, len(each.fields), each.reward, each.estimated_seconds) for each in records]
    left_out = sorted(not_asked, key=lambda each: (each.task_id, each.element_id, each.reason))
    if not sizes and not left_out:  # of services and utterances, there is always something to ask
        raise InputError("contains no user turns, so nothing was written", "--dialogues")
    tasks = {task: _row([size for size in sizes if size[0] == task], terms) for task in settings.tasks}
    return Plan("USD", tasks, _row(sizes, terms), fee_rate(terms.assignments), terms, left_out)


def _row(pages: Sequence[tuple[HitTask, int, Decimal, int]], terms: Terms) -> PlanRow:
    fields = sum(n for _, n, _, _ in pages)
    seconds = sum(estimate for _, _, _, estimate in pages) * terms.assignments
    reward = sum((of_page for _, _, of_page, _ in pages), Decimal("0.00")) * terms.assignments
    fees = sum((terms.fees_for(of_page) for _, _, of_page, _ in pages), Decimal("0.00"))
    minutes = (Decimal(seconds) / 60).quantize(Decimal("0.1"))
    hourly_pay = (reward * HOUR / seconds if seconds else reward).quantize(CENT, rounding=ROUND_DOWN)
    return PlanRow(len(pages), fields, len(pages) * terms.assignments, reward, fees, reward + fees, minutes, hourly_pay)


def least_workers(hits: Sequence[tuple[HitTask, int]], limit: int) -> int:
    """Return how few workers can do all assignments.

    The assignments of a HIT are for different workers, and nobody may do both tasks of a service.

    Args:
      hits: the task of each HIT, and its number of assignments.
      limit: the number of assignments that one worker may do; 0 for any.
    """
    most = dict(sorted(hits, key=itemgetter(1)))
    assignments = sum(n for _, n in hits)
    return max(sum(most.values()), -(-assignments // limit) if limit else 0)


def workers_needed(hits: Sequence[tuple[HitTask, int]], limit: int) -> str:
    """Say how few workers could do all assignments, and which limit would make the texts of schemas diverse."""
    least = counted(least_workers(hits, limit), "worker")
    if limit:
        return f"with --max_per_worker {limit}, at least {least} must take part"
    if not any(task in TASKS for task, _ in hits):
        return f"as few as {least} could do everything"
    spread = f"with --max_per_worker {SPREAD}, at least {least_workers(hits, SPREAD):,}"
    return f"as few as {least} could do everything; {spread} (SGD-X had over 400, about {SPREAD} each)"


def top_up_assignments(most_missing: int) -> int:
    """Return the workers per HIT for ``most_missing`` good answers, below the higher fee: about half are good."""
    return max(1, min(EXTRA_FEE_FROM - 1, 2 * most_missing))


def read_shortfall(path: str) -> dict[tuple[str, str], int]:
    """Read what a ``shortfall.csv`` of ``compose`` lists: (task id, form field) to the number of missing good answers.

    Raises:
      InputError: the file is not a shortfall file, or lists nothing; with the row.
    """
    lacks: dict[tuple[str, str], int] = {}
    for number, row in read_rows(path, ("service_name", "task", "field", "have", "need")):
        try:
            missing = max(1, int(row["need"]) - int(row["have"]))
        except ValueError:
            raise InputError("'have' and 'need' must be numbers", path, f"row {number}") from None
        lacks[f"{row['service_name']}:{row['task']}", row["field"]] = missing
    if not lacks:
        raise InputError("no answers are missing, so there is nothing to ask for", path)
    return lacks
