"""The leaderboard: systems by columns, their unweighted mean as RADDLE has it, intervals and paired tests."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from typing import Literal

import msgspec

from parapet.evaluation.compare.results import (
    AVERAGED,
    EVERYTHING,
    JGA,
    OF_100,
    SEEN,
    SENSITIVITY,
    UNSEEN,
    VARIANTS,
    WHOLE,
    Column,
    Outcome,
    Selection,
    absent_groups,
    assembled,
    columns_of,
    macro_average,
    mixes,
    of_100,
    read_outcome,
    shared,
)
from parapet.evaluation.compare.significance import (
    Difference,
    Parts,
    check_same_turns,
    holm,
    intervals,
    paired,
    read_rows,
)
from parapet.evaluation.dst.failures import HurtFrame
from parapet.schemas.errors import InputError
from parapet.schemas.layout import as_path
from parapet.schemas.limits import read_whole

AVERAGE = "average"
Sets = Literal["common", "all", "strict"]


class Number(msgspec.Struct, frozen=True):
    """A number and its 95 % interval, where it has one."""

    value: float | None
    low: float | None = None
    high: float | None = None


class Value(msgspec.Struct, frozen=True):
    """A row of ``table.csv``: a number of a system, as ``parapet evaluate`` has it; see :class:`Column`."""

    system: str
    task: str
    set: str
    group: str
    metric: str
    value: float | None
    low: float | None = None
    high: float | None = None

    @property
    def column(self) -> Column:
        """Where it stands."""
        return Column(self.task, self.set, self.metric, self.group)


class BoardColumn(msgspec.Struct, frozen=True):
    """A column of the board.

    Attributes:
      in_average: whether the average counts it: not where low is good.
      tested: whether its differences could be tested.
    """

    task: str
    set: str
    group: str
    metric: str
    in_average: bool
    tested: bool

    @property
    def column(self) -> Column:
        """What stands in it."""
        return Column(self.task, self.set, self.metric, self.group)


class PairedTest(msgspec.Struct, frozen=True):
    """A paired test of two systems on a column, or on the average; see ``significance.Difference``.

    ``difference`` and ``interval`` are of 100.
    """

    first: str
    second: str
    column: str
    difference: float
    interval: tuple[float, float] | None
    p: float
    dialogues: int
    p_holm: float


class SignificanceConfig(msgspec.Struct, frozen=True):
    """How differences are tested.

    Attributes:
      baselines: system to the one with which it is compared; empty compares all pairs.
      replicates: 0 for no tests.
    """

    baselines: dict[str, str] = {}
    seed: str = "0"
    replicates: int = 10_000


class Board(msgspec.Struct, frozen=True):
    """``leaderboard.json``: everything that pages and tables are made of.

    Attributes:
      systems: the best average first.
      values: of each system, as ``parapet evaluate`` has them: shares are not multiplied.
      average: of each system, of 100.
      variants: of each task that has some, the sets whose mean is ``#VARIANTS``.
      left_out: what some systems were not scored on, in words.
      examples: of each system the frames that variants hurt most.
      selection: the sets, domains and columns of the average that were chosen.
      relative_changes: of each system with a baseline, group (``all``, ``seen``, ``unseen``) to metric to the change of
        the number over the variants, as a share of the baseline's (SGD-X, Table 3).
    """

    systems: list[str]
    columns: list[BoardColumn]
    values: list[Value]
    average: dict[str, Number]
    tests: list[PairedTest]
    settings: SignificanceConfig
    variants: dict[str, list[str]] = {}
    left_out: list[str] = []
    examples: dict[str, list[HurtFrame]] = {}
    relative_changes: dict[str, dict[str, dict[str, float]]] = {}
    selection: Selection = EVERYTHING

    @property
    def by_column(self) -> dict[tuple[str, Column], Value]:
        """The values by system and column."""
        return {(value.system, value.column): value for value in self.values}


class Systems(msgspec.Struct, frozen=True):
    """What is compared.

    Attributes:
      outcomes: of each system, all of the same tasks and sets.
      columns: of the leaderboard.
      averaged: those of them that the average counts.
      parts: of each system the sums by dialogue of the numbers that are means of rows.
      left_out: what some systems were not scored on.
      selection: of sets, domains and the average.
    """

    outcomes: dict[str, list[Outcome]]
    columns: list[Column]
    averaged: list[Column]
    parts: dict[str, dict[Column, Parts]]
    left_out: list[str]
    selection: Selection = EVERYTHING

    def value(self, system: str, column: Column) -> float | None:
        """A number of a system."""
        return next((one.values[column] for one in self.outcomes[system] if column in one.values), None)


def read_systems(
    systems: Mapping[str, Sequence[str]],
    metrics: Sequence[str] = (),
    sets: Sets = "common",
    selection: Selection = EVERYTHING,
) -> Systems:
    """Reads what ``parapet evaluate`` wrote of some systems.

    Args:
      systems: name to folders, of one task each; a name may be ``NAME/PART``, see :class:`Selection`.
      metrics: the columns, as :func:`columns_of` has them.
      sets: which tasks and sets are compared.
      selection: of sets, domains and the average.

    Raises:
      InputError: they cannot be compared, or there is no such metric.
    """
    read: dict[str, list[tuple[str, Outcome]]] = {}
    for key, paths in systems.items():
        name, part = selection.system_and_part(key)
        read.setdefault(name, []).extend((part, read_outcome(path)) for path in paths)
    chosen, absent_sets = _sets_that_are_there(read, selection) if sets == "all" else (selection, [])
    outcomes, left_out = shared(assembled(read, chosen), sets == "all")
    selection, left_out = chosen, [*left_out, *absent_sets]
    if sets == "strict" and left_out:
        more = f" (and {len(left_out) - 1:,} more differences)" if left_out[1:] else ""
        raise InputError(f"the systems were not scored on the same sets: {left_out[0]}{more}", "--systems")
    by_task: dict[str, dict[str, Outcome]] = {}
    for name, of in outcomes.items():
        for outcome in of:
            by_task.setdefault(outcome.task, {})[name] = outcome
    merged = [_merged(list(of_task.values())) for of_task in by_task.values()]
    if sets == "all":
        known = {name for outcome in merged for column in outcome.values for name in column.names}
        there = tuple(name for name in selection.average if name in known)
        lacking = ", ".join(name for name in selection.average if name not in known)
        left_out += [f"of the average, what no system has: {lacking}"] if lacking else []
        selection = msgspec.structs.replace(selection, average=there)
    columns = columns_of(merged, metrics, selection.sets)
    mixed = mixes({column.set for column in columns})  # they say again what the set says, diluted
    averaged = [column for column in columns if column.set not in mixed and _is_averaged(column, frozenset(metrics))]
    if selection.average:
        averaged = columns_of(merged, selection.average, selection.sets, "--average")
        if bad := next((column.name for column in averaged if column.low_is_good), None):
            raise InputError(f"{bad}: less of it is better, so it is in no average", "--average")
        names = tuple(dict.fromkeys([column.name for column in [*averaged, *columns]]))
        columns = columns_of(merged, names, selection.sets)
    absent = absent_groups((column for outcome in merged for column in outcome.values), metrics)
    left_out = [*left_out, *(f"{name}: the systems were scored on no such services" for name in absent)]
    wanted = [column for of in outcomes.values() for column in _with_groups(columns, of)]
    parts: dict[str, dict[Column, Parts]] = {name: {} for name in outcomes}
    for of_task in by_task.values():
        rows = {name: found for name, one in of_task.items() if (found := read_rows(one, wanted)) is not None}
        check_same_turns(rows, of_task)
        for name, found in rows.items():
            parts[name] |= found.parts
    return Systems(outcomes, columns, averaged, parts, left_out, selection)


def _sets_that_are_there(
    systems: Mapping[str, Sequence[tuple[str, Outcome]]], selection: Selection
) -> tuple[Selection, list[str]]:
    """The selection without the sets that no system has, and what is left out, in words."""
    known = {name for parts in systems.values() for part, outcome in parts for name in (part, *outcome.sets)}
    there = tuple(name for name in selection.sets if name in known)
    lacking = [f"set {name}: no system has it" for name in selection.sets if name not in known]
    return msgspec.structs.replace(selection, sets=there), lacking


def _merged(outcomes: Sequence[Outcome]) -> Outcome:
    """One task's outcomes of all systems as one, with the columns of all."""
    values = {column: value for outcome in reversed(outcomes) for column, value in outcome.values.items()}
    return msgspec.structs.replace(outcomes[0], values=values)


