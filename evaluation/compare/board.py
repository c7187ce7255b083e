"""The leaderboard: the numbers of systems by column, their unweighted mean as in RADDLE, intervals and paired tests."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain, combinations

import msgspec
from msgspec.structs import replace

from parapet.evaluation.compare import kinds
from parapet.evaluation.compare.significance import Difference, Parts, holm, intervals, paired
from parapet.evaluation.dst.failures import HurtFrame
from parapet.evaluation.results import VARIANTS, WHOLE, ResultRow, macro_average
from parapet.evaluation.sets import ALL, existing_file, parse_line
from parapet.schemas.limits import read_whole

# The sums by dialogue of the numbers that are means of rows, by system and column.
PartsOf = Mapping[tuple[str, str], Parts]


class Config(msgspec.Struct, frozen=True, kw_only=True):
    """What is compared, and how.

    Attributes:
      metrics: the columns, see :func:`columns_of`.
      average: the columns of the average; empty for the main metric of each task on each set.
      sets: the sets, in the order of the columns; empty for all.
      everything: whether tasks and sets that only some systems have are shown, too.
      baseline: the system to compare the others with; empty compares all pairs.
      seed: the seed of tests and intervals.
      replicates: the replicates of the tests; 0 for no tests.
    """

    metrics: tuple[str, ...] = ()
    average: tuple[str, ...] = ()
    sets: tuple[str, ...] = ()
    everything: bool = False
    baseline: str = ""
    seed: str = "0"
    replicates: int = 10_000


DEFAULT = Config()


class Board(msgspec.Struct, frozen=True):
    """The content of ``leaderboard.json``, from which pages and tables are made.

    Attributes:
      systems: the best average first.
      columns: the columns, in the order of the page; ``averaged`` are those that the average includes.
      rows: the numbers of each system, its columns first, as ``parapet evaluate`` writes them: shares are from 0 to 1.
      variants: task to the sets that ``#VARIANTS`` averages, for tasks with several variants.
      examples: system to the frames that variants hurt most.
      left_out: messages on what some systems were not scored on.
      average: the average of each system, on a scale of 100.
    """

    config: Config
    systems: list[str]
    columns: list[str]
    averaged: list[str]
    rows: list[ResultRow]
    variants: dict[str, list[str]]
    examples: dict[str, list[HurtFrame]]
    left_out: list[str]
    average: dict[str, ResultRow] = {}
    tests: list[Difference] = []

    @property
    def column_rows(self) -> list[ResultRow]:
        """A row of each column."""
        return self.rows[: len(self.columns)]

    @property
    def averaged_rows(self) -> list[ResultRow]:
        """A row of each column that the average includes."""
        return [row for row in self.column_rows if row.column in self.averaged]

    @property
    def numbers(self) -> dict[tuple[str, str], ResultRow]:
        """The numbers and averages by system and column."""
        averages = {(name, kinds.AVERAGE): row for name, row in self.average.items()}
        return {(row.system, row.column): row for row in self.rows} | averages


def leaderboard(board: Board, parts: PartsOf) -> Board:
    """Completes what ``read_systems`` returns: ranks the systems, and adds intervals, averages and tests."""
    parts, numbers, average = dict(parts), board.numbers, {}
    for name in board.systems:
        rows = [numbers[name, column] for column in board.averaged]
        value = macro_average([None if row.value is None else kinds.of_100(row.metric, row.value) for row in rows])
        average[name] = ResultRow(name, WHOLE, ALL, WHOLE, kinds.AVERAGE, value)
        of_rows = [parts.get((name, row.column), ()) for row in rows]
        if all(of_rows) and len(set(map(len, of_rows))) == 1:  # the mean of the columns is that of their parts
            parts[name, kinds.AVERAGE] = tuple(chain(*of_rows))
    # Intervals are those of the evaluation, or else computed from the rows; of averages, only where all are shares.
    lacking = {(row.system, row.column): row.metric for row in board.rows if row.low is None}
    if not any(row.metric in kinds.OF_100 for row in board.averaged_rows):
        lacking |= {(name, kinds.AVERAGE): kinds.AVERAGE for name in board.systems}
    lacking = {key: metric for key, metric in lacking.items() if key in parts}
    computed = intervals([parts[key] for key in lacking], board.config.seed, [*lacking.values()])
    ends = {key: interval for key, interval in zip(lacking, computed, strict=True) if interval}
    for name in average.keys() & {name for name, column in ends if column == kinds.AVERAGE}:
        low, high = ends[name, kinds.AVERAGE]
        average[name] = replace(average[name], low=100 * low, high=100 * high)
    rows = [
        replace(row, low=low, high=high)
        for row in board.rows
        for low, high in [ends.get((row.system, row.column), (row.low, row.high))]
    ]
    ranked = sorted(board.systems, key=lambda name: (average[name].value is None, -(average[name].value or 0.0), name))
    board = replace(board, systems=ranked, rows=sorted(rows, key=lambda row: ranked.index(row.system)), average=average)
    return replace(board, tests=_tests(board, parts))


def _tests(board: Board, parts: PartsOf) -> list[Difference]:
    """Tests all pairs of systems, or each system against the baseline, on the columns and on the average."""
    baseline, replicates = board.config.baseline, board.config.replicates
    pairs = list(combinations(board.systems, 2))
    if baseline:
        pairs = [(name, baseline) for name in board.systems if name != baseline]
    factors: dict[str, list[float]] = {}
    for row in board.column_rows:
        counts = {len(parts.get((name, row.column), ())) for name in board.systems}
        if len(counts) == 1 and 0 not in counts:
            factors[row.column] = [kinds.of_100(row.metric, 1.0)] * counts.pop()
    # Numbers computed over several sets are tested by the bootstrap; the average only if all of its columns can be
    # tested.
    over_sets = {row.column for row in board.column_rows if row.set == VARIANTS}
    averaged = board.averaged
    is_tested = len(averaged) > 1 and set(averaged) <= factors.keys() - over_sets
    if is_tested and all((name, kinds.AVERAGE) in parts for name in board.systems):
        factors[kinds.AVERAGE] = [factor for column in averaged for factor in factors[column]]
    if not replicates or not pairs or not factors:
        return []
    tests = paired(parts, pairs, factors, board.config.seed, replicates, over_sets)
    corrected = holm([test.p for test in tests])
    return [replace(test, p_holm=p) for test, p in zip(tests, corrected, strict=True)]


def read_board(path: str) -> Board:
    """Reads ``leaderboard.json``. Raises InputError for any other file."""
    return parse_line(read_whole(existing_file(path)), msgspec.json.Decoder(Board), path, "")
