"""Bootstrap intervals over dialogues, with results that do not depend on the number of workers.

This is the Poisson bootstrap (Hanley and MacGibbon 2006): the weight of a dialogue in each replicate is drawn from a
Poisson distribution with mean 1. The draws depend on seed and dialogue id only, so sums over dialogues can be added up
in any order, and two systems on the same dialogues are resampled alike.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Sequence
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

REPLICATES = 1000
CHUNK = 64  # dialogues at a time
POINT = 40  # binary digits after the point: whole numbers, so that sums do not depend on the order; up to 8 million fit
_HALF = 26
_SAME = 1e-9  # replicates closer than this do not vary

Counts = NDArray[np.int64]
# The dialogue of each value, and the values; NaN values are ignored.
Statistic = tuple[Sequence[str], Sequence[float] | NDArray[np.float64]]


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
        total = np.bincount(at, np.asarray(values, dtype=float)[known], len(names))
        sums[:, j, 0] = np.rint(np.ldexp(total, POINT))
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