def _is_averaged(column: Column, requested: frozenset[str]) -> bool:
    if column.low_is_good:
        return False
    if requested:
        return column.set != VARIANTS or bool((column.names - {column.metric}) & requested)
    return column.metric in AVERAGED.get(column.task, ()) and column.set != VARIANTS


def _with_groups(columns: Sequence[Column], outcomes: Sequence[Outcome]) -> Iterator[Column]:
    """The columns, and the same of seen and unseen services, and by service, where there are any."""
    wanted = {(column.task, column.set, column.metric) for column in columns if column.group == WHOLE}
    yield from columns
    for outcome in outcomes:
        for column in outcome.values:
            if column.group != WHOLE and (column.task, column.set, column.metric) in wanted:
                yield column


def leaderboard(systems: Systems, settings: SignificanceConfig) -> Board:
    """The leaderboard of systems."""
    averages = {name: _average(systems, name, settings.seed) for name in systems.outcomes}
    ranked = sorted(averages, key=lambda name: (averages[name].value is None, -(averages[name].value or 0.0), name))
    counts = {column: {len(parts.get(column, ())) for parts in systems.parts.values()} for column in systems.columns}
    testable = [column for column, of in counts.items() if len(of) == 1 and of != {0}]
    tested = testable if settings.replicates and len(ranked) > 1 else []
    return Board(
        ranked,
        [
            BoardColumn(one.task, one.set, one.group, one.metric, one in systems.averaged, one in testable)
            for one in systems.columns
        ],
        [value for name in ranked for value in _values(systems, name, settings.seed)],
        {name: averages[name] for name in ranked},
        _tests(ranked, systems, tested, settings) if tested else [],
        settings,
        {one.task: list(one.variants) for of in systems.outcomes.values() for one in of if len(one.variants) > 1},
        systems.left_out,
        {name: list(one.examples) for name in ranked for one in systems.outcomes[name] if one.examples},
        {name: of for name in ranked if (of := _relative_changes(systems, name, settings.baselines.get(name)))},
        systems.selection,
    )


