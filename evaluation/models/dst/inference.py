"""State trackers by name, and their predictions: dialogues in the SGD format with predicted states."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from importlib import import_module
from typing import Any, Protocol, runtime_checkable

import msgspec

from parapet.evaluation.dst.frames import Dialogue, Frame, State, Turn
from parapet.evaluation.dst.model import Example, Model, predicted
from parapet.evaluation.models import inference
from parapet.evaluation.models.devices import enough_memory
from parapet.evaluation.models.inference import Answers, Dialogues, Part

CHUNK = 32  # dialogues

# Each has check(folder) and load(folder, device, batch).
MODULES = {
    "tiny_dst": "parapet.evaluation.models.dst.tiny",
    "t5dst": "parapet.evaluation.models.dst.t5",
    "sgp_dst": "parapet.evaluation.models.dst.sgp.tracking",
}


@runtime_checkable
class Limited(Protocol):
    """A tracker that reads a limited number of tokens."""

    def tracked(self, batch: Sequence[Example]) -> tuple[list[State], int]:
        """The state of each example; and how many of its inputs were too long, so that their dialogue was cut off."""


def check(folder: str, model: str) -> None:
    """Looks at a folder, without its weights. Raises InputError where ``model`` is not in it."""
    import_module(MODULES[model]).check(folder)


def load(folder: str, model: str, device: str, batch: int) -> Model:
    """The model in a folder, ready to predict.

    Args:
      folder: as ``parapet train`` wrote it.
      model: its name.
      device: ``auto``, ``cpu`` or ``cuda``.
      batch: what it computes at a time.

    Raises:
      InputError: it is not there, of another kind, or damaged.
    """
    tracker: Model = import_module(MODULES[model]).load(folder, device, batch)
    return tracker


class Counting:
    """A tracker for one chunk, which counts the inputs that were too long.

    Each chunk has its own, as the threads of a worker share the tracker.

    Args:
      tracker: the tracker.
    """

    def __init__(self, tracker: Model) -> None:
        self.tracker, self.cut = tracker, 0

    def predict(self, batch: Sequence[Example]) -> Sequence[Any]:
        """The state of each example."""
        if not isinstance(self.tracker, Limited):
            return self.tracker.predict(batch)
        states, cut = self.tracker.tracked(batch)
        self.cut += cut
        return states


class Job(inference.DialoguesJob[Model], frozen=True, kw_only=True):
    """What is predicted."""

    chunk_size = CHUNK

    def asked(self, chunk: Dialogues) -> dict[str, int]:
        """The frames of user turns."""
        return {f"asked/{chunk.file.set}": frames_in(chunk.dialogues)}

    def load(self) -> Model:
        """The tracker."""
        return load(self.folder, self.model, self.device, self.batch_size)

    def answer(self, model: Model, chunk: Dialogues) -> Answers:
        """The dialogues with predicted states; counts the frames, and inputs that were too long."""
        counting = Counting(model)
        # The model makes its own batches: it knows which examples are alike.
        everything = sum(len(turn.frames) for dialogue in chunk.dialogues for turn in dialogue.turns) or 1
        name = chunk.file.set
        with enough_memory(f"lower --batch_size, which is {self.batch_size}"):
            states = predicted(counting, chunk.dialogues, self.sets[name].services, everything, self.model)
        dialogues = [with_texts(dialogue, states[dialogue.dialogue_id]) for dialogue in chunk.dialogues]
        data = b",\n".join(msgspec.json.encode(in_order(dialogue)) for dialogue in dialogues)
        counts = {f"predicted/{name}": frames_in(dialogues)}
        if counting.cut:
            counts[f"too_long/{name}"] = counting.cut
        return Answers([Part(chunk.file.predictions, (chunk.number,), data)], counts)


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
    state = State(frame.state.active_intent, sorted(frame.state.requested_slots), values)
    return Frame(frame.service, state, frame.slots)
