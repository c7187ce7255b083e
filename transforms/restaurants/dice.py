"""Draws of a key alone, of the kinds that a simulator needs, such that the dialogues of a set do not repeat."""

from __future__ import annotations

import math
from collections.abc import Sequence
from hashlib import blake2b
from typing import TypeVar

from parapet.transforms.perturb.drawing import key_of

T = TypeVar("T")


class Dice:
    """Draws one after the other; the same parts and number give the same draws.

    The draws of all numbers form a tree: a node for all that was drawn before, a branch for each outcome. The numbers
    that come to a node are sent to its ``n`` branches in turn, in an order that is drawn for each ``n`` of them. So
    every outcome is as likely as another, and two numbers take the same way only where no way is left that nobody took:
    what they draw differs, though neither knows of the other.

    Args:
      parts: of the key: seed, task, split.
      number: of the dialogue in its set.
    """

    def __init__(self, *parts: str, number: int = 0) -> None:
        self._node = _digest(key_of(*parts))
        self._visit = number  # which of those that come to the node, from 0

    def below(self, n: int) -> int:
        """A whole number from 0 on, below ``n``."""
        turn, place = divmod(self._visit, n)
        drawn = int.from_bytes(_digest(b"%b turn %d" % (self._node, turn)))
        outcome = drawn % n
        if place:
            step = (drawn >> 64) % n
            while math.gcd(step, n) > 1:
                step += 1
            outcome = (outcome + place * step) % n  # of each place another one
        self._visit = turn
        self.enter(str(outcome))
        return outcome

    def chance(self, probability: float) -> bool:
        """Whether something of that probability happens."""
        happens = self._share(self._visit) < probability
        self._visit = sum((self._share(visit) < probability) == happens for visit in range(self._visit))
        self.enter(str(happens))
        return happens

    def weighted(self, outcomes: Sequence[T], weights: Sequence[float]) -> T:
        """One of them, by weight."""
        at = self._share(self._visit) * math.fsum(weights)
        i = 0
        while i < len(outcomes) - 1 and at >= weights[i]:
            at -= weights[i]
            i += 1
        self.enter(str(i))
        return outcomes[i]

    def pick(self, among: Sequence[T]) -> T:
        """One of them."""
        return among[self.below(len(among))] if len(among) > 1 else among[0]

    def shuffled(self, items: Sequence[T]) -> list[T]:
        """All of them in a drawn order."""
        return self.subset(items, len(items))

    def subset(self, items: Sequence[T], n: int) -> list[T]:
        """So many of them, in a drawn order. Of the others no order is drawn: nobody would see it."""
        left = list(items)
        for i in range(min(n, len(left) - 1)):
            j = i + self.below(len(left) - i)
            left[i], left[j] = left[j], left[i]
        return left[:n]

    def aside(self) -> Dice:
        """For draws some of which come to nothing, each number by itself; :meth:`enter` takes what comes of them."""
        return Dice(self._node.hex(), str(self._visit))

    def enter(self, outcome: str) -> None:
        """Goes on from what was drawn."""
        self._node = _digest(b"%b %b" % (self._node, outcome.encode("utf-8", "surrogatepass")))

    def _share(self, visit: int) -> float:
        """From 0 on, below 1; of each visit another one."""
        return int.from_bytes(_digest(b"%b share %d" % (self._node, visit))[:8]) / 2**64


def _digest(data: bytes) -> bytes:
    return blake2b(data, digest_size=16).digest()
