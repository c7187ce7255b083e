"""How long tasks took workers, and what that paid an hour: medians, because some leave a page open for hours."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from decimal import Decimal
from statistics import median
from typing import Any

from parapet.transforms.reports.numbers import Metric, Numbers
from parapet.transforms.reports.text import number

Work = tuple[str, int, Decimal | None]  # an assignment's task, its seconds, its reward in dollars if that is known

TABLE = Numbers(
    "Working time and pay",
    "work/*",
    ("task",),
    (
        Metric("assignments", "assignments"),
        Metric("median_minutes", "median minutes", digits=1),
        Metric("dollars_per_hour", "median pay an hour, $", digits=2),
    ),
    note="From acceptance to submission, of assignments whose times are known. Medians, because some workers leave a "
    "page open: half of the assignments took longer, and half paid less an hour. Pay is the reward, without bonuses, "
    "where it is known.",
)


def work_times(assignments: Mapping[Work, int]) -> dict[str, dict[str, Any]]:
    """Return the numbers of :data:`TABLE` by task.

    Args:
      assignments: each kind of work to the number of assignments.
    """
    seconds, pay = defaultdict[str, list[int]](list), defaultdict[str, list[float]](list)
    for (task, taken, reward), n in assignments.items():
        seconds[task] += [taken] * n
        if reward is not None:
            pay[task] += [float(reward) * 3_600 / taken] * n
    return {
        task: {
            "assignments": len(seconds[task]),
            "median_minutes": round(median(seconds[task]) / 60, 2),
            "dollars_per_hour": round(median(pay[task]), 2) if pay[task] else None,
        }
        for task in sorted(seconds)
    }


def work_lines(times: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Format the numbers of :func:`work_times` for the terminal, a line for each task."""
    return [
        f"{task}: median time {number(row['median_minutes'], 1)} minutes, "
        + (f"median pay ${number(pay, 2)} an hour" if (pay := row["dollars_per_hour"]) is not None else "unknown pay")
        for task, row in times.items()
    ]
