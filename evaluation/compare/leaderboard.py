"""The leaderboard: systems by columns, their unweighted mean as RADDLE has it, and paired tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations

import msgspec

from parapet.evaluation.compare.results import (
    OF_100,
    WHOLE,
    Column,
    Outcome,
    Sums,
    check_same_sets,
    columns_of,
    read_outcome,
    read_sums,
)
from parapet.evaluation.task import Result, Stage, Task
from parapet.evaluation.writing import json_bytes
from parapet.transforms import markdown
from parapet.transforms.report import Dot, Dots, Report, Section, Table, Tile, page
from parapet.transforms.text import counted, number

AVERAGE = "average"
_MOST_SYSTEMS = 8  # of the chart: shapes and colours of more are hard to distinguish

TERMS = {
    "Average": "The unweighted mean of all columns, as on RADDLE's leaderboard, without those where low is good.",
    "p": "How often the difference would be at least as large if, for each dialogue, chance decided which result is of "
    "which system: approximate randomisation over dialogues, two-sided. Sets of the same dialogues are resampled "
    "together.",
    "p, Holm": "The same, corrected for all tests of this page.",
    "Interval": "95% interval of the difference, from a paired bootstrap over dialogues.",
}


class BoardColumn(msgspec.Struct, frozen=True):
    """A column of the board.

    Attributes:
      name: ``ood/ood-50/f1``: task, group and metric.
      in_average: whether the average counts it: not where low is good.
      tested: whether its differences could be tested.
    """

    name: str
    task: str
    group: str
    metric: str
    in_average: bool
    tested: bool


class PairedTest(msgspec.Struct, frozen=True):
    """A paired test of two systems on a column, or on the average; see ``significance.Difference``."""

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
      baseline: the system with which all others are compared; None compares all pairs.
      replicates: 0 for no tests.
    """

    baseline: str | None = None
    seed: str = "0"
    replicates: int = 10_000


class Board(msgspec.Struct, frozen=True):
    """``leaderboard.json``.

    Attributes:
      systems: the best average first.
      values: system to column to value, of 100.
      average: of each system.
    """

    systems: list[str]
    columns: list[BoardColumn]
    values: dict[str, dict[str, float | None]]
    average: dict[str, float | None]
    tests: list[PairedTest]
    settings: SignificanceConfig


class Systems(msgspec.Struct, frozen=True):
    """What is compared: each system's results, all of the same tasks and sets, and the columns."""

    outcomes: dict[str, list[Outcome]]
    columns: list[Column]


class Compare(Task[Systems], frozen=True, kw_only=True):
    """``parapet compare``.

    Attributes:
      systems: name to folders that ``parapet evaluate`` wrote.
      metrics: the columns, as :func:`columns_of` has them.
    """

    name = "compare"

    systems: dict[str, list[str]]
    metrics: tuple[str, ...] = ()
    settings: SignificanceConfig = SignificanceConfig()

    def read(self) -> Systems:
        """Reads the results. Raises InputError where they cannot be compared."""
        outcomes = {name: [read_outcome(path) for path in paths] for name, paths in self.systems.items()}
        check_same_sets(outcomes)
        return Systems(outcomes, columns_of(next(iter(outcomes.values())), self.metrics))

    def score(self, inputs: Systems, stage: Stage) -> Result:
        """The leaderboard."""
        board = leaderboard(inputs, self.settings)
        return Result(
            files=files_of(board),
            summary=_summary(board),
            options={
                "systems": sorted(self.systems),
                "columns": [column.name for column in inputs.columns],
                **msgspec.structs.asdict(self.settings),
            },
        )


def macro_average(values: Sequence[float | None]) -> float | None:
    """The unweighted mean of all reported numbers (RADDLE); None where there is none, or one is not defined."""
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known and len(known) == len(values) else None


