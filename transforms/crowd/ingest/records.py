"""CSV records out of bytes that may be broken: a bad row costs itself, never the rows after it."""

from __future__ import annotations

import codecs
import csv
import io
from collections import deque
from collections.abc import Iterator
from itertools import chain
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
      problem: why there is no text.
    """

    number: int
    text: str | None
    raw: bytes = b""
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
    head = handle.read(4)
    mark = 0
    for bom, name in _BOMS:
        if head.startswith(bom):
            encoding, mark = name, len(bom) if name == "utf-8" else 0
            break
    encoding = codecs.lookup(encoding).name  # one spelling: "UTF-16" and "utf_16" are "utf-16"
    if encoding.startswith(("utf-16", "utf-32")):  # line ends have several bytes: decoded as a whole
        data = head + handle.read(limits.MAX_FILE)
        if len(data) > limits.MAX_FILE:
            size = in_bytes(limits.MAX_FILE)
            yield Line(1, None, data[:_SHOWN], f"too_large: over {size} of {encoding.upper()}: save it as UTF-8")
            return
        for number, line in enumerate(io.StringIO(data.decode(encoding, errors="replace"), newline=""), 1):
            yield Line(number, line) if "\ufffd" not in line else Line(number, None, line.encode("utf-8"))
        return
    head += handle.readline(limits.MAX_LINE)
    # Lines of old Macs end with a carriage return: the first line is all of their file.
    is_long = len(head) >= limits.MAX_LINE
    first = [head] if is_long else head[mark:].splitlines(keepends=True)
    others = iter(lambda: handle.readline(limits.MAX_LINE + 1), b"")
    for number, raw in enumerate(chain(first, others), 1):
        if len(raw) > limits.MAX_LINE or (is_long and number == 1):
            rest = raw
            while rest and not rest.endswith(b"\n"):
                rest = handle.readline(limits.MAX_LINE)
            yield Line(number, None, raw[:_SHOWN], f"too_large: the line has more than {in_bytes(limits.MAX_LINE)}")
        else:
            try:
                yield Line(number, raw.decode(encoding))
            except UnicodeDecodeError:
                yield Line(number, None, raw)


def read_records(lines: Iterator[Line]) -> Iterator[Record]:
    """CSV records of lines; the first record sets the width that the others must have.

    A record whose quotes do not close, or whose cells do not fit the header, is broken; reading goes on at the line
    after its first one, so that one stray quote does not swallow the rest of the file.
    """
    waiting: deque[Line] = deque()  # lines pushed back for another try
    width = None
    while (first := waiting.popleft() if waiting else next(lines, None)) is not None:
        if first.text is None:
            yield Record(first.number, problem=first.problem, raw=first.shown)
            continue
        if not first.text.strip():
            continue
        record = [first]
        quotes, size = first.text.count('"'), len(first.text)
        while quotes % 2 and len(record) < MAX_LINES_OF_A_RECORD and size <= limits.MAX_LINE:
            line = waiting.popleft() if waiting else next(lines, None)
            if line is None:
                break
            record.append(line)
            size += len(line.text or "")
            quotes += (line.text or "").count('"')
        cells, problem = _cells(record, quotes, width)
        if problem:
            waiting.extendleft(reversed(record[1:]))
            yield Record(first.number, problem=problem, raw=first.shown)
            continue
        width = width or len(cells)
        yield Record(first.number, cells)


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
