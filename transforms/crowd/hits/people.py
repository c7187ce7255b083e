"""The number of people that a batch needs, and its cost on each platform."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import ROUND_CEILING, Decimal
from typing import TYPE_CHECKING

import msgspec

from parapet.schemas.service import TASKS
from parapet.transforms.crowd.hits.terms import CENT, plain

if TYPE_CHECKING:
    from parapet.transforms.crowd.hits.page import PageRecord, PlanRow

# Fraction of the reward. Prolific's fee for companies as of 2026: https://www.prolific.com/pricing
PROLIFIC_FEE = Decimal(1) / 3

# The fraction of answers that survive vetting and deduplication: about half in SGD-X's batches and in our sample.
YIELD = Decimal("0.5")
_OF_FIVE = "of the 5 that v1 to v5 need"


def needed_people(forms: Iterable[tuple[str, str, int]], limit: int | None = None) -> int:
    """Return the fewest people who can fill in all forms, if nobody does a form twice or both tasks of a service.

    Args:
      forms: (service, task, number of people) for each form; the service is empty for tasks that hide nothing.
      limit: maximum number of forms per person.
    """
    forms = list(forms)
    by_task: dict[tuple[str, str], int] = {}
    for service, task, wanted in forms:
        by_task[service, task] = max(wanted, by_task.get((service, task), 0))
    sides = (
        max((n for (service, side), n in by_task.items() if service and side == task), default=0) for task in TASKS
    )
    others = max((n for (service, _), n in by_task.items() if not service), default=0)
    least = max(sum(sides), others)
    if limit is None:
        return least
    total = Decimal(sum(wanted for *_, wanted in forms)) / limit
    return max(least, int(total.to_integral_value(ROUND_CEILING)))


class People(msgspec.Struct, frozen=True):
    """The number of people a batch needs, and its cost on each platform, in dollars.

    Attributes:
      needed: the minimum number of people.
      by_task: the number of people for each task; names and descriptions need different people.
      cost: platform to the rewards including its fees.
      good: for schema tasks, the expected number of good answers per element; None for other tasks.
    """

    needed: int
    by_task: dict[str, int]
    cost: dict[str, Decimal]
    good: Decimal | None = None

    def to_json(self) -> dict[str, object]:
        """Return the entry of ``plan.json``."""
        return {
            "needed": self.needed,
            "by_task": self.by_task,
            "cost": {name: plain(n) for name, n in self.cost.items()},
        }

    def lines(self) -> list[str]:
        """Describe the numbers in sentences."""
        if not self.needed:
            return []
        shares = ""
        if len(self.by_task) > 1:
            each = " and ".join(f"{n:,} for {task}" for task, n in self.by_task.items())
            shares = f" ({each}; they must be different people, so that nobody sees the texts to be paraphrased)"
        cost = self.cost
        good = "" if self.good is None else f"; expect about {self.good:f} good answers per element, {_OF_FIVE}"
        return [
            f"people needed: {self.needed:,}{shares}{good}",
            (
                f"cost: ${cost['mturk']:,.2f} on MTurk; about ${cost['prolific']:,.2f} on Prolific (with a fee "
                f"of about a third; check it at prolific.com/pricing); ${cost['in_house']:,.2f} in wages for "
                "your own annotators"
            ),
        ]


def people_of(records: Iterable[PageRecord], total: PlanRow) -> People:
    """Compute the number of people and the cost for pages.

    Args:
      records: the records of all pages.
      total: their cost on MTurk.
    """
    forms = [(r.service_name if r.task in TASKS else "", r.task, r.assignments) for r in records]
    by_task: dict[str, int] = {}
    for _, task, n in forms:
        by_task[task] = max(n, by_task.get(task, 0))
    cost = {
        "mturk": total.cost,
        "prolific": (total.reward * (1 + PROLIFIC_FEE)).quantize(CENT, ROUND_CEILING),
        "in_house": total.reward,
    }
    of_schemas = [n for task, n in by_task.items() if task in TASKS]
    good = (YIELD * min(of_schemas)).normalize() if of_schemas else None
    return People(needed_people(forms), by_task, cost, good)
