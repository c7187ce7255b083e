"""The leaderboard: the numbers of systems by column, their unweighted mean as in RADDLE, intervals and paired tests."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import msgspec
from msgspec.structs import replace

from parapet.evaluation.compare.columns import AVERAGE, OF_100, of_100, with_groups
from parapet.evaluation.compare.significance import Difference, Parts, holm, intervals, paired
from parapet.evaluation.compare.systems import Config, Systems
from parapet.evaluation.dst.failures import HurtFrame
from parapet.evaluation.results import VARIANTS, WHOLE, ResultRow, macro_average
from parapet.evaluation.sets import ALL, existing_file
from parapet.schemas.errors import InputError
from parapet.schemas.limits import read_whole


class Board(msgspec.Struct, frozen=True):
    """The content of ``leaderboard.json``, from which pages and tables are made.

    Attributes:
      systems: the best average first.
      columns: the columns, in the order of the page; ``averaged`` are those that the average includes.
      rows: the numbers of each system, its columns first, as ``parapet evaluate`` writes them: shares are from 0 to 1.
      average: the average of each system, on a scale of 100.
      variants: task to the sets that ``#VARIANTS`` averages, for tasks with several variants.
      examples: system to the frames that variants hurt most.
      left_out: messages on what some systems were not scored on.
    """

    config: Config
    systems: list[str]
    columns: list[str]
    averaged: list[str]
    rows: list[ResultRow]
    average: dict[str, ResultRow]
    tests: list[Difference]
    variants: dict[str, list[str]]
    examples: dict[str, list[HurtFrame]]
    left_out: list[str]

    @property
    def column_rows(self) -> list[ResultRow]:
        """A row of each column."""
        return self.rows[: len(self.columns)]

    @property
    def numbers(self) -> dict[tuple[str, str], ResultRow]:
        """The numbers and averages by system and column."""
        averages = {(name, AVERAGE): row for name, row in self.average.items()}
        return {(row.system, row.column): row for row in self.rows} | averages


def leaderboard(systems: Systems) -> Board:
    """Makes the leaderboard."""
    names = list(systems.rows)
    columns = [row.column for row in systems.columns]
    parts = dict(systems.parts)
    for name in names:
        of_columns = [parts.get((name, row.column), ()) for row in systems.averaged]
        if all(of_columns) and len(set(map(len, of_columns))) == 1:  # the mean of the columns is that of their parts
            parts[name, AVERAGE] = tuple(part for of in of_columns for part in of)
    average = {name: _average(systems, name, parts.get((name, AVERAGE), ())) for name in names}
    ranked = sorted(names, key=lambda name: (average[name].value is None, -(average[name].value or 0.0), name))
    return Board(
        systems.config,
        ranked,
        columns,
        [row.column for row in systems.averaged],
        [row for name in ranked for row in _rows(systems, name)],
        {name: average[name] for name in ranked},
        _tests(systems, ranked, parts),
        systems.variants,
        {name: systems.examples[name] for name in ranked if name in systems.examples},
        systems.left_out,
    )


def _average(systems: Systems, name: str, parts: Parts) -> ResultRow:
    """Computes the average of a system, with an interval if all of its numbers are shares and means of rows."""
    rows = [systems.rows[name].get(row.column, replace(row, value=None)) for row in systems.averaged]
    value = macro_average([None if row.value is None else of_100(row.metric, row.value) for row in rows])
    interval = None
    if parts and not any(row.metric in OF_100 for row in rows):
        interval = intervals([parts], systems.config.seed, [AVERAGE])[0]
    low, high = [100 * end for end in interval] if interval else (None, None)
    return ResultRow(name, WHOLE, ALL, WHOLE, AVERAGE, value, low, high)


def _rows(systems: Systems, name: str) -> list[ResultRow]:
    """Returns all numbers of a system, with the intervals of the evaluation, or else those computed from the rows."""
    known = systems.rows[name]
    numbers = {
        row.column: replace(row, system=name, value=None, low=None, high=None) for row in systems.columns
    } | known
    rows = [numbers[column] for column in with_groups(systems.columns, known.values())]
    lacking = [row for row in rows if row.low is None and (name, row.column) in systems.parts]
    sums = [systems.parts[name, row.column] for row in lacking]
    computed = intervals(sums, systems.config.seed, [row.metric for row in lacking])
    ends = {row.column: interval for row, interval in zip(lacking, computed, strict=True) if interval}
    return [
        replace(row, low=low, high=high) for row in rows for low, high in [ends.get(row.column, (row.low, row.high))]
    ]


def _tests(systems: Systems, ranked: Sequence[str], parts: dict[tuple[str, str], Parts]) -> list[Difference]:
    """Tests all pairs of systems, or each system against the baseline, on the columns and on the average."""
    config = systems.config
    pairs = list(combinations(ranked, 2))
    if config.baseline:
        pairs = [(name, config.baseline) for name in ranked if name != config.baseline]
    counts = {row.column: {len(parts.get((name, row.column), ())) for name in ranked} for row in systems.columns}
    testable = [row for row in systems.columns if len(counts[row.column]) == 1 and 0 not in counts[row.column]]
    factors = {row.column: [of_100(row.metric, 1.0)] * counts[row.column].pop() for row in testable}
    # Numbers computed over several sets are tested by the bootstrap; the average only if all of its columns can be
    # tested.
    over_sets = {row.column: factors[row.column] for row in testable if row.set == VARIANTS}
    single = {column: of for column, of in factors.items() if column not in over_sets}
    averaged = [row.column for row in systems.averaged]
    if len(averaged) > 1 and set(averaged) <= set(single) and all((name, AVERAGE) in parts for name in ranked):
        single[AVERAGE] = [factor for column in averaged for factor in factors[column]]
    if not config.replicates or not pairs or not testable:
        return []
    tests = [
        test
        for columns, method in ((single, "randomisation"), (over_sets, "bootstrap"))
        for test in paired(parts, pairs, columns, config.seed, config.replicates, method)
    ]
    order = [*factors, AVERAGE]
    tests.sort(key=lambda test: (pairs.index((test.first, test.second)), order.index(test.column)))
    corrected = holm([test.p for test in tests])
    return [replace(test, p_holm=p) for test, p in zip(tests, corrected, strict=True)]


def read_board(path: str) -> Board:
    """Reads ``leaderboard.json``. Raises InputError for any other file."""
    try:
        return msgspec.json.decode(read_whole(existing_file(path)), type=Board)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InputError(f"not a leaderboard.json: {error}", path) from None
