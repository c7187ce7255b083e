"""Training data of state trackers: the frames of user turns with their states. Also measures a tracker's accuracy."""

import logging
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from parapet.evaluation.dst import frames as state_frames
from parapet.evaluation.dst.model import Example, Model, examples, predicted
from parapet.evaluation.models import inference, saving
from parapet.evaluation.models.inference import Answers, Dialogues, Examples, Part
from parapet.schemas import layout, limits
from parapet.schemas.errors import InputError
from parapet.schemas.service import Service
from parapet.transforms.core import inputs, seeding
from parapet.transforms.perturb.corpora import read_corpus


class Labelled(msgspec.Struct, frozen=True):
    """A frame of a user turn, and its reference state."""

    asked: Example
    state: state_frames.State

    @property
    def opening(self) -> str:
        """The first utterance of the dialogue, which all versions by ``parapet augment`` share, unlike their ids."""
        return self.asked.history[0][1]


class Openings:
    """Identifies the dialogue of a frame across all of its versions; frames must be passed in order.

    Versions by ``parapet augment`` share the first utterance, those in a perturbed corpus the id.
    """

    def __init__(self) -> None:
        self._of_ids: dict[str, str] = {}

    def __call__(self, frame: Labelled) -> str:
        """Returns the key that all frames of the dialogue share."""
        return self._of_ids.setdefault(frame.asked.dialogue_id, frame.opening)


def read_labels(root: str, split: str) -> Examples[Labelled]:
    """Reads the frames of the user turns of a split whose service is in the schema.

    Args:
      root: a corpus.
      split: the split, such as ``train``.

    Raises:
      InputError: a file cannot be read, or there is no such split, no frame, or no slot.
    """
    corpus = read_corpus(root, [split])
    for problem in corpus.problems:
        logging.warning("%s", problem)
    schemas = {schemas.split: schemas for schemas in layout.read_root(root, leave_out_bad=True)}
    here = schemas.get(split) or next(iter(schemas.values()))
    services = {service.service_name: service for service in here.services}
    if not any(service.slots for service in services.values()):
        raise InputError("no service of the schema has a slot, so there is nothing to learn", here.path)
    paths = corpus.paths()
    frames = [
        frame
        for path in paths
        for dialogue in state_frames.parse_dialogues(inputs.read_input(path, limits.MAX_DIALOGUE_FILE), path)
        for frame in labelled(dialogue, services, path)
    ]
    if not frames:
        raise InputError(f"no user turn of {split!r} has a frame with a state, so there is nothing to learn", root)
    return Examples(frames, [here.path, *paths])


def labelled(dialogue: state_frames.Dialogue, services: dict[str, Service], path: str) -> list[Labelled]:
    """Returns the frames of a dialogue. Raises InputError if the schema lacks a service, or a frame its state."""
    states = []
    for frame in (frame for turn in dialogue.turns if turn.speaker == "USER" for frame in turn.frames):
        if frame.service not in services:
            raise InputError(f"the schema has no service {frame.service!r}", path, dialogue.dialogue_id)
        if not isinstance(frame.state, state_frames.State):
            raise InputError(f"the frame of {frame.service} has no state", path, dialogue.dialogue_id)
        states.append(frame.state)
    return [Labelled(example, state) for example, state in zip(examples(dialogue, services), states, strict=True)]


def joint_goal_accuracy(model: Model, frames: Sequence[Labelled]) -> float:
    """Computes the mean over all frames whose service has slots, as ``parapet evaluate --task dst`` does.

    It is 0 if there are no such frames.
    """
    states = model.predict([frame.asked for frame in frames])
    slots: dict[int, state_frames.Slots] = {}
    scores = []
    for frame, state in zip(frames, states, strict=True):
        service = frame.asked.service
        if service.slots:
            of_service = slots.setdefault(id(service), state_frames.slots_of(service))
            predicted_state = msgspec.convert(state, state_frames.State, from_attributes=True)
            values, _ = state_frames.score_frame(frame.state, predicted_state, of_service)
            scores.append(values[state_frames.JOINT])
    return sum(scores) / len(scores) if scores else 0.0


def some(frames: Sequence[Labelled], most: int, seed: str) -> list[Labelled]:
    """Draws whole dialogues and returns their frames in order: ``most`` frames at most, but at least one dialogue.

    Dialogues are kept whole, as models reuse computations of a turn for the following ones.

    Args:
      frames: the frames to draw from.
      most: the maximum number; 0 for all.
      seed: the seed of the draw.
    """
    if not most or len(frames) <= most:
        return list(frames)
    sizes = Counter(_dialogue(frame) for frame in frames)
    chosen: set[tuple[str, str]] = set()
    room = most
    for key in sorted(sizes, key=lambda key: seeding.stable_hash(seed, "dev", *key)):
        if sizes[key] <= room or not chosen:
            chosen.add(key)
            room -= sizes[key]
    return [frame for frame in frames if _dialogue(frame) in chosen]


