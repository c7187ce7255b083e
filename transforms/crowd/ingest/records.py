"""CSV records out of bytes that may be broken: a bad row costs itself, never the rows after it."""

from __future__ import annotations

import codecs
import csv
import io
import sys
from collections import deque
from collections.abc import Callable, Iterator
from typing import BinaryIO

import msgspec

from parapet.schemas import limits
from parapet.schemas.limits import in_bytes

# More lines than this in one record mean a quote that was never closed.
MAX_LINES_OF_A_RECORD = 500

_SHOWN = 2_000  # bytes of a long line

_BOMS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)


class Line(msgspec.Struct):
    """A physical line.

    Attributes:
      number: from 1.
      text: None where its bytes are not of the file's encoding, or more than one line may have.
      raw: its bytes, where there is no text; of a long line the first.
      offset: where it begins in the file, in bytes; 0 where the file was decoded as a whole, or in the first line.
      problem: why there is no text.
    """

    number: int
    text: str | None
    raw: bytes = b""
    offset: int = 0
    problem: str = "encoding: the row is not UTF-8; save the file as UTF-8"

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
    encoding, mark = encoding_of(head := handle.read(4), encoding)
    if is_wide(encoding):
        data = head + handle.read(limits.MAX_FILE)
        if len(data) > limits.MAX_FILE:
            size = in_bytes(limits.MAX_FILE)
            yield Line(1, None, data[:_SHOWN], 0, f"too_large: over {size} of {encoding.upper()}: save it as UTF-8")
            return
        yield from _wide_lines(data, encoding)
        return
    head += handle.readline(limits.MAX_LINE)
    first = head[mark:].splitlines(keepends=True)  # of old Macs, all lines of the file
    if len(head) >= limits.MAX_LINE:
        length = len(head) + _skip_line(handle, head)
        yield Line(1, None, head[:_SHOWN], 0, _too_long())
        yield from lines_at(handle, length, 2, encoding)
        return
    for number, raw in enumerate(first, 1):
        yield _decoded(number, raw, encoding, 0)
    yield from lines_at(handle, len(head), len(first) + 1, encoding)


def lines_at(handle: BinaryIO, offset: int, number: int, encoding: str) -> Iterator[Line]:
    """The lines of a file from one on that is not the first.

    Args:
      handle: where the line begins.
      offset: of the line in the file, in bytes.
      number: of the line.
      encoding: of the file, none of several bytes a character at least.
    """
    limit = limits.MAX_LINE
    while raw := handle.readline(limit + 1):
        length = len(raw)
        if length > limit:
            length += _skip_line(handle, raw)
            yield Line(number, None, raw[:_SHOWN], offset, _too_long())
        else:
            yield _decoded(number, raw, encoding, offset)
        number += 1
        offset += length


def encoding_of(head: bytes, encoding: str) -> tuple[str, int]:
    """The encoding of a file that begins with ``head``, and the length of the mark that is no part of its text.

    Args:
      head: four bytes, or all.
      encoding: of files without a byte order mark.
    """
    for bom, name in _BOMS:
        if head.startswith(bom):
            return name, len(bom) if name == "utf-8" else 0
    return codecs.lookup(encoding).name, 0  # one spelling: "UTF-16" and "utf_16" are "utf-16"


def is_wide(encoding: str) -> bool:
    """Whether an encoding, as :func:`encoding_of` spells it, has two bytes or four for each character."""
    return encoding.startswith(("utf-16", "utf-32"))


def _too_long() -> str:
    return f"too_large: the line has more than {in_bytes(limits.MAX_LINE)}"


def _skip_line(handle: BinaryIO, raw: bytes) -> int:
    """Reads the rest of a line that begins with ``raw``; the number of its bytes."""
    length = 0
    while raw and not raw.endswith(b"\n"):
        raw = handle.readline(limits.MAX_LINE)
        length += len(raw)
    return length


def _decoded(number: int, raw: bytes, encoding: str, offset: int) -> Line:
    try:
        return Line(number, raw.decode(encoding), b"", offset)
    except UnicodeDecodeError:
        return Line(number, None, raw, offset)


def _wide_lines(data: bytes, encoding: str) -> Iterator[Line]:
    text = data.decode(encoding, errors="replace")
    for number, line in enumerate(io.StringIO(text, newline=""), 1):
        yield Line(number, line) if "\ufffd" not in line else Line(number, None, line.encode("utf-8"))


def read_records(lines: Iterator[Line], width: int | None = None, stop: int = sys.maxsize) -> Iterator[Record]:
    """CSV records of lines; the first record sets the width that the others must have.

    A record whose quotes do not close, or whose cells do not fit the header, is broken; reading goes on at the line
    after its first one, so that one stray quote does not swallow the rest of the file.

    Args:
      lines: in order.
      width: the number of cells, where it is known.
      stop: offset of the first record that is not read.
    """
    waiting: deque[Line] = deque()  # lines pushed back for another try

    def following() -> Line | None:
        return waiting.popleft() if waiting else next(lines, None)

    while (first := following()) is not None and first.offset < stop:
        if first.text is None:
            yield Record(first.number, problem=first.problem, raw=first.shown)
            continue
        if not first.text.strip():
            continue
        record, cells, problem = _record(first, following, width)
        if problem:
            waiting.extendleft(reversed(record[1:]))
            yield Record(first.number, problem=problem, raw=first.shown)
            continue
        width = width or len(cells)
        yield Record(first.number, cells)


def lines_of_record(first: Line, following: Callable[[], Line | None], width: int) -> int:
    """How many lines :func:`read_records` goes on after where a record begins: one, where it is broken or none."""
    if not first.text or not first.text.count('"') % 2:
        return 1
    record, _, problem = _record(first, following, width)
    return 1 if problem else len(record)


def _record(first: Line, following: Callable[[], Line | None], width: int | None) -> tuple[list[Line], list[str], str]:
    """The lines of a record until its quotes close, and its cells, or why it is broken."""
    record = [first]
    quotes, size = (first.text or "").count('"'), len(first.text or "")
    while quotes % 2 and len(record) < MAX_LINES_OF_A_RECORD and size <= limits.MAX_LINE:
        line = following()
        if line is None:
            break
        record.append(line)
        size += len(line.text or "")
        quotes += (line.text or "").count('"')
    return record, *_cells(record, quotes, width)


def _cells(record: list[Line], quotes: int, width: int | None) -> tuple[list[str], str]:
    if quotes % 2 and sum(len(line.text or "") for line in record) > limits.MAX_LINE:
        return [], f"too_large: the row has more than {in_bytes(limits.MAX_LINE)}"
    if quotes % 2:
        return [], "broken_row: a quote is opened and never closed"
    if wrong := next((line for line in record if line.text is None), None):
        return [], wrong.problem
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
