"""Dialogues of a training set that choose the best epoch, where no others are given."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from parapet.transforms.seeding import stable_hash

Row = TypeVar("Row")


def held_out(
    rows: Iterable[Row], share: float, seed: str, dialogue: Callable[[Row], str]
) -> tuple[list[Row], list[Row]]:
    """Rows in two: those that are learned from, and those of the dialogues that are held out.

    A hash decides, so a dialogue is on one side whatever else there is.

    Args:
      rows: of a training set.
      share: of the dialogues that is held out.
      seed: of the draw.
      dialogue: what tells the dialogue of a row, and is the same in all of its versions.
    """
    parts: tuple[list[Row], list[Row]] = ([], [])
    for row in rows:
        parts[stable_hash(seed, "held out", dialogue(row)) / 2**64 < share].append(row)
    return parts