def _dialogue(one: Labelled) -> tuple[str, str]:
    return one.asked.dialogue_id, one.opening


def json_of(
    references: Iterable[state_frames.Dialogue], predictions: dict[str, state_frames.Dialogue]
) -> tuple[bytes, int]:
    """Encodes dialogues as the items of a JSON list; also returns the number of frames in user turns.

    Args:
      references: the dialogues, with utterances.
      predictions: the same dialogues with predicted states, by dialogue id.
    """
    dialogues = [_with_texts(dialogue, predictions[dialogue.dialogue_id]) for dialogue in references]
    return b",\n".join(msgspec.json.encode(dialogue) for dialogue in dialogues), frames_in(dialogues)


def _with_texts(reference: state_frames.Dialogue, prediction: state_frames.Dialogue) -> state_frames.Dialogue:
    """Adds the reference's utterances and services to a prediction, and sorts the slots of its states."""
    turns = [
        state_frames.Turn(turn.speaker, [_in_order(frame) for frame in other.frames], turn.utterance)
        for turn, other in zip(reference.turns, prediction.turns, strict=True)
    ]
    return state_frames.Dialogue(reference.dialogue_id, turns, reference.services)


def frames_in(dialogues: Iterable[state_frames.Dialogue]) -> int:
    """Counts the frames of user turns."""
    return sum(len(turn.frames) for dialogue in dialogues for turn in dialogue.turns if turn.speaker == "USER")


def _in_order(frame: state_frames.Frame) -> state_frames.Frame:
    """Sorts the slots of a state alphabetically, so that their order does not depend on the model."""
    if not isinstance(frame.state, state_frames.State):
        return frame
    values = dict(sorted(frame.state.slot_values.items()))
    requested = sorted(frame.state.requested_slots)
    state = msgspec.structs.replace(frame.state, requested_slots=requested, slot_values=values)
    return state_frames.Frame(frame.service, state, frame.slots)


CHUNK = 32  # dialogues


class Tracker(ABC):
    """A trained tracker, which reads a limited number of tokens."""

    @abstractmethod
    def tracked(self, batch: Sequence[Example]) -> tuple[list[state_frames.State], int]:
        """Predicts the state of each example; also returns the number of inputs whose dialogue was too long and cut."""

    def predict(self, batch: Sequence[Example]) -> list[state_frames.State]:
        """Predicts the state of each example."""
        return self.tracked(batch)[0]


class Counting:
    """A tracker for one chunk that counts the inputs that were too long.

    Each chunk has its own, as the threads of a worker share the tracker.

    Args:
      tracker: the tracker.
    """

    def __init__(self, tracker: Model) -> None:
        self.tracker, self.cut = tracker, 0

    def predict(self, batch: Sequence[Example]) -> Sequence[Any]:
        """Predicts the state of each example."""
        if not isinstance(self.tracker, Tracker):
            return self.tracker.predict(batch)
        states, cut = self.tracker.tracked(batch)
        self.cut += cut
        return states


class Job(inference.DialoguesJob[Model], frozen=True, kw_only=True):
    """A prediction of dialogue states."""

    chunk_size = CHUNK

    def asked(self, chunk: Dialogues) -> dict[str, int]:
        """Counts the frames of user turns."""
        return {f"asked/{chunk.file.set}": frames_in(chunk.dialogues)}

    def load(self) -> Model:
        """Loads the tracker."""
        tracker: Model = saving.module_of(self.model).load(self.folder, self.device, self.batch_size)
        return tracker

    def answer(self, model: Model, chunk: Dialogues) -> Answers:
        """Encodes the dialogues with predicted states; counts the frames, and inputs that were too long."""
        counting = Counting(model)
        # The model makes its own batches, as it knows which examples are similar.
        everything = sum(len(turn.frames) for dialogue in chunk.dialogues for turn in dialogue.turns) or 1
        name = chunk.file.set
        with saving.enough_memory(self.batch_size):
            states = predicted(counting, chunk.dialogues, self.sets[name].services, everything, self.model, False)
        data, frames = json_of(chunk.dialogues, states)
        counts = {f"predicted/{name}": frames}
        if counting.cut:
            counts[f"too_long/{name}"] = counting.cut
        return Answers([Part(chunk.file.predictions, (chunk.number,), data)], counts)
