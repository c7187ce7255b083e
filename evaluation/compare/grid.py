"""The one table: a row a system, a column a set, rows grouped by metric; how sets and metrics are called."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from parapet.evaluation.compare.leaderboard import AVERAGE, Board, Number, Value
from parapet.evaluation.compare.results import (
    JGA,
    LOW_IS_GOOD,
    OF_100,
    SENSITIVITY,
    VARIANTS,
    WHOLE,
    Column,
    macro_average,
    mixes,
    set_order,
)
from parapet.evaluation.lines import ALL, group_label
from parapet.evaluation.sets import ORIGINAL
from parapet.transforms.report import Table
from parapet.transforms.text import counted, number, percent

_LABELS = {JGA: "joint goal accuracy", "active_intent_accuracy": "intent accuracy",
           "inform": "Inform", "success": "Success", "combined": "Combined",
           "f1": "F1", "macro_f1": "macro-F1", "bleu": "BLEU", "sgsacc": "SGSAcc",
           "sgsacc_all": "SGSAcc of all turns", "sgsacc_acts": "SGSAcc by act", "sgsacc_acts_all": "SGSAcc of all acts",
           "auroc": "AUROC", "aupr": "AUPR", "fpr95": "FPR95"}  # fmt: skip
_IN_DOMAINS = {"dst": (JGA,), "response": ("inform", "success", "bleu")}
_TASKS = {"intent": "intent", "ood": "out-of-domain"}


class Block(msgspec.Struct, frozen=True):
    """The rows of one metric: for each system its mean over sets, and a number for each column of the grid."""

    title: str
    metric: str
    systems: list[str]
    means: list[Number]
    numbers: list[list[Value | None]]


class Grid(msgspec.Struct, frozen=True):
    """The one table: blocks of a metric each, a row a system, a column a set.

    Attributes:
      mixes: the columns whose sets mix another set with the original.
    """

    headings: list[str]
    blocks: list[Block]
    with_mean: bool
    mixes: frozenset[int] = frozenset()


def metric_label(metric: str) -> str:
    """A metric as pages name it."""
    return _LABELS.get(metric, metric.replace("_", " "))


def full_label(board: Board, task: str, metric: str) -> str:
    """A metric with its task where there are several tasks: ``intent accuracy``, ``out-of-domain F1``."""
    tasks = {column.task for column in board.columns}
    label = metric_label(metric)
    if len(tasks) < 2 or metric in (JGA, SENSITIVITY):
        return label
    if task in _TASKS:
        return f"{_TASKS[task]} {label}"
    clash = {column.task for column in board.columns if column.metric == metric} - {task}
    return f"{label} of {task}" if clash else label


def set_label(board: Board, task: str, name: str) -> str:
    """A set as pages name it: the mean over v1 to v5 is ``v1–v5``."""
    if name != VARIANTS:
        return group_label(name).lower() if name.startswith("#") else name
    names = board.variants.get(task, [])
    return f"{names[0]}–{names[-1]}" if names else "variants"


def headings(board: Board) -> dict[str, str]:
    """What pages call the columns, as short as it can be without being ambiguous, by name."""
    metrics = {(column.task, column.metric) for column in board.columns if column.metric != SENSITIVITY}
    found = {AVERAGE: "average" if board.selection.average or len(metrics) > 1 else "mean"}
    for each in board.columns:
        parts = [each.group] if each.group != WHOLE else []
        if each.metric != SENSITIVITY and not (parts and each.set == ALL):  # a group without a set is of all
            parts.append(set_label(board, each.task, each.set))
        parts += [full_label(board, each.task, each.metric)] if len(metrics) > 1 or each.metric == SENSITIVITY else []
        found[each.column.name] = " ".join(parts)
    return found


def grid(board: Board, group: str = WHOLE) -> Grid:
    """The table of all services, or of a group of them."""
    values = {(value.system, value.column): value for value in board.values if value.group == group}
    there = list(dict.fromkeys(column for _, column in values))
    wanted = {(column.task, column.set, column.metric) for column in board.columns}
    there = [column for column in there if group != WHOLE or (column.task, column.set, column.metric) in wanted]
    has_goals = {column.task for column in there if column.metric == JGA}
    beside = [column for column in there if column.metric == SENSITIVITY and column.task in has_goals]
    of_rows = [column for column in there if column not in beside]
    keys = sorted({(column.set, "") for column in of_rows} | {(column.set, SENSITIVITY) for column in beside},
                  key=lambda key: (set_order(key[0], board.selection.sets), key[1]))  # fmt: skip

    def value(name: str, column: Column) -> Value | None:
        lacking = Value(name, column.task, column.set, group, column.metric, None) if column in there else None
        return values.get((name, column), lacking)

    blocks = []
    for task, metric in dict.fromkeys((column.task, column.metric) for column in of_rows):
        rows = [
            [value(name, Column(task, at, extra or metric, group)) if not extra or metric == JGA else None
             for at, extra in keys]
            for name in board.systems
        ]  # fmt: skip
        blocks.append(
            Block(_block_title(board, task, metric), metric, board.systems, [_mean(row) for row in rows], rows)
        )
    averaged = {(column.task, column.metric) for column in board.columns if column.in_average}
    several = sum(not extra for _, extra in keys) > 1  # of one set the column of means is not shown
    if group == WHOLE and len(averaged) > 1 and several:
        empty: list[list[Value | None]] = [[None] * len(keys) for _ in board.systems]
        averages = [board.average[name] for name in board.systems]
        blocks.insert(0, Block("Average", AVERAGE, board.systems, averages, empty))
    elif group == WHOLE and len(blocks) == 1:
        blocks = [msgspec.structs.replace(blocks[0], means=[board.average[name] for name in board.systems])]
    names = [
        f"{metric_label(extra)}, {unit(extra)}" if extra else _shared_label(board, at, of_rows) for at, extra in keys
    ]
    mixed = mixes({name for name, _ in keys})
    return Grid(names, blocks, several, frozenset(j for j, (name, _) in enumerate(keys) if name in mixed))


def one_row(board: Board) -> Grid:
    """The table with all numbers of the average in one row a system, set by set (RADDLE, Table 2)."""
    metrics = list(dict.fromkeys(column.metric for column in board.columns))
    averaged = sorted(
        (one.column for one in board.columns if one.in_average),
        key=lambda one: (set_order(one.set, board.selection.sets), one.group, metrics.index(one.metric)),
    )
    values = {(value.system, value.column): value for value in board.values}
    rows: list[list[Value | None]] = [[values[name, column] for column in averaged] for name in board.systems]
    names = headings(board)
    block = Block("Average", AVERAGE, board.systems, [board.average[name] for name in board.systems], rows)
    return Grid([names[column.name].replace(metric_label(JGA), "JGA") for column in averaged], [block], True)


def by_domain(board: Board) -> list[Table]:
    """A table a task: below each system a row a set, for each domain its metrics (RADDLE, Tables 3 to 5)."""
    tables = []
    values = {(value.system, value.column): value for value in board.values}
    for task in dict.fromkeys(column.task for column in board.columns):
        metrics = [
            one for one in _IN_DOMAINS.get(task, ()) if any(c.task == task and c.metric == one for c in board.columns)
        ]
        columns = [(domain, metric) for domain in board.selection.domains for metric in metrics]
        sets = dict.fromkeys(one.set for one in board.columns if one.task == task and one.metric in metrics)
        rows: list[list[str]] = []
        groups: dict[int, str] = {}
        for name in board.systems:
            for at in sets:
                found = [values.get((name, Column(task, at, metric, domain))) for domain, metric in columns]
                if any(one is not None and one.value is not None for one in found):
                    groups |= {len(rows): name} if name not in groups.values() else {}
                    rows.append([set_label(board, task, at), *("–" if one is None else cell(one, []) for one in found)])
        several = len(metrics) > 1
        names = [f"{domain} {metric_label(metric)}" if several else domain for domain, metric in columns]
        what = "Responses" if task == "response" else metric_label(metrics[0]).capitalize() if metrics else ""
        if rows:
            title = f"{what} by domain, {'of 100' if several else unit(metrics[0])}"
            tables.append(Table(title=title, columns=["set", *names], rows=rows, groups=groups, numbers_in="table.csv"))
    return tables


def _shared_label(board: Board, name: str, columns: Sequence[Column]) -> str:
    return set_label(board, next(column.task for column in columns if column.set == name), name)


def _block_title(board: Board, task: str, metric: str) -> str:
    label = full_label(board, task, metric)
    return label[:1].upper() + label[1:]


def _mean(row: Sequence[Value | None]) -> Number:
    of_sets = [one for one in row if one is not None and not one.set.startswith("#") and one.metric != SENSITIVITY]
    mixed = mixes({one.set for one in of_sets})
    values = [one.value for one in of_sets if one.set not in mixed]
    whole = [one.value for one in row if one is not None and one.set != VARIANTS]
    mean = macro_average(values or whole)
    metric = next((one.metric for one in row if one is not None), "")
    return Number(None if mean is None else of_100(metric, mean))


def of_100(metric: str, value: float) -> float:
    """A number as tables have it."""
    return value if metric in OF_100 else 100 * value


def unit(metric: str) -> str:
    """The unit of a number as tables have it."""
    return "of 100" if metric in OF_100 | {AVERAGE} else "%"


def shown(metric: str, value: float | None) -> str:
    """A number as tables print it."""
    return number(None if value is None else of_100(metric, value), 1)


def best(block: Block) -> tuple[set[int], set[tuple[int, int]]]:
    """The rows whose mean is the best, and the (row, column) of the best numbers, as they are printed."""
    if len(block.systems) < 2:
        return set(), set()
    means = _best([number(mean.value, 1) for mean in block.means], block.metric in LOW_IS_GOOD)
    cells = set()
    for j in range(len(block.numbers[0])):
        column = [row[j] for row in block.numbers]
        low_is_good = any(one is not None and one.metric in LOW_IS_GOOD for one in column)
        texts = ["–" if one is None else shown(one.metric, one.value) for one in column]
        cells |= {(i, j) for i in _best(texts, low_is_good)}
    return means, cells


def _best(texts: Sequence[str], low_is_good: bool) -> set[int]:
    known = {i: float(text.replace(",", "")) for i, text in enumerate(texts) if text != "–"}
    if len(set(known.values())) < 2:
        return set()
    top = min(known.values()) if low_is_good else max(known.values())
    return {i for i, value in known.items() if value == top}


def grid_tables(of: Sequence[tuple[str, Grid]], title: str, note: str = "") -> list[Table]:
    """Grids as a table, and what :func:`with_mixes_folded` makes of it; a heading above each of several blocks.

    Args:
      of: the grids, all with the same columns, each with what its headings add.
      title: of the table.
      note: above it.
    """
    rows: list[list[str]] = []
    bold: set[tuple[int, int]] = set()
    groups: dict[int, str] = {}
    with_mean = of[0][1].with_mean
    mean = "average" if of[0][1].blocks[0].title == "Average" and len(of[0][1].blocks) == 1 else "mean"
    several = sum(len(one.blocks) for _, one in of) > 1
    for what, one in of:
        for block in one.blocks:
            if several:
                metric = f"{block.title}, {unit(block.metric)}"
                groups[len(rows)] = f"{metric}, {what}" if what and len(one.blocks) > 1 else what or metric
            means, cells = best(block)
            shift = 1 + with_mean
            bold |= {(len(rows) + i, j + shift) for i, j in cells}
            bold |= {(len(rows) + i, 1) for i in means if with_mean}
            for name, of_row, numbers in zip(block.systems, block.means, block.numbers, strict=True):
                start = [name, *([_with_interval(of_row)] if with_mean else [])]
                rows.append([*start, *(cell(value, numbers) for value in numbers)])
    columns = ["system", *([mean] if with_mean else []), *of[0][1].headings]
    table = Table(
        title=title, columns=columns, rows=rows, note=note, best=sorted(bold), groups=groups, numbers_in="table.csv"
    )
    return with_mixes_folded(table, of[0][1])


def with_mixes_folded(table: Table, whole: Grid) -> list[Table]:
    """A table whose last columns are those of a grid, without its mixes; and these in a folded table of their own."""
    if not whole.mixes:
        return [table]
    shift = len(table.columns) - len(whole.headings)
    mixed = [shift + j for j in sorted(whole.mixes)]
    summary = f"{counted(len(mixed), 'more set')}: mixes of these sets with the original"
    kept = _with_columns(table, [j for j in range(len(table.columns)) if j not in mixed])
    of_mixes = msgspec.structs.replace(_with_columns(table, [0, *mixed]), title=f"{table.title}: mixes", folded=summary)
    return [kept, of_mixes]


def _with_columns(table: Table, columns: Sequence[int]) -> Table:
    """Some columns of a table, the row's name first, and the rows that have a number there."""
    rows = [i for i, row in enumerate(table.rows) if any(row[j] for j in columns[1:])]
    groups: dict[int, str] = {}
    for position, i in enumerate(rows):
        start = max((start for start in table.groups if start <= i), default=None)
        if start is not None and table.groups[start] not in groups.values():
            groups[position] = table.groups[start]
    return msgspec.structs.replace(
        table,
        columns=[table.columns[j] for j in columns],
        rows=[[table.rows[i][j] for j in columns] for i in rows],
        best=[(rows.index(i), columns.index(j)) for i, j in table.best if i in rows and j in columns],
        groups=groups,
    )


def _with_interval(mean: Number) -> str:
    text = number(mean.value, 1)
    return text if mean.low is None or mean.high is None else f"{text}\n{mean.low:.1f}–{mean.high:.1f}"


def cell(value: Value | None, row: Sequence[Value | None]) -> str:
    """The number, and in small print its interval and its change against the original."""
    if value is None:
        return ""
    if value.value is None:
        scores = [one.value for one in row if one is not None and (one.set, one.metric) == (value.set, JGA)]
        return "not defined" if value.metric == SENSITIVITY and scores == [0] else "–"
    lines = [shown(value.metric, value.value)]
    if value.low is not None and value.high is not None:
        lines.append(f"{shown(value.metric, value.low)}–{shown(value.metric, value.high)}")
    change = drop(value, row)
    return "\n".join([*lines, *([percent(change, 1, signed=True)] if change is not None else [])])


def drop(value: Value, row: Iterable[Value | None]) -> float | None:
    """The relative change of a number against the original's; None of the original itself, or where there is none."""
    if value.set == ORIGINAL or value.metric == SENSITIVITY or value.value is None:
        return None
    original = next((one.value for one in row if one and one.set == ORIGINAL and one.metric == value.metric), None)
    return (value.value - original) / original if original else None
