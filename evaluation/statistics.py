"""Intervals of numbers, paired tests of their differences, and what chance does to a system's numbers.

Intervals are from the Poisson bootstrap (Hanley and MacGibbon 2006): the weight of a dialogue in each replicate is
drawn from a Poisson distribution with mean 1. In approximate randomisation (Noreen 1989; Yeh 2000), each replicate
swaps the two systems' results on each dialogue or not, by a random coin; p is the share of replicates with a difference
as large as the observed one. Weights and coins depend on seed and dialogue id only, so sums over dialogues can be added
up in any order, by any number of workers, and a dialogue that occurs in several sets, or that two systems were scored
on, is resampled or swapped alike in all of them.
"""

import hashlib
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import product
from statistics import NormalDist, stdev
from typing import Any, Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

REPLICATES = 1000
CHUNK = 64  # dialogues at a time
POINT = 40  # binary digits after the point: whole numbers, so that sums do not depend on the order; up to 8 million fit
_HALF = 26
_SAME = 1e-9  # replicates closer than this do not vary

Counts = NDArray[np.int64]
Real = NDArray[np.float64]
Interval = tuple[float, float] | None
# Dialogue to the sum of a metric over its rows, and the number of rows that have it.
Sums = dict[str, tuple[float, int]]
# A number is the mean over these parts, one for each set, of the means over rows. Most numbers have one part.
Parts = tuple[Sums, ...]
PartsOf = Mapping[tuple[str, str], Parts]  # by system and column
# What each dialogue adds to a number in a run.
Contributions = Mapping[str, float]
# The dialogue of each value, and the values; NaN values are ignored.
Statistic = tuple[Sequence[str], Sequence[float] | Real]


def weights(seed: str, dialogue_id: str, replicates: int = REPLICATES) -> Counts:
    """Draws the weight of a dialogue in each replicate: shape (replicates,)."""
    digest = hashlib.sha256(f"{seed}\0{dialogue_id}".encode("utf-8", "surrogatepass")).digest()
    generator = np.random.Generator(np.random.Philox(int.from_bytes(digest[:16], "big")))
    return generator.poisson(1.0, replicates).astype(np.int64)


def replicated(seed: str, statistics: Sequence[Statistic], replicates: int = REPLICATES) -> Counts:
    """Resamples dialogues, and returns the sums and counts of some statistics in each replicate.

    Args:
      seed: the seed of the weights.
      statistics: the values of each statistic.
      replicates: the number of replicates.

    Returns:
      Shape (replicates, statistics, 2): sums in units of 2 ** -40, and counts. Those of several files can be added up.
    """
    names = sorted({name for dialogue_ids, _ in statistics for name in dialogue_ids})
    place = {name: i for i, name in enumerate(names)}
    sums = np.zeros((len(names), len(statistics), 2), dtype=np.int64)
    for j, (dialogue_ids, values) in enumerate(statistics):
        known = ~np.isnan(np.asarray(values, dtype=float))
        at = np.array([place[name] for name in dialogue_ids], dtype=np.intp)[known]
        sums[:, j, 0] = np.rint(np.ldexp(np.bincount(at, np.asarray(values, dtype=float)[known], len(names)), POINT))
        sums[:, j, 1] = np.bincount(at, minlength=len(names))
    return resampled(names, sums, lambda name: weights(seed, name, replicates))


def resampled(dialogue_ids: Sequence[str], values: Counts, draw: Callable[[str], NDArray[Any]]) -> Counts:
    """Adds up values of dialogues, each with its weights in the replicates, which ``draw`` returns for its id.

    Args:
      dialogue_ids: the dialogues.
      values: whole numbers, shape (dialogues, ...).
      draw: the function from a dialogue to its weights.

    Returns:
      Shape (replicates, ...).
    """
    total = np.zeros((len(draw("")), *values.shape[1:]), np.int64)
    for start in range(0, len(dialogue_ids), CHUNK):
        drawn = np.stack([draw(name) for name in dialogue_ids[start : start + CHUNK]])
        total += weighted(drawn, values[start : start + CHUNK])
    return total


