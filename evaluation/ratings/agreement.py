"""Agreement of raters with one another, and shares with their intervals."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from parapet.evaluation.bootstrap import interval, quiet

Interval = tuple[float, float]

_Z = NormalDist().inv_cdf(0.975)


def fleiss_kappa(counts: Sequence[Sequence[int]]) -> float | None:
    """Fleiss' kappa (Fleiss 1971): agreement beyond chance of any raters, as many for each item.

    Args:
      counts: of each item, how many raters chose each category; the sums of all items are the same, 2 or more.

    Returns:
      At most 1; 0 is chance. None where it is not defined: no item, or all raters chose one category throughout.
    """
    if not len(counts):
        return None
    (kappa,) = _kappas(np.asarray(counts), np.ones((len(counts), 1)))
    return float(kappa) if math.isfinite(kappa) else None


def fleiss_interval(counts: Sequence[Sequence[int]], weights: NDArray[np.int64]) -> Interval | None:
    """The bootstrap interval of 95 % of Fleiss' kappa.

    Args:
      counts: as of :func:`fleiss_kappa`.
      weights: how often each item counts in each replicate: shape (items, replicates), see
        :func:`parapet.evaluation.bootstrap.weights`.
    """
    return interval(_kappas(np.asarray(counts), weights)) if len(counts) else None


def _kappas(counts: NDArray[np.int64], weights: NDArray[np.int64] | NDArray[np.float64]) -> NDArray[np.float64]:
    """Kappa in each replicate: counts (items, categories) and weights (items, replicates) to (replicates,)."""
    raters = counts.sum(axis=1)
    if len(set(raters.tolist())) > 1 or raters[0] < 2:
        raise ValueError("every item needs the same number of raters, 2 or more")
    n = int(raters[0])
    alike = (counts * (counts - 1)).sum(axis=1) / (n * (n - 1))
    with quiet():
        total = weights.sum(axis=0)
        observed = (alike @ weights) / total
        shares = (counts.T @ weights) / (n * total)
        expected = (shares**2).sum(axis=0)
        kappas: NDArray[np.float64] = (observed - expected) / (1 - expected)
    return kappas


def krippendorff_alpha(labels: Sequence[tuple[str, Hashable, str]]) -> float | None:
    """Krippendorff's alpha for nominal labels, which takes any number of raters for each item.

    Args:
      labels: (rater, item, label), one for each rater and item. Items with one rater say nothing.

    Returns:
      At most 1; None where it is not defined: no item has two raters, or all labels are the same.
    """
    raters: dict[Hashable, int] = {}
    for _, item, _ in labels:
        raters[item] = raters.get(item, 0) + 1
    paired = [label for label in labels if raters[label[1]] > 1]
    if len({label for _, _, label in paired}) < 2:
        return None
    from nltk.metrics.agreement import AnnotationTask

    return float(AnnotationTask(paired).alpha())


def wilson_interval(right: int, n: int) -> Interval | None:
    """The interval of 95 % of a share (Wilson 1927), which holds for small samples and shares near 0 and 1, too."""
    if not n:
        return None
    share, z2 = right / n, _Z * _Z
    middle = (share + z2 / (2 * n)) / (1 + z2 / n)
    half = _Z / (1 + z2 / n) * math.sqrt(share * (1 - share) / n + z2 / (4 * n * n))
    return max(0.0, middle - half), min(1.0, middle + half)
