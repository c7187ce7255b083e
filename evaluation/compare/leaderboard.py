"""The leaderboard: systems by columns, their unweighted mean as in RADDLE, intervals and paired tests.

Also makes the main table, with a row for each system, a column for each set and rows grouped by metric, and the labels
of sets and metrics.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from typing import Any

import msgspec
from msgspec.structs import asdict

from parapet.evaluation.compare.results import (
    AVERAGED,
    EVERYTHING,
    JGA,
    LOW_IS_GOOD,
    OF_100,
    Column,
    Selection,
    absent_groups,
    accuracies,
    columns_of,
    of_100,
    read_outcome,
    selected,
    set_order,
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
from parapet.evaluation.results import SEEN, SENSITIVITY, UNSEEN, VARIANTS, WHOLE, ResultRow, macro_average
from parapet.evaluation.sets import ALL, ORIGINAL, existing_file, group_label, mixes
from parapet.evaluation.task import NOT_DEFINED, change_text, sensitivity_is_defined
from parapet.schemas.errors import InputError
from parapet.schemas.limits import read_whole
from parapet.transforms.reports.report import Table
from parapet.transforms.reports.text import counted, number

AVERAGE = "average"
ALL_HAVE = "all systems have"


class Number(msgspec.Struct, frozen=True):
    """A number and its 95 % interval, if it has one."""

    value: float | None
    low: float | None = None
    high: float | None = None


class Value(msgspec.Struct, frozen=True):
    """A row of ``table.csv``: one of a system's numbers from ``parapet evaluate``; see :class:`Column`."""

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
        """The column of the number."""
        return Column(self.task, self.set, self.metric, self.group)


class BoardColumn(Column, frozen=True, kw_only=True):
    """A column of the leaderboard.

    Attributes:
      in_average: whether the average includes it; metrics of which less is better are not included.
      tested: whether its differences could be tested.
    """

    in_average: bool
    tested: bool

    @property
    def column(self) -> Column:
        """The column without the attributes of the leaderboard."""
        return Column(self.task, self.set, self.metric, self.group)


class PairedTest(Difference, frozen=True, kw_only=True):
    """A paired test of two systems on a column or the average.

    ``difference`` and ``interval`` are on a scale of 100.
    """

    first: str
    second: str
    column: str
    p_holm: float


class SignificanceConfig(msgspec.Struct, frozen=True):
    """The settings of the tests.

    Attributes:
      baseline: the system to compare the others with; empty compares all pairs.
      replicates: 0 for no tests.
    """

    baseline: str = ""
    seed: str = "0"
    replicates: int = 10_000


