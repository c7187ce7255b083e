"""Plans comparisons: how many dialogues, repeats and wordings show a difference, and which difference a study can show.

The planned analysis is the paired test of ``parapet compare``, in which whole dialogues change places; an item that is
not a turn of a dialogue counts as one. The difference on a dialogue, averaged over W wordings and R repeats, has the
variance ``dialogue + wording / W + repeat / R + both / (W R)``. A pilot gives these components by analysis of variance
(dialogues x wordings x repeats, as in generalisability theory: Brennan 2001). As in ``compare``, the wordings are those
of the study, not a sample of others, so the variance does not include how hard each wording is on average.
"""

import math
from bisect import bisect_left
from collections.abc import Sequence
from statistics import NormalDist

import msgspec
import numpy as np

from parapet.evaluation import results, statistics
from parapet.evaluation.sets import ORIGINAL
from parapet.schemas.errors import InputError

LEAST = 10  # dialogues of a pilot


class Variance(msgspec.Struct, frozen=True):
    """The variance of the difference on a dialogue, of shares, by source.

    Attributes:
      dialogue: between dialogues, which neither repeats nor wordings reduce.
      wording: between the wordings of a dialogue.
      repeat: between the repeats of a dialogue, in all wordings alike.
      both: between the repeats of one wording of a dialogue.
      items: the items of a dialogue, in one wording and repeat.
      has_difference: whether ``dialogue`` is a mean square, such as a share of flips, which includes the difference.
    """

    dialogue: float
    wording: float = 0.0
    repeat: float = 0.0
    both: float = 0.0
    items: float = 1.0
    has_difference: bool = False


class Study(msgspec.Struct, frozen=True):
    """A comparison whose two-sided test at the level ``alpha`` finds a difference with the probability ``power``."""

    variance: Variance
    wordings: int = 1
    repeats: int = 1
    power: float = 0.8
    alpha: float = 0.05

    @property
    def variance_of_mean(self) -> float:
        """The variance of the mean over wordings and repeats on a dialogue."""
        parts, answers = self.variance, self.wordings * self.repeats
        return parts.dialogue + parts.wording / self.wordings + parts.repeat / self.repeats + parts.both / answers

    def dialogues(self, difference: float) -> int:
        """Computes how many dialogues show a difference, given as a share (Connor 1987)."""
        own = self.variance_of_mean
        if self.variance.has_difference:
            own = max(own - difference**2, 0.0)
        level, power = (NormalDist().inv_cdf(share) for share in (1 - self.alpha / 2, self.power))
        # Results that are swapped by chance vary around zero, so the null distribution is wider by the difference.
        n = ((level * math.sqrt(own + difference**2) + power * math.sqrt(own)) / difference) ** 2
        # The correction for continuity: the test's statistic changes by two answers at a time.
        return math.ceil(n + 2 / (difference * self.variance.items * self.wordings * self.repeats))

    def difference(self, dialogues: int) -> float | None:
        """Searches the smallest difference, in hundredths of a point, that dialogues show; None if there is none."""
        most = self.variance.dialogue if self.variance.has_difference else 1.0
        differences = [i / 10_000 for i in range(1, round(10_000 * most) + 1)]
        first = bisect_left(differences, True, key=lambda difference: self.dialogues(difference) <= dialogues)
        return differences[first] if first < len(differences) else None


class Pilot(msgspec.Struct, frozen=True):
    """The difference of two systems, or of the original and other wordings, in a pilot.

    Attributes:
      metric: the compared metric.
      sets: the wordings.
      differences: by wording, repeat and item, as shares.
      dialogue_ids: the dialogue of each item, sorted.
    """

    metric: str
    sets: list[str]
    differences: statistics.Real
    dialogue_ids: list[str]


def read_pilot(paths: Sequence[str], metric: str = "") -> Pilot:
    """Reads outputs of ``parapet evaluate``: of two systems, or of one, whose original is compared with its variants.

    Two systems are compared on their variants, or without variants on the first set.

    Args:
      paths: one or two folders.
      metric: the metric; by default the main one of the task.

    Raises:
      InputError: the folders cannot be compared, or say nothing about the variance.
    """
    tasks = [results.read_task(path) for path in paths]
    if tasks[0].task != tasks[-1].task:
        reason = f"the systems have scores of different tasks, {tasks[0].task} and {tasks[-1].task}"
        raise InputError(f"{reason}: give those of one task", "", "--scores")
    metric = metric or results.main_metric(tasks[0].task)
    known = list(dict.fromkeys(row.set for row in tasks[-1].rows if not row.set.startswith("#")))
    names = results.variants_of(known) or known[: len(paths) - 1]
    if not names:
        raise InputError("has no variants: give the scores of a second system, too", paths[0], "--scores")
    sets = names if len(paths) > 1 else [ORIGINAL, *names]
    runs = min(len(task.runs) for task in tasks)
    folders = [folder for task in tasks for folder in [*task.runs][:runs]]
    dialogue_ids, values = results.read_values(folders, metric, sets)
    if len(set(dialogue_ids)) < LEAST:
        reason = f"fewer than {LEAST} dialogues or tasks have {metric!r} of single examples in all of {', '.join(sets)}"
        raise InputError(f"{reason}: take a larger pilot, or another --metric", " and ".join(paths))
    differences = values[:runs] - values[runs:] if len(paths) > 1 else values[:, :1] - values[:, 1:]
    if not differences.any():
        raise InputError(f"the two have the same {metric} everywhere: take other systems, or --flips", "", "--scores")
    return Pilot(metric, names, differences.swapaxes(0, 1), dialogue_ids)


def estimate(differences: statistics.Real, dialogue_ids: Sequence[str]) -> Variance:
    """Estimates the variance from a pilot.

    What a pilot with one wording or one repeat cannot tell apart is in the components that remain.

    Args:
      differences: shape (wordings, repeats, items).
      dialogue_ids: the dialogue of each item, sorted.
    """
    names, starts = np.unique(dialogue_ids, return_index=True)
    items, (wordings, repeats, _) = len(dialogue_ids) / len(names), differences.shape
    centred = differences - differences.mean(axis=-1, keepdims=True)
    deviations = np.add.reduceat(centred, starts, axis=-1) / items  # of dialogues
    of_dialogues = deviations.mean(axis=(0, 1), keepdims=True)
    of_wordings = deviations.mean(axis=1, keepdims=True) - of_dialogues
    of_repeats = deviations.mean(axis=0, keepdims=True) - of_dialogues
    of_both = deviations - of_dialogues - of_wordings - of_repeats

    def mean_square(effect: statistics.Real, degrees: int) -> float:
        return float(np.square(effect).mean()) * deviations.size / (max(degrees, 1) * (len(names) - 1))

    dialogue, wording = mean_square(of_dialogues, 1), mean_square(of_wordings, wordings - 1)
    repeat, both = mean_square(of_repeats, repeats - 1), mean_square(of_both, (wordings - 1) * (repeats - 1))
    return Variance(
        dialogue=max((dialogue - wording - repeat + both) / (wordings * repeats), 0.0),
        wording=max((wording - both) / repeats, 0.0),
        repeat=max((repeat - both) / wordings, 0.0),
        both=both,
        items=items,
    )