def leaderboard(systems: Systems, settings: SignificanceConfig) -> Board:
    """The leaderboard of systems."""
    outcomes, columns = systems.outcomes, systems.columns
    values = {name: {column.name: _value(of, column) for column in columns} for name, of in outcomes.items()}
    averaged = [column for column in columns if not column.low_is_good]
    averages = {name: macro_average([row[column.name] for column in averaged]) for name, row in values.items()}
    ranked = sorted(outcomes, key=lambda name: (averages[name] is None, -(averages[name] or 0.0), name))
    pairs = [(a, b) for a, b in combinations(ranked, 2) if settings.baseline in (None, a, b)]
    sums = {name: _sums(of, columns) for name, of in outcomes.items()} if settings.replicates else {}
    tested = [column for column in columns if sums and all(column in of for of in sums.values())]
    return Board(
        ranked,
        [BoardColumn(one.name, one.task, one.group, one.metric, not one.low_is_good, one in tested) for one in columns],
        values,
        averages,
        _tests(pairs, sums, tested, averaged, settings) if tested else [],
        settings,
    )


def _value(outcomes: Sequence[Outcome], column: Column) -> float | None:
    value = next((one.groups[column.group].get(column.metric) for one in outcomes if one.task == column.task), None)
    return None if value is None else column.of_100(value)


def _sums(outcomes: Sequence[Outcome], columns: Sequence[Column]) -> dict[Column, Sums]:
    sums: dict[Column, Sums] = {}
    for outcome in outcomes:
        sums |= read_sums(outcome, [column for column in columns if column.task == outcome.task])
    return sums


def _tests(
    pairs: Sequence[tuple[str, str]],
    sums: Mapping[str, Mapping[Column, Sums]],
    tested: Sequence[Column],
    averaged: Sequence[Column],
    settings: SignificanceConfig,
) -> list[PairedTest]:
    from parapet.evaluation.compare.significance import Difference, differences, holm

    # The average is tested with its columns, if all of them can be.
    whole = len(averaged) > 1 and set(averaged) <= set(tested)
    inside = [column for column in tested if column in averaged]
    outside = [column for column in tested if column not in averaged]
    results: dict[tuple[str, str], dict[str, Difference]] = {pair: {} for pair in pairs}
    for columns in (inside, outside):
        of_pairs = [[(sums[a][column], sums[b][column]) for column in columns] for a, b in pairs]
        factors = [column.of_100(1.0) for column in columns]
        tests = differences(of_pairs, factors, settings.seed, settings.replicates) if columns and pairs else []
        for pair, (each, mean) in zip(pairs, tests, strict=False):
            results[pair] |= {column.name: difference for column, difference in zip(columns, each, strict=True)}
            if whole and columns is inside:
                results[pair][AVERAGE] = mean
    listed = [(pair, name, results[pair][name]) for pair in pairs for name in results[pair]]
    corrected = holm([one.p for _, _, one in listed])
    return [
        PairedTest(a, b, name, one.difference, one.interval, one.p, one.dialogues, p_holm)
        for ((a, b), name, one), p_holm in zip(listed, corrected, strict=True)
    ]


def files_of(board: Board) -> dict[str, bytes]:
    """The files of the output folder."""
    return {
        "leaderboard.json": json_bytes(board),
        "leaderboard.md": _markdown(board).encode("utf-8", "replace"),
        "report.html": page(_report(board)).encode(),
    }


def _summary(board: Board) -> list[str]:
    lines = []
    for name in board.systems:
        cells = zip(heads(board), board.columns, strict=True)
        values = ", ".join(f"{head} {number(board.values[name][column.name], 2)}" for head, column in cells)
        lines.append(f"{name}: average {number(board.average[name], 2)}; {values}")
    if board.tests:
        clear = sum(test.p_holm < 0.05 for test in board.tests)
        lines.append(f"{clear:,} of {len(board.tests):,} differences have p < 0.05 after Holm's correction")
    return [*lines, *([sentence] if (sentence := untested(board)) else [])]


def heads(board: Board) -> list[str]:
    """The columns' headings, as short as they can be without being ambiguous."""
    tasks = {column.task for column in board.columns}
    only = _metric(board)  # is named above the table
    headings = []
    for column in board.columns:
        parts = [column.task] if len(tasks) > 1 else []
        parts += [column.group] if column.group not in WHOLE else []
        metric = column.metric.replace("_", " ")
        parts += [] if metric == only and parts else [metric]
        headings.append(" ".join(parts))
    return headings


def _metric(board: Board) -> str:
    """The metric of all columns that are of a set, or of all; empty where they have several."""
    of_sets = [column for column in board.columns if column.group not in WHOLE]
    metrics = {column.metric.replace("_", " ") for column in of_sets or board.columns}
    return metrics.pop() if len(metrics) == 1 else ""


