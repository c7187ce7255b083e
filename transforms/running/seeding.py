"""Seeded randomness without state: every number is a hash of a key (seed, operation, dialogue id, turn).

So what is drawn for a turn is the same on any worker, in any order of the work, and alone or in a corpus. Which hash is
used where is part of what a seed means: none of these functions may change its numbers.
"""

from __future__ import annotations

import math
import numbers
import struct
from collections.abc import Iterator, Sequence
from hashlib import blake2b, sha256
from typing import TypeVar

from parapet.schemas.errors import InputError

T = TypeVar("T")

DRAW_LIMIT = 1 << 16  # draws are below it

_numbers = struct.Struct("<32H").unpack  # of a digest of 64 bytes


def seed_text(seed: object) -> str:
    """A seed as it is hashed. Raises InputError unless it is a whole number or a text."""
    if not isinstance(seed, str | numbers.Integral) or isinstance(seed, bool):
        raise InputError(f"must be a whole number or a text, not {seed!r}", "", "seed")
    return str(seed)


def key_of(*parts: str) -> bytes:
    """The key of what is drawn: seed, operation, dialogue id, turn. Lone surrogates may be in it."""
    return "\0".join(parts).encode("utf-8", "surrogatepass")


def stable_hash(*parts: str) -> int:
    """A hash of 64 bits, uniformly distributed: for a single choice, or to sort by in a random order."""
    return int.from_bytes(sha256(key_of(*parts)).digest()[:8], "big")


def stable_digest(*parts: str) -> str:
    """A hash of 256 bits in hexadecimal digits: a sort key that no two texts share."""
    return sha256(key_of(*parts)).hexdigest()


def short_digest(key: bytes) -> bytes:
    """A hash of 128 bits, the quickest one."""
    return blake2b(key, digest_size=16).digest()


def draws(key: bytes) -> Iterator[int]:
    """An endless stream of whole numbers below ``DRAW_LIMIT``: digests of the key and a counter, cut up.

    One digest has 32 of them, which is enough for most turns; seeding ``random.Random`` takes five times as long.
    """
    yield from _numbers(blake2b(key).digest())
    count = 0
    while True:
        count += 1
        yield from _numbers(blake2b(b"%b\0%d" % (key, count)).digest())


class SeededRng:
    """Random choices, one after the other, that depend on a key alone.

    Args:
      parts: of the key: seed, split, number.
    """

    def __init__(self, *parts: str) -> None:
        self._draws = draws(key_of(*parts))

    def below(self, n: int) -> int:
        """A whole number from 0 to n - 1; ``n`` is small beside 65,536."""
        return next(self._draws) % n

    def choice(self, choices: Sequence[T]) -> T:
        """One of the choices."""
        return choices[self.below(len(choices))]

    def chance(self, probability: float) -> bool:
        """Whether something of that probability, in whole percent, happens."""
        return self.below(100) < round(100 * probability)


class NumberRng(SeededRng):
    """Choices out of one large number, such as a :func:`stable_hash`: its remainders."""

    def __init__(self, number: int) -> None:
        self._left = number

    def below(self, n: int) -> int:
        """A whole number from 0 to n - 1."""
        self._left, drawn = divmod(self._left, n)
        return drawn


class StratifiedRng(SeededRng):
    """Stratified sampling over numbered dialogues: the same parts and number give the same choices.

    The choices of all numbers form a tree: a node for all that was drawn before, a branch for each outcome. The numbers
    that arrive at a node are sent to its ``n`` branches in turn, in an order that is drawn for each ``n`` of them. So
    all outcomes are equally likely, and two numbers take the same path only where there is no path left that nobody
    took: the dialogues of a set differ, though neither knows of the other.

    Args:
      parts: of the key: seed, task, split.
      number: of the dialogue in its set.
    """

    def __init__(self, *parts: str, number: int = 0) -> None:
        self._node = short_digest(key_of(*parts))
        self._visit = number  # which of those that arrive at the node, from 0

    def below(self, n: int) -> int:
        """A whole number from 0 to n - 1."""
        turn, place = divmod(self._visit, n)
        drawn = int.from_bytes(short_digest(b"%b turn %d" % (self._node, turn)))
        outcome = drawn % n
        if place:
            step = (drawn >> 64) % n
            while math.gcd(step, n) > 1:
                step += 1
            outcome = (outcome + place * step) % n  # of each place another one
        self._visit = turn
        self.enter(str(outcome))
        return outcome

    def choice(self, choices: Sequence[T]) -> T:
        """One of the choices."""
        return choices[self.below(len(choices))] if len(choices) > 1 else choices[0]

    def chance(self, probability: float) -> bool:
        """Whether something of that probability happens."""
        happens = self._share(self._visit) < probability
        self._visit = sum((self._share(visit) < probability) == happens for visit in range(self._visit))
        self.enter(str(happens))
        return happens

    def weighted(self, choices: Sequence[T], weights: Sequence[float]) -> T:
        """One of the choices, by weight."""
        at = self._share(self._visit) * math.fsum(weights)
        i = 0
        while i < len(choices) - 1 and at >= weights[i]:
            at -= weights[i]
            i += 1
        self.enter(str(i))
        return choices[i]

    def shuffled(self, items: Sequence[T]) -> list[T]:
        """All items in random order."""
        return self.sample(items, len(items))

    def sample(self, items: Sequence[T], n: int) -> list[T]:
        """``n`` of the items, in random order. The order of the others is not drawn: nobody would see it."""
        left = list(items)
        for i in range(min(n, len(left) - 1)):
            j = i + self.below(len(left) - i)
            left[i], left[j] = left[j], left[i]
        return left[:n]

    def fork(self) -> StratifiedRng:
        """For choices of which some are discarded, each number by itself; :meth:`enter` takes their result."""
        return StratifiedRng(self._node.hex(), str(self._visit))

    def enter(self, outcome: str) -> None:
        """Goes on below the branch of an outcome."""
        self._node = short_digest(b"%b %b" % (self._node, outcome.encode("utf-8", "surrogatepass")))

    def _share(self, visit: int) -> float:
        """From 0 on, below 1; of each visit another one."""
        return int.from_bytes(short_digest(b"%b share %d" % (self._node, visit))[:8]) / 2**64
