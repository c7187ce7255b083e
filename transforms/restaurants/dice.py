"""Draws of a key alone, of the kinds that a simulator needs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from transforms.perturb.drawing import ALL, draws, key_of

T = TypeVar("T")


class Dice:
    """Draws one after the other; the same parts give the same draws.

    Args:
      parts: of the key: seed, task, split, number of the dialogue.
    """

    def __init__(self, *parts: str) -> None:
        self._draws = draws(key_of(*parts))

    def below(self, n: int) -> int:
        """A whole number from 0 on, below ``n``, which is at most millions."""
        return (next(self._draws) * ALL + next(self._draws)) * n // (ALL * ALL)

    def chance(self, probability: float) -> bool:
        """Whether something of that probability happens."""
        return next(self._draws) * ALL + next(self._draws) < probability * ALL * ALL

    def pick(self, among: Sequence[T]) -> T:
        """One of them."""
        return among[self.below(len(among))] if len(among) > 1 else among[0]

    def shuffled(self, items: Sequence[T]) -> list[T]:
        """All of them in a drawn order."""
        left = list(items)
        for i in range(len(left) - 1, 0, -1):
            j = self.below(i + 1)
            left[i], left[j] = left[j], left[i]
        return left

    def subset(self, items: Sequence[T], n: int) -> list[T]:
        """So many of them, in a drawn order."""
        return self.shuffled(items)[:n]
