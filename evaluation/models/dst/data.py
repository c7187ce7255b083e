"""Training data of state trackers: the frames of user turns with their states. Also measures a tracker's accuracy."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Sequence
from importlib import import_module
from typing import Any, Protocol, runtime_checkable

import msgspec

from parapet.evaluation.dst.frames import JOINT, Dialogue, Slots, State, parse_dialogues, score_frame, slots_of
from parapet.evaluation.dst.model import Example, Model, examples, predicted
from parapet.evaluation.dst.written import frames_in, json_of
from parapet.evaluation.models import inference
from parapet.evaluation.models.examples import Examples
from parapet.evaluation.models.inference import Answers, Dialogues, Part
from parapet.evaluation.models.saving import enough_memory
from parapet.schemas.errors import InputError
from parapet.schemas.layout import read_root
from parapet.schemas.limits import MAX_DIALOGUE_FILE
from parapet.schemas.service import Service
from parapet.transforms.perturbation.corpora import read_corpus
from parapet.transforms.running.seeding import stable_hash
from parapet.transforms.storage.compressed import read_input


class Labelled(msgspec.Struct, frozen=True):
    """A frame of a user turn, and its reference state."""

    asked: Example
    state: State

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
    schemas = {schemas.split: schemas for schemas in read_root(root, leave_out_bad=True)}
    here = schemas.get(split) or next(iter(schemas.values()))
    services = {service.service_name: service for service in here.services}
    if not any(service.slots for service in services.values()):
        raise InputError("no service of the schema has a slot, so there is nothing to learn", here.path)
    paths = corpus.paths()
    frames = [
        frame
        for path in paths
        for dialogue in parse_dialogues(read_input(path, MAX_DIALOGUE_FILE), path)
        for frame in labelled(dialogue, services, path)
    ]
    if not frames:
        raise InputError(f"no user turn of {split!r} has a frame with a state, so there is nothing to learn", root)
    return Examples(frames, [here.path, *paths])


def labelled(dialogue: Dialogue, services: dict[str, Service], path: str) -> list[Labelled]:
    """Returns the frames of a dialogue. Raises InputError if the schema lacks a service, or a frame its state."""
    states = []
    for frame in (frame for turn in dialogue.turns if turn.speaker == "USER" for frame in turn.frames):
        if frame.service not in services:
            raise InputError(f"the schema has no service {frame.service!r}", path, dialogue.dialogue_id)
        if not isinstance(frame.state, State):
            raise InputError(f"the frame of {frame.service} has no state", path, dialogue.dialogue_id)
        states.append(frame.state)
    return [Labelled(example, state) for example, state in zip(examples(dialogue, services), states, strict=True)]


def joint_goal_accuracy(model: Model, frames: Sequence[Labelled]) -> float:
    """Computes the mean over all frames whose service has slots, as ``parapet evaluate --task dst`` does.

    It is 0 if there are no such frames.
    """
    states = model.predict([frame.asked for frame in frames])
    slots: dict[int, Slots] = {}
    scores = []
    for frame, state in zip(frames, states, strict=True):
        service = frame.asked.service
        if service.slots:
            of_service = slots.setdefault(id(service), slots_of(service))
            values, _ = score_frame(frame.state, msgspec.convert(state, State, from_attributes=True), of_service)
            scores.append(values[JOINT])
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
    for key in sorted(sizes, key=lambda key: stable_hash(seed, "dev", *key)):
        if sizes[key] <= room or not chosen:
            chosen.add(key)
            room -= sizes[key]
    return [frame for frame in frames if _dialogue(frame) in chosen]


def _dialogue(one: Labelled) -> tuple[str, str]:
    return one.asked.dialogue_id, one.opening


CHUNK = 32  # dialogues

# Each has check(folder) and load(folder, device, batch).
MODULES = {
    "tiny_dst": "parapet.evaluation.models.dst.tiny",
    "t5dst": "parapet.evaluation.models.dst.t5",
    "sgp_dst": "parapet.evaluation.models.dst.sgp_tracking",
}


@runtime_checkable
class Limited(Protocol):
    """A tracker that reads a limited number of tokens."""

    def tracked(self, batch: Sequence[Example]) -> tuple[list[State], int]:
        """Predicts the state of each example; also returns the number of inputs whose dialogue was too long and cut."""


def check(folder: str, model: str) -> None:
    """Checks a model's folder, except for the weights. Raises InputError if ``model`` is not in it."""
    import_module(MODULES[model]).check(folder)


def load(folder: str, model: str, device: str, batch: int) -> Model:
    """Loads a model, ready to predict.

    Args:
      folder: the folder that ``parapet train`` wrote.
      model: the name of the model.
      device: ``auto``, ``cpu`` or ``cuda``.
      batch: examples at a time.

    Raises:
      InputError: the model is missing, of another kind, or damaged.
    """
    tracker: Model = import_module(MODULES[model]).load(folder, device, batch)
    return tracker


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
        if not isinstance(self.tracker, Limited):
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
        return load(self.folder, self.model, self.device, self.batch_size)

    def answer(self, model: Model, chunk: Dialogues) -> Answers:
        """Encodes the dialogues with predicted states; counts the frames, and inputs that were too long."""
        counting = Counting(model)
        # The model makes its own batches, as it knows which examples are similar.
        everything = sum(len(turn.frames) for dialogue in chunk.dialogues for turn in dialogue.turns) or 1
        name = chunk.file.set
        with enough_memory(f"lower --batch_size, which is {self.batch_size}"):
            states = predicted(counting, chunk.dialogues, self.sets[name].services, everything, self.model)
        data, frames = json_of(chunk.dialogues, states)
        counts = {f"predicted/{name}": frames}
        if counting.cut:
            counts[f"too_long/{name}"] = counting.cut
        return Answers([Part(chunk.file.predictions, (chunk.number,), data)], counts)
