"""``[gates]``: numbers that a suite's systems must reach, for continuous integration."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from parapet.schemas.errors import no_such

if TYPE_CHECKING:
    from parapet.evaluation.results import ResultRow
    from parapet.pipelines.suite.graph import Graph
    from parapet.pipelines.suite.suite_file import SuiteFile

_CONDITION = re.compile(r"\s*(>=|<=|>|<)\s*(-?\d+(?:\.\d+)?)\s*")
_HOLDS: Mapping[str, Callable[[float, float], bool]] = {
    ">=": operator.ge, "<=": operator.le, ">": operator.gt, "<": operator.lt
}  # fmt: skip


class Verdict(NamedTuple):
    """A gate applied to one system; ``value`` is None if the number does not exist or is not defined."""

    gate: str
    condition: str
    system: str
    value: float | None
    is_met: bool

    def text(self) -> str:
        """In words."""
        lacking = "not defined, as the accuracy is too low" if self.system else "the results contain no such number"
        value_text = lacking if self.value is None else f"{self.value:.4f}"
        return f"{self.gate} {self.condition}: {value_text}{f' ({self.system})' if self.system else ''}"


def check_gates(suite: SuiteFile, graph: Graph) -> None:
    """Raises InputError for a gate on a number that no system of the suite can have, before anything runs."""
    if not suite.gates:
        return
    from parapet.evaluation.results import OF_100, SENSITIVITY, VARIANTS, shown_metrics

    requested, averaged = (_metrics_in(suite.compare.get(key, [])) for key in ("metrics", "average"))
    shown_sets = suite.compare.get("sets", [])
    known: dict[str, str] = {}  # the name of a number to its metric
    beginnings: tuple[str, ...] = ()  # of numbers on sets whose names are not known yet
    for step in (step for name, step in graph.steps.items() if name.startswith("scores/")):
        _, system, task = step.name.split("/")
        options, variants = step.options, list[str]()
        if "variants" in options:
            variants = str(options["variant"]).split(",") if "variant" in options else graph.variant_names
        is_open = task == "ranking" or ("variants" in options and not variants)
        sets = ["original", *(str(name).partition("=")[0] for name in options.get("sets", ())), *variants]
        sets += [VARIANTS] if len(variants) > 1 or is_open else []
        for metric in [*(requested or shown_metrics(task)), *averaged]:
            for name in sets:
                if name in (shown_sets or sets) and (metric != SENSITIVITY or name == VARIANTS):
                    known |= dict.fromkeys(_names(system, metric, name), metric)
            beginnings += (f"{metric}.", f"{system}.{metric}.") if is_open else ()
    for gate, condition in suite.gates.items():
        if gate not in known and not gate.startswith(beginnings):
            raise suite.error(no_such("number", gate, known), f"gates.{gate}")
        parts, metric = _CONDITION.fullmatch(condition), known.get(gate, SENSITIVITY)
        is_share = metric not in OF_100 and metric != SENSITIVITY
        if not parts or (is_share and not 0 <= float(parts[2]) <= 1):
            reason = 'expected a condition such as ">= 0.4"; metrics go from 0 to 1'
            raise suite.error(f"{condition!r}: {reason}", f"gates.{gate}")


def _metrics_in(columns: Iterable[object]) -> list[str]:
    """Returns what may be the metric in names of columns: ``SET/METRIC``, and ``accuracy/CATEGORY`` is one, too."""
    parts = [str(name).split("/") for name in columns]
    return ["/".join(names[i:]) for names in parts for i in range(len(names))]


def judge(gates: Mapping[str, str], numbers: Iterable[ResultRow]) -> Iterator[Verdict]:
    """Judges each gate for each system that has its number; yields a verdict without a system if none has it.

    Args:
      gates: ``METRIC``, ``METRIC.SET``, ``SYSTEM.METRIC`` or ``SYSTEM.METRIC.SET`` to a condition. Without a set, it
        applies to the original set, and for schema sensitivity to the variants; ``variants`` is the mean over variants.
      numbers: the numbers of all systems, from 0 to 1.
    """
    named: dict[str, list[ResultRow]] = {}
    for number in numbers:
        for name in _names(number.system, number.metric, number.set):
            named.setdefault(name, []).append(number)
    for gate, condition in gates.items():
        _, sign, limit, _ = _CONDITION.split(condition)
        if gate not in named:
            yield Verdict(gate, condition, "", None, False)
        for number in named.get(gate, ()):
            is_met = number.value is not None and _HOLDS[sign](number.value, float(limit))
            yield Verdict(gate, condition, number.system, number.value, is_met)


def _names(system: str, metric: str, of_set: str) -> list[str]:
    label = {"#VARIANTS": "variants", "#ALL": "original"}.get(of_set, of_set)  # of all sets: without other sets
    is_main = label == "original" or (label == "variants" and metric == "schema_sensitivity")
    names = [f"{metric}.{label}", *([metric] if is_main else [])]
    return [*names, *(f"{system}.{name}" for name in names)]


def verdicts_of(suite: SuiteFile, output: Path) -> list[Verdict]:
    """Judges a suite's gates by the numbers in its output folder; by none if the comparison failed."""
    if not suite.gates:
        return []
    from parapet.evaluation.results import AVERAGE, is_undefined, read_results

    place = output / "table.parquet"
    rows = read_results(place) if place.is_file() else []
    numbers = [
        row
        for row in rows
        if (row.group, row.metric == AVERAGE) == ("all", False)
        and (row.value is not None or is_undefined(row, [other for other in rows if other.system == row.system]))
    ]
    return list(judge(suite.gates, numbers))
