"""The tables of a leaderboard: pivots of its rows, for the page, LaTeX, Markdown and the terminal."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from msgspec.structs import replace

from parapet.evaluation.compare import kinds
from parapet.evaluation.compare.board import Board
from parapet.evaluation.results import SENSITIVITY, VARIANTS, WHOLE, ResultRow, macro_average
from parapet.evaluation.sets import ALL, MEAN, ORIGINAL, group_label, mixes
from parapet.evaluation.task import NOT_DEFINED, relative_change
from parapet.schemas.decisions import csv_bytes
from parapet.transforms.reports import markdown
from parapet.transforms.reports.report import Table, table_markdown
from parapet.transforms.reports.text import counted, number, percent

ALL_HAVE = "all systems have"

_LABELS = {kinds.JGA: "joint goal accuracy", "active_intent_accuracy": "intent accuracy",
           "inform": "Inform", "success": "Success", "combined": "Combined",
           "f1": "F1", "macro_f1": "macro-F1", "bleu": "BLEU", "sgsacc": "SGSAcc",
           "sgsacc_all": "SGSAcc of all turns", "sgsacc_acts": "SGSAcc by act", "sgsacc_acts_all": "SGSAcc of all acts",
           "auroc": "AUROC", "aupr": "AUPR", "fpr95": "FPR95"}  # fmt: skip
_TASKS = {"intent": "intent", "ood": "out-of-domain"}


class Grid(NamedTuple):
    """Numbers by metric, system and set.

    Attributes:
      columns: the headings; the first is that of means or averages, and empty if these are not shown.
      blocks: the heading of a metric or group to the numbers of each system, one for each column.
      metrics: the headings of the metrics.
    """

    columns: list[str]
    blocks: dict[str, dict[str, list[ResultRow | None]]]
    metrics: list[str]


def capital(text: str) -> str:
    """Capitalises the first letter only."""
    return text[:1].upper() + text[1:]


def metric_label(metric: str) -> str:
    """Returns the label of a metric."""
    return _LABELS.get(metric, metric.replace("_", " "))


def full_label(board: Board, task: str, metric: str) -> str:
    """Returns the label of a metric, with its task if there are several: ``intent accuracy``, ``out-of-domain F1``."""
    label = metric_label(metric)
    is_of_others = any(row.metric == metric and row.task != task for row in board.column_rows)
    if task in _TASKS and any(row.task != task for row in board.column_rows):
        return f"{_TASKS[task]} {label}"
    return f"{label} of {task}" if is_of_others else label


def set_label(board: Board, name: str) -> str:
    """Returns the label of a set; that of the mean over v1 to v5 is ``v1–v5``."""
    if name != VARIANTS:
        return group_label(name).lower() if name.startswith("#") else name
    tasks = {row.task for row in board.rows if row.set == VARIANTS}
    labels = {f"{names[0]}–{names[-1]}" for task, names in board.variants.items() if task in tasks}
    return labels.pop() if len(labels) == 1 else "variants"


def headings(board: Board) -> dict[str, str]:
    """Returns the labels of the columns, by name: as short as possible without ambiguity."""
    metrics = {(row.task, row.metric) for row in board.column_rows if row.metric != SENSITIVITY}
    titles = {kinds.AVERAGE: "average" if board.config.average or len(metrics) > 1 else "mean"}
    for row in board.column_rows:
        parts = [row.group] if row.group != WHOLE else []
        if row.metric != SENSITIVITY and not (parts and row.set == ALL):  # a group without a set refers to all sets
            parts.append(set_label(board, row.set))
        parts += [full_label(board, row.task, row.metric)] if len(metrics) > 1 or row.metric == SENSITIVITY else []
        titles[row.column] = " ".join(parts)
    return titles


def unit(metric: str) -> str:
    """Returns the unit of a metric in tables."""
    return "of 100" if metric in kinds.OF_100 else "%"


def grid(board: Board, groups: Mapping[str, str] = {WHOLE: ""}) -> Grid:
    """Pivots the numbers of groups of services, with their labels: a column for each set, and sensitivity beside it."""
    numbers: dict[tuple[str, str, str], dict[tuple[str, str], dict[str, ResultRow]]] = {}
    rows = [row for group in groups for row in board.rows if row.group == group]
    with_main = {row.task for row in rows if row.metric == kinds.main_metric(row.task)}
    for row in rows:
        main = kinds.main_metric(row.task) if row.metric == SENSITIVITY and row.task in with_main else ""
        of_metric = numbers.setdefault((row.group, row.task, main or row.metric), {})
        of_metric.setdefault((row.set, SENSITIVITY if main else ""), {})[row.system] = row
    places = {place for of_metric in numbers.values() for place in of_metric}
    keys = sorted(places, key=lambda key: (kinds.set_order(key[0], board.config.sets), key[1]))
    several = sum(not extra for _, extra in keys) > 1
    metrics = {
        (task, metric): f"{capital(full_label(board, task, metric))}, {unit(metric)}" for _, task, metric in numbers
    }
    blocks: dict[str, dict[str, list[ResultRow | None]]] = {}
    over = []
    if WHOLE in groups and several and len({row.metric for row in board.averaged_rows}) > 1:
        blocks["Average, of 100"] = {name: [board.average[name], *[None] * len(keys)] for name in board.systems}
        over.append(averaged_over(board))
    for (group, task, metric), of_metric in numbers.items():
        sets = [of_metric[key] for key in keys if key in of_metric and not key[1]]
        means, of_means = _means(board.systems, metric, sets)
        if WHOLE in groups and len(numbers) == 1:
            means, of_means = board.average, averaged_over(board)
        over.append(of_means)
        headings_of = [metrics[task, metric]] if len(metrics) > 1 or not groups[group] else []
        blocks[", ".join(filter(None, [*headings_of, groups[group]]))] = {
            name: [means[name], *(_number(of_metric.get(key), name) for key in keys)] for name in board.systems
        }
    columns = [f"{metric_label(extra)}, {unit(extra)}" if extra else set_label(board, name) for name, extra in keys]
    columns.insert(0, _mean_over("mean", over) if several else "")  # no mean of a single set
    return Grid(columns, blocks, [*metrics.values()])


def _number(numbers: Mapping[str, ResultRow] | None, system: str) -> ResultRow | None:
    """Returns a system's number, which is undefined if only others have it."""
    if numbers is None:
        return None
    return numbers.get(system, replace(next(iter(numbers.values())), system=system, value=None, low=None, high=None))


