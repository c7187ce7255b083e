"""The kinds of numbers that a comparison shows: which numbers it shows, in which order, and how metrics are printed.

A column is what a number is of, without the system: :attr:`ResultRow.column`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from parapet.evaluation.results import SEEN, SENSITIVITY, UNSEEN, VARIANTS, WHOLE, ResultRow
from parapet.evaluation.sets import ALL, ORIGINAL
from parapet.evaluation.task import sensitivity_is_defined
from parapet.schemas.errors import InputError
from parapet.transforms.reports.text import number

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
    "tool_calls": (SENSITIVITY,),
}
OF_100 = frozenset({"bleu", "combined", "naturalness", AVERAGE})  # on a scale of 100 already; all others are shares
LOW_IS_GOOD = frozenset({"fpr95", "slot_error_rate", "word_error_rate", SENSITIVITY})  # enter no average

# The order of sets on the page: RADDLE's and SGD-X's first, then the others.
_ORDER = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        "original$|standard$", "v[0-9]+$", f"{VARIANTS}$", "typo", "verb", "simpl", "para", "sr(?![a-z])|speech|asr",
        "unseen", "ood", "env", "[^#]", ""
    )
)  # fmt: skip


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


def is_undefined(row: ResultRow, others: Iterable[ResultRow | None]) -> bool:
    """Whether a number is a schema sensitivity that says nothing beside the accuracies in the other rows of its system.

    The accuracies are those on the original and over the variants.
    """
    key = (row.task, row.group, main_metric(row.task))
    beside = [other for other in others if other and (other.task, other.group, other.metric) == key]
    accuracies = [other.value for other in beside if other.set in (ORIGINAL, VARIANTS)]
    return row.metric == SENSITIVITY and not sensitivity_is_defined(*accuracies)


def set_order(name: str, first: Sequence[str] = ()) -> tuple[object, ...]:
    """Returns a sort key for sets: those in ``first``, then the order of the page; numbers in names sort by size."""
    chosen = first.index(name) if name in first else len(first)
    rank = next(i for i, pattern in enumerate(_ORDER) if pattern.match(name))
    parts = re.split(r"([0-9]+)", name.casefold())
    return chosen, rank, parts[::2], [int(part) for part in parts[1::2]], name


def long_names(row: ResultRow) -> set[str]:
    """Returns the names of a number's column with its set or group, which flags accept."""
    if row.group == WHOLE:
        return {f"{row.set}/{row.metric}", row.column}
    return {f"{row.group}/{row.metric}", f"{row.set}/{row.group}/{row.metric}", row.column}


def has_name(row: ResultRow, name: str) -> bool:
    """Whether a flag that names columns means a number's column: by metric, set and metric, and so on."""
    return name in long_names(row) or (row.group == WHOLE and name == row.metric)


def absent_groups(rows: Iterable[ResultRow], requested: Iterable[str]) -> list[str]:
    """Lists requested columns of seen services for metrics that the systems only have for unseen ones, or the reverse.

    All domains of SGD's dev set are seen, so a list of columns should work for both dev and test.
    """
    known = {f"{row.group}/{row.metric}" for row in rows}
    other = {SEEN: UNSEEN, UNSEEN: SEEN}
    pairs = [(name, *name.partition("/")[::2]) for name in requested if name not in known]
    return [name for name, group, metric in pairs if f"{other.get(group)}/{metric}" in known]


def columns_of(
    rows: Iterable[ResultRow], requested: Sequence[str] = (), sets: Sequence[str] = (), flag: str = "--metrics"
) -> list[ResultRow]:
    """Returns a row of each column of a comparison, in the order of the page.

    Args:
      rows: the numbers of all systems.
      requested: ``metric``, ``set/metric``, ``group/metric`` or ``task/set/metric``; empty for the defaults. Those of
        :func:`absent_groups` are left out.
      sets: the sets that come first, in this order.
      flag: the flag that requests columns, for messages.

    Raises:
      InputError: the systems do not have a requested column.
    """
    available = {row.column: row for row in rows}
    chosen = {
        name: row
        for name, row in available.items()
        if not requested and row.group == WHOLE and row.metric in shown_metrics(row.task)
    }
    absent = absent_groups(available.values(), requested)
    for request in requested:
        matching = {name: row for name, row in available.items() if has_name(row, request)}
        if not matching and request not in absent:
            known = ", ".join(sorted({row.metric for row in available.values()}))
            raise InputError(f"there is no metric {request!r}: must be one of {known}", flag)
        # If a set has the name of a group, ``unseen/METRIC`` refers to the set.
        chosen |= {name: row for name, row in matching.items() if row.group == WHOLE} or matching
    if not chosen:
        raise InputError("must name at least one metric", flag)
    # #ALL would count the sets twice, unless it was requested as SET/METRIC.
    in_sets = {(row.task, row.metric) for row in chosen.values() if row.set[:1] != "#"}
    tasks = [*AVERAGED, *(row.task for row in available.values())]  # dialogue states first, as RADDLE has them
    metrics = [name.rpartition("/")[2] for name in requested]

    def order(row: ResultRow) -> tuple[object, ...]:
        ranked = [*metrics, *shown_metrics(row.task), row.metric]
        place = set_order(row.set, sets)
        return tasks.index(row.task), ranked.index(row.metric), row.metric, place, row.group

    def is_kept(row: ResultRow) -> bool:
        is_whole = row.set == ALL and (row.task, row.metric) not in in_sets
        return row.set[:1] != "#" or row.set == VARIANTS or is_whole or not long_names(row).isdisjoint(requested)

    return sorted(filter(is_kept, chosen.values()), key=order)


def with_groups(columns: Sequence[ResultRow], rows: Iterable[ResultRow]) -> list[str]:
    """Returns the columns, and those of seen and unseen services and of single services, if any."""
    wanted = {(row.task, row.set, row.metric) for row in columns if row.group == WHOLE}
    groups = (row.column for row in rows if row.group != WHOLE and (row.task, row.set, row.metric) in wanted)
    return list(dict.fromkeys([*(row.column for row in columns), *groups]))
