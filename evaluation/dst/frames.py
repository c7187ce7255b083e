"""Pairs the frames of dialogue files with predictions, checks and scores them one by one, and adds them up.

The metrics and aggregates are those of the official SGD scoring (Rastogi et al. 2020, section 5.2). Sums can be added
up by workers in any order.

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
import re
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import groupby, repeat
from operator import attrgetter
from typing import Any, Literal

import msgspec
import numpy as np
from msgspec import UNSET, UnsetType
from numpy.typing import NDArray
from rapidfuzz.distance import Indel

from parapet.evaluation.sets import parse_line, parse_lines
from parapet.evaluation.statistics import Policy, Real, Statistic, coefficient
from parapet.schemas.dialogue import Action, decode_dialogues
from parapet.schemas.errors import InputError
from parapet.schemas.limits import MAX_DIALOGUE_FILE, check_plain
from parapet.schemas.service import Service
from parapet.transforms.core.inputs import open_plain, read_input

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
JOINT = METRICS.index("joint_goal_accuracy")  # this and all following metrics are products over slots

LONGEST = 1_000  # longer predicted values are cut in rows, and their scores are not cached
NA = math.nan  # a metric that a frame does not have, and that is ignored


class State(msgspec.Struct):
    """The dialogue state of a frame. Only the first value of each predicted slot is scored.

    Attributes:
      answer: the raw answer of a language model; it is not scored.
      refused: whether the request to a language model was refused: there is no state, and the turn is not scored.
    """

    active_intent: str
    requested_slots: list[str]
    slot_values: dict[str, list[str]]
    answer: str | UnsetType = UNSET
    refused: bool | UnsetType = UNSET


class Slots(msgspec.Struct, frozen=True):
    """The slots of a service by type."""

    categorical: frozenset[str]
    free: frozenset[str]


def slots_of(service: Service) -> Slots:
    """Returns the slots of a service by type."""
    categorical = frozenset(slot.name for slot in service.slots if slot.is_categorical)
    return Slots(categorical, frozenset(slot.name for slot in service.slots) - categorical)


class Wrong(msgspec.Struct, frozen=True):
    """A slot with a score below 1.

    Reference values and predicted value are cut if long, and empty if there are none.
    """

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

    Joint goal accuracy is the *product* of the scores of all slots of the schema: a slot that neither state has scores
    1, a slot that only one state has scores 0, and fuzzy matching scores lie in between. Averages are over the slots
    that are active in the reference.

    Args:
      reference: the reference's state; ``predicted`` the prediction's.
      slots: the slots of the service.
      spans: (slot, text) of the reference and of the prediction; None if the prediction has none.
      fuzzy: whether free slots are matched fuzzily.

    Returns:
      The values of METRICS, NA if the frame does not have one; and the slots with a score below 1.
    """
    intent = float(reference.active_intent == predicted.active_intent)
    requested = f1_of(reference.requested_slots, predicted.requested_slots)
    tagging = (NA, NA, NA)
    if spans is not None:
        tagging = f1_of(*([span for span in spans_of_frame if span[0] in slots.free] for spans_of_frame in spans))
    categorical, of_categorical, wrong = _values(reference.slot_values, predicted.slot_values, slots.categorical, None)
    free, of_free, also = _values(reference.slot_values, predicted.slot_values, slots.free, fuzzy)
    average = (_mean([*categorical, *free]), _mean(categorical), _mean(free))
    joint = of_categorical * of_free if slots.categorical or slots.free else NA
    joints = (joint, of_categorical if slots.categorical else NA, of_free if slots.free else NA)
    return (intent, *requested, *tagging, *average, *joints), (*wrong, *also)


def _values(
    reference: Mapping[str, Sequence[str]],
    predicted: Mapping[str, Sequence[str]],
    slots: frozenset[str],
    fuzzy: bool | None,
) -> tuple[list[float], float, list[Wrong]]:
    """Returns the scores of the active slots, their product, and the wrong slots.

    For categorical slots (``fuzzy`` is None), only the first reference value is compared; for others, the best match
    counts.
    """
    active: list[float] = []
    wrong: list[Wrong] = []
    joint = 1.0
    for slot, values in reference.items():
        if slot not in slots:
            continue
        predicted_values = predicted.get(slot)
        if not predicted_values:
            score = 0.0
        elif fuzzy is None:
            score = float(values[:1] == predicted_values[:1])
        else:
            score = best_match(values, predicted_values[0], fuzzy)
        active.append(score)
        joint *= score
        if score < 1:
            wrong.append(Wrong(slot, tuple(values), _shown(predicted_values), score))
    for slot, predicted_values in predicted.items():
        if slot in slots and slot not in reference:
            joint = 0.0
            wrong.append(Wrong(slot, (), _shown(predicted_values), 0.0))
    return active, joint, wrong


