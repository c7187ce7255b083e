"""``parapet compare``: the leaderboard as files: every number in long form, and the table for LaTeX and Markdown."""

from __future__ import annotations

import unicodedata

import msgspec

from parapet.evaluation.compare.grid import by_domain, cell, grid
from parapet.evaluation.compare.leaderboard import (
    AVERAGE,
    Board,
    Sets,
    SignificanceConfig,
    Systems,
    Value,
    leaderboard,
    read_systems,
)
from parapet.evaluation.compare.page import closing_lines, main_tables, notes, page_of, seen_and_unseen
from parapet.evaluation.compare.parts import EVERYTHING, Selection
from parapet.evaluation.compare.results import OF_100, mixes
from parapet.evaluation.task import Result, Stage, Task
from parapet.evaluation.writing import json_bytes
from parapet.schemas.decisions import csv_bytes
from parapet.transforms import markdown
from parapet.transforms.report import Table, table_markdown
from parapet.transforms.text import counted, number

COLUMNS = ("system", "task", "set", "group", "metric", "value", "low", "high")
_LATEX = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "$": r"\$", "&": r"\&", "#": r"\#", "%": r"\%", "_": r"\_",
    "^": r"\textasciicircum{}", "~": r"\textasciitilde{}", "–": "--", "<": r"\textless{}", ">": r"\textgreater{}",
    "|": r"\textbar{}", "[": "{[}", "*": "{*}",
}  # fmt: skip


class Compare(Task[Systems], frozen=True, kw_only=True):
    """``parapet compare``.

    Attributes:
      systems: name, or name and part, to folders that ``parapet evaluate`` wrote.
      metrics: the columns, as :func:`columns_of` has them.
      sets: which tasks and sets are compared: those that all systems have, all, or those that all have and an error
        if there are others.
      quiet: no warning about what is left out.
      selection: of sets, domains and the average.
    """

    name = "compare"

    systems: dict[str, list[str]]
    metrics: tuple[str, ...] = ()
    sets: Sets = "common"
    quiet: bool = False
    settings: SignificanceConfig = SignificanceConfig()
    selection: Selection = EVERYTHING

    def read(self) -> Systems:
        """Reads the results. Raises InputError where they cannot be compared."""
        return read_systems(self.systems, self.metrics, self.sets, self.selection)

    def score(self, inputs: Systems, stage: Stage) -> Result:
        """The leaderboard."""
        stage("intervals and tests")
        board = leaderboard(inputs, self.settings)
        files = {"leaderboard.json": board_json(board), **table_files(board), "report.html": page_of(board)}
        return Result(
            files=files,
            summary=[*terminal_lines(board), *closing_lines(board)],
            options={
                "systems": sorted(self.systems),
                "columns": [column.name for column in inputs.columns],
                "average": [column.name for column in inputs.averaged],
                "domains": list(self.selection.domains),
                **msgspec.structs.asdict(self.settings),
            },
            warnings=[] if self.quiet else [f"left out: {line}" for line in board.left_out],
        )


def board_json(board: Board) -> bytes:
    """``leaderboard.json``."""
    return json_bytes(board)


def table_files(board: Board) -> dict[str, bytes]:
    """``table.csv`` and ``table.parquet`` in long form, ``table.tex`` and ``table.md`` with those of the page."""
    import pyarrow as pa

    from parapet.schemas.rows import parquet_bytes

    rows = [*board.values, *_averages(board)]
    texts = {name: pa.array([getattr(row, name) for row in rows], pa.string()) for name in COLUMNS[:5]}
    numbers = {name: pa.array([getattr(row, name) for row in rows], pa.float64()) for name in COLUMNS[5:]}
    cells = ([_text(getattr(row, name)) for name in COLUMNS] for row in rows)
    return {
        "table.csv": csv_bytes(COLUMNS, cells),
        "table.parquet": parquet_bytes(pa.table({**texts, **numbers})),
        "table.tex": latex(board).encode("utf-8", "replace"),
        "table.md": _markdown(board).encode("utf-8", "replace"),
    }


