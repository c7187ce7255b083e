"""CSV records out of bytes that may be broken: a bad row costs itself, never the rows after it."""

from __future__ import annotations

import codecs
import csv
import io
from collections.abc import Iterator
from itertools import chain
from typing import BinaryIO

import msgspec

# More lines than this in one record mean a quote that was never closed.
MAX_LINES_OF_A_RECORD = 500

_BOMS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)


class Line(msgspec.Struct):
    """A physical line: its number from 1, and its text, or None where its bytes are not of the file's encoding."""

    number: int
    text: str | None
    raw: bytes = b""

    @property
    def shown(self) -> str:
        """The line for a dead letter, readable in any case."""
        return self.text if self.text is not None else self.raw.decode("latin-1")


class Record(msgspec.Struct):
    """A CSV record: the line it begins on, and its cells, or why it is broken and what it was."""

    number: int
    cells: list[str] = []
    problem: str = ""
    raw: str = ""


def read_lines(handle: BinaryIO, encoding: str = "utf-8") -> Iterator[Line]:
    """The lines of a file. A byte order mark decides; else ``encoding`` holds, line by line.

    A line that does not decode comes with ``text=None``: the lines around it are still good.
    """
    encoding = codecs.lookup(encoding).name  # one spelling: "UTF-16" and "utf_16" are "utf-16"
    head = handle.read(4)
    for bom, name in _BOMS:
        if head.startswith(bom):
            encoding, head = name, head[len(bom) :] if name == "utf-8" else head
            break
    if encoding.startswith(("utf-16", "utf-32")):
        yield from _wide_lines(head + handle.read(), encoding)
        return
    head += handle.readline()
    for number, raw in enumerate(chain(head.splitlines(keepends=True), handle), 1):
        yield _decoded(number, raw, encoding)


def _decoded(number: int, raw: bytes, encoding: str) -> Line:
    try:
        return Line(number, raw.decode(encoding))
    except UnicodeDecodeError:
        return Line(number, None, raw)


def _wide_lines(data: bytes, encoding: str) -> Iterator[Line]:
    text = data.decode(encoding, errors="replace")
    for number, line in enumerate(io.StringIO(text, newline=""), 1):
        yield Line(number, line) if "\ufffd" not in line else Line(number, None, line.encode("utf-8"))


def read_records(lines: Iterator[Line], width: int | None = None) -> Iterator[Record]:
    """CSV records of lines; the first record sets the width that the others must have.

    A record whose quotes do not close, or whose cells do not fit the header, is broken; reading goes on at the line
    after its first one, so that one stray quote does not swallow the rest of the file.
    """
    waiting: list[Line] = []  # lines pushed back for another try

    def following() -> Line | None:
        return waiting.pop(0) if waiting else next(lines, None)

    while (first := following()) is not None:
        if first.text is None:
            yield Record(
                first.number, problem="encoding: the row is not UTF-8; save the file as UTF-8", raw=first.shown
            )
            continue
        if not first.text.strip():
            continue
        record = [first]
        quotes = first.text.count('"')
        while quotes % 2 and len(record) < MAX_LINES_OF_A_RECORD:
            line = following()
            if line is None:
                break
            record.append(line)
            quotes += (line.text or "").count('"')
        cells, problem = _cells(record, quotes, width)
        if problem:
            waiting[:0] = record[1:]
            yield Record(first.number, problem=problem, raw=first.shown)
            continue
        width = width or len(cells)
        yield Record(first.number, cells)


def _cells(record: list[Line], quotes: int, width: int | None) -> tuple[list[str], str]:
    if quotes % 2:
        return [], "broken_row: a quote is opened and never closed"
    if any(line.text is None for line in record):
        return [], "encoding: the row is not UTF-8; save the file as UTF-8"
    text = "".join(line.text or "" for line in record)
    try:
        rows = list(csv.reader(io.StringIO(text, newline=""), strict=True))
    except csv.Error as error:
        return [], f"broken_row: {error}"
    if len(rows) != 1:
        return [], "broken_row: a line break outside quotes"
    if width is not None and len(rows[0]) != width:
        return [], f"broken_row: {len(rows[0])} cells where the header has {width}"
    return rows[0], ""