def _mean_over(heading: str, over: Iterable[str]) -> str:
    """Adds to a heading what the means are over, if only some systems have more."""
    fewer = list(dict.fromkeys(text for text in over if ALL_HAVE in text))
    return f"{heading} over {fewer[0] if len(fewer) == 1 else f'the sets that {ALL_HAVE}'}" if fewer else heading


def _over(n: int, noun: str, some_lack_others: bool) -> str:
    return f"the {counted(n, noun)} that {ALL_HAVE}" if some_lack_others else counted(n, noun)


def _means(
    systems: Sequence[str], metric: str, columns: Sequence[Mapping[str, ResultRow]]
) -> tuple[dict[str, ResultRow], str]:
    """Computes the mean of each system over the sets that all systems with a number have, and says what it is over."""
    names = [next(iter(rows.values())).set for rows in columns]
    sets = {name for name in names if name[:1] != "#"}
    sets -= mixes(sets)
    values = [
        {system: row.value for system, row in rows.items() if row.value is not None}
        for name, rows in zip(names, columns, strict=True)
        if (name in sets if sets else name != VARIANTS)
    ]
    having = set().union(*values)
    common = [of_set for of_set in values if of_set.keys() == having]
    means = {
        name: ResultRow(name, "", MEAN, WHOLE, metric, macro_average([of_set.get(name) for of_set in common]))
        for name in systems
    }
    return means, _over(len(common), "set" if sets else "number", len(common) < len(values))


def one_row(board: Board) -> Grid:
    """Makes the table that has all numbers of the average in one row per system, set by set (RADDLE, Table 2)."""
    metrics = list(dict.fromkeys(row.metric for row in board.column_rows))
    averaged = sorted(
        board.averaged_rows,
        key=lambda row: (kinds.set_order(row.set, board.config.sets), row.group, metrics.index(row.metric)),
    )
    names, numbers = headings(board), board.numbers
    columns = [names[row.column].replace(metric_label(kinds.JGA), "JGA") for row in averaged]
    block: dict[str, list[ResultRow | None]] = {
        name: [board.average[name], *(numbers[name, row.column] for row in averaged)] for name in board.systems
    }
    return Grid([_mean_over(kinds.AVERAGE, [averaged_over(board)]), *columns], {"": block}, [])


