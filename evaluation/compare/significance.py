"""Which differences between two systems are significant: paired tests over dialogues.

Approximate randomisation (Noreen 1989; Yeh 2000): in each replicate the two systems' results on a dialogue change
places or not, by the toss of a coin, and p is how often the difference is then as large as the observed one. Intervals
are those of a paired Poisson bootstrap. Coins and weights depend on seed and dialogue id alone: the order of dialogues
is irrelevant, and a dialogue that occurs in several sets is resampled alike in all of them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from parapet.evaluation import bootstrap
from parapet.evaluation.compare.results import Sums

_POINT = 32  # binary digits behind the point: whole numbers add up to the same in any order
_CHUNK = 64
_SAME = 1e-9  # differences closer than this are equal

Whole = NDArray[np.int64]
Real = NDArray[np.float64]


class Difference(msgspec.Struct, frozen=True):
    """A paired test.

    Attributes:
      difference: the first system's value minus the second's.
      interval: of 95 % for it.
      p: two-sided; of approximate randomisation.
      dialogues: how many were resampled.
    """

    difference: float
    interval: tuple[float, float] | None
    p: float
    dialogues: int


def differences(
    pairs: Sequence[Sequence[tuple[Sums, Sums]]], factors: Sequence[float], seed: str, replicates: int
) -> list[tuple[list[Difference], Difference]]:
    """Tests pairs of systems, metric by metric and in the mean over metrics.

    Args:
      pairs: of each pair of systems, for each metric, both systems' sums by dialogue. The metrics are the same for all.
      factors: what each metric is multiplied by.
      seed: any text.
      replicates: how many coins are tossed for a dialogue. Intervals take ``bootstrap.REPLICATES``.

    Returns:
      Of each pair the metrics' differences, and that of their mean.
    """
    names = sorted({name for pair in pairs for metric in pair for sums in metric for name in sums})
    size = len(pairs), len(factors)
    seen = np.zeros((*size, 2, 2), np.int64)
    swapped = np.zeros((replicates, *size, 2, 2), np.int64)
    drawn = np.zeros((bootstrap.REPLICATES, *size, 2, 2), np.int64)
    for start in range(0, len(names), _CHUNK):
        chunk = names[start : start + _CHUNK]
        values = np.stack([_values(pairs, name, size) for name in chunk])
        seen += values.sum(axis=0)
        coins = np.stack([coins_of(seed, name, replicates) for name in chunk])
        weights = np.stack([bootstrap.weights(seed, name) for name in chunk])
        # Where the coin says so, the two systems' results change places.
        swapped += _weighted(coins, values[..., ::-1, :] - values)
        drawn += _weighted(weights, values)
    swapped += seen
    factor = np.asarray(factors, dtype=float)
    found = _gaps(seen, factor), _gaps(swapped, factor), _gaps(drawn, factor)
    return [
        ([_tested(found, pair, slice(i, i + 1), pairs[pair][i : i + 1]) for i in range(size[1])],
         _tested(found, pair, slice(None), pairs[pair]))
        for pair in range(size[0])
    ]  # fmt: skip


def coins_of(seed: str, dialogue_id: str, replicates: int) -> Whole:
    """0 or 1 for each replicate, drawn from seed and dialogue alone."""
    text = f"swap\0{seed}\0{dialogue_id}".encode("utf-8", "surrogatepass")
    bits = np.frombuffer(hashlib.shake_128(text).digest((replicates + 7) // 8), np.uint8)
    return np.unpackbits(bits)[:replicates].astype(np.int64)


def _values(pairs: Sequence[Sequence[tuple[Sums, Sums]]], name: str, size: tuple[int, int]) -> Whole:
    """Of a dialogue (pair, metric, system, sum and count), sums in units of 2 ** -32."""
    found = np.zeros((*size, 2, 2), np.int64)
    for i, pair in enumerate(pairs):
        for j, systems in enumerate(pair):
            for k, sums in enumerate(systems):
                value, rows = sums.get(name, (0.0, 0))
                found[i, j, k] = round(value * 2**_POINT), rows
    return found


def _weighted(weights: Whole, values: Whole) -> Whole:
    """Sums over dialogues, exact: as floating point, which is ten times faster, where no sum can exceed 2 ** 53."""
    flat = values.reshape(len(values), -1)
    added: Whole
    if float(np.abs(flat).max()) * float(weights.max()) * len(values) < 2**53:
        added = (weights.T.astype(float) @ flat.astype(float)).astype(np.int64)
    else:
        added = weights.T @ flat
    return added.reshape(-1, *values.shape[1:])


def _gaps(sums: Whole, factor: Real) -> Real:
    """First system minus second, of (..., metric, system, sum and count)."""
    with np.errstate(divide="ignore", invalid="ignore"):
        means = np.ldexp(sums[..., 0].astype(float), -_POINT) / sums[..., 1]
    gaps: Real = (means[..., 0] - means[..., 1]) * factor
    return gaps


def _tested(found: tuple[Real, Real, Real], pair: int, metrics: slice, sums: Iterable[tuple[Sums, Sums]]) -> Difference:
    seen, swapped, drawn = (gaps[..., pair, metrics].mean(axis=-1) for gaps in found)
    difference = float(seen)
    # Not "at least as large": a replicate without a value speaks against significance too.
    smaller = int((np.abs(swapped) < abs(difference) - _SAME).sum())
    p = (1 + len(swapped) - smaller) / (1 + len(swapped))
    names = {name for systems in sums for one in systems for name in one}
    return Difference(difference, bootstrap.interval(drawn), p, len(names))


def holm(values: Sequence[float]) -> list[float]:
    """p-values corrected for their number (Holm 1979), in the same order."""
    order = sorted(range(len(values)), key=lambda i: values[i])
    found = [0.0] * len(values)
    highest = 0.0
    for rank, i in enumerate(order):
        highest = max(highest, min(1.0, (len(values) - rank) * values[i]))
        found[i] = highest
    return found
