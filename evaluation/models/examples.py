"""What a model learns from: the examples of a corpus, and some of them held out to choose the best epoch."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

import msgspec

from parapet.transforms.seeding import stable_hash

Row = TypeVar("Row")


class Examples(msgspec.Struct, Generic[Row], frozen=True):
    """The examples of a corpus's split.

    Attributes:
      rows: in the order of files and dialogues.
      paths: the files that were read.
    """

    rows: list[Row]
    paths: list[str]


def held_out(
    rows: Iterable[Row], share: float, seed: str, dialogue: Callable[[Row], str]
) -> tuple[list[Row], list[Row]]:
    """Rows in two: those that are learned from, and those of the dialogues that are held out.

    A hash decides, so a dialogue is always on the same side, whatever other dialogues there are.

    Args:
      rows: of a training set.
      share: of the dialogues that is held out.
      seed: of the hash.
      dialogue: identifies the dialogue of a row, and is the same in all versions of it.
    """
    parts: tuple[list[Row], list[Row]] = ([], [])
    for row in rows:
        parts[is_held_out(share, seed, dialogue(row))].append(row)
    return parts


def is_held_out(share: float, seed: str, dialogue: str) -> bool:
    """Whether a dialogue is held out, by what identifies it."""
    return stable_hash(seed, "held out", dialogue) / 2**64 < share