def _relative_changes(systems: Systems, name: str, baseline: str | None) -> dict[str, dict[str, float]]:
    """The changes of joint goal accuracy and schema sensitivity over the variants, by group of services."""
    found: dict[str, dict[str, float]] = {}
    for group in (WHOLE, SEEN, UNSEEN) if baseline is not None else ():
        for metric in (JGA, SENSITIVITY):
            column = Column("dst", VARIANTS, metric, group)
            value, other = systems.value(name, column), systems.value(baseline or "", column)
            if value is not None and other:
                found.setdefault(group, {})[metric] = (value - other) / other
    return found


def _average(systems: Systems, name: str, seed: str) -> Number:
    """The average of a system, with an interval if all of its numbers are means of rows."""
    numbers = [(column.metric, systems.value(name, column)) for column in systems.averaged]
    parts = [systems.parts[name].get(column, ()) for column in systems.averaged]
    interval = None
    if _alike(parts) and not any(column.metric in OF_100 for column in systems.averaged):
        interval = intervals([tuple(part for of in parts for part in of)], seed)[0]
    value = macro_average([None if number is None else of_100(metric, number) for metric, number in numbers])
    return Number(value) if interval is None else Number(value, 100 * interval[0], 100 * interval[1])


def _alike(numbers: Sequence[Parts]) -> bool:
    """Whether the mean of some numbers is that of all their parts: all have some, and as many."""
    return all(numbers) and len({len(parts) for parts in numbers}) == 1


