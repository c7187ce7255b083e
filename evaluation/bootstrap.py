"""Bootstrap intervals over dialogues that any number of workers compute alike.

The Poisson bootstrap (Hanley and MacGibbon 2006): in each replicate a dialogue counts as often as a draw from a Poisson
distribution of mean 1 says. The draws of a dialogue depend on seed and id alone, so sums over dialogues can be added
up in any order, and two systems on the same dialogues are resampled alike.
"""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

REPLICATES = 1000
_POINT = 32  # binary digits after the point: sums of whole numbers do not depend on the order

Counts = NDArray[np.int64]


def weights(seed: str, dialogue_id: str, replicates: int = REPLICATES) -> Counts:
    """How often a dialogue counts in each replicate: shape (replicates,)."""
    digest = hashlib.sha256(f"{seed}\0{dialogue_id}".encode("utf-8", "surrogatepass")).digest()
    generator = np.random.Generator(np.random.Philox(int.from_bytes(digest[:16], "big")))
    return generator.poisson(1.0, replicates).astype(np.int64)


def resampled(drawn: Counts, sums: Any, counts: Any) -> Counts:
    """What a dialogue adds to each replicate.

    Args:
      drawn: of :func:`weights`.
      sums: of some statistics, the sum of the dialogue's values.
      counts: how many values those are.

    Returns:
      Shape (replicates, statistics, 2): sums in units of 2 ** -32, and counts.
    """
    fixed = np.rint(np.ldexp(np.asarray(sums, dtype=float), _POINT)).astype(np.int64)
    added: Counts = drawn[:, None, None] * np.stack([fixed, np.asarray(counts, dtype=np.int64)], axis=-1)[None]
    return added


def means(replicates: Counts) -> NDArray[np.float64]:
    """The statistics in each replicate: shape (replicates, statistics); NaN where a replicate has no value."""
    sums, counts = replicates[..., 0].astype(float), replicates[..., 1].astype(float)
    with quiet():
        values: NDArray[np.float64] = np.ldexp(sums, -_POINT) / counts
    return values


def quiet() -> Any:
    """A context in which replicates without values give NaN without a warning."""
    return np.errstate(divide="ignore", invalid="ignore")


def interval(values: NDArray[np.float64], level: float = 0.95) -> tuple[float, float] | None:
    """The percentile interval of a statistic's replicates; None where there are none."""
    known = values[np.isfinite(values)]
    if not known.size:
        return None
    low, high = np.quantile(known, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)
