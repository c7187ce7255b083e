"""Seeded randomness without state: every number is a hash of a key (seed, operation, dialogue id, turn).

So the draws for a turn do not depend on the worker, the order of the work, or the rest of the corpus. The meaning of a
seed depends on which hash is used where, so none of these functions may change its results.
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

DRAW_LIMIT = 1 << 16  # exclusive upper limit of draws

_numbers = struct.Struct("<32H").unpack  # of a digest of 64 bytes


def seed_text(seed: object) -> str:
    """Converts a seed to text for hashing. Raises InputError unless it is an integer or a string."""
    if not isinstance(seed, str | numbers.Integral) or isinstance(seed, bool):
        raise InputError(f"must be a whole number or a text, not {seed!r}", "", "seed")
    return str(seed)


def key_of(*parts: str) -> bytes:
    """Makes the key of a draw from seed, operation, dialogue id, turn. The parts may contain lone surrogates."""
    return "\0".join(parts).encode("utf-8", "surrogatepass")


def stable_hash(*parts: str) -> int:
    """Returns a uniformly distributed 64-bit hash, for a single choice or as a random sort key."""
    return int.from_bytes(sha256(key_of(*parts)).digest()[:8], "big")


def stable_digest(*parts: str) -> str:
    """Returns a 256-bit hash in hexadecimal digits: a sort key without collisions."""
    return sha256(key_of(*parts)).hexdigest()


def short_digest(key: bytes) -> bytes:
    """Returns a 128-bit hash with the fastest function."""
    return blake2b(key, digest_size=16).digest()


def draws(key: bytes) -> Iterator[int]:
    """Yields an endless stream of integers below ``DRAW_LIMIT``: pieces of the digests of the key and a counter.

    A digest has 32 of them, which is enough for most turns; seeding ``random.Random`` takes five times as long.
    """
    yield from _numbers(blake2b(key).digest())
    count = 0
    while True:
        count += 1
        yield from _numbers(blake2b(b"%b\0%d" % (key, count)).digest())


class SeededRng:
    """A sequence of random choices that depends only on a key.

    Args:
      parts: the parts of the key, such as seed, split, number.
    """

    def __init__(self, *parts: str) -> None:
        self._draws = draws(key_of(*parts))

    def below(self, n: int) -> int:
        """Returns an integer from 0 to n - 1; ``n`` must be much smaller than 65,536."""
        return next(self._draws) % n

    def choice(self, choices: Sequence[T]) -> T:
        """Returns one of the choices."""
        return choices[self.below(len(choices))]

    def chance(self, probability: float) -> bool:
        """Returns True with a probability, rounded to whole percent."""
        return self.below(100) < round(100 * probability)


class NumberRng(SeededRng):
    """Choices by the remainders of one large number, such as a :func:`stable_hash`."""

    def __init__(self, number: int) -> None:
        self._left = number

    def below(self, n: int) -> int:
        """Returns an integer from 0 to n - 1."""
        self._left, drawn = divmod(self._left, n)
        return drawn


class StratifiedRng(SeededRng):
    """Stratified sampling over numbered dialogues: choices depend only on the parts and the number.

    The choices of all numbers form a tree: a node for each sequence of earlier choices, a branch for each outcome. The
    numbers that reach a node are assigned to its ``n`` branches in turn, in an order that is drawn for each ``n`` of
    them. So all outcomes are equally likely, and two numbers share a path only if every path is already taken: the
    dialogues of a set differ although they are generated independently.

    Args:
      parts: the parts of the key, such as seed, task, split.
      number: the number of the dialogue in its set.
    """

    def __init__(self, *parts: str, number: int = 0) -> None:
        self._node = short_digest(key_of(*parts))
        self._visit = number  # index among the numbers that reach the node, from 0

    def below(self, n: int) -> int:
        """Returns an integer from 0 to n - 1."""
        turn, place = divmod(self._visit, n)
        drawn = int.from_bytes(short_digest(b"%b turn %d" % (self._node, turn)))
        outcome = drawn % n
        if place:
            step = (drawn >> 64) % n
            while math.gcd(step, n) > 1:
                step += 1
            outcome = (outcome + place * step) % n  # differs for each place
        self._visit = turn
        self.enter(str(outcome))
        return outcome

    def choice(self, choices: Sequence[T]) -> T:
        """Returns one of the choices."""
        return choices[self.below(len(choices))] if len(choices) > 1 else choices[0]

    def chance(self, probability: float) -> bool:
        """Returns True with a probability."""
        happens = self._share(self._visit) < probability
        self._visit = sum((self._share(visit) < probability) == happens for visit in range(self._visit))
        self.enter(str(happens))
        return happens

    def weighted(self, choices: Sequence[T], weights: Sequence[float]) -> T:
        """Returns one of the choices by weight."""
        at = self._share(self._visit) * math.fsum(weights)
        i = 0
        while i < len(choices) - 1 and at >= weights[i]:
            at -= weights[i]
            i += 1
        self.enter(str(i))
        return choices[i]

    def shuffled(self, items: Sequence[T]) -> list[T]:
        """Returns all items in random order."""
        return self.sample(items, len(items))

    def sample(self, items: Sequence[T], n: int) -> list[T]:
        """Returns ``n`` of the items in random order. The order of the others is not drawn, since it has no effect."""
        left = list(items)
        for i in range(min(n, len(left) - 1)):
            j = i + self.below(len(left) - i)
            left[i], left[j] = left[j], left[i]
        return left[:n]

    def fork(self) -> StratifiedRng:
        """Returns a generator for choices that may be discarded; pass their result to :meth:`enter`."""
        return StratifiedRng(self._node.hex(), str(self._visit))

    def enter(self, outcome: str) -> None:
        """Continues below the branch of an outcome."""
        self._node = short_digest(b"%b %b" % (self._node, outcome.encode("utf-8", "surrogatepass")))

    def _share(self, visit: int) -> float:
        """Returns a number from 0 to below 1 that differs for each visit."""
        return int.from_bytes(short_digest(b"%b share %d" % (self._node, visit))[:8]) / 2**64
