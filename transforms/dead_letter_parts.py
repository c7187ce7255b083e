"""Dead letters on their way to ``dead_letters.jsonl``: they wait in files of the staging folder, and workers exchange
only what is said of them. So memory is that of a part, however many records are bad.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction

import apache_beam as beam
import msgspec
import numpy as np
import orjson
from apache_beam.transforms.window import GlobalWindow
from apache_beam.utils.windowed_value import WindowedValue

from parapet.transforms.dead_letters import DEAD_LETTERS, SHOWN, DeadLetter, Tally, check_bad, place_of, reason_of
from parapet.transforms.digests import as_array, digest_of
from parapet.transforms.fence import PLUGIN
from parapet.transforms.files import Written, write_staged
from parapet.transforms.sorted_runs import Record, Run, RunWritingDoFn, merged, sort_key

_PART_BYTES = 2 << 20


class DeadPart(msgspec.Struct, frozen=True):
    """Some dead letters.

    Attributes:
      run: where they are, sorted by the keys of their elements; empty where they are only counted.
      reasons: id to how often.
      places: eight bytes of each place, without repeats.
      first: the first places: (key, the eight bytes, the line that is shown).
      trace: the first traceback of a plug-in's error, after its key.
    """

    run: Run
    reasons: dict[str, int]
    places: bytes
    first: list[tuple[str, bytes, str]]
    trace: tuple[str, str] | None = None


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


class _SetAside(RunWritingDoFn):
    def __init__(self, output: str) -> None:
        super().__init__(output)
        self.is_written = bool(output)

    def start_bundle(self) -> None:
        super().start_bundle()
        self.part = _Part()

    def process(self, element: tuple[str, list[DeadLetter]]) -> Iterator[DeadPart]:
        self.part.add(*element)
        if self.part.size >= _PART_BYTES:
            yield self._ended()

    def finish_bundle(self) -> Iterator[WindowedValue]:  # type: ignore[override]
        if self.part.size:
            yield WindowedValue(self._ended(), GlobalWindow().max_timestamp(), [GlobalWindow()])
        super().finish_bundle()

    def _ended(self) -> DeadPart:
        part, self.part = self.part, _Part()
        run = self.runs.write(part.records) if self.is_written else ("", 0, 0, 0, b"")
        return part.with_run(run)


class _Part:
    """A part that is being filled."""

    def __init__(self) -> None:
        self.size = 0
        self.records: list[Record] = []
        self._elements: list[tuple[str, list[DeadLetter]]] = []

    def add(self, key: str, letters: list[DeadLetter]) -> None:
        self._elements.append((key, letters))
        # The place in the list is a part of the key, and no other key is between two of an element.
        before = sort_key(key).replace(b"\0", b"\0\xff") + b"\0\0"
        for i, letter in enumerate(letters):
            line = orjson.dumps(msgspec.to_builtins(letter)) + b"\n"
            self.records.append((before + i.to_bytes(4), line))
            self.size += len(line)

    def with_run(self, run: Run) -> DeadPart:
        reasons: Counter[str] = Counter()
        first: dict[bytes, tuple[str, bytes, str]] = {}
        places: dict[bytes, None] = {}
        trace: tuple[str, str] | None = None
        for key, letters in sorted(self._elements, key=lambda element: element[0]):
            reasons.update(map(reason_of, letters))
            for letter in letters:
                place, line = place_of(letter)
                number = digest_of("\0".join(place))
                if trace is None and letter.trace and reason_of(letter) == PLUGIN:
                    trace = key, letter.trace
                places[number] = None
                if len(first) < SHOWN:
                    first.setdefault(number, (key, number, line))
        return DeadPart(run, dict(reasons), b"".join(places), list(first.values()), trace)


def check_parts(parts: Iterable[DeadPart], tallies: Sequence[Tally], max_bad: Fraction, done: str) -> None:
    """Raises InputError where more records are bad than may be, or nothing is left, see :func:`check_bad`."""
    parts = list(parts)
    reasons: Counter[str] = Counter()
    for part in parts:
        reasons.update(part.reasons)
    first: dict[bytes, str] = {}
    for _, number, line in sorted((place for part in parts for place in part.first), key=lambda place: place[0]):
        first.setdefault(number, line)
    ids = as_array(b"".join(part.places for part in parts))
    traces = sorted(part.trace for part in parts if part.trace)
    trace = traces[0][1] if traces else ""
    check_bad(tallies, max_bad, done, reasons, list(first.values())[:SHOWN], len(np.unique(ids)), trace)


def write_dead_letters(parts: Iterable[DeadPart], output: str) -> Written:
    """Writes ``dead_letters.jsonl`` into staging, in the order of the elements' keys."""
    return write_staged(output, DEAD_LETTERS, (line for _, line in merged(part.run for part in parts)))
