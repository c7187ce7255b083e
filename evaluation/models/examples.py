"""Training examples of a corpus, and held-out dialogues."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

import msgspec

from parapet.transforms.core.seeding import stable_hash

Row = TypeVar("Row")


class Examples(msgspec.Struct, Generic[Row], frozen=True):
    """The examples of a split of a corpus.

    Attributes:
      rows: in the order of files and dialogues.
      paths: the files read.
    """

    rows: list[Row]
    paths: list[str]


def held_out(
    rows: Iterable[Row], share: float, seed: str, dialogue: Callable[[Row], str]
) -> tuple[list[Row], list[Row]]:
    """Splits rows into those to learn from, and those of held-out dialogues.

    A hash decides, so that a dialogue is always on the same side, whatever other dialogues there are.

    Args:
      rows: the rows of a training set.
      share: the share of dialogues to hold out.
      seed: the seed of the hash.
      dialogue: identifies the dialogue of a row; equal in all of its versions.
    """
    parts: tuple[list[Row], list[Row]] = ([], [])
    for row in rows:
        parts[stable_hash(seed, "held out", dialogue(row)) / 2**64 < share].append(row)
    return parts
