"""The kinds of numbers that a comparison shows: which numbers it shows, in which order, and how metrics are printed.

A column is what a number is of, without the system: :attr:`ResultRow.column`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from parapet.evaluation.noise import EXCESS, NOISE, is_over_runs
from parapet.evaluation.results import SENSITIVITY, VARIANTS, WHOLE, ResultRow
from parapet.evaluation.sets import ALL, ORIGINAL
from parapet.evaluation.task import sensitivity_is_defined
from parapet.schemas.errors import InputError
from parapet.transforms.report.text import number

JGA = "joint_goal_accuracy"
AVERAGE = "average"

# The metrics of each task that enter the average, the main one first, and further ones that are shown: RADDLE's Table 2
# averages joint goal accuracy, Combined, intent accuracy and F1.
AVERAGED = {
    "dst": (JGA,),
    "response": ("combined",),
    "intent": ("accuracy",),
    "ood": ("f1",),
    "ranking": ("per_response", "per_dialogue"),
    "generation": ("sgsacc", "bleu"),
    "tool_calls": ("accuracy",),
}
_BESIDE = {
    "dst": (SENSITIVITY,),
    "intent": ("macro_f1",),
    "response": ("inform", "success", "bleu"),
    "ratings": ("human_faithful", "agreement", "fleiss_kappa"),
    "tool_calls": ("accuracy_by_meaning", SENSITIVITY),
}
OF_100 = frozenset({"bleu", "combined", "naturalness", AVERAGE})  # on a scale of 100 already; all others are shares
LOW_IS_GOOD = frozenset({"fpr95", "slot_error_rate", "word_error_rate", SENSITIVITY})  # enter no average

# The order of sets on the page: RADDLE's and SGD-X's first, then the others.
_ORDER = ("original$|standard$", "v[0-9]+$", f"{VARIANTS}$", "typo", "verb", "simpl", "para", "sr(?![a-z])|speech|asr",
          "unseen", "ood", "env", "[^#]", "")  # fmt: skip


def main_metric(task: str) -> str:
    """Returns the main metric of a task, beside which its schema sensitivity stands; empty if it has none."""
    return next(iter(AVERAGED.get(task, ())), "")


def shown_metrics(task: str) -> tuple[str, ...]:
    """Returns the default metrics of a task, those of the average first."""
    return AVERAGED.get(task, ()) + _BESIDE.get(task, ())


def of_100(metric: str, value: float) -> float:
    """Scales a number to 100, as in tables."""
    return value if metric in OF_100 else 100 * value


def shown(metric: str, value: float | None) -> str:
    """Formats a number for tables."""
    return number(None if value is None else of_100(metric, value), 1)


def is_undefined(row: ResultRow, others: Iterable[ResultRow]) -> bool:
    """Whether a number is a schema sensitivity that says nothing beside the accuracies in the other rows of its system.

    The accuracies are those on the original and over the variants.
    """
    key = (row.task, row.group, main_metric(row.task))
    beside = [other for other in others if (other.task, other.group, other.metric) == key]
    accuracies = [other.value for other in beside if other.set in (ORIGINAL, VARIANTS)]
    return row.metric in (SENSITIVITY, NOISE, EXCESS) and not sensitivity_is_defined(*accuracies)


def defined(rows: Sequence[ResultRow]) -> list[ResultRow]:
    """Removes the values of schema sensitivities that say nothing from the numbers of a system."""
    return [replace(row, value=None, low=None, high=None) if is_undefined(row, rows) else row for row in rows]


def set_order(name: str, first: Sequence[str] = ()) -> tuple[object, ...]:
    """Returns a sort key for sets: those in ``first``, then the order of the page; numbers in names sort by size."""
    chosen = first.index(name) if name in first else len(first)
    rank = next(i for i, pattern in enumerate(_ORDER) if re.match(pattern, name, re.IGNORECASE))
    parts = re.split(r"([0-9]+)", name.casefold())
    return chosen, rank, parts[::2], [int(part) for part in parts[1::2]], name


def has_name(row: ResultRow, name: str) -> bool:
    """Whether a flag's name for columns means a number's column: METRIC, SET/METRIC, GROUP/METRIC, TASK/SET/METRIC."""
    return f"/{row.column}".endswith(f"/{name}") and (row.group == WHOLE or f"{row.group}/" in name)


def is_requested(row: ResultRow, names: Iterable[str]) -> bool:
    """Whether one of the names means a number's column by more than its metric."""
    return any(has_name(row, name) and name != row.metric for name in names)


def columns_of(
    rows: Iterable[ResultRow], requested: Sequence[str] = (), sets: Sequence[str] = (), flag: str = "--metrics"
) -> list[ResultRow]:
    """Returns a row of each column of a comparison, in the order of the page.

    Args:
      rows: the numbers of all systems.
      requested: ``metric``, ``set/metric``, ``group/metric`` or ``task/set/metric``; empty for the defaults. What no
        system has is left out, so that a list serves for both dev, which has no unseen services, and test.
      sets: the sets that come first, in this order.
      flag: the flag that requests columns, for messages.

    Raises:
      InputError: the systems have none of the columns.
    """
    available = {row.column: row for row in rows}.values()
    defaults = [row for row in available if row.group == WHOLE and row.metric in shown_metrics(row.task)]
    chosen = [] if requested else defaults
    for name in requested:
        named = [row for row in available if has_name(row, name)]
        # If a set has the name of a group, ``unseen/METRIC`` refers to the set.
        chosen += [row for row in named if row.group == WHOLE] or named
    if not chosen:
        known = ", ".join(sorted({row.metric for row in available}))
        raise InputError(f"no system has {', '.join(requested) or 'a main metric'}: choose from {known}", flag)
    # #ALL would count the sets twice, unless it was requested as SET/METRIC.
    in_sets = {(row.task, row.metric) for row in chosen if row.set[:1] != "#"}
    tasks = [*AVERAGED, *(row.task for row in available)]  # dialogue states first, as RADDLE has them
    metrics = [name.rpartition("/")[2] for name in requested]

    def order(row: ResultRow) -> tuple[object, ...]:
        ranked = [*metrics, *shown_metrics(row.task), row.metric]
        return tasks.index(row.task), ranked.index(row.metric), row.metric, set_order(row.set, sets), row.group

    kept = {
        row.column: row
        for row in chosen
        if row.set[:1] != "#"
        or row.set == VARIANTS
        or (row.set == ALL and (row.task, row.metric) not in in_sets)
        or is_requested(row, requested)
    }
    return sorted(kept.values(), key=order)


def with_groups(columns: Sequence[ResultRow], rows: Iterable[ResultRow]) -> list[str]:
    """Returns the columns, those of seen and unseen services and of single services, and numbers over several runs."""
    wanted = {(row.task, row.set, row.metric) for row in columns if row.group == WHOLE}
    rows = list(rows)
    groups = (row.column for row in rows if row.group != WHOLE and (row.task, row.set, row.metric) in wanted)
    repeated = (row.column for row in rows if is_over_runs(row))
    return list(dict.fromkeys([*(row.column for row in columns), *groups, *repeated]))