def _shown(values: Sequence[str] | None) -> str:
    """Returns the first predicted value, cut if long, as in rows and pages."""
    value = values[0] if values else ""
    return value if len(value) <= LONGEST else f"{value[: LONGEST - 1]}\u2026"


def f1_of(reference: Sequence[object], predicted: Sequence[object]) -> tuple[float, float, float]:
    """Computes F1, precision and recall of two bags.

    Precision is 1 if nothing was predicted, recall 1 if nothing is right.
    """
    if reference == predicted:
        return 1.0, 1.0, 1.0
    both = sum((Counter(reference) & Counter(predicted)).values())
    precision = both / len(predicted) if predicted else 1.0
    recall = both / len(reference) if reference else 1.0
    return (2 * precision * recall / (precision + recall) if precision + recall else 0.0), precision, recall


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else NA


_NOT_ASCII = re.compile("[\x80-\xff]")
_NO_WORD = re.compile(r"\W")


def best_match(references: Sequence[str], predicted: str, fuzzy: bool = True) -> float:
    """Returns the best score of a prediction over the reference's alternatives, 0 to 1; 0 if there are none."""
    if predicted in references:
        return 1.0
    score = fuzzy_score if len(predicted) <= LONGEST else fuzzy_score.__wrapped__
    return max((score(reference, predicted) for reference in references), default=0.0) if fuzzy else 0.0


