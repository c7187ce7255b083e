"""How long tasks took workers, and what that paid an hour: medians, because some leave a page open for hours."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from decimal import Decimal
from statistics import median
from typing import Any

from parapet.transforms.report.numbers import Metric, Numbers

# An assignment's task, its seconds from acceptance to submission, and its reward in dollars; None for what is unknown.
Work = tuple[str, int | None, Decimal | None]

TABLE = Numbers(
    "Working time and pay",
    "work/*",
    ("task",),
    (
        Metric("assignments", "assignments"),
        Metric("median_minutes", "median minutes", digits=1),
        Metric("dollars_per_hour", "median pay an hour, $", digits=2),
    ),
    note="From acceptance to submission, where both are known. Medians, because some leave a page open: half of the "
    "assignments took longer, and half paid less an hour. Pay is the reward, without bonuses.",
)


def work_times(assignments: Iterable[Work]) -> dict[str, dict[str, Any]]:
    """Return the numbers of :data:`TABLE` by task, over assignments whose time is known."""
    seconds, pay = defaultdict[str, list[int]](list), defaultdict[str, list[float]](list)
    for task, taken, reward in assignments:
        if taken is not None and taken > 0:
            seconds[task].append(taken)
            if reward is not None:
                pay[task].append(float(reward) * 3_600 / taken)
    return {
        task: {
            "assignments": len(seconds[task]),
            "median_minutes": round(median(seconds[task]) / 60, 2),
            "dollars_per_hour": round(median(pay[task]), 2) if pay[task] else None,
        }
        for task in sorted(seconds)
    }


def work_lines(times: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Format the numbers of :func:`work_times` for the terminal, a line for each task whose pay is known."""
    return [
        f"{task}: median time {row['median_minutes']:.1f} minutes, median pay ${row['dollars_per_hour']:,.2f} an hour"
        for task, row in times.items()
        if row["dollars_per_hour"] is not None
    ]
