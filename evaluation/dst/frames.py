"""The metrics of one frame, as the official SGD scoring has them (Rastogi et al. 2020, section 5.2)."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import lru_cache

import msgspec
from rapidfuzz.distance import Indel

from parapet.schemas.service import Service

METRICS = (
    "active_intent_accuracy",
    "requested_slots_f1",
    "requested_slots_precision",
    "requested_slots_recall",
    "slot_tagging_f1",
    "slot_tagging_precision",
    "slot_tagging_recall",
    "average_goal_accuracy",
    "average_cat_accuracy",
    "average_noncat_accuracy",
    "joint_goal_accuracy",
    "joint_cat_accuracy",
    "joint_noncat_accuracy",
)
JOINT = METRICS.index("joint_goal_accuracy")  # it and what follows are products over slots

LONGEST = 1_000  # characters of a predicted value that rows show, and whose score is kept for the next frame
NA = math.nan  # a metric that a frame does not have; it does not count


class State(msgspec.Struct):
    """The dialogue state of a frame; of a slot's values, a prediction's first counts."""

    active_intent: str
    requested_slots: list[str]
    slot_values: dict[str, list[str]]


class Slots(msgspec.Struct, frozen=True):
    """The slots of a service, by what the metrics ask."""

    categorical: frozenset[str]
    free: frozenset[str]


def slots_of(service: Service) -> Slots:
    """The slots of a service."""
    categorical = frozenset(slot.name for slot in service.slots if slot.is_categorical)
    return Slots(categorical, frozenset(slot.name for slot in service.slots) - categorical)


class Wrong(msgspec.Struct, frozen=True):
    """A slot that costs: its reference's values and the predicted one, empty where it is not there, and cut if long."""

    slot: str
    reference: tuple[str, ...]
    predicted: str
    score: float


def score_frame(
    reference: State,
    predicted: State,
    slots: Slots,
    spans: tuple[Sequence[tuple[str, str]], Sequence[tuple[str, str]]] | None = None,
    fuzzy: bool = True,
) -> tuple[tuple[float, ...], tuple[Wrong, ...]]:
    """Scores a frame.

    Joint goal accuracy is the *product* of the scores of all slots of the schema: a slot off in both scores 1, off in
    one 0, so that with fuzzy matching it lies between. Averages are over the slots active in the reference.

    Args:
      reference: its state. ``predicted`` too.
      slots: of its service.
      spans: (slot, text) of the reference and of the prediction; None where the prediction has none.
      fuzzy: whether free slots are matched fuzzily.

    Returns:
      The values of METRICS, NA where the frame does not have one; and the slots that cost.
    """
    intent = float(reference.active_intent == predicted.active_intent)
    requested = f1_of(reference.requested_slots, predicted.requested_slots)
    tagging = (NA, NA, NA) if spans is None else _tagging(*spans, slots.free)
    categorical, wrong = _values(reference.slot_values, predicted.slot_values, slots.categorical, None)
    free, also = _values(reference.slot_values, predicted.slot_values, slots.free, fuzzy)
    average = (_mean([*categorical.active, *free.active]), _mean(categorical.active), _mean(free.active))
    joint = categorical.joint * free.joint if slots.categorical or slots.free else NA
    joints = (joint, categorical.joint if slots.categorical else NA, free.joint if slots.free else NA)
    return (intent, *requested, *tagging, *average, *joints), (*wrong, *also)


class _Scores(msgspec.Struct, frozen=True):
    active: list[float]
    joint: float


def _values(
    reference: Mapping[str, Sequence[str]],
    predicted: Mapping[str, Sequence[str]],
    slots: frozenset[str],
    fuzzy: bool | None,
) -> tuple[_Scores, list[Wrong]]:
    """Of categorical slots (``fuzzy`` is None) the first value decides, of others the best of the reference's."""
    active: list[float] = []
    wrong: list[Wrong] = []
    joint = 1.0
    for slot, values in reference.items():
        if slot not in slots:
            continue
        found = predicted.get(slot)
        if not found:
            score = 0.0
        elif fuzzy is None:
            score = float(values[:1] == found[:1])
        else:
            score = best_match(values, found[0], fuzzy)
        active.append(score)
        joint *= score
        if score < 1:
            wrong.append(Wrong(slot, tuple(values), _shown(found), score))
    for slot, found in predicted.items():
        if slot in slots and slot not in reference:
            joint = 0.0
            wrong.append(Wrong(slot, (), _shown(found), 0.0))
    return _Scores(active, joint), wrong


def _shown(values: Sequence[str] | None) -> str:
    """The first of the predicted values, as rows and pages have it."""
    value = values[0] if values else ""
    return value if len(value) <= LONGEST else f"{value[: LONGEST - 1]}\u2026"


def f1_of(reference: Sequence[object], predicted: Sequence[object]) -> tuple[float, float, float]:
    """F1, precision and recall of a bag against a bag; nothing predicted has precision 1, nothing to find recall 1."""
    if reference == predicted:
        return 1.0, 1.0, 1.0
    both = sum((Counter(reference) & Counter(predicted)).values())
    precision = both / len(predicted) if predicted else 1.0
    recall = both / len(reference) if reference else 1.0
    return (2 * precision * recall / (precision + recall) if precision + recall else 0.0), precision, recall


def _tagging(
    reference: Sequence[tuple[str, str]], predicted: Sequence[tuple[str, str]], free: frozenset[str]
) -> tuple[float, float, float]:
    return f1_of([one for one in reference if one[0] in free], [one for one in predicted if one[0] in free])


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else NA


_NOT_ASCII = re.compile("[\x80-\xff]")
_NO_WORD = re.compile(r"\W")


def best_match(references: Sequence[str], predicted: str, fuzzy: bool = True) -> float:
    """The best score of a prediction over the reference's alternatives, 0 to 1; 0 where there are none."""
    if predicted in references:
        return 1.0
    score = fuzzy_score if len(predicted) <= LONGEST else fuzzy_score.__wrapped__
    return max((score(one, predicted) for one in references), default=0.0) if fuzzy else 0.0


@lru_cache(maxsize=1 << 17)
def fuzzy_score(first: str, second: str) -> float:
    """fuzzywuzzy's ``token_sort_ratio`` over 100: in whole percent, 1 for equal texts, 0 where one has no letter.

    The similarity is that of the sorted words in small letters, the rest blanked out (characters 128 to 255 go
    altogether), as the release of the official scoring had it.
    """
    if first == second:
        return 1.0
    words = _sorted_words if len(second) <= LONGEST else _sorted_words.__wrapped__
    left, right = _sorted_words(first), words(second)
    if not left or not right:
        return 0.0
    return round(100 * Indel.normalized_similarity(left, right)) / 100


@lru_cache(maxsize=1 << 16)
def _sorted_words(text: str) -> str:
    words = _NO_WORD.sub(" ", _NOT_ASCII.sub("", text)).lower().split()
    return " ".join(sorted(words))