def _values(systems: Systems, name: str, seed: str) -> Iterator[Value]:
    """All numbers of a system; intervals of the evaluation where it has some, else from the rows."""
    outcomes, parts = systems.outcomes[name], systems.parts[name]
    columns = list(dict.fromkeys(_with_groups(systems.columns, outcomes)))
    known = {column: of for outcome in outcomes for column, of in outcome.intervals.items()}
    lacking = [column for column in columns if column not in known and column in parts]
    computed = intervals([parts[column] for column in lacking], seed)
    known |= {column: of for column, of in zip(lacking, computed, strict=True) if of}
    for column in columns:
        low, high = known.get(column, (None, None))
        value = systems.value(name, column)
        if column.metric == SENSITIVITY and systems.value(name, msgspec.structs.replace(column, metric=JGA)) == 0:
            value = low = high = None  # of a system that is always wrong: 0 divided by 0
        yield Value(name, column.task, column.set, column.group, column.metric, value, low, high)


def _tests(
    ranked: Sequence[str], systems: Systems, tested: Sequence[Column], settings: SignificanceConfig
) -> list[PairedTest]:
    """Tests of all pairs, or of each system and its baseline, on the columns and on the average."""
    baselines = [(name, settings.baselines[name]) for name in ranked if name in settings.baselines]
    pairs = baselines or list(combinations(ranked, 2))
    # What is computed over several sets is tested by the bootstrap; the average, if all of its columns can be tested.
    single = [column for column in tested if column.set != VARIANTS]
    alike = all(_alike([systems.parts[name].get(column, ()) for column in systems.averaged]) for name in ranked)
    whole = [AVERAGE] if len(systems.averaged) > 1 and set(systems.averaged) <= set(single) and alike else []
    results: dict[tuple[str, str], dict[str, Difference]] = {pair: {} for pair in pairs}
    for method, columns in (("randomisation", single), ("bootstrap", [one for one in tested if one not in single])):
        parts = {name: [part for column in columns for part in systems.parts[name][column]] for name in ranked}
        names, numbers, factors = [column.name for column in columns], list[list[int]](), list[float]()
        for column in columns:
            count = len(systems.parts[ranked[0]][column])
            numbers.append(list(range(len(factors), len(factors) + count)))
            factors += [of_100(column.metric, 1.0)] * count
        if whole and columns is single:
            names.append(AVERAGE)
            numbers.append([part for column in systems.averaged for part in numbers[columns.index(column)]])
        if columns:
            of_pairs = [list(zip(parts[a], parts[b], strict=True)) for a, b in pairs]
            differences = paired(of_pairs, factors, numbers, settings.seed, settings.replicates, method)
            for pair, of_pair in zip(pairs, differences, strict=True):
                results[pair] |= dict(zip(names, of_pair, strict=True))
    order = [column.name for column in tested] + whole
    listed = [(pair, name, results[pair][name]) for pair in pairs for name in order]
    corrected = holm([result.p for _, _, result in listed])
    return [
        PairedTest(*pair, name, result.difference, result.interval, result.p, result.dialogues, p_holm)
        for (pair, name, result), p_holm in zip(listed, corrected, strict=True)
    ]


def read_board(path: str) -> Board:
    """Reads ``leaderboard.json``. Raises InputError where it is none."""
    place = as_path(path)
    if not place.is_file():
        raise InputError("there is no such file", path)
    try:
        return msgspec.json.decode(read_whole(place), type=Board)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InputError(f"this is no leaderboard.json: {error}", path) from None
