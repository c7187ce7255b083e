"""``[gates]``: numbers that a suite's systems must reach, for continuous integration."""

from __future__ import annotations

import difflib
import operator
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from parapet.pipelines.suite.steps import COMPARISON
from parapet.schemas.errors import InputError

if TYPE_CHECKING:
    from parapet.pipelines.suite.suite_file import SuiteFile

_CONDITION = re.compile(r"\s*(>=|<=|>|<)\s*(-?\d+(?:\.\d+)?)\s*")
_HOLDS: Mapping[str, Callable[[float, float], bool]] = {
    ">=": operator.ge, "<=": operator.le, ">": operator.gt, "<": operator.lt
}  # fmt: skip


class Number(NamedTuple):
    """A number in the table of all systems."""

    system: str
    metric: str
    set: str
    value: float


class Verdict(NamedTuple):
    """A gate applied to one system; ``value`` is None if the number does not exist."""

    gate: str
    condition: str
    system: str
    value: float | None
    is_met: bool

    def text(self) -> str:
        """In words."""
        value_text = "the results contain no such number" if self.value is None else f"{self.value:.4f}"
        return f"{self.gate} {self.condition}: {value_text}{f' ({self.system})' if self.system else ''}"


def check(gates: Mapping[str, str], path: str) -> None:
    """Raises InputError for an invalid condition, such as ``">= high"``."""
    for name, condition in gates.items():
        if not _CONDITION.fullmatch(condition):
            reason = f'{condition!r}: expected a condition such as ">= 0.4"; metrics go from 0 to 1'
            raise InputError(reason, path, f"gates.{name}")


def judge(gates: Mapping[str, str], numbers: Iterable[Number]) -> Iterator[Verdict]:
    """Judges each gate for each system that has its number; yields a verdict without a system if none has it.

    Args:
      gates: ``METRIC``, ``METRIC.SET``, ``SYSTEM.METRIC`` or ``SYSTEM.METRIC.SET`` to a condition. Without a set, it
        applies to the original set, and for schema sensitivity to the variants; ``variants`` is the mean over variants.
      numbers: the numbers of all systems, from 0 to 1.
    """
    named: dict[str, list[Number]] = {}
    for number in numbers:
        for name in _names(number):
            named.setdefault(name, []).append(number)
    for gate, condition in gates.items():
        match = _CONDITION.fullmatch(condition)
        assert match is not None, "check() lets nothing else through"
        if gate not in named:
            near = difflib.get_close_matches(gate, named, 1)
            yield Verdict(gate, f"{condition}{f' (did you mean {near[0]}?)' if near else ''}", "", None, False)
        for number in named.get(gate, ()):
            is_met = _HOLDS[match[1]](number.value, float(match[2]))
            yield Verdict(gate, condition, number.system, number.value, is_met)


def _names(number: Number) -> Iterator[str]:
    over_variants = number.set.startswith("#")
    names = [f"{number.metric}.{'variants' if over_variants else number.set}"]
    if number.set == "original" or (over_variants and number.metric == "schema_sensitivity"):
        names.append(number.metric)
    for name in names:
        yield from (name, f"{number.system}.{name}")


def verdicts_of(suite: SuiteFile, output: Path) -> list[Verdict]:
    """Judges a suite's gates by the numbers in its output folder."""
    if not suite.gates:
        return []
    from parapet.evaluation.compare.leaderboard import read_board

    place = output / COMPARISON / "leaderboard.json"
    values = read_board(str(place)).values if place.is_file() else []
    numbers = [
        Number(score.system, score.metric, score.set, score.value)
        for score in values
        if score.group == "all" and score.value is not None
    ]
    return list(judge(suite.gates, numbers))
