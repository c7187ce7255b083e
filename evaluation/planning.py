"""Plans comparisons: how many dialogues, repeats and wordings show a difference, and which difference a study can show.

The planned analysis is the paired test of ``parapet compare``, in which whole dialogues change places; an item that is
not a turn of a dialogue counts as one. The difference on a dialogue, averaged over W wordings and R repeats, has the
variance ``dialogue + wording / W + repeat / R + both / (W R)``. A pilot gives these components by analysis of variance
(dialogues x wordings x repeats, as in generalisability theory: Brennan 2001). As in ``compare``, the wordings are those
of the study, not a sample of others, so the variance does not include how hard each wording is on average.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from statistics import NormalDist
from typing import Any

import msgspec
import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from parapet.evaluation.compare.board import TaskResults, read_task
from parapet.evaluation.compare.kinds import main_metric
from parapet.evaluation.results import variants_of
from parapet.evaluation.rows import read_tables
from parapet.evaluation.sets import ALL, ORIGINAL, run_folders
from parapet.schemas.errors import InputError, no_such

LEAST = 10  # dialogues of a pilot
_KEYS = ("dialogue_id", "turn", "frame")  # of an item, as far as the rows have them

Real = NDArray[np.float64]
Item = tuple[Any, ...]
Cells = dict[tuple[str, int], dict[Item, float]]  # set and run to the results of its items


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

    def of_mean(self, wordings: int, repeats: int) -> float:
        """Computes the variance of the mean over wordings and repeats."""
        return self.dialogue + self.wording / wordings + self.repeat / repeats + self.both / (wordings * repeats)


class Goal(msgspec.Struct, frozen=True):
    """A difference, as a share, that a two-sided test at the level ``alpha`` finds with the probability ``power``."""

    difference: float
    power: float = 0.8
    alpha: float = 0.05


class Study(msgspec.Struct, frozen=True):
    """A study: the dialogues that reach the goal, and the difference that a given number of them shows, if any."""

    repeats: int
    wordings: int
    dialogues: int
    shown: float | None


class Pilot(msgspec.Struct, frozen=True):
    """The difference of two systems, or of the original and other wordings, in a pilot.

    Attributes:
      metric: the compared metric.
      sets: the wordings.
      runs: the number of repeats.
      dialogues: the number of dialogues, and of their ``items``, that all sets and runs have.
      difference: the mean over items, wordings and repeats, as a share.
      flips: the share of items on which the two differ, in one repeat of one wording.
      flips_of_runs: the share of items on which two repeats of a system differ; None with one repeat.
      design_effect: the variance of the difference, relative to its value if a dialogue's items were independent.
      error: the standard error of the variance, relative to it.
    """

    metric: str
    sets: list[str]
    runs: int
    dialogues: int
    items: int
    difference: float
    flips: float
    flips_of_runs: float | None
    design_effect: float
    error: float
    variance: Variance


def studies(
    variance: Variance, goal: Goal, wordings: Sequence[int], repeats: Sequence[int], dialogues: int | None = None
) -> list[Study]:
    """Plans a study for each number of wordings and repeats.

    Args:
      variance: the variance of the difference.
      goal: what the studies are to show.
      wordings: the numbers of wordings.
      repeats: the numbers of repeats.
      dialogues: the number of dialogues whose smallest visible difference is wanted.
    """
    return [
        Study(
            repeats=n_repeats,
            wordings=n_wordings,
            dialogues=_needed(variance, goal, n_wordings, n_repeats),
            shown=None if dialogues is None else _shown(variance, goal, n_wordings, n_repeats, dialogues),
        )
        for n_wordings in wordings
        for n_repeats in repeats
    ]


def _needed(variance: Variance, goal: Goal, wordings: int, repeats: int) -> int:
    """Computes how many dialogues reach a goal (Connor 1987)."""
    square = variance.of_mean(wordings, repeats)
    own = max(square - goal.difference**2, 0.0) if variance.has_difference else square
    level, power = (NormalDist().inv_cdf(share) for share in (1 - goal.alpha / 2, goal.power))
    # Results that are swapped by chance vary around zero, so the null distribution is wider by the difference.
    n = ((level * math.sqrt(own + goal.difference**2) + power * math.sqrt(own)) / goal.difference) ** 2
    # The correction for continuity: the test's statistic changes by two answers at a time.
    return math.ceil(n + 2 / (goal.difference * variance.items * wordings * repeats))


def _shown(variance: Variance, goal: Goal, wordings: int, repeats: int, dialogues: int) -> float | None:
    """Searches the smallest difference, in hundredths of a point, that the dialogues show; None if there is none."""
    most = variance.dialogue if variance.has_difference else 1.0
    differences = [i / 10_000 for i in range(1, round(10_000 * most) + 1)]

    def enough(difference: float) -> bool:
        return _needed(variance, replace(goal, difference=difference), wordings, repeats) <= dialogues

    first = bisect_left(differences, True, key=enough)
    return differences[first] if first < len(differences) else None


def guessed(difference: float, accuracy: float | None, flips: float | None) -> Variance:
    """Makes the variance from guesses, as shares.

    Args:
      difference: the difference that is wanted.
      accuracy: the accuracy of a system; None for any.
      flips: the share of examples on which the two differ; None for two systems that err independently.

    Raises:
      InputError: they contradict each other.
    """
    if flips is None:
        share = 0.5 if accuracy is None else accuracy
        flips = max(2 * share * (1 - share), difference)
    if flips < difference:
        raise InputError(f"must be at least the difference, {100 * difference:g}, which consists of flips", "--flips")
    if accuracy is not None and flips > 2 * min(accuracy, 1 - accuracy) + difference + 1e-9:
        most = 100 * (2 * min(accuracy, 1 - accuracy) + difference)
        raise InputError(f"must be at most {most:.4g}, as both are right or wrong together on the rest", "--flips")
    return Variance(flips, has_difference=True)


def read_pilot(paths: Sequence[str], metric: str = "", sets: Sequence[str] = ()) -> Pilot:
    """Reads outputs of ``parapet evaluate``: of two systems, or of one, whose original is compared with other wordings.

    Args:
      paths: one or two folders.
      metric: the metric; by default the main one of the task.
      sets: the wordings; by default the variants, or for two systems without variants the first set.

    Raises:
      InputError: the folders cannot be compared, or say nothing about the variance.
    """
    tasks = [read_task(path) for path in paths]
    if tasks[0].task != tasks[-1].task:
        reason = f"the systems have scores of different tasks, {tasks[0].task} and {tasks[-1].task}"
        raise InputError(f"{reason}: give those of one task", "", "--scores")
    metric = metric or main_metric(tasks[0].task)
    first, second = (_read_cells(results, metric) for results in (tasks[0], tasks[-1]))
    known = list(dict.fromkeys(name for name, _ in second))
    names = list(sets) or variants_of(known) or known[: len(paths) - 1]
    if not names:
        raise InputError(f"has no variants: choose from {', '.join(known)}", paths[0], "--sets")
    if unknown := [name for name in names if name not in known]:
        raise InputError(no_such("set", unknown[0], known), paths[-1], "--sets")
    originals = names if len(paths) > 1 else [ORIGINAL] * len(names)
    runs = sorted({run for _, run in first} & {run for _, run in second})
    pairs = [((before, run), (name, run)) for before, name in zip(originals, names, strict=True) for run in runs]
    cells = [values for before, after in pairs for values in (first.get(before, {}), second.get(after, {}))]
    items = sorted(set(cells[0]).intersection(*cells[1:]))
    if len({item[0] for item in items}) < LEAST:
        reason = f"fewer than {LEAST} dialogues or tasks are in all of {', '.join(dict.fromkeys(originals + names))}"
        raise InputError(f"{reason}: a pilot needs more", " and ".join(paths), "--scores")
    results = np.array([[values[item] for item in items] for values in cells])
    return analyse(metric, names, results.reshape(len(names), len(runs), 2, -1), [item[0] for item in items])


def _read_cells(results: TaskResults, metric: str) -> Cells:
    """Reads the values of a metric for single items. Raises InputError if there are none."""
    cells: Cells = {}
    metrics = {row.metric for row in results.rows}
    for run, folder in enumerate(run_folders(results.path) or [results.path]):
        for name, table in read_tables(folder, {*_KEYS, *metrics}).items():
            if metric not in table.column_names:
                reason = no_such("metric of single examples", metric, sorted(metrics.intersection(table.column_names)))
                raise InputError(reason, results.path, "--metric")
            columns = [table[key].to_pylist() for key in _KEYS if key in table.column_names]
            items = zip(zip(*columns, strict=True), table[metric].to_pylist(), strict=True)
            if name != ALL:
                cells[name, run] = {item: value for item, value in items if value is not None}
    if not cells:
        raise InputError("has no rows.parquet with the results of single examples", results.path, "--scores")
    return cells


def analyse(metric: str, sets: list[str], results: Real, dialogue_ids: Sequence[str]) -> Pilot:
    """Analyses a pilot.

    Args:
      metric: the name of the metric.
      sets: the names of the wordings.
      results: shape (wordings, repeats, 2, items).
      dialogue_ids: the dialogue of each item.

    Raises:
      InputError: the two never differ.
    """
    differences = results[:, :, 0] - results[:, :, 1]
    if not differences.any():
        raise InputError(f"the two have the same {metric} everywhere: take other systems, or --flips", "", "--scores")
    names, place = np.unique(dialogue_ids, return_inverse=True)
    size = len(place) / len(names)
    centred = differences - differences.mean(axis=-1, keepdims=True)
    sums = np.array([[np.bincount(place, of_run, len(names)) for of_run in of_set] for of_set in centred]) / size
    squares = sums.mean(axis=(0, 1)) ** 2
    independent = float((centred.mean(axis=(0, 1)) ** 2).mean()) / size
    return Pilot(
        metric=metric,
        sets=sets,
        runs=results.shape[1],
        dialogues=len(names),
        items=len(place),
        difference=float(differences.mean()),
        flips=float((differences != 0).mean()),
        flips_of_runs=float((np.diff(results, axis=1) != 0).mean()) if results.shape[1] > 1 else None,
        design_effect=float(squares.mean()) / independent if independent else 1.0,
        error=float(squares.std() / squares.mean()) / math.sqrt(len(names)) if squares.any() else 0.0,
        variance=replace(_components(sums), items=size),
    )


def _components(sums: Real) -> Variance:
    """Estimates the components from the deviations of dialogues, of shape (wordings, repeats, dialogues).

    What a pilot with one wording or one repeat cannot tell apart is in the components that remain.
    """
    wordings, repeats, dialogues = sums.shape
    of_dialogues = sums.mean(axis=(0, 1), keepdims=True)
    of_wordings = sums.mean(axis=1, keepdims=True) - of_dialogues
    of_repeats = sums.mean(axis=0, keepdims=True) - of_dialogues

    def mean_square(effect: Real, degrees: int) -> float:
        squares = float(np.square(effect).sum()) * wordings * repeats * dialogues / effect.size
        return float(squares / (max(degrees, 1) * (dialogues - 1)))

    dialogue, wording = mean_square(of_dialogues, 1), mean_square(of_wordings, wordings - 1)
    repeat = mean_square(of_repeats, repeats - 1)
    both = mean_square(sums - of_dialogues - of_wordings - of_repeats, (wordings - 1) * (repeats - 1))
    return Variance(
        dialogue=max((dialogue - wording - repeat + both) / (wordings * repeats), 0.0),
        wording=max((wording - both) / repeats, 0.0),
        repeat=max((repeat - both) / wordings, 0.0),
        both=both,
    )
