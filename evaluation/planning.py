"""Plans comparisons: how many dialogues, repeats and wordings show a difference, and which difference a study can show.

The planned analysis is the paired test of ``parapet compare``, in which whole dialogues change places; an item that is not
a turn of a dialogue counts as one. The difference on a dialogue, averaged over W wordings and R repeats, has the variance
``dialogue + wording / W + repeat / R + both / (W R)``. A pilot gives these components by analysis of variance
(dialogues x wordings x repeats, as in generalisability theory: Brennan 2001). As in ``compare``, the wordings are those of
the study, not a sample of others, so the variance does not include how hard each wording is on average.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from parapet.evaluation.compare.board import read_task
from parapet.evaluation.compare.kinds import main_metric
from parapet.evaluation.results import read_parquet, variants_of
from parapet.evaluation.sets import ORIGINAL
from parapet.schemas.errors import InputError, MissingExtra, no_such
from parapet.schemas.layout import as_path

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
      is_centred: False for mean squares, such as a share of flips, which include the difference itself.
    """

    dialogue: float
    wording: float = 0.0
    repeat: float = 0.0
    both: float = 0.0
    is_centred: bool = True

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
      design_effect: the variance of the difference, relative to what it would be if a dialogue's items were independent.
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

    Raises:
      MissingExtra: statsmodels is not installed.
    """
    planned = []
    for n_wordings in wordings:
        for n_repeats in repeats:
            square = variance.of_mean(n_wordings, n_repeats)
            # Swapped results spread around zero: the test's null distribution has the difference in its variance.
            total = square + goal.difference**2 * variance.is_centred
            needed = math.ceil(_solved(goal, effect_size=goal.difference / math.sqrt(total)))
            shown = None if dialogues is None else _visible(square, goal, dialogues, variance.is_centred)
            planned.append(Study(n_repeats, n_wordings, needed, shown))
    return planned


def _visible(square: float, goal: Goal, dialogues: int, is_centred: bool) -> float | None:
    """Computes the difference that the dialogues show; None if they are too few for any."""
    effect = _solved(goal, nobs=dialogues) if dialogues > 1 else 1.0
    return effect * math.sqrt(square / (1 - effect**2 * is_centred)) if effect < 1 else None


def _solved(goal: Goal, **known: float) -> float:
    """Solves the power of a paired t test, which the randomisation test approaches, for size or number."""
    try:
        from statsmodels.stats.power import TTestPower
    except ImportError:
        raise MissingExtra("statsmodels", "plan") from None

    return float(TTestPower().solve_power(power=goal.power, alpha=goal.alpha, **known))


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
    return Variance(flips, is_centred=False)


def read_pilot(paths: Sequence[str], metric: str = "", sets: Sequence[str] = ()) -> Pilot:
    """Reads outputs of ``parapet evaluate``: of two systems, or of one, whose original is compared with other wordings.

    Args:
      paths: one or two folders.
      metric: the metric; by default the main one of the task.
      sets: the wordings; by default the variants, or for two systems without variants the first set.

    Raises:
      InputError: the folders cannot be compared, or say nothing about the variance.
    """
    tasks = {path: read_task(path).task for path in paths}
    if len(set(tasks.values())) > 1:
        raise InputError(f"{' and '.join(tasks.values())} are different tasks: give scores of one task", "", "--scores")
    metric = metric or main_metric(tasks[paths[0]])
    systems = [_read_cells(path, metric) for path in paths]
    first, second = systems[0], systems[-1]
    names = list(sets) or variants_of(_sets_of(first)) or _sets_of(first)[: len(paths) - 1]
    if not names:
        raise InputError(f"has no variants: choose from {', '.join(_sets_of(first))}", paths[0], "--sets")
    originals = names if len(paths) > 1 else [ORIGINAL] * len(names)
    for path, system, wanted in ((paths[0], first, originals), (paths[-1], second, names)):
        for name in wanted:
            if name not in _sets_of(system):
                raise InputError(no_such("set", name, _sets_of(system)), path, "--sets")
    pairs = list(zip(originals, names, strict=True))
    all_runs = sorted({run for _, run in first})
    runs = [run for run in all_runs if all((a, run) in first and (b, run) in second for a, b in pairs)]
    cells = [of_set for a, b in pairs for run in runs for of_set in (first[a, run], second[b, run])]
    items = sorted(set.intersection(*map(set, cells))) if cells else []
    if len({item[0] for item in items}) < LEAST:
        raise InputError(f"a pilot needs at least {LEAST} dialogues that all its sets have", paths[-1], "--scores")
    results = np.array([[of_set[item] for item in items] for of_set in cells])
    return analyse(metric, names, results.reshape(len(names), len(runs), 2, -1), [item[0] for item in items])


def _sets_of(cells: Cells) -> list[str]:
    return list(dict.fromkeys(name for name, _ in cells))


def _read_cells(path: str, metric: str) -> Cells:
    """Reads the results of a metric, by set and run. Raises InputError if the rows do not have it."""
    folder = as_path(path)
    cells: Cells = {}
    for file in (*folder.glob("rows.parquet"), *sorted(folder.glob("rows/**/*.parquet"))):
        table = read_parquet(file)
        if metric not in table.column_names:
            numbers = [field.name for field in table.schema if str(field.type) == "double"]
            raise InputError(no_such("metric of single examples", metric, numbers), path, "--metric")
        columns = [table[name].to_pylist() for name in _KEYS if name in table.column_names]
        runs = table["run"].to_pylist() if "run" in table.column_names else [0] * len(table)
        rows = zip(table["set"].to_pylist(), runs, table[metric].to_pylist(), zip(*columns, strict=True), strict=True)
        for name, run, value, item in rows:
            if value is not None:
                cells.setdefault((name, run), {})[item] = value
    if not cells:
        raise InputError("contains no rows with results", path, "--scores")
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
        variance=_components(sums),
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
        return float((effect**2).mean()) * sums.size / (max(degrees, 1) * (dialogues - 1))

    dialogue, wording = mean_square(of_dialogues, 1), mean_square(of_wordings, wordings - 1)
    repeat = mean_square(of_repeats, repeats - 1)
    both = mean_square(sums - of_dialogues - of_wordings - of_repeats, (wordings - 1) * (repeats - 1))
    return Variance(
        dialogue=max((dialogue - wording - repeat + both) / (wordings * repeats), 0.0),
        wording=max((wording - both) / repeats, 0.0),
        repeat=max((repeat - both) / wordings, 0.0),
        both=both,
    )
