"""An exact share of all turns of a corpus, in random order.

Each turn has a key, a hash of its identity; the share is the turns whose keys are lowest. One number decides: the
highest key that is taken, the threshold. So the same turns are taken however they are divided among files and workers,
and a smaller share is part of a larger one. All keys of a group are sorted in memory, some 20 bytes a turn.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from decimal import ROUND_HALF_UP, Decimal
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import apache_beam as beam


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


def size_of(rate: str, turns: int) -> int:
    """``round(rate × turns)``, halves up; the rate as it was written, since 0.1 has no exact float."""
    return int((Decimal(rate) * turns).quantize(Decimal(1), ROUND_HALF_UP))


def level_of(key: bytes, thresholds: Sequence[bytes]) -> int:
    """The smallest share, from 1, that has the turn; 0 where none has."""
    return next((i for i, threshold in enumerate(thresholds, 1) if key <= threshold), 0)


def thresholds(parts: Iterable[Keys], rates: Sequence[str]) -> list[bytes]:
    """The threshold of each rate, empty where no key is taken; of more turns than there are keys it is the last key.

    Args:
      parts: all turns.
      rates: as they were written.
    """
    turns, ordered = 0, list[bytes]()
    for part in parts:
        turns += part.turns
        ordered += (part.keys[at : at + part.width] for at in range(0, len(part.keys), part.width))
    ordered.sort()
    sizes = [min(size_of(rate, turns), len(ordered)) for rate in rates]
    return [ordered[size - 1] if size else b"" for size in sizes]


def thresholds_of(keys: beam.PCollection, rates: Sequence[str]) -> beam.PCollection:
    """The threshold of each rate in each group: splits, for example.

    Args:
      keys: PCollection of (group, Keys): of files, or other parts of the corpus.
      rates: as they were written.

    Returns:
      PCollection of (group, list of thresholds).
    """
    import apache_beam as beam

    grouped = keys | "Gather" >> beam.GroupByKey()
    return grouped | "Thresholds" >> beam.MapTuple(lambda group, parts: (group, thresholds(parts, rates)))
