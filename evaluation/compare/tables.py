"""The tables of a leaderboard: pivots of its rows, for the page, LaTeX, Markdown and the terminal."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from msgspec.structs import replace

from parapet.evaluation.compare import kinds
from parapet.evaluation.compare.board import Board
from parapet.evaluation.noise import SD, is_over_runs
from parapet.evaluation.results import SENSITIVITY, VARIANTS, WHOLE, ResultRow, macro_average, variants_of
from parapet.evaluation.sets import MEAN, ORIGINAL, group_label
from parapet.evaluation.task import NOT_DEFINED, relative_change
from parapet.schemas.decisions import csv_bytes
from parapet.transforms.report import markdown
from parapet.transforms.report.report import Table, table_markdown
from parapet.transforms.report.text import aligned, number, percent

Column = Mapping[str, ResultRow]  # system to its number
Numbers = Mapping[tuple[str, str], ResultRow]  # by system and column

NOISE_MARK = "≈"
MEANING = "may differ from the original by chance only"

_LABELS = {kinds.JGA: "joint goal accuracy", "active_intent_accuracy": "intent accuracy",
           "intent/accuracy": "intent accuracy", "intent/macro_f1": "intent macro-F1", "ood/f1": "out-of-domain F1",
           "inform": "Inform", "success": "Success", "combined": "Combined", "bleu": "BLEU",
           "generation/bleu": "BLEU of utterances", "sgsacc": "SGSAcc", "sgsacc_all": "SGSAcc of all turns",
           "sgsacc_acts": "SGSAcc by act", "sgsacc_acts_all": "SGSAcc of all acts",
           "auroc": "AUROC", "aupr": "AUPR", "fpr95": "FPR95"}  # fmt: skip


def metric_label(task: str, metric: str) -> str:
    """Returns the label of a metric of a task."""
    return _LABELS.get(f"{task}/{metric}") or _LABELS.get(metric) or metric.replace("_", " ")


def set_label(board: Board, name: str) -> str:
    """Returns the label of a set; that of the mean over v1 to v5 is ``v1–v5``."""
    if name != VARIANTS:
        return group_label(name).lower() if name.startswith("#") else name
    variants = variants_of(row.set for row in board.rows)
    return f"{variants[0]}–{variants[-1]}" if variants else "variants"


def capital(text: str) -> str:
    """Capitalises the first letter only."""
    return text[:1].upper() + text[1:]


def with_unit(metric: str, value: float | None) -> str:
    """Formats a number with its unit: ``54.6%``, or ``76.1`` of a metric on a scale of 100."""
    return f"{kinds.shown(metric, value)}{'' if metric in kinds.OF_100 else '%'}"


def titled(label: str, metric: str) -> str:
    """Makes a title of a label, with the unit of the metric in tables."""
    return f"{capital(label)}, {'of 100' if metric in kinds.OF_100 else '%'}"


def column_label(board: Board, row: ResultRow) -> str:
    """Returns the label of a column or the average: ``v1 joint goal accuracy``, ``seen v1–v5 joint goal accuracy``."""
    if row.metric == kinds.AVERAGE:
        return kinds.AVERAGE
    group = f"{row.group} " if row.group != WHOLE else ""
    return f"{group}{set_label(board, row.set)} {metric_label(row.task, row.metric)}"


class Pivot(NamedTuple):
    """Numbers by metric or group, system and set.

    Attributes:
      metrics: the labels of the metrics, with their units.
      headings: the headings of the columns: the mean, if there are several sets, and each set.
      blocks: the heading of a metric or group to its columns; one that it does not have is empty.
    """

    metrics: list[str]
    headings: list[str]
    blocks: dict[str, list[Column]]


def pivot(board: Board, groups: Mapping[str, str]) -> Pivot:
    """Arranges the numbers of groups of services, with their labels; schema sensitivity is beside the main metric."""
    rows = [row for group in groups for row in board.unmixed if row.group == group and not is_over_runs(row)]
    with_main = {row.task for row in rows if row.metric == kinds.main_metric(row.task)}
    numbers: dict[tuple[str, str, str], dict[tuple[str, bool], dict[str, ResultRow]]] = {}
    for row in rows:
        is_beside = row.metric == SENSITIVITY and row.task in with_main
        metric = kinds.main_metric(row.task) if is_beside else row.metric
        columns = numbers.setdefault((row.group, row.task, metric), {})
        columns.setdefault((row.set, is_beside), {})[row.system] = row
    keys = {key for columns in numbers.values() for key in columns}
    places = sorted(keys, key=lambda key: (kinds.set_order(key[0], board.config.sets), key[1]))
    has_mean = sum(not is_beside for _, is_beside in places) > 1  # no mean of a single set
    labels = {(task, metric): titled(metric_label(task, metric), metric) for _, task, metric in numbers}
    blocks: dict[str, list[Column]] = {}
    if WHOLE in groups and has_mean and len({row.metric for row in board.averaged_rows}) > 1:
        blocks["Average, of 100"] = [board.average, *[{} for _ in places]]
    for (group, task, metric), columns in numbers.items():
        of_metric = [labels[task, metric]] if len(labels) > 1 or not groups[group] else []
        means = board.average if WHOLE in groups and len(numbers) == 1 else _means(metric, columns)
        title = ", ".join(filter(None, [*of_metric, groups[group]]))
        blocks[title] = [*([means] if has_mean else []), *(columns.get(place, {}) for place in places)]
    sets = ["schema sensitivity, %" if beside else set_label(board, name) for name, beside in places]
    return Pivot([*labels.values()], [*(["mean"] if has_mean else []), *sets], blocks)


def _means(metric: str, columns: Mapping[tuple[str, bool], Column]) -> Column:
    """Computes the means of systems over the sets that all of them have, if they have any."""
    sets = [column for (name, _), column in columns.items() if name[:1] != "#"] or [*columns.values()]
    known = [{row.system: row.value for row in column.values() if row.value is not None} for column in sets]
    systems = set().union(*known)
    common = [of_set for of_set in known if of_set.keys() == systems]
    means = {name: macro_average([of_set[name] for of_set in common]) for name in systems}
    return {name: ResultRow(name, "", MEAN, WHOLE, metric, mean) for name, mean in means.items()}


def by_set(
    board: Board,
    groups: Mapping[str, str] = {WHOLE: ""},
    by: str = "by set",
    several: str = "Systems by set",
    folded: str = "",
) -> list[Table]:
    """Makes a table with rows for each metric, group of services and system, and a column for each set.

    The best numbers of each column are bold. There is no table if no system has such numbers.

    Args:
      board: the comparison.
      groups: the groups, with their labels.
      by: what the title says besides the metric, if there is only one.
      several: the title if there are several metrics.
      folded: the label behind which the page hides the table.
    """
    metrics, headings, blocks = pivot(board, groups)
    label, _, unit = metrics[0].rpartition(", ") if len(metrics) == 1 else ("", "", "")
    title, numbers = f"{label} {by}, {unit}" if label else several, board.numbers
    rows: list[list[str]] = []
    bold: list[tuple[int, int]] = []
    starts: dict[int, str] = {}
    for heading, columns in blocks.items():
        starts |= {len(rows): heading} if len(blocks) > 1 else {}
        best = [_best(column.values()) for column in columns]
        for name in board.systems:
            bold += [(len(rows), j) for j, column in enumerate(columns, 1) if column.get(name) in best[j - 1]]
            rows.append([name, *(cell(column.get(name), numbers, board.noise) if column else "" for column in columns)])
    sets = ["system", *headings]
    table = Table(title=title, columns=sets, rows=rows, best=bold, groups=starts, folded=folded, numbers_in="table.csv")
    return [table] if rows else []


def _best(column: Iterable[ResultRow]) -> list[ResultRow]:
    """Returns the best numbers of a column, as printed; none of sensitivity: a low one may mean that all is wrong."""
    known = [row for row in column if row.value is not None and row.metric != SENSITIVITY]
    printed = [round(kinds.of_100(row.metric, row.value or 0.0), 1) for row in known]
    if len(set(printed)) < 2:
        return []
    top = min(printed) if known[0].metric in kinds.LOW_IS_GOOD else max(printed)
    return [row for row, value in zip(known, printed, strict=True) if value == top]


def cell(row: ResultRow | None, numbers: Numbers, noise: Collection[tuple[str, str]] = ()) -> str:
    """Formats a number, marked if its change from the original is noise; interval and change are in small print."""
    if row is None or row.value is None:
        is_undefined = row and kinds.is_undefined(row, [each for each in numbers.values() if each.system == row.system])
        return NOT_DEFINED if is_undefined else "–"
    deviation = numbers.get((row.system, row.column + SD))
    spread = f" ± {kinds.shown(row.metric, deviation.value)}" if deviation else ""
    mark = f" {NOISE_MARK}" if (row.system, row.column) in noise else ""
    lines = [f"{kinds.shown(row.metric, row.value)}{spread}{mark}"]
    if row.low is not None and row.high is not None:
        lines.append(f"{kinds.shown(row.metric, row.low)}–{kinds.shown(row.metric, row.high)}")
    original = numbers.get((row.system, replace(row, set=ORIGINAL).column))
    if original and original != row and original.value is not None:
        points, relative = change(row, original)
        lines.append(f"{number(100 * points, 1, signed=True)} points")
        lines += [percent(relative, signed=True)] if relative is not None else []
    return "\n".join(lines)


def change(row: ResultRow, original: ResultRow) -> tuple[float, float | None]:
    """Computes the difference of two numbers, as a share, and the relative change; None where it says nothing."""
    value, before = (kinds.of_100(each.metric, each.value or 0.0) / 100 for each in (row, original))
    return value - before, relative_change(value, before, original.low)


def terminal_lines(board: Board) -> list[str]:
    """Formats the main numbers for a terminal: for each metric a row for each set and a column for each system."""
    _, headings, blocks = pivot(board, {WHOLE: ""})
    numbers = board.numbers
    lines: list[str] = []
    for title, columns in blocks.items():
        rows = [[title, *board.systems]]
        for heading, column in zip(headings, columns, strict=True):
            texts = [cell(column.get(name), numbers, board.noise).partition("\n")[0] for name in board.systems]
            rows += [[heading, *texts]] if column else []
        lines += [*([""] if lines else []), *aligned(rows).split("\n")]
    return [*lines, f"{NOISE_MARK} {MEANING}"] if any(NOISE_MARK in line for line in lines) else lines


def long_table(board: Board) -> dict[str, bytes]:
    """Makes ``table.csv`` and ``table.parquet``: all numbers, and the averages on a scale of 100."""
    import pyarrow as pa

    from parapet.schemas.rows import parquet_bytes

    names = ("system", "task", "set", "group", "metric", "value", "low", "high", "noise")
    types = [pa.string()] * 5 + [pa.float64()] * 3 + [pa.string()]
    averages = [board.average[name] for name in board.systems if len(board.columns) > 1]
    rows = [
        [*(getattr(row, name) for name in names[:-1]), "yes" if (row.system, row.column) in board.noise else ""]
        for row in (*board.rows, *averages)
    ]
    arrays = [pa.array(column, kind) for column, kind in zip(zip(*rows, strict=True), types, strict=True)]
    texts = (["" if value is None else str(value) for value in row] for row in rows)
    return {"table.csv": csv_bytes(names, texts), "table.parquet": parquet_bytes(pa.table(arrays, names))}


_LATEX = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "$": r"\$", "&": r"\&", "#": r"\#", "%": r"\%", "_": r"\_",
    "^": r"\textasciicircum{}", "~": r"\textasciitilde{}", "–": "--", "<": r"\textless{}", ">": r"\textgreater{}",
    "|": r"\textbar{}", "[": "{[}", "*": "{*}", "±": r"$\pm$", NOISE_MARK: r"$\approx$",
}  # fmt: skip


def latex(table: Table) -> str:
    r"""Formats a table as a LaTeX ``tabular`` for the package booktabs, without small print, to ``\input``."""
    columns = len(table.columns)
    lines = [f"% {escaped(table.title)}", "% \\usepackage{booktabs}", f"\\begin{{tabular}}{{l{'r' * (columns - 1)}}}"]
    lines += ["\\toprule", f"{' & '.join(map(escaped, table.columns))} \\\\", "\\midrule"]
    for i, row in enumerate(table.rows):
        if i in table.groups:
            lines += ["\\addlinespace"] if i else []
            lines.append(f"\\multicolumn{{{columns}}}{{l}}{{\\emph{{{escaped(table.groups[i])}}}}} \\\\")
        cells = [escaped(text.split("\n")[0]) for text in row]
        cells = [f"\\textbf{{{text}}}" if (i, j) in table.best else text for j, text in enumerate(cells)]
        lines.append(f"{' & '.join(cells)} \\\\")
    return "\n".join([*lines, "\\bottomrule", "\\end{tabular}", ""])


def escaped(text: str) -> str:
    """Escapes text for LaTeX."""
    return "".join(_LATEX.get(letter, letter) for letter in markdown.one_line(text))


def tables_markdown(tables: Iterable[Table], notes: Iterable[str]) -> str:
    """Formats tables, and notes below them."""
    parts = [part for table in tables for part in (markdown.text(table.title), table_markdown(table))]
    return "\n\n".join([*parts, *map(markdown.text, notes)]) + "\n"
