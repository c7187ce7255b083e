"""An exact share of all turns of a corpus, in random order, though no worker knows all of them.

Each turn has a key, a hash of its identity; the share is the turns whose keys are lowest. One number decides: the
highest key that is taken, the threshold. It is found in two rounds. First the keys are counted by bucket, their first
bits: that says in which bucket the threshold is, and which of its keys it is. Then the keys of that bucket alone are
gathered. Neither round holds more than ``BUCKETS`` counts or a bucket's keys. So the same turns are taken however they
are divided among files and workers, and a smaller share is part of a larger one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import ROUND_HALF_UP, Decimal
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import apache_beam as beam

BUCKETS = 4096


class Keys(NamedTuple):
    """Some turns, such as those of a file.

    Attributes:
      turns: how many there are: the share is one of these.
      width: bytes of a key.
      keys: of the turns that may be taken, in one string of bytes.
    """

    turns: int
    width: int
    keys: bytes

    def each(self) -> Iterator[bytes]:
        """The keys, one at a time."""
        return (self.keys[at : at + self.width] for at in range(0, len(self.keys), self.width))


class KeyCounts(NamedTuple):
    """How many turns there are, and how many keys each bucket has."""

    turns: int
    buckets: Counter[int]


class Boundary(NamedTuple):
    """Where a threshold is.

    Attributes:
      bucket: its bucket.
      rank: its place among the keys of the bucket, from 1; 0: no key is taken.
    """

    bucket: int
    rank: int


def size_of(rate: str, turns: int) -> int:
    """``round(rate × turns)``, halves up; the rate as it was written, since 0.1 has no exact float."""
    return int((Decimal(rate) * turns).quantize(Decimal(1), ROUND_HALF_UP))


def bucket_of(key: bytes) -> int:
    """The bucket of a key: buckets are ordered as keys are."""
    return int.from_bytes(key[:2], "big") * BUCKETS >> 16


def level_of(key: bytes, thresholds: Sequence[bytes]) -> int:
    """The smallest share, from 1, that has the turn; 0 where none has."""
    return next((i for i, threshold in enumerate(thresholds, 1) if key <= threshold), 0)


def counted(keys: Keys) -> KeyCounts:
    """The counts of some turns."""
    return KeyCounts(keys.turns, Counter(map(bucket_of, keys.each())))


def summed(parts: Iterable[KeyCounts]) -> KeyCounts:
    """The counts of all."""
    turns, buckets = 0, Counter[int]()
    for part in parts:
        turns += part.turns
        buckets.update(part.buckets)
    return KeyCounts(turns, buckets)


def boundaries(counts: KeyCounts, rates: Sequence[str]) -> list[Boundary]:
    """Where the threshold of each rate is; of more turns than there are keys it is the last key.

    Args:
      counts: of all turns.
      rates: ascending, as they were written.
    """
    there = counts.buckets.total()
    found, buckets = [], iter(sorted(counts.buckets.items()))
    bucket, before, n = 0, 0, 0  # keys before the bucket, and in it
    for rate in rates:
        size = min(size_of(rate, counts.turns), there)
        while size > before + n:
            before += n
            bucket, n = next(buckets)
        found.append(Boundary(bucket, size - before if size else 0))
    return found


def near_boundaries(keys: Keys, of_rates: Iterable[Boundary]) -> bytes:
    """The keys of the buckets in which thresholds are."""
    buckets = {boundary.bucket for boundary in of_rates if boundary.rank}
    return b"".join(key for key in keys.each() if bucket_of(key) in buckets)


def thresholds(of_rates: Sequence[Boundary], keys: Iterable[bytes]) -> list[bytes]:
    """The threshold of each rate, given all keys of the buckets in which they are; nothing where no key is taken."""
    of_bucket: dict[int, list[bytes]] = {}
    for key in sorted(keys):
        of_bucket.setdefault(bucket_of(key), []).append(key)
    return [of_bucket[at.bucket][at.rank - 1] if at.rank else b"" for at in of_rates]


def thresholds_of(keys: beam.PCollection, rates: Sequence[str]) -> beam.PCollection:
    """The threshold of each rate in each group: splits, for example.

    Args:
      keys: PCollection of (group, Keys): of files, or other parts of the corpus.
      rates: ascending, as they were written.

    Returns:
      PCollection of (group, list of thresholds).
    """
    import apache_beam as beam

    found = (
        keys
        | "Count by bucket" >> beam.MapTuple(lambda group, some: (group, counted(some)))
        | "Sum counts" >> beam.CombinePerKey(summed)
        | "Find buckets" >> beam.MapTuple(lambda group, counts: (group, boundaries(counts, rates)))
    )
    return (
        keys
        | "Near boundaries" >> beam.Map(_near, beam.pvalue.AsDict(found))
        | "Gather" >> beam.CombinePerKey(_gathered)
        | "Thresholds" >> beam.MapTuple(lambda group, near: (group, thresholds(near[0], near[1].each())))
    )


Near = tuple[list[Boundary], Keys]  # where the thresholds are, and the keys of those buckets


def _near(keys: tuple[Any, Keys], found: Mapping[Any, list[Boundary]]) -> tuple[Any, Near]:
    group, some = keys
    of_rates = found[group]
    return group, (of_rates, some._replace(keys=near_boundaries(some, of_rates)))


def _gathered(parts: Iterable[Near]) -> Near:
    (of_rates, some), *others = parts
    return of_rates, some._replace(keys=b"".join([some.keys, *(keys.keys for _, keys in others)]))