def _averages(board: Board) -> list[Value]:
    """The averages as rows, of 100."""
    if len(board.columns) < 2:
        return []
    found = ((name, board.average[name]) for name in board.systems)
    return [Value(name, "all", "#ALL", "all", AVERAGE, of.value, of.low, of.high) for name, of in found]


def _text(value: str | float | None) -> str:
    return "" if value is None else value if isinstance(value, str) else repr(float(value))


def terminal_lines(board: Board, width: int = 100) -> list[str]:
    """The main numbers as lines for a terminal: for each metric a row a set, a column a system; without mixes.

    Systems that do not fit into the width are left out, and counted.
    """
    whole = grid(board)
    mixed = mixes({column.set for column in board.columns})
    lines: list[str] = []
    for block in whole.blocks:
        unit = "" if block.metric in OF_100 or block.metric == AVERAGE else ", %"
        rows = [[f"{block.title[:1].lower()}{block.title[1:]}{unit}", *whole.systems]]
        for heading, column in zip(whole.headings, zip(*block.numbers, strict=True), strict=True):
            if heading not in mixed and any(value is not None for value in column):
                pairs = zip(column, block.numbers, strict=True)
                rows.append([heading, *(cell(value, row).partition("\n")[0] for value, row in pairs)])
        if whole.with_mean:
            sets = {one.set for one in block.numbers[0] if one and not one.set.startswith("#")} - mixed
            what = f"mean over {counted(len(sets), 'set')}" if sets else "mean of all numbers"
            rows.append([what, *(number(mean.value, 1) for mean in block.means)])
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        shown = max(n for n in range(1, len(widths)) if n == 1 or sum(widths[: n + 1]) + 2 * n <= width)
        lines += [""] if lines else []
        for first, *cells in rows:
            texts = (text.rjust(size) for text, size in zip(cells[:shown], widths[1:], strict=False))
            lines.append("  ".join([first.ljust(widths[0]), *texts]).rstrip())
        if more := len(board.systems) - shown:
            lines.append(f"{counted(more, 'more system')} in table.md")
    return lines


def latex(board: Board) -> str:
    r"""The tables for LaTeX, a ``tabular`` each, for the package booktabs; the best numbers are bold."""
    return "\n".join(map(_tabular, _tables(board)))


def _tables(board: Board) -> list[Table]:
    return [*main_tables(board), *by_domain(board), *seen_and_unseen(board)]


def _tabular(table: Table) -> str:
    r"""A table to ``\input``, without small print."""
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
        cells = (_bold(cell.split("\n")[0], (i, j) in table.best) for j, cell in enumerate(row))
        lines.append(f"{' & '.join(cells)} \\\\")
    return "\n".join([*lines, "\\bottomrule", "\\end{tabular}", ""])


def escaped(text: str) -> str:
    """Plain text for LaTeX: nothing in it is a command. A letter that its fonts may lack is a question mark."""
    return "".join(_LATEX.get(letter, letter if _has_glyph(letter) else "?") for letter in markdown.one_line(text))


def _has_glyph(letter: str) -> bool:
    """Whether LaTeX prints it without further packages: ASCII, and an accent on one of its letters."""
    base, *accents = list(unicodedata.normalize("NFD", letter))
    return letter.isascii() or (base.isascii() and base.isalpha() and len(accents) == 1 and ord(letter) < 256)


def _bold(text: str, is_best: bool) -> str:
    text = escaped(text)
    return f"\\textbf{{{text}}}" if is_best else text


def _markdown(board: Board) -> str:
    parts = [part for table in _tables(board) for part in (markdown.text(table.title), table_markdown(table))]
    return "\n\n".join([*parts, *map(markdown.text, notes(board))]) + "\n"