def averaged_over(board: Board) -> str:
    """Says what the average of a board is over."""
    metrics = [row.metric for row in board.averaged_rows]
    mixed = mixes({row.set for row in board.column_rows})
    fewer = not board.config.average and any(
        row.metric in metrics and not (row.column in board.averaged or row.set[:1] == "#" or row.set in mixed)
        for row in board.column_rows
    )
    return _over(len(metrics), "set" if len(set(metrics)) == 1 else "number", fewer)


def tables_of(whole: Grid, by: str, several: str, folded: str = "") -> list[Table]:
    """Formats numbers as a table without mixes and a folded one of mixes; the best of each column are bold.

    Args:
      whole: the numbers.
      by: what the title of the table of a single metric says besides metric and unit.
      several: the title of another table.
      folded: the label behind which the page hides the table.
    """
    label, _, of_unit = whole.metrics[0].rpartition(", ") if len(whole.metrics) == 1 else ("", "", "")
    title = f"{label} {by}, {of_unit}" if label else several
    mixed = mixes(whole.columns)
    tables = []
    for is_of_mixes in (False, True):
        places = [j for j, name in enumerate(whole.columns) if name and (name in mixed) == is_of_mixes]
        rows: list[list[str]] = []
        groups: dict[int, str] = {}
        bold: list[tuple[int, int]] = []
        for heading, block in whole.blocks.items():
            best = [_best(column) for column in zip(*block.values(), strict=True)]
            for name, numbers in block.items():
                texts = [cell(numbers[j], numbers) for j in places]
                if any(texts):
                    groups |= {len(rows): heading} if len(whole.blocks) > 1 and heading not in groups.values() else {}
                    bold += [(len(rows), at) for at, j in enumerate(places, 1) if numbers[j] in best[j]]
                    rows.append([name, *texts])
        summary = f"{counted(len(places), 'more set')}: mixes of these sets with the original" if is_of_mixes else ""
        table = Table(
            title=f"{title}: mixes" if summary else title,
            columns=["system", *(whole.columns[j] for j in places)],
            rows=rows,
            best=bold,
            groups=groups,
            folded=summary or folded,
            numbers_in="table.csv",
        )
        tables += [table] if rows else []
    return tables


def _best(column: Sequence[ResultRow | None]) -> list[ResultRow]:
    """Returns the best numbers of a column, as printed; none of sensitivity: a low one may mean that all is wrong."""
    known = [row for row in column if row and row.value is not None and row.metric != SENSITIVITY]
    printed = [round(kinds.of_100(row.metric, row.value or 0.0), 1) for row in known]
    if len(set(printed)) < 2:
        return []
    top = min(printed) if known[0].metric in kinds.LOW_IS_GOOD else max(printed)
    return [row for row, value in zip(known, printed, strict=True) if value == top]


def cell(row: ResultRow | None, others: Sequence[ResultRow | None] = ()) -> str:
    """Formats a number, with its interval and its change from the original in small print."""
    if row is None:
        return ""
    if row.value is None:
        return NOT_DEFINED if kinds.is_undefined(row, others) else "–"
    lines = [kinds.shown(row.metric, row.value)]
    if row.low is not None and row.high is not None:
        lines.append(f"{kinds.shown(row.metric, row.low)}–{kinds.shown(row.metric, row.high)}")
    original = next((other for other in others if other and (other.set, other.metric) == (ORIGINAL, row.metric)), None)
    if row.set not in (ORIGINAL, MEAN) and row.metric != SENSITIVITY and original and original.value is not None:
        points, relative = change(row, original)
        lines.append(f"{number(100 * points, 1, signed=True)} points")
        lines += [percent(relative, signed=True)] if relative is not None else []
    return "\n".join(lines)


def change(row: ResultRow, original: ResultRow) -> tuple[float, float | None]:
    """Computes the difference of two numbers, as a share, and the relative change; None where it says nothing."""
    value, before = (kinds.of_100(each.metric, each.value or 0.0) / 100 for each in (row, original))
    return value - before, relative_change(value, before, original.low)


