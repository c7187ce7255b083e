"""Metrics over many frames: the aggregates of the official scoring, as sums that workers can add up in any order.

Schema sensitivity (SGD-X, Lee et al. 2022, equations 1 to 3) measures how much a metric varies over schema variants.
For a frame, it is the coefficient of variation of the metric over the K variants: their sample standard deviation
divided by their mean; for a set, the mean over its frames, as the official scoring averages joint goal accuracy.
Numbers are shares: 0.404 is printed as 40.4 in the paper.

The paper leaves open what 0 / 0 is, if all K values are zero. Equation 1 is over all turns, and the section on services
calls the sensitivity of a service low that is always predicted wrong (Flights_4). So ``zero``, the default, counts such
a frame as 0. ``drop`` leaves it out.

A worked example: one frame with a joint goal accuracy of 1, 1, 1, 0, 0 under v1 to v5. The mean is 0.6, the sample
variance (3 * 0.16 + 2 * 0.36) / 4 = 0.3, the deviation 0.5477, the coefficient 0.5477 / 0.6 = 0.9129. With a second
frame, wrong under all five, schema sensitivity is 0.4564 with ``zero`` and 0.9129 with ``drop``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import repeat
from typing import Any, Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from parapet.evaluation import bootstrap
from parapet.evaluation.dst.frames import JOINT, METRICS, Scored
from parapet.schemas.errors import InputError

ALL, SEEN, UNSEEN = AGGREGATES = "#ALL_SERVICES", "#SEEN_SERVICES", "#UNSEEN_SERVICES"

_POINT = 70  # binary digits after the point; sums of whole numbers are equal to the last bit in any order

# The sum of a metric's values, in units of 2 ** -70, and the number of values.
Sum = tuple[int, int]
# Aggregate to a sum for each metric.
Totals = dict[str, list[Sum]]


def keys_of(service: str, seen: frozenset[str]) -> tuple[str, ...]:
    """Returns the aggregates that include a frame: all, seen or unseen, its service, its domain."""
    domain = service.split("_")[0]
    known = SEEN if service in seen else UNSEEN
    return (ALL, known, service) if domain == service else (ALL, known, service, domain)


def total(values: Sequence[float]) -> Sum:
    """Sums values. Each is rounded by itself, so the sum does not depend on how values are divided into files."""
    return sum(map(int, map(math.ldexp, values, repeat(_POINT)))), len(values)


def mean(of: Sum) -> float:
    """Computes the mean. Raises ZeroDivisionError if there are no values."""
    return of[0] / (of[1] << _POINT)


def add_up(dialogues: Iterable[Sequence[Scored]], seen: frozenset[str], across_turn: bool = False) -> Totals:
    """Sums metrics over the frames of dialogues.

    Args:
      dialogues: the frames of each dialogue.
      seen: the services of the training schema.
      across_turn: whether joint accuracies are first multiplied over a turn's frames, as in MultiWOZ's evaluation.
    """
    by_service: dict[str, list[tuple[float, ...]]] = {}
    by_turn: dict[str, list[tuple[float, ...]]] = {}
    for frames in dialogues:
        for frame in frames:
            by_service.setdefault(frame.service, []).append(frame.values)
        if across_turn:
            for key, joint in products(frames, seen):
                by_turn.setdefault(key, []).append(joint)
    totals = merged(
        {key: _sums(frames_here)} for service, frames_here in by_service.items() for key in keys_of(service, seen)
    )
    return {key: [*sums[:JOINT], *_sums(by_turn[key])] for key, sums in totals.items()} if across_turn else totals


def products(frames: Sequence[Scored], seen: frozenset[str]) -> Iterator[tuple[str, tuple[float, ...]]]:
    """Yields, for each turn and aggregate, the products of the joint accuracies of its frames."""
    turns: dict[tuple[int, str], list[tuple[float, ...]]] = {}
    for frame in frames:
        for key in keys_of(frame.service, seen):
            turns.setdefault((frame.turn, key), []).append(frame.values[JOINT:])
    for (_, key), frames_here in turns.items():
        known = [[value for value in column if not math.isnan(value)] for column in zip(*frames_here, strict=True)]
        yield key, tuple(math.prod(column) if column else math.nan for column in known)


def statistics(
    dialogues: Iterable[Sequence[Scored]], seen: frozenset[str], across_turn: bool, metric: str
) -> dict[str, tuple[list[str], list[float]]]:
    """Returns, for each aggregate, the dialogue ids and the values whose mean is the metric; NaN values are ignored."""
    column = METRICS.index(metric)
    values: dict[str, tuple[list[str], list[float]]] = {}
    for frames in dialogues:
        if across_turn and column >= JOINT:
            of_dialogue = [(key, joint[column - JOINT]) for key, joint in products(frames, seen)]
        else:
            of_dialogue = [(key, frame.values[column]) for frame in frames for key in keys_of(frame.service, seen)]
        for key, value in of_dialogue:
            dialogue_ids, of_key = values.setdefault(key, ([], []))
            dialogue_ids.append(frames[0].dialogue_id)
            of_key.append(value)
    return values


def _sums(values: Iterable[tuple[float, ...]]) -> list[Sum]:
    return [total([value for value in column if not math.isnan(value)]) for column in zip(*values, strict=True)]


def add_up_slots(dialogues: Iterable[Sequence[Scored]]) -> Totals:
    """Sums, for each service and slot (``Hotels_1<tab>city``), its scores over the frames in which it is active."""
    values: dict[str, list[float]] = {}
    for frame in (frame for frames in dialogues for frame in frames):
        scores = {wrong.slot: wrong.score for wrong in frame.wrong}
        for slot in frame.active:
            values.setdefault(f"{frame.service}\t{slot}", []).append(scores.get(slot, 1.0))
    return {key: [total(values_of_slot)] for key, values_of_slot in values.items()}


def merged(totals: Iterable[Mapping[str, Sequence[Sum]]]) -> Totals:
    """Adds up several totals, in any order."""
    totals_here: Totals = {}
    for total in totals:
        for key, sums in total.items():
            before = totals_here.get(key)
            totals_here[key] = (
                list(sums) if before is None else [(a + b, m + n) for (a, m), (b, n) in zip(before, sums, strict=True)]
            )
    return totals_here


def means(totals: Mapping[str, Sequence[Sum]]) -> dict[str, dict[str, float]]:
    """Averages the sums: aggregate to the mean of each metric that it has, sorted, as in the official scoring."""
    return {
        key: {name: mean(sums) for name, sums in sorted(zip(METRICS, totals[key], strict=True)) if sums[1]}
        for key in sorted(totals)
    }


def slot_accuracy(totals: Mapping[str, Sequence[Sum]]) -> dict[str, dict[str, float]]:
    """Averages the sums of :func:`add_up_slots`: service to slot to accuracy."""
    accuracies: dict[str, dict[str, float]] = {}
    for key in sorted(totals):
        service, _, slot = key.partition("\t")
        accuracies.setdefault(service, {})[slot] = mean(totals[key][0])
    return accuracies


Policy = Literal["zero", "drop"]
POLICIES: tuple[Policy, ...] = ("zero", "drop")

Real = NDArray[np.float64]


def coefficient(values: Any) -> Real:
    """Computes sample standard deviation over mean along the first axis, of at least two values; 0 if all are equal.

    >>> print(coefficient([[1.0, 0.5, 0], [1, 0.5, 0], [1, 0.5, 0], [0, 0.5, 0], [0, 0.5, 0]]).round(4))
    [0.9129 0.     0.    ]
    """
    values = np.asarray(values, dtype=float)
    with bootstrap.quiet():
        real: Real = values.std(axis=0, ddof=1) / values.mean(axis=0)
    return np.where(np.ptp(values, axis=0) == 0, 0.0, real)


class Coefficients(msgspec.Struct, frozen=True):
    """The coefficients of variation of frames.

    Attributes:
      dialogue_ids: the dialogue of each frame.
      keys: the aggregates of each frame.
      values: the coefficient of each metric: shape (frames, metrics). NaN if a variant has no value.
      wrong: whether the metric is 0 under all variants: shape (frames, metrics).
    """

    dialogue_ids: list[str]
    keys: list[tuple[str, ...]]
    values: Real
    wrong: NDArray[np.bool_]

    def counted(self, policy: Policy) -> Real:
        """Returns the values that count: with ``drop``, not those of metrics that are 0 under all variants."""
        return np.where(self.wrong, np.nan, self.values) if policy == "drop" else self.values

    def statistic(self, policy: Policy, metric: int, key: str) -> bootstrap.Statistic:
        """Returns the values that the bootstrap resamples: the coefficients of a metric in an aggregate."""
        here = [i for i, keys in enumerate(self.keys) if key in keys]
        return [self.dialogue_ids[i] for i in here], self.counted(policy)[here, metric]


def measured(dialogues: Sequence[Sequence[Sequence[Scored]]], keys_of: Callable[[str], Sequence[str]]) -> Coefficients:
    """Computes the coefficients of the frames of dialogues.

    Args:
      dialogues: at least one; for each, the frames under each variant, in the same order.
      keys_of: returns the aggregates of a service of the first variant.
    """
    frames = [frame for variants in dialogues for frame in variants[0]]
    by_variant = zip(*dialogues, strict=True)
    values = np.array([[frame.values for frames in several for frame in frames] for several in by_variant], dtype=float)
    keys = [tuple(keys_of(frame.service)) for frame in frames]
    return Coefficients([frame.dialogue_id for frame in frames], keys, coefficient(values), np.all(values == 0, axis=0))


def aligned(sets: Sequence[Sequence[Sequence[Scored]]], flag: str = "") -> list[list[Sequence[Scored]]]:
    """Returns the dialogues that all sets have, each with its frames under every set.

    Args:
      sets: for each set, the frames of each dialogue.
      flag: the flag that names the sets, for messages.

    Raises:
      InputError: a dialogue has different user turns or frames in two sets.
    """
    by_id = [{frames[0].dialogue_id: frames for frames in dialogues if frames} for dialogues in sets]
    rows = []
    for dialogue_id in by_id[0]:
        if all(dialogue_id in ids for ids in by_id):
            under = [ids[dialogue_id] for ids in by_id]
            if len({tuple((frame.turn, frame.frame) for frame in frames) for frames in under}) > 1:
                reason = "the sets cannot be compared, because their user turns or frames differ"
                raise InputError(reason, flag, f"dialogue {dialogue_id!r}")
            rows.append(under)
    return rows


def add_up_coefficients(coefficients: Coefficients, policy: Policy) -> Totals:
    """Sums the coefficients of each aggregate."""
    rows: dict[tuple[str, ...], list[tuple[float, ...]]] = {}
    for keys, row in zip(coefficients.keys, coefficients.counted(policy).tolist(), strict=True):
        rows.setdefault(keys, []).append(row)
    return merged({key: _sums(rows_of_keys)} for keys, rows_of_keys in rows.items() for key in keys)
