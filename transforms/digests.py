"""How many different texts there are, of more than memory holds.

Each worker writes the digests of its texts, sorted, to a file of the staging folder; only where in it each range of
digests ends travels. Equal digests are in one range, so one range of all files is read at a time.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import blake2b
from typing import Any

import msgspec
import numpy as np

from parapet.transforms.compressed import open_plain
from parapet.transforms.files import STAGING, join, write_staged

SIZE = 8  # bytes of a digest; of ten million texts two are taken for the same once in 400,000 times

_RANGES = 64
_AT_ONCE = 1 << 22  # digests that are read together, as far as ranges allow


def digest_of(text: str) -> bytes:
    """The digest of a text."""
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=SIZE).digest()


class DigestFile(msgspec.Struct, frozen=True):
    """Digests that wait in a file.

    Attributes:
      path: below the staging folder.
      ends: how many digests the first ranges have together, the first one, the first two, and so on.
    """

    path: str
    ends: list[int]


def write_digests(output: str, path: str, digests: Iterable[bytes]) -> DigestFile:
    """Writes the digests of one worker's texts into staging.

    Args:
      output: the output folder.
      path: of the file, below the staging folder.
      digests: in any order, with repeats or without.
    """
    numbers = np.unique(as_array(b"".join(digests)))
    bounds = np.arange(1, _RANGES, dtype=np.uint64) << np.uint64(64 - _RANGES.bit_length() + 1)
    write_staged(output, path, numbers.tobytes())
    return DigestFile(path, [*map(int, np.searchsorted(numbers, bounds)), len(numbers)])


def as_array(digests: bytes) -> np.ndarray[Any, np.dtype[np.uint64]]:
    """Digests, one after the other, as numbers."""
    return np.frombuffer(digests, np.dtype("<u8"))


def count_distinct(files: Sequence[DigestFile], output: str) -> int:
    """How many different digests some files have together."""
    total, start = 0, 0
    while start < _RANGES:
        end = start + 1
        while end < _RANGES and sum(_between(file, start, end + 1)[1] for file in files) <= _AT_ONCE:
            end += 1
        parts = [_read(file, output, *_between(file, start, end)) for file in files]
        total += len(np.unique(as_array(b"".join(parts))))
        start = end
    return total


def _between(file: DigestFile, start: int, end: int) -> tuple[int, int]:
    """(first digest, number of digests) of some ranges."""
    first = file.ends[start - 1] if start else 0
    return first, file.ends[end - 1] - first


def _read(file: DigestFile, output: str, first: int, number: int) -> bytes:
    with open_plain(join(output, f"{STAGING}/{file.path}")) as handle:
        handle.seek(first * SIZE)
        return handle.read(number * SIZE)
