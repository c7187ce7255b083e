"""The one table: a row a system, a column a set, rows grouped by metric; how sets and metrics are called."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

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
    of_100,
    set_order,
)
from parapet.evaluation.sets import ALL, ORIGINAL, group_label
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
    means: list[Number]
    numbers: list[list[Value | None]]


class Grid(msgspec.Struct, frozen=True):
    """The one table: blocks of a metric each, a row a system, a column a set.

    Attributes:
      mixes: the columns whose sets mix another set with the original.
    """

    systems: list[str]
    headings: list[str]
    blocks: list[Block]
    with_mean: bool
    mixes: frozenset[int] = frozenset()


class Cell(NamedTuple):
    """A cell of a table; what follows a line break is small print."""

    text: str
    is_bold: bool = False


class Line(NamedTuple):
    """A row of a table: the heading that stands above it and those like it, its name, its mean and its cells."""

    group: str
    name: str
    mean: Cell
    cells: list[Cell]


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
    values = {key: value for key, value in board.by_column.items() if value.group == group}
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
        label = full_label(board, task, metric)
        blocks.append(Block(label[:1].upper() + label[1:], metric, [_mean(row) for row in rows], rows))
    averaged = {(column.task, column.metric) for column in board.columns if column.in_average}
    several = sum(not extra for _, extra in keys) > 1  # of one set the column of means is not shown
    averages = [board.average[name] for name in board.systems]
    if group == WHOLE and len(averaged) > 1 and several:
        blocks.insert(0, Block("Average", AVERAGE, averages, [[None] * len(keys) for _ in board.systems]))
    elif group == WHOLE and len(blocks) == 1:
        blocks = [msgspec.structs.replace(blocks[0], means=averages)]
    names = [
        f"{metric_label(extra)}, {unit(extra)}" if extra else _shared_label(board, at, of_rows) for at, extra in keys
    ]
    mixed = mixes({name for name, _ in keys})
    at_mixes = frozenset(j for j, (name, _) in enumerate(keys) if name in mixed)
    return Grid(board.systems, names, blocks, several, at_mixes)


def one_row(board: Board) -> Grid:
    """The table with all numbers of the average in one row a system, set by set (RADDLE, Table 2)."""
    metrics = list(dict.fromkeys(column.metric for column in board.columns))
    averaged = sorted(
        (column.column for column in board.columns if column.in_average),
        key=lambda column: (set_order(column.set, board.selection.sets), column.group, metrics.index(column.metric)),
    )
    names, values = headings(board), board.by_column
    rows: list[list[Value | None]] = [[values[name, column] for column in averaged] for name in board.systems]
    block = Block("Average", AVERAGE, [board.average[name] for name in board.systems], rows)
    shorter = [names[column.name].replace(metric_label(JGA), "JGA") for column in averaged]
    return Grid(board.systems, shorter, [block], True)


def by_domain(board: Board) -> list[Table]:
    """A table a task: below each system a row a set, for each domain its metrics (RADDLE, Tables 3 to 5)."""
    tables = []
    values = board.by_column
    for task in dict.fromkeys(column.task for column in board.columns):
        there = {column.metric for column in board.columns if column.task == task}
        metrics = [metric for metric in _IN_DOMAINS.get(task, ()) if metric in there]
        columns = [(domain, metric) for domain in board.selection.domains for metric in metrics]
        sets = dict.fromkeys(column.set for column in board.columns if column.task == task and column.metric in metrics)
        lines = []
        for name in board.systems:
            for at in sets:
                row = [values.get((name, Column(task, at, metric, domain))) for domain, metric in columns]
                if any(value is not None and value.value is not None for value in row):
                    cells = [Cell("–" if value is None else cell(value, [])) for value in row]
                    lines.append(Line(name, set_label(board, task, at), Cell(""), cells))
        several = len(metrics) > 1
        names = [f"{domain} {metric_label(metric)}" if several else domain for domain, metric in columns]
        what = "Responses" if task == "response" else metric_label(metrics[0]).capitalize() if metrics else ""
        if lines:
            title = f"{what} by domain, {'of 100' if several else unit(metrics[0])}"
            tables.append(_table(lines, ["set", *names], title=title))
    return tables


def _shared_label(board: Board, name: str, columns: Sequence[Column]) -> str:
    return set_label(board, next(column.task for column in columns if column.set == name), name)


def _mean(row: Sequence[Value | None]) -> Number:
    of_sets = [one for one in row if one is not None and not one.set.startswith("#") and one.metric != SENSITIVITY]
    mixed = mixes({one.set for one in of_sets})
    values = [one.value for one in of_sets if one.set not in mixed]
    whole = [one.value for one in row if one is not None and one.set != VARIANTS]
    mean = macro_average(values or whole)
    metric = next((one.metric for one in row if one is not None), "")
    return Number(None if mean is None else of_100(metric, mean))


def unit(metric: str) -> str:
    """The unit of a number as tables have it."""
    return "of 100" if metric in OF_100 | {AVERAGE} else "%"


def shown(metric: str, value: float | None) -> str:
    """A number as tables print it."""
    return number(None if value is None else of_100(metric, value), 1)


def best(block: Block) -> tuple[set[int], set[tuple[int, int]]]:
    """The rows whose mean is the best, and the (row, column) of the best numbers, as they are printed."""
    if len(block.means) < 2:
        return set(), set()
    means = _best([number(mean.value, 1) for mean in block.means], block.metric in LOW_IS_GOOD)
    cells = set()
    for j, column in enumerate(zip(*block.numbers, strict=True)):
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
    """Grids as a table without mixes, and these as a folded one; a heading above each of several blocks.

    Args:
      of: the grids, all with the same columns, each with what its headings add.
      title: of the table.
      note: above it.
    """
    lines = []
    several = sum(len(whole.blocks) for _, whole in of) > 1
    for what, whole in of:
        for block in whole.blocks:
            metric = f"{block.title}, {unit(block.metric)}"
            group = f"{metric}, {what}" if what and len(whole.blocks) > 1 else what or metric
            means, cells = best(block)
            for i, (name, mean, numbers) in enumerate(zip(whole.systems, block.means, block.numbers, strict=True)):
                row = [Cell(cell(value, numbers), (i, j) in cells) for j, value in enumerate(numbers)]
                lines.append(Line(group if several else "", name, Cell(with_interval(mean), i in means), row))
    first = of[0][1]
    mean_title = "average" if first.blocks[0].title == "Average" and len(first.blocks) == 1 else "mean"
    kept = [j for j in range(len(first.headings)) if j not in first.mixes]
    names = ["system", *([mean_title] if first.with_mean else []), *(first.headings[j] for j in kept)]
    tables = [_table(_chosen(lines, kept), names, first.with_mean, title=title, note=note)]
    if mixed := sorted(first.mixes):
        summary = f"{counted(len(mixed), 'more set')}: mixes of these sets with the original"
        names = ["system", *(first.headings[j] for j in mixed)]
        tables.append(_table(_chosen(lines, mixed), names, title=f"{title}: mixes", note=note, folded=summary))
    return tables


def _chosen(lines: Iterable[Line], columns: Sequence[int]) -> list[Line]:
    return [line._replace(cells=[line.cells[j] for j in columns]) for line in lines]


def _table(lines: Iterable[Line], columns: Sequence[str], with_mean: bool = False, **others: Any) -> Table:
    """A table of the lines that have a number."""
    rows: list[list[str]] = []
    bold: list[tuple[int, int]] = []
    groups: dict[int, str] = {}
    for line in lines:
        cells = [line.mean, *line.cells] if with_mean else line.cells
        if any(one.text for one in cells):
            groups |= {len(rows): line.group} if line.group and line.group not in groups.values() else {}
            bold += [(len(rows), j) for j, one in enumerate(cells, 1) if one.is_bold]
            rows.append([line.name, *(one.text for one in cells)])
    return Table(columns=columns, rows=rows, best=bold, groups=groups, numbers_in="table.csv", **others)


def with_interval(mean: Number) -> str:
    """A mean, and in small print its interval."""
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