def weighted(drawn: NDArray[np.integer[Any]], values: Counts) -> Counts:
    """Computes exact weighted sums over dialogues.

    Floating point is ten times faster than integers; sums that may exceed 2 ** 53 are computed in two halves.

    Args:
      drawn: the weights, shape (dialogues, replicates), all below 256; at most 256 dialogues.
      values: whole numbers, shape (dialogues, ...).

    Returns:
      Shape (replicates, ...).
    """
    flat = values.reshape(len(values), -1)
    across = drawn.T.astype(float)

    def product(part: Counts) -> Counts:
        added: Counts = (across @ part.astype(float)).astype(np.int64)
        return added

    if float(np.abs(flat).max()) * float(drawn.max()) * len(flat) < 2**53:
        added = product(flat)
    else:
        added = (product(flat >> _HALF) << _HALF) + product(flat & ((1 << _HALF) - 1))
    return added.reshape(-1, *values.shape[1:])


def means(replicates: Counts) -> NDArray[np.float64]:
    """Computes the statistics in each replicate: shape (replicates, statistics); NaN for a replicate without values."""
    sums, counts = replicates[..., 0].astype(float), replicates[..., 1].astype(float)
    with quiet():
        values: NDArray[np.float64] = np.ldexp(sums, -POINT) / counts
    return values


def quiet() -> Any:
    """Returns a context in which replicates without values become NaN without a warning."""
    return np.errstate(divide="ignore", invalid="ignore")


