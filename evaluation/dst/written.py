"""Writes the dialogues of a set with predicted states."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from parapet.evaluation.dst.frames import Dialogue, Frame, State, Turn


def json_of(references: Iterable[Dialogue], predictions: dict[str, Dialogue]) -> tuple[bytes, int]:
    """Encodes dialogues as the items of a JSON list; also returns the number of frames in user turns.

    Args:
      references: the dialogues, with utterances.
      predictions: the same dialogues with predicted states, by dialogue id.
    """
    dialogues = [with_texts(dialogue, predictions[dialogue.dialogue_id]) for dialogue in references]
    data = b",\n".join(msgspec.json.encode(in_order(dialogue)) for dialogue in dialogues)
    return data, frames_in(dialogues)


def with_texts(reference: Dialogue, prediction: Dialogue) -> Dialogue:
    """Adds the reference's utterances and services to a prediction, as in the SGD format."""
    turns = [
        Turn(turn.speaker, other.frames, turn.utterance)
        for turn, other in zip(reference.turns, prediction.turns, strict=True)
    ]
    return Dialogue(reference.dialogue_id, turns, reference.services)


def frames_in(dialogues: Iterable[Dialogue]) -> int:
    """Counts the frames of user turns."""
    return sum(len(turn.frames) for dialogue in dialogues for turn in dialogue.turns if turn.speaker == "USER")


def in_order(dialogue: Dialogue) -> Dialogue:
    """Sorts the slots of all states alphabetically, so that their order does not depend on the model."""
    turns = [Turn(turn.speaker, [_in_order(frame) for frame in turn.frames], turn.utterance) for turn in dialogue.turns]
    return Dialogue(dialogue.dialogue_id, turns, dialogue.services)


def _in_order(frame: Frame) -> Frame:
    if not isinstance(frame.state, State):
        return frame
    values = dict(sorted(frame.state.slot_values.items()))
    requested = sorted(frame.state.requested_slots)
    state = msgspec.structs.replace(frame.state, requested_slots=requested, slot_values=values)
    return Frame(frame.service, state, frame.slots)
