"""What the transforms of the crowd road share: dead letters as a second output, and records grouped by key."""

from __future__ import annotations

import logging
from collections import namedtuple
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import apache_beam as beam
import msgspec
from apache_beam.pvalue import TaggedOutput

from parapet.schemas.rows import DeadLetter
from parapet.transforms.crowd.worker_ids import without_ids

DEAD_LETTERS = "dead_letters"


class WithDeadLetters(beam.PTransform):
    """A transform that gives its records and, as a second output, ``parapet.schemas.rows.DeadLetter``.

    Without :meth:`with_outputs` it gives its records, and each dead letter is a warning.

    Attributes:
      main: the name of the records among the outputs.
    """

    main: str

    def outputs(self, records: Any) -> Any:
        """Return the outputs by name."""
        raise NotImplementedError

    def expand(self, records: Any) -> beam.PCollection:
        """Return the records."""
        outputs = self.outputs(records)
        _ = outputs.dead_letters | "Warn" >> beam.Map(_warn)
        return getattr(outputs, self.main)

    def with_outputs(self) -> beam.PTransform:
        """Return the transform with all of its outputs, by name."""
        return _AllOutputs(self)

    def gathered(self, records: beam.PCollection, *dead: beam.PCollection[DeadLetter]) -> Any:
        """Return the outputs by name: the records, and the dead letters of all steps."""
        letters = dead | "All dead letters" >> beam.Flatten()
        named: Any = namedtuple  # mypy wants the names of fields as literals
        return named("Outputs", (self.main, DEAD_LETTERS))(records, letters)

    def apart(self, function: Callable[[Any], Iterable[Any]], *tags: str) -> beam.PTransform:
        """Return a step that calls a function on each element, and separates its dead letters from its records."""
        step = beam.FlatMap(lambda element: tagged(function(element)))
        return step.with_outputs(DEAD_LETTERS, *tags, main=self.main)


class _AllOutputs(beam.PTransform):
    def __init__(self, transform: WithDeadLetters) -> None:
        super().__init__(transform.label)
        self.transform = transform

    def expand(self, records: Any) -> Any:
        return self.transform.outputs(records)


def _warn(letter: DeadLetter) -> None:
    logging.warning("%s: %s: %s", letter.source, letter.key, letter.reason)


def tagged(records: Iterable[Any]) -> Iterator[Any]:
    """Yield the records, with dead letters, in which worker ids are masked, tagged for their own output."""
    for record in records:
        yield TaggedOutput(DEAD_LETTERS, without_ids(record)) if isinstance(record, DeadLetter) else record


class Group(beam.PTransform):
    """Groups the records of one or more collections by key: key to a list of records for each collection.

    They are exchanged as MessagePack, since Beam would pickle them, which takes ten times as long.

    Args:
      types: the type of the records of each collection.
      by: for each collection, a function from an element to (key, record); by default, elements are such pairs.
    """

    def __init__(self, *types: type, by: Sequence[Callable[[Any], tuple[str, Any]] | None] = ()) -> None:
        super().__init__()
        self.types, self.by = types, by or [None] * len(types)

    def expand(self, collections: beam.PCollection | Iterable[beam.PCollection]) -> beam.PCollection:
        """Return a PCollection of (key, lists)."""
        collections = [collections] if isinstance(collections, beam.PCollection) else collections
        encoded = [
            elements | f"Encode {i}" >> beam.Map(_encode, i, by).with_output_types(tuple[str, tuple[int, bytes]])
            for i, (elements, by) in enumerate(zip(collections, self.by, strict=True))
        ]
        together = encoded | beam.Flatten() if len(encoded) > 1 else encoded[0]
        return together | beam.GroupByKey() | "Decode" >> beam.Map(_decode, self.types)


def _encode(element: Any, i: int, by: Callable[[Any], tuple[str, Any]] | None) -> tuple[str, tuple[int, bytes]]:
    key, record = element if by is None else by(element)
    return key, (i, msgspec.msgpack.encode(record))


def _decode(group: tuple[str, Iterable[tuple[int, bytes]]], types: tuple[type, ...]) -> tuple[str, tuple[Any, ...]]:
    lists: tuple[list[Any], ...] = tuple([] for _ in types)
    decoders: list[Any] = [msgspec.msgpack.Decoder(record) for record in types]
    for i, data in group[1]:
        lists[i].append(decoders[i].decode(data))
    return group[0], lists
