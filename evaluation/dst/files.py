"""A dialogue file and the predictions for it, frame by frame: what must match is checked before it is scored."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal

import msgspec
from msgspec import UNSET, UnsetType

from parapet.evaluation.dst.frames import Slots, State, Wrong, score_frame
from parapet.schemas.dialogue import Action, decode_dialogues
from parapet.schemas.errors import InputError


class Span(msgspec.Struct):
    """Where a value is. Copied slots have no place."""

    slot: str
    start: int | UnsetType = UNSET
    exclusive_end: int | UnsetType = UNSET


class Frame(msgspec.Struct):
    """A frame, as far as it is scored or models see it. A prediction without ``slots`` has no slot tagging."""

    service: str
    state: State | UnsetType = UNSET
    slots: list[Span] | UnsetType = UNSET
    actions: list[Action] | UnsetType = UNSET


class Turn(msgspec.Struct):
    """A turn, as far as it is scored."""

    speaker: Literal["USER", "SYSTEM"]
    frames: list[Frame]
    utterance: str | UnsetType = UNSET


class Dialogue(msgspec.Struct):
    """A dialogue, as far as it is scored."""

    dialogue_id: str
    turns: list[Turn]
    services: list[str] | UnsetType = UNSET


_decoder = msgspec.json.Decoder(list[Dialogue])


class Scored(msgspec.Struct, frozen=True):
    """A frame with its metrics.

    Attributes:
      turn: its position in the dialogue, from 0; ``frame`` that of the frame in the turn.
      values: of ``frames.METRICS``.
      wrong: the slots that lower the scores.
      intent: the active one of the reference, and the predicted one.
      active: the slots that have a value in the reference.
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


class PassedOver(msgspec.Struct):
    """Counts of what the official scoring ignores without a message."""

    missing_dialogues: int = 0
    missing_turns: int = 0
    unknown_slots: int = 0


def parse_dialogues(text: bytes, path: object) -> list[Dialogue]:
    """The dialogues of a file. Raises InputError with file, place and reason."""
    return decode_dialogues(_decoder, text, path)


def dialogues_in_memory(dialogues: Iterable[Any], place: str) -> list[Dialogue]:
    """Dialogues in SGD's form as dicts, checked as those of a file are.

    Args:
      dialogues: the dicts.
      place: for messages.

    Raises:
      InputError: they are not such dialogues.
    """
    return parse_dialogues(json_of(list(dialogues), place), place)


def json_of(value: Any, place: str) -> bytes:
    """A value as JSON. Raises InputError where JSON cannot have it."""
    try:
        return msgspec.json.encode(value)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise InputError(f"this cannot be JSON: {error}", place) from None


class ScoreConfig(msgspec.Struct, frozen=True):
    """How frames are scored.

    Attributes:
      fuzzy: whether free slots are matched fuzzily.
      official: passes over what the official scoring ignores: missing dialogues and turns, unknown slots.
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
      config: how frames are scored.
      path: of the predictions, for messages.
      passed_over: its counts are increased with ``official``.

    Raises:
      InputError: a dialogue, turn or frame is missing or differs, or a prediction cannot be read.
    """
    passed_over = PassedOver() if passed_over is None else passed_over
    for reference in references:
        predicted = predictions.get(reference.dialogue_id)
        if predicted is None:
            if not any(turn.frames for turn in reference.turns if turn.speaker == "USER"):
                yield []  # lines of predictions have none of its frames
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
        raise InputError(f"{len(predicted.turns)} turns, and the reference has {len(reference.turns)}")
    for position, (turn, other) in enumerate(zip(reference.turns, predicted.turns, strict=False)):
        where = f" turns[{position}]"
        if turn.speaker != other.speaker:
            raise InputError(f"the speaker is {other.speaker}, in the reference {turn.speaker}", "", where)
        if turn.speaker == "USER":
            if other.utterance is not UNSET and other.utterance != turn.utterance:
                raise InputError("the utterance is not the reference's: another set?", "", where)
            by_service = {frame.service: frame for frame in other.frames}
            if not config.official:
                _check_services([frame.service for frame in other.frames], services, where)
            for i, frame in enumerate(turn.frames):
                yield _scored(
                    reference.dialogue_id, position, i, turn, frame, by_service, services, config, passed_over
                )


def _scored(
    dialogue_id: str,
    position: int,
    i: int,
    turn: Turn,
    frame: Frame,
    predicted: Mapping[str, Frame],
    services: Mapping[str, Slots],
    config: ScoreConfig,
    passed_over: PassedOver,
) -> Scored:
    where = f" turns[{position}] {frame.service}"
    other = predicted.get(frame.service)
    slots = services.get(frame.service)
    if slots is None:
        raise InputError("the schemas of the reference do not have this service", "", where)
    if frame.state is UNSET:
        raise InputError("the reference has no state here", "", where)
    if other is None:
        raise InputError(f"no frame of this service; there are: {', '.join(predicted) or 'none'}", "", where)
    if other.state is UNSET:
        raise InputError("the frame has no state", "", where)
    _check_state(other.state, slots, config, passed_over, where)
    utterance = turn.utterance if turn.utterance is not UNSET else ""
    spans = None
    if other.slots is not UNSET:
        spans = _texts(frame.slots, utterance), _texts(other.slots, utterance)
    values, wrong = score_frame(frame.state, other.state, slots, spans, config.fuzzy)
    intents = frame.state.active_intent, other.state.active_intent
    active = tuple(slot for slot in frame.state.slot_values if slot in slots.categorical or slot in slots.free)
    return Scored(dialogue_id, position, i, frame.service, utterance, values, wrong, intents, active)


def _check_services(predicted: Sequence[str], services: Container[str], where: str) -> None:
    for i, name in enumerate(predicted):
        if name not in services:
            raise InputError("the schemas of the reference do not have this service", "", f"{where} {name}")
        if name in predicted[:i]:
            raise InputError("this service appears twice", "", f"{where} {name}")


def _check_state(state: State, slots: Slots, config: ScoreConfig, passed_over: PassedOver, where: str) -> None:
    for slot, values in state.slot_values.items():
        if slot not in slots.categorical and slot not in slots.free:
            if not config.official:
                raise InputError(f"the service has no slot {slot!r}", "", where)
            passed_over.unknown_slots += 1
        elif not values:
            raise InputError(f"slot {slot!r} has an empty list: leave it out, or give a value", "", where)


def _texts(spans: Sequence[Span] | UnsetType, utterance: str) -> list[tuple[str, str]]:
    return [
        (span.slot, utterance[span.start : span.exclusive_end])
        for span in (spans or ())
        if isinstance(span.start, int) and isinstance(span.exclusive_end, int)
    ]
