"""What a set of HITs costs and pays, and the top-up that asks only for what ``compose`` found missing.

All money is Decimal.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from decimal import ROUND_DOWN, Decimal
from math import ceil
from typing import Any

import msgspec

from parapet.schemas.errors import InputError
from parapet.schemas.layout import as_path
from parapet.schemas.limits import read_text
from parapet.schemas.service import TASKS, Service, elements_of, task_id
from parapet.transforms.hits.records import NotAsked, PageRecord
from parapet.transforms.hits.terms import CENT, HOUR, HitTask, Terms, plain

# The share of answers that survive vetting and deduplication: about half, of SGD-X's batches and of our sample.
YIELD = 0.5

# With ten assignments MTurk's fee doubles.
MOST = 9

# (task id, form field): the fields of a top-up.
Fields = frozenset[tuple[str, str]]


class PlanRow(msgspec.Struct, frozen=True):
    """One row of the cost table.

    Attributes:
      hits: HITs. ``fields`` is the form fields on them, ``assignments`` the number of submissions.
      reward: dollars to the workers. ``fees`` go to MTurk; ``cost`` is the sum.
      estimated_minutes: of all assignments together.
      hourly_pay: dollars per hour of work at the estimated pace, rounded down.
      lowest_reward: dollars for an assignment of the smallest HIT. ``highest_reward`` of the largest.
    """

    hits: int
    fields: int
    assignments: int
    reward: Decimal
    fees: Decimal
    cost: Decimal
    estimated_minutes: Decimal
    hourly_pay: Decimal
    lowest_reward: Decimal
    highest_reward: Decimal


class Plan(msgspec.Struct, frozen=True):
    """The cost table, by task and in total."""

    terms: Terms
    rows: dict[str, PlanRow]
    not_asked: list[NotAsked]

    def to_json(self) -> dict[str, Any]:
        """``plan.json``."""
        rows = {
            name: {key: plain(getattr(row, key)) for key in row.__struct_fields__} for name, row in self.rows.items()
        }
        total = rows.pop("total")
        return {
            "currency": "USD",
            "tasks": rows,
            "total": total,
            "fee_rate": plain(self.terms.fee_rate()),
            "terms": self.terms.options(rows),
            "not_asked": msgspec.to_builtins(self.not_asked),
        }

    def not_asked_by_reason(self) -> dict[str, list[str]]:
        """Reason to the task ids of what is not asked; both sorted."""
        by_reason: dict[str, list[str]] = {}
        for each in sorted(self.not_asked, key=lambda each: each.reason):
            by_reason.setdefault(each.reason, []).append(each.task_id)
        return by_reason

    def table(self) -> str:
        """The cost table as aligned text."""
        head = ["", "HITs", "fields", "assignments", "reward", "fees", "cost", "hours", "pay an hour"]
        lines = [head, *([name, *cells] for name, cells in self.cells().items())]
        widths = [max(len(line[i]) for line in lines) for i in range(len(head))]
        return "\n".join(
            "  ".join(
                cell.ljust(width) if i == 0 else cell.rjust(width)
                for i, (cell, width) in enumerate(zip(line, widths, strict=True))
            )
            for line in lines
        )

    def cells(self) -> dict[str, list[str]]:
        """The figures of each row as a person reads them, hours in place of minutes."""
        return {
            name: [
                f"{row.hits:,}",
                f"{row.fields:,}",
                f"{row.assignments:,}",
                *(f"${amount:,.2f}" for amount in (row.reward, row.fees, row.cost)),
                f"{row.estimated_minutes / 60:,.1f}",
                f"${row.hourly_pay:,.2f}",
            ]
            for name, row in self.rows.items()
        }


def make_plan(
    records: Iterable[PageRecord], not_asked: Iterable[NotAsked], terms: Terms, tasks: Sequence[HitTask] = TASKS
) -> Plan:
    """Adds up the pages, a row for each of ``tasks``. The order of ``records`` does not matter."""
    records = list(records)
    rows: dict[str, PlanRow] = {
        task: _row([record for record in records if record.task == task], terms) for task in tasks
    }
    ordered = sorted(not_asked, key=lambda each: (each.task_id, each.element_id, each.reason))
    return Plan(terms, {**rows, "total": _row(records, terms)}, ordered)


def _row(records: list[PageRecord], terms: Terms) -> PlanRow:
    rewards = [Decimal(record.reward) for record in records]
    each = (terms.seconds(record.task, len(record.fields), record.turns) for record in records)
    seconds = sum(each, Decimal(0)) * terms.assignments
    reward = sum(rewards, Decimal(0)) * terms.assignments
    fees = sum(map(terms.fees_for, rewards), Decimal(0))
    return PlanRow(
        hits=len(records),
        fields=sum(len(record.fields) for record in records),
        assignments=len(records) * terms.assignments,
        reward=reward.quantize(CENT),
        fees=fees.quantize(CENT),
        cost=(reward + fees).quantize(CENT),
        estimated_minutes=(seconds / 60).quantize(Decimal("0.1")),
        hourly_pay=(reward * HOUR / seconds if seconds else Decimal(0)).quantize(CENT, rounding=ROUND_DOWN),
        lowest_reward=min(rewards, default=Decimal(0)).quantize(CENT),
        highest_reward=max(rewards, default=Decimal(0)).quantize(CENT),
    )


def top_up_assignments(most_missing: int) -> int:
    """Workers per HIT from whom ``most_missing`` more good answers are expected, below the higher fee tier."""
    return max(1, min(MOST, ceil(most_missing / YIELD)))


def read_shortfall(path: str, services: Mapping[str, Service]) -> tuple[Fields, int]:
    """What a ``shortfall.csv`` asks for, and the most that one element lacks.

    Raises:
      InputError: not a shortfall file, or a row names what the schemas lack; with the row.
    """
    try:
        with io.StringIO(read_text(as_path(path)), newline="") as handle:
            reader = csv.DictReader(handle)
            missing = {"service_name", "task", "field", "have", "need"} - set(reader.fieldnames or ())
            if missing:
                raise InputError(
                    f"not a shortfall.csv of 'parapet compose': lacks {', '.join(sorted(missing))}", path, "row 1"
                )
            rows = [(reader.line_num, row) for row in reader]
    except csv.Error as error:
        raise InputError(f"cannot be read: {error}", path) from None
    fields, most = set(), 0
    for number, row in rows:
        place = _place(row, services)
        if place is None:
            what = f"{row['service_name']}, {row['task']}, {row['field']}"
            raise InputError(f"the schemas have no such element: {what}", path, f"row {number}")
        fields.add(place)
        most = max(most, _lacks(row, path, number))
    if not fields:
        raise InputError("nothing is missing, so there is nothing to top up", path)
    return frozenset(fields), most


def _place(row: Mapping[str, str], services: Mapping[str, Service]) -> tuple[str, str] | None:
    service = services.get(row["service_name"] or "")
    for task in TASKS:
        if service is None or task != row["task"]:
            continue
        if any(element.field == row["field"] for element in elements_of(service, task)):
            return task_id(service.service_name, task), row["field"]
    return None


def _lacks(row: Mapping[str, str], path: str, number: int) -> int:
    try:
        return max(1, int(row["need"]) - int(row["have"]))
    except (TypeError, ValueError):
        raise InputError("'have' and 'need' are not numbers", path, f"row {number}") from None
