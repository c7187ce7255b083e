"""Predicted states as files have them: the dialogues of a set with the states of a model."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from parapet.evaluation.dst.frames import Dialogue, Frame, State, Turn


def json_of(references: Iterable[Dialogue], predictions: dict[str, Dialogue]) -> tuple[bytes, int]:
    """The items of a JSON list, and how many frames of user turns they have.

    Args:
      references: the dialogues, with their texts.
      predictions: the same with the states of a model, by dialogue id.
    """
    dialogues = [with_texts(dialogue, predictions[dialogue.dialogue_id]) for dialogue in references]
    data = b",\n".join(msgspec.json.encode(in_order(dialogue)) for dialogue in dialogues)
    return data, frames_in(dialogues)


def with_texts(reference: Dialogue, prediction: Dialogue) -> Dialogue:
    """A prediction with the utterances and services of its dialogue, as the SGD format has them."""
    turns = [
        Turn(turn.speaker, other.frames, turn.utterance)
        for turn, other in zip(reference.turns, prediction.turns, strict=True)
    ]
    return Dialogue(reference.dialogue_id, turns, reference.services)


def frames_in(dialogues: Iterable[Dialogue]) -> int:
    """How many frames of user turns there are."""
    return sum(len(turn.frames) for dialogue in dialogues for turn in dialogue.turns if turn.speaker == "USER")


def in_order(dialogue: Dialogue) -> Dialogue:
    """A dialogue whose states have their slots in alphabetical order, whatever the model did."""
    turns = [Turn(turn.speaker, [_in_order(frame) for frame in turn.frames], turn.utterance) for turn in dialogue.turns]
    return Dialogue(dialogue.dialogue_id, turns, dialogue.services)


def _in_order(frame: Frame) -> Frame:
    if not isinstance(frame.state, State):
        return frame
    values = dict(sorted(frame.state.slot_values.items()))
    state = State(frame.state.active_intent, sorted(frame.state.requested_slots), values, frame.state.answer)
    return Frame(frame.service, state, frame.slots)
