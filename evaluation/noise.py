"""What chance does to the numbers of a system that may answer differently each time: pass^k, noise floor, sensitivity.

These are computed from several runs of the system on the same sets. In ``results.parquet`` they are metrics of all runs
together: for the metric ``accuracy``, ``accuracy_sd`` is its standard deviation over the runs.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping, Sequence
from statistics import NormalDist, stdev

import numpy as np
from numpy.typing import NDArray

from parapet.evaluation.dst.totals import Policy, coefficient
from parapet.evaluation.results import SENSITIVITY, ResultRow

RUNS = "runs"  # how many there are
SD, FLOOR = "_sd", "_noise_floor"  # endings of the name of a metric
POWER = "pass^"
NOISE, EXCESS = f"{SENSITIVITY}_of_noise", f"{SENSITIVITY}_excess"

_OVER_RUNS = re.compile(rf".*(?:{SD}|{FLOOR})|{re.escape(POWER)}[0-9]+|{RUNS}|{NOISE}|{EXCESS}")
_MOST = 0.05  # how often chance exceeds the noise floor

# What each dialogue adds to a number in a run.
Contributions = Mapping[str, float]


def is_over_runs(row: ResultRow) -> bool:
    """Whether a number is of several runs together, such as a standard deviation."""
    return _OVER_RUNS.fullmatch(row.metric) is not None


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
    runs vary more than twice as much as that, their own standard deviation counts.

    Args:
      runs: what each dialogue adds to the number in each run.
      numbers: the number in each run.
    """
    names = sorted(set(runs[0]).intersection(*runs[1:]))
    added = np.array([[run[name] for name in names] for run in runs])
    independent, observed = math.sqrt(added.var(axis=0, ddof=1).sum()), stdev(numbers)
    deviation = observed if observed > 2 * independent else independent
    return NormalDist().inv_cdf(1 - _MOST / 2) * math.sqrt(2) * deviation


def floors_of_means(rows: Collection[ResultRow]) -> dict[tuple[str, str], float]:
    """Returns the noise floor of each mean over runs, by system and column."""
    runs = {(row.system, row.task): row.value or 1.0 for row in rows if row.metric == RUNS}
    return {
        (row.system, row.column.removesuffix(FLOOR)): (row.value or 0.0) / math.sqrt(runs[row.system, row.task])
        for row in rows
        if row.metric.endswith(FLOOR)
    }


def floor_of_difference(first: float, second: float) -> float:
    """Computes the noise floor of the difference of two numbers from the noise floors of both."""
    return math.sqrt((first**2 + second**2) / 2)


def mean_sensitivity(values: NDArray[np.float64], size: int, policy: Policy = "zero") -> float:
    """Computes equation 1 of SGD-X over ``size`` wordings, or repeats of a wording, at a time; the mean over all items.

    The coefficient of variation grows with the number of values, so that only those of equally many can be compared. If
    there are more, each of them is once the first of ``size`` consecutive ones.

    Args:
      values: the accuracy of each item, shape (wordings or repeats, items).
      size: at least 2.
      policy: how items count that are wrong everywhere, see ``--zero``.
    """
    starts = range(len(values) if size < len(values) else 1)
    windows = np.array([np.take(values, range(start, start + size), axis=0, mode="wrap") for start in starts])
    coefficients = coefficient(windows.swapaxes(0, 1))
    counted = windows.any(axis=1) if policy == "drop" else np.ones_like(coefficients, dtype=bool)
    return float(coefficients[counted].mean()) if counted.any() else math.nan
