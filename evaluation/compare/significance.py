"""Intervals of numbers and paired significance tests of their differences, over the dialogues of their rows.

In approximate randomisation (Noreen 1989; Yeh 2000), each replicate swaps the two systems' results on each dialogue or
not, by a random coin; p is the share of replicates with a difference as large as the observed one. Intervals are from a
Poisson bootstrap. Coins and weights depend on seed and dialogue id only: the order of dialogues is irrelevant, and a
dialogue that occurs in several sets is swapped or resampled alike in all of them.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import product
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from parapet.evaluation import bootstrap
from parapet.evaluation.noise import floor_of_difference
from parapet.evaluation.rows import Parts

PartsOf = Mapping[tuple[str, str], Parts]  # by system and column

Whole = NDArray[np.int64]
Real = NDArray[np.float64]
Interval = tuple[float, float] | None

SIGNIFICANT = 0.05  # p after correction is below it


class Difference(msgspec.Struct, frozen=True):
    """A paired test of two systems on a column or the average.

    Attributes:
      difference: the first system's number minus the second's, on a scale of 100.
      interval: its 95 % bootstrap interval.
      p: two-sided; ``p_holm`` is corrected for all tests of the comparison.
      dialogues: the number of resampled dialogues.
      floor: the noise floor of the difference, on a scale of 100; 0 if it is not known.
    """

    first: str
    second: str
    column: str
    difference: float
    interval: Interval
    p: float
    dialogues: int
    p_holm: float = math.nan
    floor: float = 0.0

    @property
    def is_noise(self) -> bool:
        """Whether chance may have made the difference."""
        return not self.p_holm < SIGNIFICANT or abs(self.difference) < self.floor


def paired(
    parts: PartsOf,
    pairs: Sequence[tuple[str, str]],
    columns: Mapping[str, float],
    seed: str,
    replicates: int,
    floors: Mapping[tuple[str, str], float] = {},
) -> list[Difference]:
    """Tests the differences of pairs of systems, pair by pair, on the columns that both have.

    Args:
      parts: the sums of the systems' numbers, by system and column.
      pairs: the first and the second system of each pair.
      columns: column to the factor that brings its number to a scale of 100.
      seed: any text.
      replicates: the replicates of the test, 0 for no tests; intervals use ``bootstrap.REPLICATES``.
      floors: the noise floors of the numbers that have one.
    """
    if not replicates:
        return []
    numbers = [of_number for (_, column), of_number in parts.items() if column in columns]
    plain = _totals(numbers, lambda _: np.ones(1, np.int64))
    swapped = _totals(numbers, partial(coins_of, seed, replicates=replicates))
    drawn = _totals(numbers, partial(bootstrap.weights, seed))
    tests = []
    for (first, second), column in product(pairs, columns):
        ours, theirs = parts.get((first, column), ()), parts.get((second, column), ())
        if not ours or not theirs:
            continue
        n = math.lcm(
            len(ours), len(theirs)
        )  # of systems with different numbers of runs, each part counts several times
        ours, theirs = (tuple(part for part in parts for _ in range(n // len(parts))) for parts in (ours, theirs))
        difference = float(_gaps(plain(ours), plain(theirs))[0])
        moved = swapped(theirs) - swapped(ours)  # where the coin is 1, the systems swap their results
        by_chance = np.abs(_gaps(plain(ours) + moved, plain(theirs) - moved))
        # Differences that are closer than 1e-9 are equal. Replicates without a value count against significance, which
        # "at least as large" would not do.
        p = (1 + replicates - int((by_chance < abs(difference) - 1e-9).sum())) / (1 + replicates)
        interval = bootstrap.interval(_gaps(drawn(ours), drawn(theirs)) * columns[column])
        dialogues = len(set().union(*ours, *theirs))
        floor = columns[column] * floor_of_difference(*(floors.get((name, column), 0.0) for name in (first, second)))
        test = Difference(first, second, column, difference * columns[column], interval, p, dialogues, floor=floor)
        tests.append(test)
    corrected = holm([test.p for test in tests])
    return [msgspec.structs.replace(test, p_holm=p) for test, p in zip(tests, corrected, strict=True)]


def _gaps(first: Whole, second: Whole) -> Real:
    """Computes the difference of two numbers in each replicate."""
    gaps: Real = (bootstrap.means(first) - bootstrap.means(second)).mean(axis=1)
    return gaps


def intervals(numbers: Sequence[Parts], seed: str) -> list[Interval]:
    """Computes the 95 % interval of each number by a Poisson bootstrap over dialogues; None without values.

    The interval of a share is Wilson's if each dialogue has one row, which is right or wrong, or if the replicates do
    not vary, as at 0 and 100 %.
    """
    drawn = _totals(numbers, partial(bootstrap.weights, seed))
    computed: list[Interval] = []
    for parts in numbers:
        replicated = bootstrap.means(drawn(parts)).mean(axis=1)
        rows = [row for sums in parts for row in sums.values()]
        if any(not 0 <= total <= n for total, n in rows):
            computed.append(bootstrap.interval(replicated))  # not a share
        elif len(parts) == 1 and all(n == 1 and total in (0, 1) for total, n in rows):
            computed.append(bootstrap.wilson_interval(sum(total for total, _ in rows), len(rows)))
        else:
            computed.append(bootstrap.share_interval(replicated, len(set().union(*parts))))
    return computed


def _totals(numbers: Iterable[Parts], draw: Callable[[str], NDArray[Any]]) -> Callable[[Parts], Whole]:
    """Sums over dialogues, each with the weights that ``draw`` returns for its name.

    Returns a function from the parts of a number to the sums in units of 2 ** -40 and counts of each replicate and
    part: shape (replicates, parts, 2).
    """
    distinct = {id(sums): sums for parts in numbers for sums in parts}
    place = {key: i for i, key in enumerate(distinct)}
    names = sorted(set().union(*distinct.values()))
    values = [[sums.get(name, (0.0, 0)) for sums in distinct.values()] for name in names]
    whole = np.rint(np.ldexp(np.reshape(values, (len(names), len(distinct), 2)), [bootstrap.POINT, 0])).astype(np.int64)
    total = bootstrap.resampled(names, whole, draw)
    return lambda parts: total[:, [place[id(sums)] for sums in parts]]


def coins_of(seed: str, dialogue_id: str, replicates: int) -> NDArray[np.uint8]:
    """Draws 0 or 1 for each replicate, from seed and dialogue only."""
    text = f"swap\0{seed}\0{dialogue_id}".encode("utf-8", "surrogatepass")
    bits = np.frombuffer(hashlib.shake_128(text).digest((replicates + 7) // 8), np.uint8)
    return np.unpackbits(bits)[:replicates]


def holm(values: Sequence[float]) -> list[float]:
    """Corrects p-values for multiple tests (Holm 1979), in the same order."""
    order = np.argsort(values, kind="stable")
    corrected = np.zeros(len(values))
    factors = np.arange(len(values), 0, -1)
    corrected[order] = np.maximum.accumulate(np.minimum(1.0, factors * np.asarray(values)[order]))
    return [float(value) for value in corrected]