def _caption(board: Board) -> str:
    metric = _metric(board)
    several = len({column.metric for column in board.columns}) > 1
    text = f"{metric} where no other metric is named" if several else metric
    return f"{text[:1].upper()}{text[1:]}, of 100" if metric else "All of 100"


def _rows(board: Board) -> list[list[str]]:
    with_average = len(board.columns) > 1
    return [
        [name, *([number(board.average[name], 2)] if with_average else []),
         *(number(board.values[name][column.name], 2) for column in board.columns)]
        for name in board.systems
    ]  # fmt: skip


def _columns(board: Board) -> list[str]:
    return ["system", *(["average"] if len(board.columns) > 1 else []), *heads(board)]


def _test_rows(board: Board) -> list[list[str]]:
    names = dict(zip((column.name for column in board.columns), heads(board), strict=True)) | {AVERAGE: "average"}
    return [
        [f"{test.first} – {test.second}", names[test.column], f"{test.difference:+.2f}",
         "–" if test.interval is None else f"{test.interval[0]:+.2f} to {test.interval[1]:+.2f}",
         f"{test.p:.4f}", f"{test.p_holm:.4f}", f"{test.dialogues:,}"]
        for test in board.tests
    ]  # fmt: skip


_TESTS = ["systems", "column", "difference", "interval", "p", "p, Holm", "dialogues"]


def untested(board: Board) -> str:
    """Which columns could not be tested, in a sentence; empty where all were, or no tests were requested."""
    lacking = [head for column, head in zip(board.columns, heads(board), strict=True) if not column.tested]
    if not lacking or not board.settings.replicates:
        return ""
    return f"Not tested, because they are not means over rows of dialogues: {', '.join(lacking)}."


def _markdown(board: Board) -> str:
    parts = [
        markdown.Markdown("# Leaderboard"),
        markdown.table(_columns(board), _rows(board), len(_columns(board)) - 1),
        markdown.text(f"{_caption(board)}. {TERMS['Average']}"),
    ]
    if board.tests:
        parts += [markdown.Markdown("## Differences"), markdown.table(_TESTS, _test_rows(board), 5)]
        parts += [markdown.bullets(f"{name}: {meaning}" for name, meaning in TERMS.items() if name != "Average")]
    parts += [markdown.text(sentence) for sentence in [untested(board)] if sentence]
    return "\n\n".join(parts) + "\n"


def _report(board: Board) -> Report:
    several = len(board.columns) > 1
    numbers = board.average if several else {name: row[board.columns[0].name] for name, row in board.values.items()}
    shown = {name: numbers[name] for name in board.systems}
    sections: list[Section] = [
        Table(title=_caption(board), columns=_columns(board), rows=_rows(board)),
        *_chart(board),
    ]
    if board.tests:
        note = "The first system minus the second."
        columns, rows = _TESTS, _test_rows(board)
        sections.append(Table(title="Differences", note=note, columns=columns, rows=rows, text_columns=2))
    return Report(
        command="compare",
        title="Leaderboard",
        headline=_headline(board.systems, shown),
        lead=f"{counted(len(board.systems), 'system')}, {counted(len(board.columns), 'number')} each.",
        tiles=[Tile(name, number(shown[name], 2)) for name in board.systems[:6]],
        sections=sections,
        notes=[sentence for sentence in [untested(board)] if sentence],
        terms=TERMS,
        links={"leaderboard.json": "all numbers", "leaderboard.md": "the tables as Markdown"},
    )


def _headline(systems: Sequence[str], shown: Mapping[str, float | None]) -> str:
    first, second = (shown[name] for name in systems[:2])
    return "Systems next to each other" if first is None or first == second else f"{systems[0]} leads"


def _chart(board: Board) -> list[Dots]:
    """All columns that are shares in one chart, a row a column and a mark a system."""
    dots = [
        Dot(head, None if value is None else value / 100, group=name)
        for column, head in zip(board.columns, heads(board), strict=True)
        if column.metric not in OF_100
        for name in board.systems[:_MOST_SYSTEMS]
        for value in [board.values[name][column.name]]
    ]
    more = len(board.systems) - _MOST_SYSTEMS
    note = f"The first {_MOST_SYSTEMS} of {len(board.systems):,} systems." if more > 0 else ""
    return [Dots(title="Systems by column", dots=dots, note=note)] if dots else []