def terminal_lines(board: Board, width: int = 100) -> list[str]:
    """Formats the main numbers for a terminal: for each metric a row per set and a column per system; without mixes.

    Systems that do not fit into the width are left out and counted.
    """
    whole = grid(board)
    lines: list[str] = []
    if not whole.blocks:  # numbers of groups of services only
        return lines
    table = tables_of(whole, "", "")[0]
    for start, end in pairwise([*(table.groups or [0]), len(table.rows)]):
        names, *columns = [[text.partition("\n")[0] for text in row] for row in [table.columns, *table.rows[start:end]]]
        names[0] = table.groups.get(start, whole.metrics[0])
        size, wide = max(map(len, names)), 2 + max(len(text) for column in columns for text in column)
        fitting = max(1, (width - size) // wide)
        lines += [""] if lines else []
        for name, *texts in zip(names, *columns[:fitting], strict=True):
            lines += [name.ljust(size) + "".join(text.rjust(wide) for text in texts)] if any(texts) else []
        if len(columns) > fitting:
            lines.append(f"{counted(len(columns) - fitting, 'more system')} in table.md")
    return lines


def long_table(board: Board) -> dict[str, bytes]:
    """Makes ``table.csv`` and ``table.parquet``: all numbers, and the averages on a scale of 100."""
    import pyarrow as pa

    from parapet.schemas.rows import parquet_bytes

    names = ("system", "task", "set", "group", "metric", "value", "low", "high")
    averages = [board.average[name] for name in board.systems if len(board.columns) > 1]
    columns = [[getattr(row, name) for row in (*board.rows, *averages)] for name in names]
    types = [pa.string()] * 5 + [pa.float64()] * 3
    arrays = [pa.array(*column) for column in zip(columns, types, strict=True)]
    texts = (["" if value is None else str(value) for value in row] for row in zip(*columns, strict=True))
    return {"table.csv": csv_bytes(names, texts), "table.parquet": parquet_bytes(pa.table(arrays, names))}


_LATEX = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "$": r"\$", "&": r"\&", "#": r"\#", "%": r"\%", "_": r"\_",
    "^": r"\textasciicircum{}", "~": r"\textasciitilde{}", "–": "--", "<": r"\textless{}", ">": r"\textgreater{}",
    "|": r"\textbar{}", "[": "{[}", "*": "{*}",
}  # fmt: skip


def latex(table: Table) -> str:
    r"""Formats a table as a LaTeX ``tabular`` for the package booktabs, without small print, to ``\input``."""
    texts, numbers = table.text_columns, len(table.columns) - table.text_columns
    lines = [
        f"% {escaped(table.title)}",
        "% \\usepackage{booktabs}",
        f"\\begin{{tabular}}{{{'l' * texts}{'r' * numbers}}}",
        "\\toprule",
        f"{' & '.join(map(escaped, table.columns))} \\\\",
        "\\midrule",
    ]
    for i, row in enumerate(table.rows):
        if i in table.groups:
            title = f"\\multicolumn{{{len(row)}}}{{l}}{{\\emph{{{escaped(table.groups[i])}}}}} \\\\"
            lines += [*(["\\addlinespace"] if i else []), title]
        cells = [escaped(text.split("\n")[0]) for text in row]
        cells = [f"\\textbf{{{text}}}" if (i, j) in table.best else text for j, text in enumerate(cells)]
        lines.append(f"{' & '.join(cells)} \\\\")
    return "\n".join([*lines, "\\bottomrule", "\\end{tabular}", ""])


def escaped(text: str) -> str:
    """Escapes text for LaTeX. Letters that its fonts may lack become question marks."""
    return "".join(_LATEX.get(letter, letter if _has_glyph(letter) else "?") for letter in markdown.one_line(text))


def _has_glyph(letter: str) -> bool:
    """Whether LaTeX prints a letter without further packages: ASCII, or a Latin-1 letter with one accent."""
    base, *accents = list(unicodedata.normalize("NFD", letter))
    return letter.isascii() or (base.isascii() and base.isalpha() and len(accents) == 1 and ord(letter) < 256)


def tables_markdown(tables: Iterable[Table], notes: Iterable[str]) -> str:
    """Formats tables, and notes below them."""
    parts = [part for table in tables for part in (markdown.text(table.title), table_markdown(table))]
    return "\n\n".join([*parts, *map(markdown.text, notes)]) + "\n"
