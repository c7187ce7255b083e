"""Text of strangers in Markdown: nothing in it may end a table cell, open a heading, or become HTML.

The escapes are those of CommonMark 0.31 and of GitHub's tables (GFM, section 4.10).
"""

from __future__ import annotations

import re
import urllib.parse
from collections.abc import Iterable, Sequence

from parapet.schemas.errors import storable


class Markdown(str):
    """Text that is Markdown already, and is not escaped again."""

    __slots__ = ()


_ENTITIES = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}
_ESCAPES = str.maketrans({**_ENTITIES, **{mark: f"\\{mark}" for mark in "\\`*_[]|~$"}})
_CONTROLS = dict.fromkeys([*range(32), *range(127, 160), 0x2028, 0x2029], " ")
# What is a list, a heading or a rule only where a line begins with it.
_LEADING = re.compile(r"[0-9]{1,9}(?=[.)](?: |$))|(?=[-+](?: |$)|-+$|=+$|#{1,6}(?: |$))")
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})(.*)")
_HEADING = re.compile(r"( {0,3})(#{1,6})(?=\s|$)")
_UNDERLINE = re.compile(r" {0,3}(=+|-+)\s*")
# Raw HTML begins so (CommonMark 6.6); "<https://...>" is a link.
_TAG = re.compile(r"<(?=[A-Za-z/!?])(?!https?://[^\s<>]*>)")


def one_line(value: str) -> str:
    """White space and control characters as single spaces."""
    return " ".join(value.translate(_CONTROLS).split())


def text(value: str) -> Markdown:
    """Plain text as Markdown in one line, which shows as it is; what is Markdown already stays."""
    if isinstance(value, Markdown):
        return value
    plain = one_line(value)
    leading = _LEADING.match(plain)
    at = leading.end() if leading else 0
    return Markdown(plain[:at] + ("\\" if leading else "") + plain[at:].translate(_ESCAPES))


def code(value: str) -> Markdown:
    """A name as code; one that code cannot show in a table too (a pipe, a backtick, a line break) as text."""
    plain = one_line(value)
    shows = plain and plain == value and not set("`|") & set(plain)
    return Markdown(f"`{plain}`") if shows else text(value)


def inline(value: str) -> Markdown:
    """Text of one's own as Markdown in one line: what is between backticks is code, the rest shows as it is."""
    pieces = re.split(r"(`[^`|]+`)", one_line(value))
    shown = [piece if i % 2 else _spaced(piece, first=i == 0) for i, piece in enumerate(pieces)]
    return Markdown("".join(shown))


def _spaced(piece: str, first: bool) -> str:
    """Escaped, with the spaces at its ends."""
    return text(piece) + piece[len(piece.rstrip()) :] if first else piece.translate(_ESCAPES)


def link(label: str, url: str) -> Markdown:
    """A link to a web address; only its label where the address is none."""
    if not is_url(url):
        return text(label)
    return Markdown(f"[{text(label)}](<{quoted(url)}>)")


def is_url(url: str) -> bool:
    """Whether it is an http or https address."""
    return re.match(r"https?://[^/\s]", url) is not None


def quoted(url: str) -> str:
    """An address in which spaces, quotes, angle and curly brackets and the like are percent-encoded."""
    return urllib.parse.quote(storable(url), safe="%/:?#[]@!$&'()*+,;=~-._")


def table(columns: Sequence[str], rows: Iterable[Sequence[str]], numbers: int = 0) -> Markdown:
    """A table of GFM. Cells are escaped, unless they are Markdown.

    Args:
      columns: the headings.
      rows: with a cell a column.
      numbers: how many of the last columns have numbers, and are set to the right.
    """
    rules = ["---"] * (len(columns) - numbers) + ["--:"] * numbers
    lines = [columns, [Markdown(rule) for rule in rules], *rows]
    return Markdown("\n".join("| " + " | ".join(text(cell) for cell in line) + " |" for line in lines))


def bullets(items: Iterable[str]) -> Markdown:
    """A list, one line an item; items are escaped, unless they are Markdown."""
    return Markdown("\n".join(f"- {text(item)}" for item in items))


def prose(value: str, level: int) -> Markdown:
    """An author's own Markdown, for a place below a heading of a level.

    It stays Markdown, but can neither bring HTML (which shows as text) nor a heading that is not below the level,
    and a fence of code that it leaves open is closed.
    """
    lines: list[str] = []
    fence = ""
    for line in value.strip().splitlines():
        found = _FENCE.match(line)
        if fence:
            if found and found[1].startswith(fence) and not found[2].strip():
                fence = ""
        elif found and not (found[1][0] == "`" and "`" in found[2]):
            fence = found[1]
        else:
            line = _HEADING.sub(lambda match: match[1] + "#" * min(len(match[2]) + level, 6), line)
            if _UNDERLINE.fullmatch(line) and lines and lines[-1].strip(" \t"):
                lines.append("")  # else it would make a heading of the line above
        lines.append(_TAG.sub("&lt;", line))
    return Markdown("\n".join([*lines, fence]).strip())