@lru_cache(maxsize=1 << 17)
def fuzzy_score(first: str, second: str) -> float:
    """Computes fuzzywuzzy's ``token_sort_ratio`` over 100: in whole percent, 1 for equal texts, 0 without letters.

    It compares the sorted lower-cased words, with other characters replaced by blanks and characters 128 to 255
    removed, as the release used by the official scoring did.
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
    return " ".join(sorted(_NO_WORD.sub(" ", _NOT_ASCII.sub("", text)).lower().split()))


class Span(msgspec.Struct):
    """The position of a value in the utterance. Copied slots have no position."""

    slot: str
    start: int | UnsetType = UNSET
    exclusive_end: int | UnsetType = UNSET


class Frame(msgspec.Struct):
    """The scored parts of a frame, and those that models see. A prediction without ``slots`` has no slot tagging."""

    service: str
    state: State | UnsetType = UNSET
    slots: list[Span] | UnsetType = UNSET
    actions: list[Action] | UnsetType = UNSET


class Turn(msgspec.Struct):
    """The scored parts of a turn."""

    speaker: Literal["USER", "SYSTEM"]
    frames: list[Frame]
    utterance: str | UnsetType = UNSET


class Dialogue(msgspec.Struct):
    """The scored parts of a dialogue."""

    dialogue_id: str
    turns: list[Turn]
    services: list[str] | UnsetType = UNSET


_decoder = msgspec.json.Decoder(list[Dialogue])


class Scored(msgspec.Struct, frozen=True):
    """A frame with its metrics.

    Attributes:
      turn: its position in the dialogue, from 0; ``frame`` is the position of the frame in the turn.
      values: the values of ``frames.METRICS``.
      wrong: the slots that lower the scores.
      intent: the active intents of the reference and of the prediction.
      active: the slots that have a value in the reference.
      refused: whether there is no prediction for a frame of its turn: no metric has a value.
    """

    dialogue_id: str
    turn: int
    frame: int
    service: str
    utterance: str
    values: tuple[float, ...]
    wrong: tuple[Wrong, ...]
    intent: tuple[str, str]
    active: tuple[str, ...] = ()
    refused: bool = False


class PassedOver(msgspec.Struct):
    """Counts of what the official scoring silently ignores."""

    missing_dialogues: int = 0
    missing_turns: int = 0
    unknown_slots: int = 0


def parse_dialogues(text: bytes, path: object) -> list[Dialogue]:
    """Parses the dialogues of a file. Raises InputError with file, place and reason."""
    return decode_dialogues(_decoder, text, path)


def dialogues_in_memory(dialogues: Iterable[Any], place: str) -> list[Dialogue]:
    """Checks dialogues in SGD's form as those of a file are checked.

    Args:
      dialogues: the dicts.
      place: for messages.

    Raises:
      InputError: they are not such dialogues.
    """
    return parse_dialogues(json_of(list(dialogues), place), place)


def json_of(value: Any, place: str) -> bytes:
    """Encodes a value as JSON. Raises InputError if that is impossible."""
    try:
        return msgspec.json.encode(value)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise InputError(f"cannot be represented as JSON: {error}", place) from None


class ScoreConfig(msgspec.Struct, frozen=True):
    """The settings of scoring.

    Attributes:
      fuzzy: whether free slots are matched fuzzily.
      official: whether to skip what the official scoring ignores: missing dialogues and turns, unknown slots.
    """

    fuzzy: bool = True
    official: bool = False


def score_dialogues(
    references: Iterable[Dialogue],
    predictions: Mapping[str, Dialogue],
    services: Mapping[str, Slots],
    config: ScoreConfig,
    path: object = "",
    passed_over: PassedOver | None = None,
) -> Iterator[list[Scored]]:
    """Scores the user frames of each dialogue.

    Args:
      references: the dialogues, with states.
      predictions: by dialogue id.
      services: the slots of each service.
      config: the settings of scoring.
      path: the path of the predictions, for messages.
      passed_over: with ``official``, its counts are increased.

    Raises:
      InputError: a dialogue, turn or frame is missing or differs, or a prediction cannot be read.
    """
    passed_over = PassedOver() if passed_over is None else passed_over
    for reference in references:
        predicted = predictions.get(reference.dialogue_id)
        if predicted is None:
            if not any(turn.frames for turn in reference.turns if turn.speaker == "USER"):
                yield []  # it has no frames that could be predicted
                continue
            if not config.official:
                raise InputError(f"there is no prediction for dialogue {reference.dialogue_id!r}", path)
            passed_over.missing_dialogues += 1
            continue
        try:
            yield list(_score(reference, predicted, services, config, passed_over))
        except InputError as error:
            raise InputError(error.reason, path, f"{reference.dialogue_id}{error.where}") from None


def _score(
    reference: Dialogue,
    predicted: Dialogue,
    services: Mapping[str, Slots],
    config: ScoreConfig,
    passed_over: PassedOver,
) -> Iterator[Scored]:
    short = len(reference.turns) - len(predicted.turns)
    if short > 0 and config.official:
        passed_over.missing_turns += short
    elif short:
        raise InputError(f"has {len(predicted.turns)} turns, but the reference has {len(reference.turns)}")
    for position, (turn, other) in enumerate(zip(reference.turns, predicted.turns, strict=False)):
        where = f" turns[{position}]"
        if turn.speaker != other.speaker:
            raise InputError(f"the speaker is {other.speaker}, but {turn.speaker} in the reference", "", where)
        if turn.speaker != "USER":
            continue
        if other.utterance is not UNSET and other.utterance != turn.utterance:
            reason = "the utterance differs from the reference: check that the predictions are for this set"
            raise InputError(reason, "", where)
        by_service = {frame.service: frame for frame in other.frames}
        refused = any(isinstance(frame.state, State) and frame.state.refused is True for frame in other.frames)
        if not config.official:
            _check_services([frame.service for frame in other.frames], services, where)
        utterance = turn.utterance if turn.utterance is not UNSET else ""
        for i, frame in enumerate(turn.frames):
            try:
                state, guess, slots = _states(frame, by_service, services)
                _check_state(guess, slots, config, passed_over)
            except InputError as error:
                raise InputError(error.reason, "", f"{where} {frame.service}") from None
            if refused:
                nothing, intents = (NA,) * len(METRICS), (state.active_intent, "")
                yield Scored(
                    reference.dialogue_id, position, i, frame.service, utterance, nothing, (), intents, refused=True
                )
                continue
            spans = by_service[frame.service].slots
            texts = None if spans is UNSET else (_texts(frame.slots, utterance), _texts(spans, utterance))
            values, wrong = score_frame(state, guess, slots, texts, config.fuzzy)
            intents = state.active_intent, guess.active_intent
            active = tuple(slot for slot in state.slot_values if slot in slots.categorical or slot in slots.free)
            yield Scored(reference.dialogue_id, position, i, frame.service, utterance, values, wrong, intents, active)


def _states(frame: Frame, predicted: Mapping[str, Frame], services: Mapping[str, Slots]) -> tuple[State, State, Slots]:
    """Returns a frame's state, the predicted state, and the service's slots. Raises InputError if one is missing."""
    other, slots = predicted.get(frame.service), services.get(frame.service)
    if slots is None:
        raise InputError("the schemas of the reference do not have this service")
    if frame.state is UNSET:
        raise InputError("the reference has no state in this frame")
    if other is None:
        only = f", only of: {', '.join(predicted)}" if predicted else ""
        raise InputError(f"there is no frame of this service in the turn{only}")
    if other.state is UNSET:
        raise InputError("the frame has no state")
    return frame.state, other.state, slots


def _check_services(predicted: Sequence[str], services: Container[str], where: str) -> None:
    for i, name in enumerate(predicted):
        if name not in services:
            raise InputError("the schemas of the reference do not have this service", "", f"{where} {name}")
        if name in predicted[:i]:
            raise InputError("this service appears twice", "", f"{where} {name}")


def _check_state(state: State, slots: Slots, config: ScoreConfig, passed_over: PassedOver) -> None:
    for slot, values in state.slot_values.items():
        if slot not in slots.categorical and slot not in slots.free:
            if not config.official:
                raise InputError(f"the service has no slot {slot!r}")
            passed_over.unknown_slots += 1
        elif not values:
            raise InputError(f"slot {slot!r} has an empty list: leave out the slot, or give a value")


def _texts(spans: Sequence[Span] | UnsetType, utterance: str) -> list[tuple[str, str]]:
    return [
        (span.slot, utterance[span.start : span.exclusive_end])
        for span in (spans or ())
        if isinstance(span.start, int) and isinstance(span.exclusive_end, int)
    ]


class Line(msgspec.Struct, forbid_unknown_fields=False):
    """A line of JSON: a state predicted after a user turn.

    Attributes:
      turn: the position in the dialogue's turns, from 0.
      service: named as in the reference's frame.
      set: the set of the dialogue; optional.
      slots: spans in the utterance, for slot tagging; optional.
    """

    dialogue_id: str
    turn: int
    service: str
    state: State
    slots: list[Span] | UnsetType = UNSET
    set: str = ""


Predicted = Dialogue | Line

_MARK = b"\xef\xbb\xbf"

_line = msgspec.json.Decoder(Line)
_split = msgspec.json.Decoder(list[msgspec.Raw]).decode


class FilePart(msgspec.Struct, frozen=True):
    """A range of lines or dialogues in a file. Workers exchange these rather than the values, which may be long."""

    path: str
    start: int
    end: int


def read_predictions(path: str) -> Iterator[Predicted]:
    """Reads the predictions of a file. Raises InputError with file, line or place, and reason."""
    return (prediction for prediction, _ in read_parts(path))


def read_parts(path: str, set_name: str = "") -> Iterator[tuple[Predicted, FilePart]]:
    """Reads the predictions of a file, each with its part of the file.

    Args:
      path: the path of the file.
      set_name: the set that is scored; ``""`` accepts lines of any set.

    Raises:
      InputError: a line or dialogue cannot be read, or a line belongs to another set.
    """
    if not path.endswith(".jsonl"):
        data, end = read_input(path, MAX_DIALOGUE_FILE), 0
        for dialogue, item in zip(parse_dialogues(data, path), _split(data.removeprefix(_MARK)), strict=True):
            start = data.index(bytes(item), end)
            end = start + len(bytes(item))
            yield dialogue, FilePart(path, start, end)
        return
    with open_plain(path) as handle:
        check_plain(handle.read(8), path)
        end = handle.seek(0)
        for number, line in parse_lines(handle, _line, path):
            if set_name and line.set not in ("", set_name):
                reason = f"belongs to set {line.set!r}, but is among the predictions for {set_name!r}"
                raise InputError(reason, path, f"line {number}")
            start, end = end, handle.tell()
            yield line, FilePart(path, start, end)


def predictions_in(parts: Iterable[FilePart]) -> Iterator[Predicted]:
    """Reads the predictions in parts of files. Parts of a file must be adjacent."""
    for path, of_file in groupby(parts, attrgetter("path")):
        with open_plain(path) as handle:
            for part in of_file:
                handle.seek(part.start)
                if not path.endswith(".jsonl"):
                    yield from parse_dialogues(b"[%b]" % handle.read(part.end - part.start), path)
                    continue
                for _, line in parse_lines(handle, _line, path):
                    yield line
                    if handle.tell() >= part.end:
                        break


def predictions_in_memory(given: Iterable[Any], place: str) -> list[Predicted]:
    """Reads predictions in memory: any mix of dialogues in SGD's form and lines, as dicts.

    Raises InputError, with ``place``, for anything else.
    """
    if isinstance(given, str | bytes | Mapping) or not isinstance(given, Iterable):
        raise InputError(f"expected dialogues, found {type(given).__name__}", place)
    return [_one(item, f"{place}[{i}]") for i, item in enumerate(given)]


def _one(item: Any, place: str) -> Predicted:
    if not isinstance(item, Mapping):
        raise InputError(f"expected a dict, found {type(item).__name__}", place)
    if "turns" in item:
        return dialogues_in_memory([item], place)[0]
    return parse_line(json_of(item, place), _line, place, "")


def as_dialogues(references: Iterable[Dialogue], predicted: Sequence[Predicted], path: object) -> dict[str, Dialogue]:
    """Returns predictions by dialogue id; lines become dialogues with the turns of their reference.

    Args:
      references: the dialogues of a file.
      predicted: the predictions for them.
      path: for messages.

    Raises:
      InputError: something is predicted twice, or a line is not for a user turn.
    """
    dialogues: dict[str, Dialogue] = {}
    lines: dict[str, list[Line]] = {}
    for prediction in predicted:
        if isinstance(prediction, Line):
            lines.setdefault(prediction.dialogue_id, []).append(prediction)
        elif prediction.dialogue_id in dialogues:
            raise InputError(f"dialogue {prediction.dialogue_id!r} appears twice", path)
        else:
            dialogues[prediction.dialogue_id] = prediction
    if lines:
        by_id = {reference.dialogue_id: reference for reference in references}
        for dialogue_id, turns_of_dialogue in lines.items():
            if dialogue_id in dialogues:
                raise InputError(f"dialogue {dialogue_id!r} appears twice", path)
            dialogues[dialogue_id] = _from_lines(by_id.get(dialogue_id), dialogue_id, turns_of_dialogue, path)
    return dialogues


def _from_lines(reference: Dialogue | None, dialogue_id: str, lines: Sequence[Line], path: object) -> Dialogue:
    if reference is None:
        return Dialogue(dialogue_id, [])
    frames: dict[int, dict[str, Frame]] = {}
    for line in lines:
        where = f"{dialogue_id} turn {line.turn}"
        if not 0 <= line.turn < len(reference.turns) or reference.turns[line.turn].speaker != "USER":
            raise InputError("is not a user turn: turns count from 0, including those of the system", path, where)
        frames_of_turn = frames.setdefault(line.turn, {})
        if line.service in frames_of_turn:
            raise InputError(f"service {line.service} appears twice", path, where)
        frames_of_turn[line.service] = Frame(line.service, line.state, line.slots)
    turns = [Turn(turn.speaker, list(frames.get(i, {}).values())) for i, turn in enumerate(reference.turns)]
    return Dialogue(dialogue_id, turns)


def check_known(references: Iterable[Dialogue], predictions: Mapping[str, Dialogue], path: object) -> None:
    """Raises InputError if there are predictions for dialogues that the reference does not have."""
    unknown = sorted(predictions.keys() - {reference.dialogue_id for reference in references})
    if unknown:
        raise InputError(f"contains {len(unknown)} dialogues that the reference lacks, such as {unknown[0]!r}", path)


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
    totals = merged({key: _sums(values)} for service, values in by_service.items() for key in keys_of(service, seen))
    return {key: [*sums[:JOINT], *_sums(by_turn[key])] for key, sums in totals.items()} if across_turn else totals


def products(frames: Sequence[Scored], seen: frozenset[str]) -> Iterator[tuple[str, tuple[float, ...]]]:
    """Yields, for each turn and aggregate, the products of the joint accuracies of its frames."""
    turns: dict[tuple[int, str], list[tuple[float, ...]]] = {}
    for frame in frames:
        for key in keys_of(frame.service, seen):
            turns.setdefault((frame.turn, key), []).append(frame.values[JOINT:])
    for (_, key), rows in turns.items():
        known = [[value for value in column if not math.isnan(value)] for column in zip(*rows, strict=True)]
        yield key, tuple(math.prod(column) if column else math.nan for column in known)


def metric_values(
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
    by_key: Totals = {}
    for total in totals:
        for key, sums in total.items():
            before = by_key.get(key)
            by_key[key] = (
                list(sums) if before is None else [(a + b, m + n) for (a, m), (b, n) in zip(before, sums, strict=True)]
            )
    return by_key


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

    def statistic(self, policy: Policy, metric: int, key: str) -> Statistic:
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
