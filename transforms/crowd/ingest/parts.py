"""Large response files in parts, each read by itself: every record belongs to exactly one, the same as of the whole.

Where a record begins depends on the quotes before it, up to the beginning of the file. But a record has 500 lines at
most, so that one begins within any 500 lines. Whoever reads on from each of these in turn is soon at the same line from
all of them: there a record begins, whatever comes before. Where that does not happen, the file is not cut.
"""

from __future__ import annotations

import heapq
import sys
from collections.abc import Iterator
from itertools import takewhile
from typing import BinaryIO, NamedTuple

from parapet.schemas.limits import MAX_LINE
from parapet.schemas.responses import Assignment, DeadLetter
from parapet.transforms.compressed import is_compressed, open_plain
from parapet.transforms.crowd.ingest import api_assignments, batch_csv, records
from parapet.transforms.crowd.ingest.fields import TaskKind
from parapet.transforms.crowd.ingest.records import Line, encoding_of, is_wide, lines_at, read_lines, read_records

_STEP = 32 * 2**20  # bytes of a part
_WINDOW = 16 * 2**20  # bytes in which there must be 500 lines
_BLOCK = 2**18


class Part(NamedTuple):
    """The records of a file that begin in so many bytes from ``start`` on, or soon after.

    Attributes:
      size: of the file.
      step: bytes; 0: the file is read as a whole.
    """

    path: str
    size: int = 0
    start: int = 0
    step: int = 0


def parts_of(path: str, size: int, encoding: str) -> list[Part]:
    """The parts of a file. Compressed ones and those in UTF-16 or UTF-32 are read as a whole, as are small ones.

    Args:
      path: of the file.
      size: in bytes.
      encoding: if it has no byte order mark.
    """
    if size < 2 * _STEP or is_compressed(path):
        return [Part(path)]
    with open_plain(path) as handle:
        if is_wide(encoding_of(handle.read(4), encoding)[0]):
            return [Part(path)]
    return [Part(path, size, start, _STEP) for start in range(0, size, _STEP)]


def count_lines(part: Part) -> int:
    """The number of line ends in the bytes of a part."""
    lines, rest = 0, part.step
    with open_plain(part.path) as handle:
        if not part.start:
            # Lines of old Macs count as such in the first line, see ``read_lines``.
            head = handle.read(4) + handle.readline(MAX_LINE)
            if len(head) < MAX_LINE:
                lines += len(head[encoding_of(head[:4], "utf-8")[1] :].splitlines()) - head.count(b"\n")
        handle.seek(part.start)
        while rest and (block := handle.read(min(rest, _BLOCK))):
            lines += block.count(b"\n")
            rest -= len(block)
    return lines


def read_part(part: Part, before: int, key: bytes, encoding: str, kind: TaskKind) -> Iterator[Assignment | DeadLetter]:
    """The assignments of one part.

    Args:
      part: of a file, none that is read as a whole.
      before: the number of lines before it, by :func:`count_lines`.
      key: for the workers' hashes.
      encoding: of files without a byte order mark.
      kind: of the tasks whose answers are taken.

    Raises:
      InputError: the file has no usable header.
    """
    path = part.path
    with open_plain(path) as handle, open_plain(path) as other:
        of_file, _ = encoding_of(handle.read(4), encoding)
        handle.seek(0)
        is_json = looks_like_json(handle.read(256))
        handle.seek(0)
        columns = [] if is_json else batch_csv.header_of(read_records(read_lines(handle, encoding)), path)
        begins, width = range(part.start, part.size, part.step), len(columns)
        below_header = handle.tell()
        starts = (_start(other, at, at + part.step, below_header, of_file, width) if at else 0 for at in begins)
        first = next(starts)
        if first is None:
            return
        stop = next((offset for offset in starts if offset is not None), sys.maxsize)
        handle.seek(first)
        lines = read_lines(handle, encoding)
        if first:
            lines = lines_at(handle, first, 1 + before + _line_ends(other, part.start, first), of_file)
        if is_json:
            lines = takewhile(lambda line: line.offset < stop, lines)
            yield from api_assignments.assignments_of(lines, path, key, kind)
            return
        rows = read_records(lines, len(columns) if first else None, stop)
        if not first:
            batch_csv.header_of(rows, path)
        yield from batch_csv.assignments_of(rows, columns, path, key, kind)


def looks_like_json(head: bytes) -> bool:
    """Whether a file that begins so is JSON lines. Byte order marks and the zeros of UTF-16 aside, JSON begins so."""
    return head.replace(b"\0", b"").lstrip(b"\xef\xbb\xbf\xff\xfe \t\r\n")[:1] in (b"{", b"[")


def _start(handle: BinaryIO, at: int, end: int, least: int, encoding: str, width: int) -> int | None:
    """Where the first record begins of those that can be seen to begin at ``at`` or later, but before ``end``.

    It is the same for the part that ends there and for the one that begins.

    Args:
      handle: of the file.
      at: an offset.
      end: another.
      least: where the first record begins at the earliest.
      encoding: of the file.
      width: the number of cells; 0: each line is a record.

    Returns:
      Its offset; None where there is none.
    """
    begin = _window(handle, at, records.MAX_LINES_OF_A_RECORD if width else 1)
    if begin is None:
        return None
    handle.seek(begin)
    source = lines_at(handle, begin, 1, encoding) if begin else read_lines(handle, encoding)
    lines: list[Line] = []

    def line(i: int) -> Line | None:
        while len(lines) <= i and (found := next(source, None)) is not None:
            lines.append(found)
        return lines[i] if i < len(lines) else None

    waiting = [0]
    if begin:
        while (found := line(waiting[-1] + 1)) is not None and found.offset < at:
            waiting.append(waiting[-1] + 1)
    while waiting:
        i = heapq.heappop(waiting)
        while waiting and waiting[0] == i:
            heapq.heappop(waiting)
        found = line(i)
        if found is None or found.offset >= end:
            return None
        if found.offset >= at and not waiting:
            return found.offset if found.offset >= least else None
        following = (line(n) for n in range(i + 1, sys.maxsize))
        length = records.lines_of_record(found, following.__next__, width) if width else 1
        heapq.heappush(waiting, i + length)
    return None


def _window(handle: BinaryIO, at: int, least: int) -> int | None:
    """Where a line begins that is followed by so many others that begin before ``at``; 0: the file begins later."""
    begin, ends = at, 0
    while begin:
        block = min(begin, _BLOCK)
        begin -= block
        handle.seek(begin)
        data = handle.read(block)
        ends += data.count(b"\n")
        if ends > least:
            found = begin + data.index(b"\n") + 1
            return found if found > 4 else 0
        if at - begin > _WINDOW:
            return None
    return 0


def _line_ends(handle: BinaryIO, start: int, stop: int) -> int:
    handle.seek(start)
    return handle.read(stop - start).count(b"\n")
