"""Text of unknown origin in Markdown: it cannot end a table cell, open a heading, or become HTML.

The escapes are those of CommonMark 0.31 and of GitHub's tables (GFM, section 4.10).
"""

import re
import urllib.parse
from collections.abc import Iterable, Sequence

from parapet.schemas.errors import storable


class Markdown(str):
    """Text that is Markdown already and is not escaped again."""

    __slots__ = ()


_ENTITIES = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}
_ESCAPES = str.maketrans({**_ENTITIES, **{mark: f"\\{mark}" for mark in "\\`*_[]|~$"}})
_CONTROLS = dict.fromkeys([*range(32), *range(127, 160), 0x2028, 0x2029], " ")
# Markers of lists, headings and rules, which only count at the beginning of a line.
_LEADING = re.compile(r"[0-9]{1,9}(?=[.)](?: |$))|(?=[-+](?: |$)|-[- ]*$|=+$|#{1,6}(?: |$))")


def one_line(value: str) -> str:
    """Replaces white space and control characters by single spaces."""
    return " ".join(value.translate(_CONTROLS).split())


def text(value: str) -> Markdown:
    """Converts plain text to Markdown in one line, displayed unchanged; Markdown is returned as it is."""
    if isinstance(value, Markdown):
        return value
    plain = one_line(value)
    leading = _LEADING.match(plain)
    at = leading.end() if leading else 0
    return Markdown(plain[:at] + ("\\" if leading else "") + plain[at:].translate(_ESCAPES))


def code(value: str) -> Markdown:
    """Formats a name as code, or as text if code in a table cannot show it (a pipe, a backtick, a line break)."""
    plain = one_line(value)
    return Markdown(f"`{plain}`") if plain and plain == value and not set("`|") & set(plain) else text(value)


def inline(value: str) -> Markdown:
    """Converts our own text to Markdown in one line: text between backticks is code, the rest is shown unchanged."""
    pieces = re.split(r"(`[^`|]+`)", one_line(value))
    return Markdown("".join(piece if i % 2 else _spaced(piece, first=i == 0) for i, piece in enumerate(pieces)))


def _spaced(piece: str, first: bool) -> str:
    """Escapes a piece and keeps the spaces at its ends."""
    return text(piece) + piece[len(piece.rstrip()) :] if first else piece.translate(_ESCAPES)


def is_url(url: str) -> bool:
    """Whether the text is an http or https address."""
    return re.match(r"https?://[^/\s]", url) is not None


def quoted(url: str) -> str:
    """Percent-encodes spaces, quotes, angle and curly brackets and the like in an address."""
    return urllib.parse.quote(storable(url), safe="%/:?#[]@!$&'()*+,;=~-._")


def table(columns: Sequence[str], rows: Iterable[Sequence[str]], numbers: int = 0) -> Markdown:
    """Formats a table of GFM. Cells are escaped, unless they are Markdown.

    Args:
      columns: the headings.
      rows: the rows, with one cell per column.
      numbers: how many of the last columns are numbers, which are right-aligned.
    """
    rules = ["---"] * (len(columns) - numbers) + ["--:"] * numbers
    lines = [columns, [Markdown(rule) for rule in rules], *rows]
    return Markdown("\n".join("| " + " | ".join(text(cell) for cell in line) + " |" for line in lines))


def bullets(items: Iterable[str]) -> Markdown:
    """Formats a list, one line per item; items are escaped, unless they are Markdown."""
    return Markdown("\n".join(f"- {text(item)}" for item in items))
