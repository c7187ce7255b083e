"""Sorted runs of records: how what grows with the corpus goes from step to step without being in memory as a whole.

A worker sorts the records that it has and appends them to a file of the staging folder; only the place of the run
travels. Whoever takes runs merges them while reading, with a buffer for each. Where the input is small, the bytes
travel themselves, which saves the files.
"""

from __future__ import annotations

import heapq
import uuid
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from itertools import groupby
from operator import itemgetter
from struct import Struct
from typing import Any, BinaryIO
from zlib import crc32

import apache_beam as beam
from apache_beam.io.filesystems import FileSystems

from parapet.transforms.compressed import open_plain
from parapet.transforms.files import STAGING, join, unpublished

Record = tuple[bytes, bytes]  # sort key, content
Run = tuple[str, int, int, int, bytes]  # file, offset, bytes, number of records; the bytes themselves where no file is

_FOLDER = ".runs"  # below staging
_FRAME = Struct("<II")  # bytes of the key and of the content
_GATHERED = 16 * 2**20  # bytes of records that one worker holds
_BUFFERS = 64 * 2**20  # bytes, of all runs together that are merged
_LEAST, _MOST = 2**14, 2**20  # bytes of one buffer


def sort_key(text: str) -> bytes:
    """A text as a sort key: the order of keys is that of the texts."""
    return text.encode("utf-8", "surrogatepass")


class RunWriter:
    """Writes runs into one file below staging, which is there from its first run on and whole when it is closed.

    Args:
      output: the output folder; empty: the runs carry their bytes, and there is no file.
    """

    def __init__(self, output: str) -> None:
        self._output, self._stack = output, ExitStack()
        self._path, self._offset = "", 0
        self._handle: BinaryIO | None = None

    def write(self, records: Iterable[Record]) -> Run:
        """Writes records as a run; they may be in any order."""
        frames = [part for key, value in sorted(records) for part in (_FRAME.pack(len(key), len(value)), key, value)]
        data, n = b"".join(frames), len(frames) // 3
        if not self._output:
            return "", 0, len(data), n, data
        handle, offset = self._handle or self._open(), self._offset
        handle.write(data)
        self._offset += len(data)
        return self._path, offset, len(data), n, b""

    def _open(self) -> BinaryIO:
        folder = FileSystems.join(self._output, STAGING, _FOLDER)
        self._path, self._offset = join(folder, uuid.uuid4().hex), 0
        handle = self._handle = self._stack.enter_context(unpublished(self._path))
        return handle

    def close(self) -> None:
        """Ends the file; the next run begins another."""
        self._handle = None
        self._stack.close()


class RunWritingDoFn(beam.DoFn):
    """A DoFn that writes runs with ``self.runs``, a file for each bundle.

    Args:
      output: as of RunWriter.
    """

    def __init__(self, output: str) -> None:
        super().__init__()
        self._output = output

    def start_bundle(self) -> None:
        """Begins a file."""
        self.runs = RunWriter(self._output)

    def finish_bundle(self) -> None:
        """Ends it. What has taken its runs reads them in a later stage."""
        self.runs.close()


def merged(runs: Iterable[Run]) -> Iterator[Record]:
    """The records of all runs, sorted by key, those of one key by content."""
    runs = list(runs)
    size = min(_MOST, max(_LEAST, _BUFFERS // max(1, len(runs))))
    return heapq.merge(*(_records(run, size) for run in runs))


def joined(*groups: Iterable[Run]) -> Iterator[tuple[str, list[list[bytes]]]]:
    """The keys of all runs in order, as text, each with its contents: a sorted list for each group of runs."""

    def numbered(i: int, runs: Iterable[Run]) -> Iterator[tuple[bytes, int, bytes]]:
        return ((key, i, content) for key, content in merged(runs))

    records = heapq.merge(*(numbered(i, runs) for i, runs in enumerate(groups)))
    for key, of_key in groupby(records, itemgetter(0)):
        contents: list[list[bytes]] = [[] for _ in groups]
        for _, i, content in of_key:
            contents[i].append(content)
        yield key.decode("utf-8", "surrogatepass"), contents


def count(runs: Sequence[Run]) -> int:
    """The number of records of all runs."""
    return sum(run[3] for run in runs)


def _records(run: Run, size: int) -> Iterator[Record]:
    """Reads a run, ``size`` bytes at a time or as many as its next record has. No file stays open meanwhile."""
    path, offset, rest, _, data = run
    at = 0

    def read(n: int) -> None:
        """Sees to it that ``data`` has ``n`` bytes from ``at`` on."""
        nonlocal offset, rest, data, at
        if len(data) - at < n and path:
            n = min(rest, max(size, n - (len(data) - at)))
            data, at = data[at:] + _read(path, offset, n), 0
            offset, rest = offset + n, rest - n

    for _ in range(run[3]):
        read(_FRAME.size)
        key_size, content_size = _FRAME.unpack_from(data, at)
        read(_FRAME.size + key_size + content_size)
        start = at + _FRAME.size + key_size
        at = start + content_size
        yield data[start - key_size : start], data[start:at]


def _read(path: str, offset: int, n: int) -> bytes:
    with open_plain(path) as handle:
        handle.seek(offset)
        parts: list[Any] = []
        while n and (part := handle.read(n)):
            parts.append(part)
            n -= len(part)
        return b"".join(parts)


class GatheredRuns:
    """Gathers records by group, and writes a run for each group when they are many.

    Args:
      writer: of the runs.
    """

    def __init__(self, writer: RunWriter) -> None:
        self._writer, self._size = writer, 0
        self._records: dict[str, list[Record]] = defaultdict(list)

    def add(self, group: str, key: bytes, content: bytes = b"") -> Iterator[tuple[str, Run]]:
        """Takes a record; yields (group, run) of all groups where it was the last that there was room for."""
        self._records[group].append((key, content))
        self._size += len(key) + len(content)
        if self._size >= _GATHERED:
            yield from self.flush()

    def flush(self) -> Iterator[tuple[str, Run]]:
        """Yields (group, run) of what is left."""
        for group, records in self._records.items():
            yield group, self._writer.write(records)
        self._records.clear()
        self._size = 0


def shard_of(key: bytes, shards: int) -> str:
    """The shard in which all records with this key meet. The result of a run does not depend on it."""
    return str(crc32(key) % shards)
