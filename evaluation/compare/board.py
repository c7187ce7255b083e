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
from parapet.evaluation.sets import ALL, existing_file
from parapet.schemas.errors import InputError
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
    parts = dict(parts)
    for name in board.systems:
        of_columns = [parts.get((name, column), ()) for column in board.averaged]
        if all(of_columns) and len(set(map(len, of_columns))) == 1:  # the mean of the columns is that of their parts
            parts[name, kinds.AVERAGE] = tuple(chain(*of_columns))
    average = {name: _average(board, name, parts.get((name, kinds.AVERAGE), ())) for name in board.systems}
    ranked = sorted(board.systems, key=lambda name: (average[name].value is None, -(average[name].value or 0.0), name))
    rows = sorted(board.rows, key=lambda row: ranked.index(row.system))
    # Intervals are those of the evaluation, or else computed from the rows.
    lacking = [row for row in rows if row.low is None and (row.system, row.column) in parts]
    computed = intervals(
        [parts[row.system, row.column] for row in lacking], board.config.seed, [row.metric for row in lacking]
    )
    ends = {row: interval for row, interval in zip(lacking, computed, strict=True) if interval}
    rows = [replace(row, low=low, high=high) for row in rows for low, high in [ends.get(row, (row.low, row.high))]]
    board = replace(board, systems=ranked, rows=rows, average=average)
    return replace(board, tests=_tests(board, parts))


def _average(board: Board, name: str, parts: Parts) -> ResultRow:
    """Computes the average of a system, with an interval if all of its numbers are shares and means of rows."""
    numbers = {row.column: row for row in board.rows if row.system == name}
    rows = [numbers[column] for column in board.averaged]
    value = macro_average([None if row.value is None else kinds.of_100(row.metric, row.value) for row in rows])
    interval = None
    if parts and not any(row.metric in kinds.OF_100 for row in rows):
        interval = intervals([parts], board.config.seed, [kinds.AVERAGE])[0]
    low, high = [100 * end for end in interval] if interval else (None, None)
    return ResultRow(name, WHOLE, ALL, WHOLE, kinds.AVERAGE, value, low, high)


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
    try:
        return msgspec.json.decode(read_whole(existing_file(path)), type=Board)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InputError(f"not a leaderboard.json: {error}", path) from None
