"""Dead letters on their way to ``dead_letters.jsonl``: they wait in files of the staging folder, and workers exchange
only what is said of them. So memory is that of a part, however many records are bad.
"""

from __future__ import annotations

import heapq
import json
import uuid
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, closing
from fractions import Fraction
from hashlib import blake2b

import apache_beam as beam
import msgspec
import numpy as np
import orjson
from apache_beam.transforms.window import GlobalWindow
from apache_beam.utils.windowed_value import WindowedValue

from parapet.transforms.compressed import open_input
from parapet.transforms.dead_letters import DEAD_LETTERS, SHOWN, DeadLetter, Tally, check_bad, place_of, reason_of
from parapet.transforms.files import STAGING, HashingWriter, Written, join, staged

_PART_BYTES = 2 << 20
_PARTS_AT_ONCE = 64  # open files


class DeadPart(msgspec.Struct, frozen=True):
    """Some dead letters, sorted by the keys of their elements.

    Attributes:
      path: the file below staging; nothing where none is written.
      reasons: id to how often.
      places: eight bytes of each place, without repeats.
      first: the first places: (key, the eight bytes, the line that is shown).
    """

    path: str
    reasons: dict[str, int]
    places: bytes
    first: list[tuple[str, bytes, str]]


class SetAside(beam.PTransform):
    """Writes dead letters to parts.

    Args:
      output: the output folder; nothing where they are only counted.
    """

    def __init__(self, output: str = "") -> None:
        super().__init__()
        self.output = output

    def expand(self, dead_letters: beam.PCollection) -> beam.PCollection:
        """PCollection of (key, list of DeadLetter) to PCollection of DeadPart."""
        return dead_letters | "Parts" >> beam.ParDo(_SetAside(self.output))


class _SetAside(beam.DoFn):
    def __init__(self, output: str) -> None:
        super().__init__()
        self.output = output

    def start_bundle(self) -> None:
        self.part = _Part()

    def process(self, element: tuple[str, list[DeadLetter]]) -> Iterator[DeadPart]:
        self.part.add(*element)
        if self.part.size >= _PART_BYTES:
            yield self.part.written(self.output)
            self.part = _Part()

    def finish_bundle(self) -> Iterator[WindowedValue]:
        if self.part.size:
            yield WindowedValue(self.part.written(self.output), GlobalWindow().max_timestamp(), [GlobalWindow()])


class _Part:
    """A part that is being filled."""

    def __init__(self) -> None:
        self.size = 0
        self._elements: list[tuple[str, list[DeadLetter], list[bytes]]] = []

    def add(self, key: str, letters: list[DeadLetter]) -> None:
        lines = [orjson.dumps(msgspec.to_builtins(letter)) + b"\n" for letter in letters]
        self._elements.append((key, letters, lines))
        self.size += sum(map(len, lines))

    def written(self, output: str) -> DeadPart:
        self._elements.sort(key=lambda element: element[0])
        path = f"dead_letters/{uuid.uuid4().hex}" if output else ""
        if output:
            with staged(output, path) as handle:
                for key, _, lines in self._elements:
                    handle.writelines(_keyed(key, line) for line in lines)
        reasons: Counter[str] = Counter()
        first: dict[bytes, tuple[str, bytes, str]] = {}
        places: dict[bytes, None] = {}
        for key, letters, _ in self._elements:
            reasons.update(map(reason_of, letters))
            for letter in letters:
                place, line = place_of(letter)
                number = blake2b("\0".join(place).encode(), digest_size=8).digest()
                places[number] = None
                if len(first) < SHOWN:
                    first.setdefault(number, (key, number, line))
        return DeadPart(path, dict(reasons), b"".join(places), list(first.values()))


def check_parts(parts: Iterable[DeadPart], tallies: Sequence[Tally], max_bad: Fraction, done: str) -> None:
    """Raises InputError where more records are bad than may be, or nothing is left, see :func:`check_bad`."""
    parts = list(parts)
    reasons: Counter[str] = Counter()
    for part in parts:
        reasons.update(part.reasons)
    first: dict[bytes, str] = {}
    for _, number, line in sorted((place for part in parts for place in part.first), key=lambda place: place[0]):
        first.setdefault(number, line)
    ids = np.frombuffer(b"".join(part.places for part in parts), np.uint64)
    check_bad(tallies, max_bad, done, reasons, list(first.values())[:SHOWN], len(np.unique(ids)))


def write_dead_letters(parts: Iterable[DeadPart], output: str) -> Written:
    """Writes ``dead_letters.jsonl`` into staging, in the order of the elements' keys."""
    paths = [part.path for part in parts]
    while len(paths) > _PARTS_AT_ONCE:
        merged = f"dead_letters/{uuid.uuid4().hex}"
        with ExitStack() as stack, staged(output, merged) as handle:
            handle.writelines(_keyed(key, line) for key, line in _merged(paths[:_PARTS_AT_ONCE], output, stack))
        paths = [*paths[_PARTS_AT_ONCE:], merged]
    with ExitStack() as stack, staged(output, DEAD_LETTERS) as handle:
        writer = HashingWriter(handle)
        for _, line in _merged(paths, output, stack):
            writer.write(line)
    return writer.written(DEAD_LETTERS)


def _merged(paths: Iterable[str], output: str, stack: ExitStack) -> Iterator[tuple[str, bytes]]:
    parts = [_lines(join(output, f"{STAGING}/{path}"), stack) for path in paths]
    return heapq.merge(*parts, key=lambda line: line[0])


def _keyed(key: str, line: bytes) -> bytes:
    """A line of a part. In JSON a tab is escaped."""
    return json.dumps(key).encode() + b"\t" + line


def _lines(path: str, stack: ExitStack) -> Iterator[tuple[str, bytes]]:
    for keyed in stack.enter_context(closing(open_input(path))):
        key, _, line = keyed.partition(b"\t")
        yield json.loads(key), line