class Board(msgspec.Struct, frozen=True):
    """The content of ``leaderboard.json``, from which pages and tables are made.

    Attributes:
      systems: the best average first.
      values: the numbers of each system, as ``parapet evaluate`` writes them: shares are between 0 and 1.
      average: the average of each system, on a scale of 100.
      variants: task to the sets that ``#VARIANTS`` averages, for tasks with variants.
      left_out: messages on what some systems were not scored on.
      examples: system to the frames that variants hurt most.
      selection: the sets and the columns of the average.
      relative_changes: for each other system than the baseline, group (``all``, ``seen``, ``unseen``) to metric to the
        relative change of the number over the variants from the baseline's (SGD-X, Table 3).
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
    """The numbers of some systems, all on the same tasks and sets.

    Attributes:
      values: the numbers of each system; ``intervals`` are those that the evaluation computed.
      columns: the columns of the leaderboard; ``averaged`` are those that the average includes.
      parts: system to column to the sums by dialogue, for numbers that are means of rows.
      left_out: messages on what some systems were not scored on.
      variants: see :class:`Board`, as are ``examples``.
      selection: the sets and the columns of the average.
    """

    values: dict[str, dict[Column, float | None]]
    intervals: dict[str, dict[Column, tuple[float, float]]]
    columns: list[Column]
    averaged: list[Column]
    parts: dict[str, dict[Column, Parts]]
    left_out: list[str]
    variants: dict[str, list[str]]
    examples: dict[str, list[HurtFrame]]
    selection: Selection = EVERYTHING


def read_systems(
    systems: Mapping[str, Sequence[str]],
    metrics: Sequence[str] = (),
    everything: bool = False,
    selection: Selection = EVERYTHING,
) -> Systems:
    """Reads the outputs of ``parapet evaluate`` for some systems.

    Args:
      systems: name to folders, one for each task.
      metrics: the columns, see :func:`columns_of`.
      everything: whether to compare also tasks and sets that only some systems have.
      selection: the sets and the columns of the average.

    Raises:
      InputError: the systems cannot be compared, or a metric does not exist.
    """
    read = {name: [read_outcome(path) for path in paths] for name, paths in systems.items()}
    absent: list[str] = []
    if everything:
        known_sets = {name for outcomes in read.values() for outcome in outcomes for name in outcome.sets}
        absent = [f"set {name}: no system has it" for name in selection.sets if name not in known_sets]
        selection = msgspec.structs.replace(selection, sets=tuple(filter(known_sets.__contains__, selection.sets)))
    outcomes, left_out = shared(selected(read, selection.sets), everything)
    left_out += absent
    values = {
        name: {column: value for outcome in of_system for column, value in outcome.values.items()}
        for name, of_system in outcomes.items()
    }
    available = list(dict.fromkeys(column for of_system in values.values() for column in of_system))
    if everything:
        names = {name for column in available for name in column.names}
        lacking = [name for name in selection.average if name not in names]
        left_out += [f"from the average, because no system has it: {', '.join(lacking)}"] if lacking else []
        selection = msgspec.structs.replace(selection, average=tuple(filter(names.__contains__, selection.average)))
    columns = columns_of(available, metrics, selection.sets)
    mixed = mixes({column.set for column in columns})  # mixes only repeat the result of their set, diluted
    averaged = [column for column in columns if column.set not in mixed and _is_averaged(column, frozenset(metrics))]
    if everything:
        averaged = _common(averaged, values)
    if selection.average:
        averaged = columns_of(available, selection.average, selection.sets, "--average")
        if bad := next((column.name for column in averaged if column.low_is_good), None):
            raise InputError(f"{bad}: lower values are better, so it cannot be part of an average", "--average")
        chosen = tuple(dict.fromkeys([column.name for column in [*averaged, *columns]]))
        columns = columns_of(available, chosen, selection.sets)
    absent_columns = absent_groups(available, metrics)
    left_out += [f"{name}: the systems were not scored on such services" for name in absent_columns]
    wanted = [column for of_system in values.values() for column in _with_groups(columns, of_system)]
    parts: dict[str, dict[Column, Parts]] = {name: {} for name in outcomes}
    for task in dict.fromkeys(column.task for column in available):
        of_task = {
            name: outcome for name, of_system in outcomes.items() for outcome in of_system if outcome.task == task
        }
        rows = {name: rows for name, outcome in of_task.items() if (rows := read_rows(outcome, wanted)) is not None}
        left_out += check_same_turns(rows, of_task)
        for name, of_outcome in rows.items():
            parts[name] |= of_outcome.parts
    flat = [(name, outcome) for name, of_system in outcomes.items() for outcome in of_system]
    return Systems(
        values,
        {name: {at: ends for outcome in outcomes[name] for at, ends in outcome.intervals.items()} for name in outcomes},
        columns,
        averaged,
        parts,
        left_out,
        {outcome.task: list(outcome.variants) for _, outcome in flat if len(outcome.variants) > 1},
        {name: list(outcome.examples) for name, outcome in flat if outcome.examples},
        selection,
    )


def _common(columns: Sequence[Column], values: Mapping[str, Mapping[Column, float | None]]) -> list[Column]:
    """Returns the columns that all systems have, so that their means can be compared.

    If there are none, those that all systems with a result of the column's task have.
    """
    having = {column: {name for name in values if values[name].get(column) is not None} for column in columns}
    of_tasks: dict[str, set[str]] = {}
    for column in columns:
        of_tasks.setdefault(column.task, set()).update(having[column])
    common = [column for column in columns if len(having[column]) == len(values)]
    return common or [column for column in columns if having[column] == of_tasks[column.task]]


def _is_averaged(column: Column, requested: frozenset[str]) -> bool:
    if column.low_is_good:
        return False
    if requested:
        return column.set != VARIANTS or bool((column.names - {column.metric}) & requested)
    return column.metric in AVERAGED.get(column.task, ()) and column.set != VARIANTS


def _with_groups(columns: Sequence[Column], available: Iterable[Column]) -> list[Column]:
    """Returns the columns, and those of seen and unseen services and of single services, if any."""
    wanted = {(column.task, column.set, column.metric) for column in columns if column.group == WHOLE}
    groups = (column for column in available if column.group != WHOLE)
    more = (column for column in groups if (column.task, column.set, column.metric) in wanted)
    return list(dict.fromkeys([*columns, *more]))


def leaderboard(systems: Systems, settings: SignificanceConfig) -> Board:
    """Makes the leaderboard."""
    averages = {name: _average(systems, name, settings.seed) for name in systems.values}
    ranked = sorted(averages, key=lambda name: (averages[name].value is None, -(averages[name].value or 0.0), name))
    counts = {column: {len(parts.get(column, ())) for parts in systems.parts.values()} for column in systems.columns}
    testable = [column for column, kinds in counts.items() if len(kinds) == 1 and kinds != {0}]
    tested = testable if settings.replicates and len(ranked) > 1 else []
    return Board(
        ranked,
        [
            BoardColumn(**asdict(column), in_average=column in systems.averaged, tested=column in testable)
            for column in systems.columns
        ],
        [value for name in ranked for value in _values(systems, name, settings.seed)],
        {name: averages[name] for name in ranked},
        _tests(ranked, systems, tested, settings) if tested else [],
        settings,
        systems.variants,
        systems.left_out,
        {name: systems.examples[name] for name in ranked if name in systems.examples},
        {name: kinds for name in ranked if (kinds := _relative_changes(systems, name, settings.baseline))},
        systems.selection,
    )


def _relative_changes(systems: Systems, name: str, baseline: str) -> dict[str, dict[str, float]]:
    """Computes the relative changes of joint goal accuracy and sensitivity over variants, by group of services."""
    relative_changes: dict[str, dict[str, float]] = {}
    for group in (WHOLE, SEEN, UNSEEN) if baseline not in ("", name) else ():
        for metric in (JGA, SENSITIVITY):
            column = Column("dst", VARIANTS, metric, group)
            value, other = systems.values[name].get(column), systems.values[baseline].get(column)
            if value is not None and other:
                relative_changes.setdefault(group, {})[metric] = (value - other) / other
    return relative_changes


def _average(systems: Systems, name: str, seed: str) -> Number:
    """Computes the average of a system, with an interval if all of its numbers are means of rows."""
    numbers = [(column.metric, systems.values[name].get(column)) for column in systems.averaged]
    parts = [systems.parts[name].get(column, ()) for column in systems.averaged]
    interval = None
    if _alike(parts) and not any(column.metric in OF_100 for column in systems.averaged):
        interval = intervals([tuple(part for part_list in parts for part in part_list)], seed, [AVERAGE])[0]
    value = macro_average([None if number is None else of_100(metric, number) for metric, number in numbers])
    return Number(value) if interval is None else Number(value, 100 * interval[0], 100 * interval[1])


def _alike(numbers: Sequence[Parts]) -> bool:
    """Whether the mean of some numbers is also the mean of their parts, as all have equally many and at least one."""
    return all(numbers) and len({len(parts) for parts in numbers}) == 1


def _values(systems: Systems, name: str, seed: str) -> Iterator[Value]:
    """Yields all numbers of a system, with the intervals of the evaluation, or else those computed from the rows."""
    values, parts, known = systems.values[name], systems.parts[name], dict(systems.intervals[name])
    columns = _with_groups(systems.columns, values)
    lacking = [column for column in columns if column not in known and column in parts]
    computed = intervals([parts[column] for column in lacking], seed, [column.metric for column in lacking])
    known |= {column: interval for column, interval in zip(lacking, computed, strict=True) if interval}
    for column in columns:
        value = values.get(column)
        low, high = (None, None) if value is None else known.get(column, (None, None))
        yield Value(name, column.task, column.set, column.group, column.metric, value, low, high)


def _tests(
    ranked: Sequence[str], systems: Systems, tested: Sequence[Column], settings: SignificanceConfig
) -> list[PairedTest]:
    """Tests all pairs of systems, or each system against the baseline, on the columns and on the average."""
    pairs = list(combinations(ranked, 2))
    if baseline := settings.baseline:
        pairs = [(name, baseline) for name in ranked if name != baseline]
    # Numbers computed over several sets are tested by the bootstrap; the average only if all of its columns can be
    # tested.
    single = [column for column in tested if column.set != VARIANTS]
    alike = all(_alike([systems.parts[name].get(column, ()) for column in systems.averaged]) for name in ranked)
    whole = [AVERAGE] if len(systems.averaged) > 1 and set(systems.averaged) <= set(single) and alike else []
    results: dict[tuple[str, str], dict[str, Difference]] = {pair: {} for pair in pairs}
    for method, columns in (
        ("randomisation", single),
        ("bootstrap", [column for column in tested if column not in single]),
    ):
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
        PairedTest(first=pair[0], second=pair[1], column=name, p_holm=p_holm, **asdict(result))
        for (pair, name, result), p_holm in zip(listed, corrected, strict=True)
    ]


def read_board(path: str) -> Board:
    """Reads ``leaderboard.json``. Raises InputError for any other file."""
    try:
        return msgspec.json.decode(read_whole(existing_file(path)), type=Board)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InputError(f"not a leaderboard.json: {error}", path) from None


_LABELS = {JGA: "joint goal accuracy", "active_intent_accuracy": "intent accuracy",
           "inform": "Inform", "success": "Success", "combined": "Combined",
           "f1": "F1", "macro_f1": "macro-F1", "bleu": "BLEU", "sgsacc": "SGSAcc",
           "sgsacc_all": "SGSAcc of all turns", "sgsacc_acts": "SGSAcc by act", "sgsacc_acts_all": "SGSAcc of all acts",
           "auroc": "AUROC", "aupr": "AUPR", "fpr95": "FPR95"}  # fmt: skip
_TASKS = {"intent": "intent", "ood": "out-of-domain"}


class Block(msgspec.Struct, frozen=True):
    """The rows of one metric: each system's mean over sets, and a number for each column of the grid.

    Attributes:
      over: what the means are over, in words: ``10 sets``, or ``the 10 sets that all systems have``.
    """

    title: str
    metric: str
    means: list[Number]
    numbers: list[list[Value | None]]
    over: str = ""


class Grid(msgspec.Struct, frozen=True):
    """The main table: a block for each metric, a row for each system, a column for each set.

    Attributes:
      mixes: the columns whose sets mix another set with the original.
    """

    systems: list[str]
    headings: list[str]
    blocks: list[Block]
    with_mean: bool
    mixes: frozenset[int] = frozenset()


# A row of a table: the heading of its group, its name, and its cells as (text, is bold). Text after a line break is
# small print.
Line = tuple[str, str, list[tuple[str, bool]]]


def metric_label(metric: str) -> str:
    """Returns the label of a metric."""
    return _LABELS.get(metric, metric.replace("_", " "))


def full_label(board: Board, task: str, metric: str) -> str:
    """Returns the label of a metric, with its task if there are several: ``intent accuracy``, ``out-of-domain F1``."""
    tasks = {column.task for column in board.columns}
    label = metric_label(metric)
    if len(tasks) < 2 or metric in (JGA, SENSITIVITY):
        return label
    if task in _TASKS:
        return f"{_TASKS[task]} {label}"
    clash = {column.task for column in board.columns if column.metric == metric} - {task}
    return f"{label} of {task}" if clash else label


def set_label(board: Board, task: str, name: str) -> str:
    """Returns the label of a set; that of the mean over v1 to v5 is ``v1–v5``."""
    if name != VARIANTS:
        return group_label(name).lower() if name.startswith("#") else name
    names = board.variants.get(task, [])
    return f"{names[0]}–{names[-1]}" if names else "variants"


def headings(board: Board) -> dict[str, str]:
    """Returns the labels of the columns, by name: as short as possible without ambiguity."""
    metrics = {(column.task, column.metric) for column in board.columns if column.metric != SENSITIVITY}
    titles = {AVERAGE: "average" if board.selection.average or len(metrics) > 1 else "mean"}
    for each in board.columns:
        parts = [each.group] if each.group != WHOLE else []
        if each.metric != SENSITIVITY and not (parts and each.set == ALL):  # a group without a set refers to all sets
            parts.append(set_label(board, each.task, each.set))
        parts += [full_label(board, each.task, each.metric)] if len(metrics) > 1 or each.metric == SENSITIVITY else []
        titles[each.column.name] = " ".join(parts)
    return titles


def grid(board: Board, group: str = WHOLE) -> Grid:
    """Makes the table of all services, or of a group of services."""
    values = {key: value for key, value in board.by_column.items() if value.group == group}
    columns_present = list(dict.fromkeys(column for _, column in values))
    wanted = {(column.task, column.set, column.metric) for column in board.columns}
    columns_present = [
        column for column in columns_present if group != WHOLE or (column.task, column.set, column.metric) in wanted
    ]
    has_accuracy = {column.task for column in columns_present if column.metric in AVERAGED.get(column.task, ())[:1]}
    beside = [column for column in columns_present if column.metric == SENSITIVITY and column.task in has_accuracy]
    of_rows = [column for column in columns_present if column not in beside]
    keys = sorted({(column.set, "") for column in of_rows} | {(column.set, SENSITIVITY) for column in beside},
                  key=lambda key: (set_order(key[0], board.selection.sets), key[1]))  # fmt: skip

    def value(name: str, column: Column) -> Value | None:
        lacking = (
            Value(name, column.task, column.set, group, column.metric, None) if column in columns_present else None
        )
        return values.get((name, column), lacking)

    blocks = []
    for task, metric in dict.fromkeys((column.task, column.metric) for column in of_rows):
        has_sensitivity = metric in AVERAGED.get(task, ())[:1]
        rows = [
            [value(name, Column(task, at, extra or metric, group)) if not extra or has_sensitivity else None
             for at, extra in keys]
            for name in board.systems
        ]  # fmt: skip
        label = full_label(board, task, metric)
        blocks.append(Block(label[:1].upper() + label[1:], metric, *_means(rows, metric)))
    averaged = {(column.task, column.metric) for column in board.columns if column.in_average}
    several = sum(not extra for _, extra in keys) > 1  # the mean over a single set is not shown
    averages = [board.average[name] for name in board.systems]
    if group == WHOLE and len(averaged) > 1 and several:
        nothing: list[list[Value | None]] = [[None] * len(keys) for _ in board.systems]
        blocks.insert(0, Block("Average", AVERAGE, averages, nothing, averaged_over(board)))
    elif group == WHOLE and len(blocks) == 1:
        blocks = [msgspec.structs.replace(blocks[0], means=averages, over=averaged_over(board))]
    task_of = {column.set: column.task for column in reversed(of_rows)}
    names = [
        f"{metric_label(extra)}, {unit(extra)}" if extra else set_label(board, task_of[at], at) for at, extra in keys
    ]
    mixed = mixes({name for name, _ in keys})
    at_mixes = frozenset(j for j, (name, _) in enumerate(keys) if name in mixed)
    return Grid(board.systems, names, blocks, several, at_mixes)


def one_row(board: Board) -> Grid:
    """Makes the table that has all numbers of the average in one row per system, set by set (RADDLE, Table 2)."""
    metrics = list(dict.fromkeys(column.metric for column in board.columns))
    averaged = sorted(
        (column.column for column in board.columns if column.in_average),
        key=lambda column: (set_order(column.set, board.selection.sets), column.group, metrics.index(column.metric)),
    )
    names, values = headings(board), board.by_column
    rows: list[list[Value | None]] = [[values[name, column] for column in averaged] for name in board.systems]
    averages = [board.average[name] for name in board.systems]
    block = Block("Average", AVERAGE, averages, rows, averaged_over(board))
    shorter = [names[column.name].replace(metric_label(JGA), "JGA") for column in averaged]
    return Grid(board.systems, shorter, [block], True)


def _means(rows: list[list[Value | None]], metric: str) -> tuple[list[Number], list[list[Value | None]], str]:
    """Averages the rows of a block over the sets that all systems with a number in it have; also says what over."""
    present = [(j, score) for j, score in enumerate(rows[0]) if score is not None and score.metric == metric]
    sets = {score.set for _, score in present if not score.set.startswith("#")}
    sets -= mixes(sets)
    places = [j for j, score in present if (score.set in sets if sets else score.set != VARIANTS)]
    values = [[None if (score := row[j]) is None else score.value for j in places] for row in rows]
    having = [row for row in values if any(value is not None for value in row)]
    common = [i for i in range(len(places)) if all(row[i] is not None for row in having)]
    means = [macro_average([row[i] for i in common]) for row in values]
    over = over_in_words(len(common), "set" if sets else "number", len(common) < len(places))
    return [Number(None if mean is None else of_100(metric, mean)) for mean in means], rows, over


def over_in_words(n: int, noun: str, some_lack_others: bool) -> str:
    """Says what a mean is over: ``10 sets``, or ``the 10 sets that all systems have``."""
    return f"the {counted(n, noun)} that {ALL_HAVE}" if some_lack_others else counted(n, noun)


def averaged_over(board: Board) -> str:
    """Says what the average of a board is over."""
    metrics = [column.metric for column in board.columns if column.in_average]
    mixed = mixes({column.set for column in board.columns})
    fewer = not board.selection.average and any(
        column.metric in metrics and not (column.in_average or column.set[:1] == "#" or column.set in mixed)
        for column in board.columns
    )
    return over_in_words(len(metrics), "set" if len(set(metrics)) == 1 else "number", fewer)


def unit(metric: str) -> str:
    """Returns the unit of a metric in tables."""
    return "of 100" if metric in OF_100 | {AVERAGE} else "%"


def shown(metric: str, value: float | None) -> str:
    """Formats a number for tables."""
    return number(None if value is None else of_100(metric, value), 1)


def best(block: Block) -> tuple[set[int], set[tuple[int, int]]]:
    """Finds the rows with the best mean, and the (row, column) of the best numbers, as printed."""
    if len(block.means) < 2 or block.metric == SENSITIVITY:
        return set(), set()
    means = _best([number(mean.value, 1) for mean in block.means], block.metric in LOW_IS_GOOD)
    cells = set()
    for j, column in enumerate(zip(*block.numbers, strict=True)):
        if any(value is not None and value.metric == SENSITIVITY for value in column):
            continue  # a low one is good only beside a high accuracy
        low_is_good = any(value is not None and value.metric in LOW_IS_GOOD for value in column)
        texts = ["–" if value is None else shown(value.metric, value.value) for value in column]
        cells |= {(i, j) for i in _best(texts, low_is_good)}
    return means, cells


def _best(texts: Sequence[str], low_is_good: bool) -> set[int]:
    known = {i: float(text.replace(",", "")) for i, text in enumerate(texts) if text != "–"}
    if len(set(known.values())) < 2:
        return set()
    top = min(known.values()) if low_is_good else max(known.values())
    return {i for i, value in known.items() if value == top}


def grid_tables(of: Sequence[tuple[str, Grid]], title: str, note: str = "") -> list[Table]:
    """Formats grids as a table without mixes and a folded one of mixes, with a heading above each block.

    Args:
      of: (suffix of the headings, grid); all grids have the same columns.
      title: the title of the table.
      note: the text above the table.
    """
    lines: list[Line] = []
    several = sum(len(whole.blocks) for _, whole in of) > 1
    for title_here, whole in of:
        for block in whole.blocks:
            metric = f"{block.title}, {unit(block.metric)}"
            group = f"{metric}, {title_here}" if title_here and len(whole.blocks) > 1 else title_here or metric
            means, cells = best(block)
            for i, (name, mean, numbers) in enumerate(zip(whole.systems, block.means, block.numbers, strict=True)):
                row = [(cell(value, numbers), (i, j) in cells) for j, value in enumerate(numbers)]
                lines.append((group if several else "", name, [(with_interval(mean), i in means), *row]))
    first = of[0][1]
    mean_title = "average" if first.blocks[0].title == "Average" and len(first.blocks) == 1 else "mean"
    fewer = list(dict.fromkeys(block.over for _, whole in of for block in whole.blocks if ALL_HAVE in block.over))
    if fewer:
        mean_title += f" over {fewer[0] if len(fewer) == 1 else f'the sets that {ALL_HAVE}'}"
    columns = ["system", mean_title, *first.headings]
    mixed = [j + 1 for j in sorted(first.mixes)]
    kept = [j for j in range(len(columns) - 1) if j not in mixed and (j > 0 or first.with_mean)]
    tables = [_table(lines, columns, kept, title=title, note=note)]
    if mixed:
        summary = f"{counted(len(mixed), 'more set')}: mixes of these sets with the original"
        tables.append(_table(lines, columns, mixed, title=f"{title}: mixes", note=note, folded=summary))
    return tables


def _table(lines: Iterable[Line], columns: Sequence[str], kept: Sequence[int], **others: Any) -> Table:
    """Makes a table of the lines that have a number in a kept column; the first column is the name."""
    rows: list[list[str]] = []
    bold: list[tuple[int, int]] = []
    groups: dict[int, str] = {}
    for group, name, row in lines:
        cells = [row[j] for j in kept]
        if any(text for text, _ in cells):
            groups |= {len(rows): group} if group and group not in groups.values() else {}
            bold += [(len(rows), j) for j, (_, is_bold) in enumerate(cells, 1) if is_bold]
            rows.append([name, *(text for text, _ in cells)])
    names = [columns[0], *(columns[j + 1] for j in kept)]
    return Table(columns=names, rows=rows, best=bold, groups=groups, numbers_in="table.csv", **others)


def with_interval(mean: Number) -> str:
    """Formats a mean, with its interval in small print."""
    text = number(mean.value, 1)
    return text if mean.low is None or mean.high is None else f"{text}\n{mean.low:.1f}–{mean.high:.1f}"


def is_undefined(value: Value | ResultRow, row: Iterable[Value | ResultRow | None]) -> bool:
    """Whether a number is a schema sensitivity that says nothing beside the accuracies in its row."""
    scores = {Column(score.task, score.set, score.metric, score.group): score.value for score in row if score}
    column = Column(value.task, value.set, value.metric, value.group)
    return value.metric == SENSITIVITY and not sensitivity_is_defined(*accuracies(scores.get, column))


def cell(value: Value | None, row: Sequence[Value | None]) -> str:
    """Formats a number, with its interval and its change from the original in small print."""
    if value is None:
        return ""
    if value.value is None:
        return NOT_DEFINED if is_undefined(value, row) else "–"
    lines = [shown(value.metric, value.value)]
    if value.low is not None and value.high is not None:
        lines.append(f"{shown(value.metric, value.low)}–{shown(value.metric, value.high)}")
    return "\n".join([*lines, *drop(value, row)])


def drop(value: Value, row: Iterable[Value | None]) -> list[str]:
    """Formats the change from the original; empty for the original itself, or without a number."""
    if value.set == ORIGINAL or value.metric == SENSITIVITY or value.value is None:
        return []
    originals = (score for score in row if score and score.set == ORIGINAL and score.metric == value.metric)
    original = next(originals, None)
    if original is None or original.value is None:
        return []
    before, after = (of_100(value.metric, share) / 100 for share in (original.value, value.value))
    points, _, relative = change_text(after, before, original.low).partition(" (")
    return [points, *filter(None, [relative.rstrip(")")])]
