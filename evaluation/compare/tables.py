"""The tables of a leaderboard: pivots of its rows, for the page, LaTeX, Markdown and the terminal."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Mapping, Sequence

import msgspec
from msgspec.structs import replace

from parapet.evaluation.compare import kinds
from parapet.evaluation.compare.board import Board
from parapet.evaluation.results import SENSITIVITY, VARIANTS, WHOLE, ResultRow, macro_average
from parapet.evaluation.sets import ALL, MEAN, ORIGINAL, group_label, mixes
from parapet.evaluation.task import NOT_DEFINED, change_text, relative_change
from parapet.schemas.decisions import csv_bytes
from parapet.transforms.reports import markdown
from parapet.transforms.reports.report import Table, table_markdown
from parapet.transforms.reports.text import counted

ALL_HAVE = "all systems have"

_LABELS = {kinds.JGA: "joint goal accuracy", "active_intent_accuracy": "intent accuracy",
           "inform": "Inform", "success": "Success", "combined": "Combined",
           "f1": "F1", "macro_f1": "macro-F1", "bleu": "BLEU", "sgsacc": "SGSAcc",
           "sgsacc_all": "SGSAcc of all turns", "sgsacc_acts": "SGSAcc by act", "sgsacc_acts_all": "SGSAcc of all acts",
           "auroc": "AUROC", "aupr": "AUPR", "fpr95": "FPR95"}  # fmt: skip
_TASKS = {"intent": "intent", "ood": "out-of-domain"}


class Block(msgspec.Struct, frozen=True):
    """The rows of a table about one metric, a row for each system: the mean over sets, and a number for each column.

    Attributes:
      label: what the metric is called.
      over: what the means are over, in words: ``10 sets``, or ``the 10 sets that all systems have``.
    """

    label: str
    metric: str
    over: str
    rows: list[list[ResultRow | None]]


class Grid(msgspec.Struct, frozen=True):
    """A table with blocks of rows. The first column is the mean; its heading is empty if it is not shown."""

    columns: list[str]
    blocks: list[Block]

    def places(self, of_mixes: bool) -> list[int]:
        """The shown columns that are mixes of another set with the original, or the others."""
        mixed = mixes(self.columns)
        return [j for j, name in enumerate(self.columns) if name and (name in mixed) == of_mixes]


def capital(text: str) -> str:
    """Capitalises the first letter only."""
    return text[:1].upper() + text[1:]


def metric_label(metric: str) -> str:
    """Returns the label of a metric."""
    return _LABELS.get(metric, metric.replace("_", " "))


def full_label(board: Board, task: str, metric: str) -> str:
    """Returns the label of a metric, with its task if there are several: ``intent accuracy``, ``out-of-domain F1``."""
    label = metric_label(metric)
    if len({row.task for row in board.column_rows}) < 2 or metric in (kinds.JGA, SENSITIVITY):
        return label
    if task in _TASKS:
        return f"{_TASKS[task]} {label}"
    is_of_others = any(row.metric == metric and row.task != task for row in board.column_rows)
    return f"{label} of {task}" if is_of_others else label


def set_label(board: Board, task: str, name: str) -> str:
    """Returns the label of a set; that of the mean over v1 to v5 is ``v1–v5``."""
    if name != VARIANTS:
        return group_label(name).lower() if name.startswith("#") else name
    names = board.variants.get(task, [])
    return f"{names[0]}–{names[-1]}" if names else "variants"


def headings(board: Board) -> dict[str, str]:
    """Returns the labels of the columns, by name: as short as possible without ambiguity."""
    metrics = {(row.task, row.metric) for row in board.column_rows if row.metric != SENSITIVITY}
    titles = {kinds.AVERAGE: "average" if board.config.average or len(metrics) > 1 else "mean"}
    for row in board.column_rows:
        parts = [row.group] if row.group != WHOLE else []
        if row.metric != SENSITIVITY and not (parts and row.set == ALL):  # a group without a set refers to all sets
            parts.append(set_label(board, row.task, row.set))
        parts += [full_label(board, row.task, row.metric)] if len(metrics) > 1 or row.metric == SENSITIVITY else []
        titles[row.column] = " ".join(parts)
    return titles


def unit(metric: str) -> str:
    """Returns the unit of a metric in tables."""
    return "of 100" if metric in kinds.OF_100 else "%"


def grid(board: Board, group: str = WHOLE) -> Grid:
    """Makes the table of all services, or of a group of services: a column for each set, a block for each metric."""
    numbers = {(row.system, row.task, row.set, row.metric): row for row in board.rows if row.group == group}
    present = {key[1:]: row for key, row in numbers.items()}
    with_main = {task for task, _, metric in present if metric == kinds.main_metric(task)}
    beside = {name for task, name, metric in present if metric == SENSITIVITY and task in with_main}
    of_rows = [key for key in present if key[2] != SENSITIVITY or key[0] not in with_main]
    keys = sorted(
        {(name, "") for _, name, _ in of_rows} | {(name, SENSITIVITY) for name in beside},
        key=lambda key: (kinds.set_order(key[0], board.config.sets), key[1]),
    )

    def value(system: str, task: str, name: str, metric: str) -> ResultRow | None:
        if row := present.get((task, name, metric)):  # of another system, perhaps
            row = replace(row, system=system, value=None, low=None, high=None)
        return numbers.get((system, task, name, metric), row)

    several = sum(not extra for _, extra in keys) > 1
    blocks = []
    for task, metric in dict.fromkeys((task, metric) for task, _, metric in of_rows):
        rows = [
            [
                value(system, task, name, extra or metric) if not extra or metric == kinds.main_metric(task) else None
                for name, extra in keys
            ]
            for system in board.systems
        ]
        blocks.append(_with_means(full_label(board, task, metric), metric, rows))
    averages = [board.average[name] for name in board.systems]
    if group == WHOLE and several and len({row.metric for row in board.averaged_rows}) > 1:
        nothing = [[average, *[None] * len(keys)] for average in averages]
        blocks.insert(0, Block(kinds.AVERAGE, kinds.AVERAGE, averaged_over(board), nothing))
    elif group == WHOLE and len(blocks) == 1:
        rows = [[average, *row[1:]] for average, row in zip(averages, blocks[0].rows, strict=True)]
        blocks = [replace(blocks[0], over=averaged_over(board), rows=rows)]
    task_of = {name: task for task, name, _ in reversed(of_rows)}
    columns = [
        f"{metric_label(extra)}, {unit(extra)}" if extra else set_label(board, task_of[name], name)
        for name, extra in keys
    ]
    return Grid(["mean" if several else "", *columns], blocks)  # the mean of a single set is not shown


def one_row(board: Board) -> Grid:
    """Makes the table that has all numbers of the average in one row per system, set by set (RADDLE, Table 2)."""
    metrics = list(dict.fromkeys(row.metric for row in board.column_rows))
    averaged = sorted(
        board.averaged_rows,
        key=lambda row: (kinds.set_order(row.set, board.config.sets), row.group, metrics.index(row.metric)),
    )
    names, numbers = headings(board), board.numbers
    rows: list[list[ResultRow | None]] = [
        [board.average[name], *(numbers[name, row.column] for row in averaged)] for name in board.systems
    ]
    columns = [names[row.column].replace(metric_label(kinds.JGA), "JGA") for row in averaged]
    return Grid([kinds.AVERAGE, *columns], [Block(kinds.AVERAGE, kinds.AVERAGE, averaged_over(board), rows)])


def _with_means(label: str, metric: str, rows: list[list[ResultRow | None]]) -> Block:
    """Puts the mean over the sets that all systems with a number have before each row."""
    present = {j: row for j, row in enumerate(rows[0]) if row is not None and row.metric == metric}
    sets = {row.set for row in present.values() if not row.set.startswith("#")}
    sets -= mixes(sets)
    places = [j for j, row in present.items() if (row.set in sets if sets else row.set != VARIANTS)]
    values = [[row[j].value for j in places] for row in rows]  # type: ignore[union-attr]  # as they are present
    having = [row for row in values if any(value is not None for value in row)]
    common = [i for i in range(len(places)) if all(row[i] is not None for row in having)]
    means = [ResultRow("", "", MEAN, WHOLE, metric, macro_average([row[i] for i in common])) for row in values]
    over = _over(len(common), "set" if sets else "number", len(common) < len(places))
    return Block(label, metric, over, [[mean, *row] for mean, row in zip(means, rows, strict=True)])


def _over(n: int, noun: str, some_lack_others: bool) -> str:
    return f"the {counted(n, noun)} that {ALL_HAVE}" if some_lack_others else counted(n, noun)


def averaged_over(board: Board) -> str:
    """Says what the average of a board is over."""
    metrics = [row.metric for row in board.averaged_rows]
    mixed = mixes({row.set for row in board.column_rows})
    fewer = not board.config.average and any(
        row.metric in metrics and not (row.column in board.averaged or row.set[:1] == "#" or row.set in mixed)
        for row in board.column_rows
    )
    return _over(len(metrics), "set" if len(set(metrics)) == 1 else "number", fewer)


def _best(block: Block) -> set[tuple[int, int]]:
    """Finds the (row, column) of the best number of each column, as printed."""
    places = set()
    for j, column in enumerate(zip(*block.rows, strict=True)):
        known = {i: float(kinds.shown(row.metric, row.value).replace(",", "")) for i, row in enumerate(column)
                 if row is not None and row.value is not None}  # fmt: skip
        metrics = {row.metric for row in column if row is not None}
        # A low sensitivity is good only beside a high accuracy.
        if len(set(known.values())) > 1 and SENSITIVITY not in metrics:
            top = (min if metrics & kinds.LOW_IS_GOOD else max)(known.values())
            places |= {(i, j) for i, value in known.items() if value == top}
    return places


def grid_tables(systems: Sequence[str], grids: Mapping[str, Grid], title: str, note: str = "") -> list[Table]:
    """Formats grids with the same columns as a table without mixes and a folded one of mixes.

    Args:
      systems: the systems of the rows.
      grids: the suffix of the headings above the blocks to a grid.
      title: the title of the table.
      note: the text above the table.
    """
    first = next(iter(grids.values()))
    blocks = [(suffix, block) for suffix, grid in grids.items() for block in grid.blocks]
    fewer = list(dict.fromkeys(block.over for _, block in blocks if ALL_HAVE in block.over))
    over = f" over {fewer[0] if len(fewer) == 1 else f'the sets that {ALL_HAVE}'}" if fewer else ""
    names = [first.columns[0] + over, *first.columns[1:]]
    tables = []
    for is_of_mixes in (False, True):
        places = first.places(is_of_mixes)
        rows: list[list[str]] = []
        groups: dict[int, str] = {}
        bold: list[tuple[int, int]] = []
        for suffix, block in blocks:
            metric = f"{capital(block.label)}, {unit(block.metric)}"
            heading = f"{metric}, {suffix}" if suffix and len(grids[suffix].blocks) > 1 else suffix or metric
            best = _best(block)
            for i, row in enumerate(block.rows):
                cells = [cell(row[j], row) for j in places]
                if any(cells):
                    groups |= {len(rows): heading} if len(blocks) > 1 and heading not in groups.values() else {}
                    bold += [(len(rows), at) for at, j in enumerate(places, 1) if (i, j) in best]
                    rows.append([systems[i], *cells])
        summary = f"{counted(len(places), 'more set')}: mixes of these sets with the original" if is_of_mixes else ""
        if rows:
            tables.append(
                Table(
                    title=f"{title}: mixes" if summary else title,
                    columns=["system", *(names[j] for j in places)],
                    rows=rows,
                    best=bold,
                    groups=groups,
                    note=note,
                    folded=summary,
                    numbers_in="table.csv",
                )
            )
    return tables


def cell(row: ResultRow | None, others: Sequence[ResultRow | None] = ()) -> str:
    """Formats a number, with its interval and its change from the original in small print."""
    if row is None:
        return ""
    if row.value is None:
        return NOT_DEFINED if kinds.is_undefined(row, others) else "–"
    lines = [kinds.shown(row.metric, row.value)]
    if row.low is not None and row.high is not None:
        lines.append(f"{kinds.shown(row.metric, row.low)}–{kinds.shown(row.metric, row.high)}")
    return "\n".join([*lines, *_change(row, others)])


def _change(row: ResultRow, others: Iterable[ResultRow | None]) -> list[str]:
    """Formats the change from the original; empty for the original itself, a mean of sets, or without a number."""
    originals = [other for other in others if other and (other.set, other.metric) == (ORIGINAL, row.metric)]
    if row.set in (ORIGINAL, MEAN) or row.metric == SENSITIVITY or not originals:
        return []
    value, before = _share(row), _share(originals[0])
    if value is None or before is None:
        return []
    points, _, relative = change_text(value, before, originals[0].low).partition(" (")
    return [points, *filter(None, [relative.rstrip(")")])]


def relative_change_of(row: ResultRow, original: ResultRow) -> float | None:
    """Computes a relative change; None where it says nothing."""
    value, before = _share(row), _share(original)
    return None if value is None or before is None else relative_change(value, before, original.low)


def _share(row: ResultRow) -> float | None:
    return None if row.value is None else kinds.of_100(row.metric, row.value) / 100


def terminal_lines(board: Board, width: int = 100) -> list[str]:
    """Formats the main numbers for a terminal: for each metric a row per set and a column per system; without mixes.

    Systems that do not fit into the width are left out and counted.
    """
    whole = grid(board)
    lines: list[str] = []
    for block in whole.blocks:
        rows = [[block.label + ("" if block.metric in kinds.OF_100 else ", %"), *board.systems]]
        for j in sorted(whole.places(of_mixes=False), key=lambda j: not j):  # the mean comes last
            name = whole.columns[j] if j else f"mean over {block.over}"
            if any(row[j] is not None for row in block.rows):
                rows.append([name, *(cell(row[j], row).partition("\n")[0] for row in block.rows)])
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        fitting = max(n for n in range(1, len(widths)) if n == 1 or sum(widths[: n + 1]) + 2 * n <= width)
        lines += [""] if lines else []
        for first, *cells in rows:
            texts = (text.rjust(size) for text, size in zip(cells[:fitting], widths[1:], strict=False))
            lines.append("  ".join([first.ljust(widths[0]), *texts]).rstrip())
        if more := len(board.systems) - fitting:
            lines.append(f"{counted(more, 'more system')} in table.md")
    return lines


def long_table(board: Board) -> dict[str, bytes]:
    """Makes ``table.csv`` and ``table.parquet``: all numbers, and the averages on a scale of 100."""
    import pyarrow as pa

    from parapet.schemas.rows import parquet_bytes

    names = ("system", "task", "set", "group", "metric", "value", "low", "high")
    averages = [board.average[name] for name in board.systems] if len(board.columns) > 1 else []
    rows = [*board.rows, *averages]
    columns = {name: [getattr(row, name) for row in rows] for name in names}
    arrays = {
        name: pa.array(values, pa.string() if name in names[:5] else pa.float64()) for name, values in columns.items()
    }
    texts = (["" if value is None else str(value) for value in row] for row in zip(*columns.values(), strict=True))
    return {"table.csv": csv_bytes(names, texts), "table.parquet": parquet_bytes(pa.table(arrays))}


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