def interval(values: NDArray[np.float64], level: float = 0.95) -> tuple[float, float] | None:
    """Computes the percentile interval of a statistic from its replicates.

    None if all are NaN, or if they do not vary: an interval without width would claim certainty.
    """
    known = values[np.isfinite(values)]
    if not known.size or np.ptp(known) < _SAME:
        return None
    low, high = np.quantile(known, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def share_interval(values: NDArray[np.float64], dialogues: int, level: float = 0.95) -> tuple[float, float] | None:
    """Computes the interval of a mean of values from 0 to 1 from its replicates.

    If the replicates do not vary, as at 0 and 100 % or with a single dialogue, it is Wilson's, and each dialogue counts
    as one observation.
    """
    known = values[np.isfinite(values)]
    if known.size and np.ptp(known) < _SAME:
        return wilson_interval(float(known[0]) * dialogues, dialogues, level)
    return interval(values, level)


def dialogues_of(counts: Counts) -> int:
    """Returns the effective number of dialogues (Kish 1965) from the numbers of values in each replicate.

    With Poisson weights, these have the mean ``sum(n)`` and the variance ``sum(n ** 2)`` over the dialogues' numbers of
    values; the squared mean over the variance is the number of dialogues if all have equally many.
    """
    replicates = [int(count) for count in counts]
    total, squares = sum(replicates), sum(count * count for count in replicates)
    spread = len(replicates) * squares - total * total
    return round(total * total / spread) if spread else 0


def wilson_interval(right: float, n: int, level: float = 0.95) -> tuple[float, float] | None:
    """Computes the interval of a share (Wilson 1927), also for small samples and shares near 0 and 1."""
    if not n:
        return None
    z = NormalDist().inv_cdf((1 + level) / 2)
    share, z2 = right / n, z * z
    middle = (share + z2 / (2 * n)) / (1 + z2 / n)
    half = z / (1 + z2 / n) * math.sqrt(share * (1 - share) / n + z2 / (4 * n * n))
    return max(0.0, middle - half), min(1.0, middle + half)


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
      replicates: the replicates of the test, 0 for no tests; intervals use ``REPLICATES``.
      floors: the noise floors of the numbers that have one.
    """
    if not replicates:
        return []
    numbers = [of_number for (_, column), of_number in parts.items() if column in columns]
    plain = _totals(numbers, lambda _: np.ones(1, np.int64))
    swapped = _totals(numbers, partial(coins_of, seed, replicates=replicates))
    drawn = _totals(numbers, partial(weights, seed))
    tests = []
    for (first, second), column in product(pairs, columns):
        ours, theirs = parts.get((first, column), ()), parts.get((second, column), ())
        if not ours or not theirs:
            continue
        n = math.lcm(len(ours), len(theirs))  # they may have different numbers of runs: each part counts several times
        ours, theirs = (tuple(part for part in parts for _ in range(n // len(parts))) for parts in (ours, theirs))
        difference = float(_gaps(plain(ours), plain(theirs))[0])
        moved = swapped(theirs) - swapped(ours)  # where the coin is 1, the systems swap their results
        by_chance = np.abs(_gaps(plain(ours) + moved, plain(theirs) - moved))
        # Differences that are closer than 1e-9 are equal. Replicates without a value count against significance, which
        # "at least as large" would not do.
        p = (1 + replicates - int((by_chance < abs(difference) - 1e-9).sum())) / (1 + replicates)
        between = interval(_gaps(drawn(ours), drawn(theirs)) * columns[column])
        dialogues = len(set().union(*ours, *theirs))
        floor = columns[column] * floor_of_difference(*(floors.get((name, column), 0.0) for name in (first, second)))
        test = Difference(first, second, column, difference * columns[column], between, p, dialogues, floor=floor)
        tests.append(test)
    corrected = holm([test.p for test in tests])
    return [msgspec.structs.replace(test, p_holm=p) for test, p in zip(tests, corrected, strict=True)]


def _gaps(first: Counts, second: Counts) -> Real:
    """Computes the difference of two numbers in each replicate."""
    gaps: Real = (means(first) - means(second)).mean(axis=1)
    return gaps


def intervals(numbers: Sequence[Parts], seed: str) -> list[Interval]:
    """Computes the 95 % interval of each number by a Poisson bootstrap over dialogues; None without values.

    The interval of a share is Wilson's if each dialogue has one row, which is right or wrong, or if the replicates do
    not vary, as at 0 and 100 %.
    """
    drawn = _totals(numbers, partial(weights, seed))
    computed: list[Interval] = []
    for parts in numbers:
        replicates = means(drawn(parts)).mean(axis=1)
        rows = [row for sums in parts for row in sums.values()]
        if any(not 0 <= total <= n for total, n in rows):
            computed.append(interval(replicates))  # not a share
        elif len(parts) == 1 and all(n == 1 and total in (0, 1) for total, n in rows):
            computed.append(wilson_interval(sum(total for total, _ in rows), len(rows)))
        else:
            computed.append(share_interval(replicates, len(set().union(*parts))))
    return computed


def _totals(numbers: Iterable[Parts], draw: Callable[[str], NDArray[Any]]) -> Callable[[Parts], Counts]:
    """Sums over dialogues, each with the weights that ``draw`` returns for its name.

    Returns a function from the parts of a number to the sums in units of 2 ** -40 and counts of each replicate and
    part: shape (replicates, parts, 2).
    """
    distinct = {id(sums): sums for parts in numbers for sums in parts}
    place = {key: i for i, key in enumerate(distinct)}
    names = sorted(set().union(*distinct.values()))
    values = [[sums.get(name, (0.0, 0)) for sums in distinct.values()] for name in names]
    whole = np.rint(np.ldexp(np.reshape(values, (len(names), len(distinct), 2)), [POINT, 0])).astype(np.int64)
    total = resampled(names, whole, draw)
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
    corrected[order] = np.maximum.accumulate(np.minimum(1.0, np.arange(len(values), 0, -1) * np.asarray(values)[order]))
    return [float(value) for value in corrected]


_MOST = 0.05  # how often chance exceeds the noise floor
# The quantiles of Student's t at 97.5 % with 1, 2, 3 … degrees of freedom.
_STUDENT = (12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23, 2.20, 2.18, 2.16, 2.14, 2.13, 2.12, 2.11, 2.10)


def pass_power(right: Sequence[int], runs: int, k: int) -> float:
    """Estimates pass^k, the share of items that are right in all of k runs, without bias (tau-bench, Yao et al. 2024).

    >>> round(pass_power([5, 4, 0], 5, 2), 4)  # the mean of 10, 6 and 0 of the 10 pairs of runs
    0.5333

    Args:
      right: how many runs each item is right in.
      runs: the number of runs; ``k`` is at most as large.
    """
    return sum(math.comb(n, k) for n in right) / (len(right) * math.comb(runs, k))


def noise_floor(runs: Sequence[Contributions], numbers: Sequence[float]) -> float:
    """Estimates the difference between two runs of the same system that chance exceeds in 5 % of cases.

    Answers in different dialogues vary independently, so the variance of a run's number is the sum of the variances of
    what its dialogues add. But nets that were trained with other seeds are better or worse in all dialogues: if the
    runs vary more than twice as much as that, their own standard deviation counts, with Student's t for so few values.

    Args:
      runs: what each dialogue adds to the number in each run.
      numbers: the number in each run.
    """
    names = sorted(set(runs[0]).intersection(*runs[1:]))
    added = np.array([[run[name] for name in names] for run in runs])
    independent, observed = math.sqrt(added.var(axis=0, ddof=1).sum()), stdev(numbers)
    quantile = NormalDist().inv_cdf(1 - _MOST / 2)
    if observed <= 2 * independent:
        return quantile * math.sqrt(2) * independent
    few = dict(enumerate(_STUDENT, 2))  # by the number of runs
    return few.get(len(numbers), quantile) * math.sqrt(2) * observed


Policy = Literal["zero", "drop"]
POLICIES: tuple[Policy, ...] = ("zero", "drop")


def coefficient(values: Any) -> Real:
    """Computes sample standard deviation over mean along the first axis, of at least two values; 0 if all are equal.

    >>> print(coefficient([[1.0, 0.5, 0], [1, 0.5, 0], [1, 0.5, 0], [0, 0.5, 0], [0, 0.5, 0]]).round(4))
    [0.9129 0.     0.    ]
    """
    values = np.asarray(values, dtype=float)
    with quiet():
        real: Real = values.std(axis=0, ddof=1) / values.mean(axis=0)
    return np.where(np.ptp(values, axis=0) == 0, 0.0, real)


def floor_of_difference(first: float, second: float) -> float:
    """Computes the noise floor of the difference of two numbers from the noise floors of both."""
    return math.sqrt((first**2 + second**2) / 2)


def sensitivities(values: Real, size: int, policy: Policy = "zero") -> Real:
    """Computes equation 1 of SGD-X over ``size`` wordings, or repeats of a wording, at a time, for each item.

    The coefficient of variation grows with the number of values, so that only those of equally many can be compared. If
    there are more, each of them is once the first of ``size`` consecutive ones, and the result is the mean of all.

    Args:
      values: the accuracy of each item, shape (wordings or repeats, items).
      size: at least 2.
      policy: how items count that are wrong everywhere, see ``--zero``.

    Returns:
      Shape (items,); NaN for items that do not count.
    """
    starts = range(len(values) if size < len(values) else 1)
    windows = np.array([np.take(values, range(start, start + size), axis=0, mode="wrap") for start in starts])
    coefficients = coefficient(windows.swapaxes(0, 1))
    counted = windows.any(axis=1) if policy == "drop" else np.ones_like(coefficients, dtype=bool)
    with quiet():
        return np.asarray(np.where(counted, coefficients, 0.0).sum(axis=0) / counted.sum(axis=0))
