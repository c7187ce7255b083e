"""Numbers that look drawn, of a key alone: the same for the same key, on any worker and in any order."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from hashlib import blake2b

ALL = 1 << 16  # draws are below it

_numbers = struct.Struct("<32H").unpack  # of a digest of 64 bytes


def key_of(*parts: str) -> bytes:
    """The key of what is drawn: seed, operation, dialogue id, turn. Half surrogates may be in it."""
    return "\0".join(parts).encode("utf-8", "surrogatepass")


def draws(key: bytes) -> Iterator[int]:
    """Whole numbers below ``ALL``, without end: digests of the key and a counter, cut up.

    One digest has 32 of them, which is enough for most turns; seeding ``random.Random`` takes five times as long.
    """
    yield from _numbers(blake2b(key).digest())
    count = 0
    while True:
        count += 1
        yield from _numbers(blake2b(b"%b\0%d" % (key, count)).digest())


def place_of(key: bytes) -> bytes:
    """128 bits by which things are put in a drawn order."""
    return blake2b(key, digest_size=16).digest()
