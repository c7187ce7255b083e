"""The leaderboard as files: every number in long form, and the table for LaTeX and Markdown."""

from __future__ import annotations

import unicodedata

from parapet.evaluation.compare.grid import best, grid, grid_table, shown
from parapet.evaluation.compare.leaderboard import AVERAGE, Board, Value
from parapet.evaluation.compare.page import notes
from parapet.evaluation.writing import json_bytes
from parapet.schemas.decisions import csv_bytes
from parapet.transforms import markdown
from parapet.transforms.report import table_markdown
from parapet.transforms.text import number

COLUMNS = ("system", "task", "set", "group", "metric", "value", "low", "high")
_LATEX = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "$": r"\$", "&": r"\&", "#": r"\#", "%": r"\%", "_": r"\_",
    "^": r"\textasciicircum{}", "~": r"\textasciitilde{}", "–": "--", "<": r"\textless{}", ">": r"\textgreater{}",
    "|": r"\textbar{}", "[": "{[}", "*": "{*}",
}  # fmt: skip


def board_json(board: Board) -> bytes:
    """``leaderboard.json``."""
    return json_bytes(board)


def table_files(board: Board) -> dict[str, bytes]:
    """``table.csv`` and ``table.parquet`` in long form, ``table.tex`` and ``table.md`` as the page has it."""
    import pyarrow as pa

    from parapet.transforms.parquet import parquet_bytes

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


def latex(board: Board) -> str:
    r"""The table for LaTeX: a ``tabular`` to ``\input``, for the package booktabs; the best numbers are bold."""
    whole = grid(board)
    heads = ["system", *(["mean"] if whole.with_mean else []), *whole.headings]
    lines = [
        "% \\usepackage{booktabs}",
        f"\\begin{{tabular}}{{l{'r' * (len(heads) - 1)}}}",
        "\\toprule",
        f"{' & '.join(map(escaped, heads))} \\\\",
        "\\midrule",
    ]
    for i, block in enumerate(whole.blocks):
        if len(whole.blocks) > 1:
            title = f"\\multicolumn{{{len(heads)}}}{{l}}{{\\emph{{{escaped(block.title)}}}}} \\\\"
            lines += [*(["\\addlinespace"] if i else []), title]
        means, cells = best(block)
        for k, (name, mean, numbers) in enumerate(zip(block.systems, block.means, block.numbers, strict=True)):
            texts = [_bold(number(mean.value, 1), k in means)] if whole.with_mean else []
            texts += ["" if one is None else _bold(shown(one.metric, one.value), (k, j) in cells)
                      for j, one in enumerate(numbers)]  # fmt: skip
            lines.append(f"{' & '.join([escaped(name), *texts])} \\\\")
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
    whole = grid(board)
    title = f"{whole.blocks[0].title}, of 100" if len(whole.blocks) == 1 else "Systems by set, of 100"
    parts = [markdown.text(title), table_markdown(grid_table(board, [("", whole)], title))]
    return "\n\n".join([*parts, *map(markdown.text, notes(board))]) + "\n"
