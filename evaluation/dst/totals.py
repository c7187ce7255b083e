"""Metrics over many frames: the aggregates of the official scoring, as sums that any worker can add up."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import repeat

from parapet.evaluation.dst.files import Scored
from parapet.evaluation.dst.frames import JOINT, METRICS

ALL, SEEN, UNSEEN = AGGREGATES = "#ALL_SERVICES", "#SEEN_SERVICES", "#UNSEEN_SERVICES"

_POINT = 70  # binary digits behind the point: of a sum, whole numbers can be added in any order to the same bits

# The sum of a metric's values, in units of 2 ** -70, and how many they are.
Sum = tuple[int, int]
# Per aggregate, a sum for each metric.
Totals = dict[str, list[Sum]]


def keys_of(service: str, seen: frozenset[str]) -> tuple[str, ...]:
    """The aggregates that a frame counts for: all, seen or unseen, its service, its domain."""
    domain = service.split("_")[0]
    known = SEEN if service in seen else UNSEEN
    return (ALL, known, service) if domain == service else (ALL, known, service, domain)


def total(values: Sequence[float]) -> Sum:
    """The sum of some values, the same however they are divided into files: each is rounded by itself."""
    return sum(map(int, map(math.ldexp, values, repeat(_POINT)))), len(values)


def mean(of: Sum) -> float:
    """The mean. Raises ZeroDivisionError where there are no values."""
    return of[0] / (of[1] << _POINT)


def add_up(dialogues: Iterable[Sequence[Scored]], seen: frozenset[str], across_turn: bool = False) -> Totals:
    """Sums over the frames of dialogues.

    Args:
      dialogues: the frames of each.
      seen: the services of the training schema.
      across_turn: joint accuracies are products over a turn's frames first, as in MultiWOZ's evaluation.
    """
    by_service: dict[str, list[tuple[float, ...]]] = {}
    by_turn: dict[str, list[tuple[float, ...]]] = {}
    for frames in dialogues:
        for frame in frames:
            by_service.setdefault(frame.service, []).append(frame.values)
        if across_turn:
            for key, joint in products(frames, seen):
                by_turn.setdefault(key, []).append(joint)
    found = merged({key: _sums(of)} for service, of in by_service.items() for key in keys_of(service, seen))
    return {key: [*sums[:JOINT], *_sums(by_turn[key])] for key, sums in found.items()} if across_turn else found


def products(frames: Sequence[Scored], seen: frozenset[str]) -> Iterator[tuple[str, tuple[float, ...]]]:
    """For each turn and aggregate, the products of the joint accuracies of the frames that count for it."""
    turns: dict[tuple[int, str], list[tuple[float, ...]]] = {}
    for frame in frames:
        for key in keys_of(frame.service, seen):
            turns.setdefault((frame.turn, key), []).append(frame.values[JOINT:])
    for (_, key), of in turns.items():
        known = [[value for value in column if not math.isnan(value)] for column in zip(*of, strict=True)]
        yield key, tuple(math.prod(column) if column else math.nan for column in known)


def statistics(
    dialogues: Iterable[Sequence[Scored]], seen: frozenset[str], across_turn: bool, metric: str
) -> dict[str, tuple[list[str], list[float]]]:
    """For each aggregate the values whose mean is a metric, with the dialogue of each; NaN does not count."""
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
    """For each service and slot (``Hotels_1<tab>city``) the sum of its scores over the frames in which it is active."""
    values: dict[str, list[float]] = {}
    for frame in (frame for frames in dialogues for frame in frames):
        scores = {wrong.slot: wrong.score for wrong in frame.wrong}
        for slot in frame.active:
            values.setdefault(f"{frame.service}\t{slot}", []).append(scores.get(slot, 1.0))
    return {key: [total(of)] for key, of in values.items()}


def merged(totals: Iterable[Mapping[str, Sequence[Sum]]]) -> Totals:
    """The sums of several, of any order."""
    found: Totals = {}
    for one in totals:
        for key, sums in one.items():
            before = found.get(key)
            found[key] = (
                list(sums) if before is None else [(a + b, m + n) for (a, m), (b, n) in zip(before, sums, strict=True)]
            )
    return found


def means(totals: Mapping[str, Sequence[Sum]]) -> dict[str, dict[str, float]]:
    """The official scoring's result: per aggregate, in order of its name, the mean of each metric that it has."""
    return {
        key: {name: mean(of) for name, of in sorted(zip(METRICS, totals[key], strict=True)) if of[1]}
        for key in sorted(totals)
    }


def slot_accuracy(totals: Mapping[str, Sequence[Sum]]) -> dict[str, dict[str, float]]:
    """Service to slot to its accuracy, from the sums of :func:`add_up_slots`."""
    found: dict[str, dict[str, float]] = {}
    for key in sorted(totals):
        service, _, slot = key.partition("\t")
        found.setdefault(service, {})[slot] = mean(totals[key][0])
    return found
