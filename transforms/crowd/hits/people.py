"""How many people a batch needs, and what it costs where it can be done."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import ROUND_CEILING, Decimal
from typing import TYPE_CHECKING

import msgspec

from parapet.schemas.service import TASKS
from parapet.transforms.crowd.hits.terms import CENT, plain

if TYPE_CHECKING:
    from parapet.transforms.crowd.hits.page import PageRecord, PlanRow

# Of the reward. Prolific's share for companies as of 2026, which it may change: https://www.prolific.com/pricing
PROLIFIC_FEE = Decimal(1) / 3

# The share of answers that survive vetting and deduplication: about half, of SGD-X's batches and of our sample.
YIELD = Decimal("0.5")
_OF_FIVE = "of the 5 that v1 to v5 need"


def needed_people(forms: Iterable[tuple[str, str, int]], limit: int | None = None) -> int:
    """The fewest people who can fill in all forms, none of them one form twice or both tasks of a service.

    Args:
      forms: (service, task, number of people wanted) of each; the service is empty where no task hides anything.
      limit: how many forms one person may do.
    """
    forms = list(forms)
    by_task: dict[tuple[str, str], int] = {}
    for service, task, wanted in forms:
        by_task[service, task] = max(wanted, by_task.get((service, task), 0))
    sides = (max((n for (service, of), n in by_task.items() if service and of == task), default=0) for task in TASKS)
    others = max((n for (service, _), n in by_task.items() if not service), default=0)
    least = max(sum(sides), others)
    if limit is None:
        return least
    total = Decimal(sum(wanted for *_, wanted in forms)) / limit
    return max(least, int(total.to_integral_value(ROUND_CEILING)))


class People(msgspec.Struct, frozen=True):
    """What a batch needs of people, and costs on each platform, in dollars.

    Attributes:
      needed: the fewest people who can do it.
      by_task: of these, how many for each task; of names and descriptions, different ones.
      cost: platform to the rewards with its fees.
      good: of schema tasks, the good answers that are expected for each element; None of other tasks.
    """

    needed: int
    by_task: dict[str, int]
    cost: dict[str, Decimal]
    good: Decimal | None = None

    def to_json(self) -> dict[str, object]:
        """The part of ``plan.json``."""
        return {
            "needed": self.needed,
            "by_task": self.by_task,
            "cost": {name: plain(n) for name, n in self.cost.items()},
        }

    def lines(self) -> list[str]:
        """The same in sentences."""
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
    """What the pages need.

    Args:
      records: of all pages.
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
