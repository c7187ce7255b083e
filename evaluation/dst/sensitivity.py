"""Schema sensitivity (SGD-X, Lee et al. 2022, section 4): how much a metric varies over the variants of a schema.

Of a frame, it is the coefficient of variation of the metric over the K variants: their sample standard deviation over
their mean; of a set, the mean over its frames. Where all K values are zero it is not defined: there are two readings,
and a third question is what is counted, frames or turns. The paper names neither, so every result names both.

Worked by hand: one frame, a joint goal accuracy of 1, 1, 1, 0, 0 under v1 to v5. The mean is 0.6, the sample variance
(3 * 0.16 + 2 * 0.36) / 4 = 0.3, the deviation 0.5477, the coefficient 0.5477 / 0.6 = 0.9129. A second frame, wrong
under all five, has none: with ``drop`` the schema sensitivity of the two is 0.9129, with ``zero`` it is 0.4564.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

from parapet.evaluation.dst.files import Scored
from parapet.evaluation.dst.frames import JOINT, METRICS, NA
from parapet.evaluation.dst.totals import Totals, keys_of, total
from parapet.schemas.errors import InputError

Unit = Literal["frame", "turn"]
Policy = Literal["drop", "zero"]
UNITS: tuple[Unit, ...] = ("frame", "turn")
POLICIES: tuple[Policy, ...] = ("drop", "zero")


def coefficient(values: Sequence[float]) -> float:
    """Sample standard deviation over mean; NA where the mean is 0, or where there are fewer than two values.

    >>> round(coefficient([1, 1, 1, 0, 0]), 4)
    0.9129
    >>> coefficient([0.5, 0.5])
    0.0
    """
    mean = math.fsum(values) / len(values) if values else 0.0
    if len(values) < 2 or mean == 0:
        return NA
    variance = math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1)
    return math.sqrt(variance) / mean


def coefficients(variants: Sequence[Sequence[Scored]], unit: Unit) -> list[tuple[Scored, list[float], list[float]]]:
    """The coefficients of a dialogue's frames, or turns.

    Args:
      variants: the frames of the dialogue under each variant, in the same order.
      unit: what has a coefficient. A turn's joint accuracies are the products of its frames', other metrics the means.

    Returns:
      For each unit a frame of the first variant that stands for it, the coefficient of each metric, and the mean over
      the variants, both NA where a variant has no value.
    """
    found = []
    for group in _groups(variants, unit):
        columns = list(zip(*(_joined(frames) for frames in group), strict=True))
        known = [[] if any(map(math.isnan, column)) else column for column in columns]
        found.append((group[0][0], [coefficient(one) for one in known], [_mean(one) for one in known]))
    return found


def _groups(variants: Sequence[Sequence[Scored]], unit: Unit) -> Iterable[list[list[Scored]]]:
    if unit == "frame":
        return [[[frame] for frame in frames] for frames in zip(*variants, strict=True)]
    by_turn: dict[int, list[list[Scored]]] = {}
    for i, frames in enumerate(variants):
        for frame in frames:
            by_turn.setdefault(frame.turn, [[] for _ in variants])[i].append(frame)
    return list(by_turn.values())


def _joined(frames: Sequence[Scored]) -> list[float]:
    if len(frames) == 1:
        return list(frames[0].values)
    columns = list(zip(*(frame.values for frame in frames), strict=True))
    return [
        (math.prod(known) if i >= JOINT else _mean(known)) if (known := [one for one in column if one == one]) else NA
        for i, column in enumerate(columns)
    ]


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values) if values else NA


def aligned(sets: Sequence[Sequence[Sequence[Scored]]]) -> list[list[Sequence[Scored]]]:
    """The dialogues that all sets have, each with its frames under every set.

    Raises:
      InputError: a dialogue has other user turns or frames in one set than in another.
    """
    by_id = [{frames[0].dialogue_id: frames for frames in dialogues if frames} for dialogues in sets]
    found = []
    for dialogue_id in by_id[0]:
        if all(dialogue_id in of for of in by_id):
            under = [of[dialogue_id] for of in by_id]
            if len({tuple((frame.turn, frame.frame) for frame in frames) for frames in under}) > 1:
                reason = "the sets do not have the same user turns and frames: they cannot be compared"
                raise InputError(reason, "", f"dialogue {dialogue_id!r}")
            found.append(under)
    return found


def add_up(
    dialogues: Iterable[Sequence[Sequence[Scored]]], services: Mapping[str, str], seen: frozenset[str]
) -> dict[str, Totals]:
    """Sums of coefficients over dialogues, for each unit and policy (``frame/drop``).

    Args:
      dialogues: of each, the frames under each variant.
      services: the original's name of each service of the first variant.
      seen: the original's services that train has.
    """
    values: dict[str, dict[str, list[list[float]]]] = {f"{u}/{p}": {} for u in UNITS for p in POLICIES}
    for variants in dialogues:
        for unit in UNITS:
            for frame, found, means in coefficients(variants, unit):
                for key in keys_of(services[frame.service], seen):
                    for i, (one, average) in enumerate(zip(found, means, strict=True)):
                        if math.isnan(average):
                            continue
                        for policy in POLICIES:
                            if one == one or policy == "zero":
                                lists = values[f"{unit}/{policy}"].setdefault(key, [[] for _ in METRICS])
                                lists[i].append(one if one == one else 0.0)
    return {name: {key: [total(one) for one in lists] for key, lists in of.items()} for name, of in values.items()}
