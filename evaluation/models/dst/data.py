"""What state trackers learn from: the frames of user turns, with their states; and how good a tracker is on them."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any, Protocol, runtime_checkable

import msgspec

from parapet.evaluation.dst.frames import (
    JOINT,
    Dialogue,
    Slots,
    State,
    dialogues_in_memory,
    parse_dialogues,
    score_frame,
    slots_of,
)
from parapet.evaluation.dst.model import Example, Model, examples, predicted
from parapet.evaluation.dst.written import frames_in, json_of
from parapet.evaluation.models import inference
from parapet.evaluation.models.examples import Examples
from parapet.evaluation.models.inference import Answers, Dialogues, Part
from parapet.evaluation.models.saving import enough_memory
from parapet.schemas.errors import InputError
from parapet.schemas.layout import SplitSchemas, read_root
from parapet.schemas.limits import MAX_DIALOGUE_FILE
from parapet.schemas.service import Service
from parapet.transforms.perturbation.corpora import read_corpus
from parapet.transforms.running.seeding import stable_hash
from parapet.transforms.storage.compressed import read_input


class Labelled(msgspec.Struct, frozen=True):
    """A frame of a user turn, and the state that is right."""

    asked: Example
    state: State

    @property
    def opening(self) -> str:
        """The first utterance of the dialogue: its versions by ``parapet augment`` share it, not their ids."""
        return self.asked.history[0][1]


class Openings:
    """Identifies the dialogue of a frame, in all versions of it: asked of one frame after the other, it remembers.

    Versions by ``parapet augment`` share the first utterance, those of a perturbation the id.
    """

    def __init__(self) -> None:
        self._of_ids: dict[str, str] = {}

    def __call__(self, frame: Labelled) -> str:
        """What all frames of the dialogue share."""
        return self._of_ids.setdefault(frame.asked.dialogue_id, frame.opening)


def read_labels(root: str, split: str) -> Examples[Labelled]:
    """The frames of the user turns of a split, of which the schema has the service.

    Args:
      root: a corpus.
      split: ``train``.

    Raises:
      InputError: a file cannot be read; there is no such split, no frame, no slot.
    """
    corpus = read_corpus(root, [split])
    for problem in corpus.problems:
        logging.warning("%s", problem)
    here = _schema_of(root, split)
    services = {service.service_name: service for service in here.services}
    if not any(service.slots for service in services.values()):
        raise InputError("no service of the schema has a slot, so there is nothing to learn", here.path)
    paths = sorted(file.path for file in corpus.files)
    frames = [
        one
        for path in paths
        for dialogue in parse_dialogues(read_input(path, MAX_DIALOGUE_FILE), path)
        for one in labelled(dialogue, services, path)
    ]
    if not frames:
        raise InputError(f"no user turn of {split!r} has a frame with a state, so there is nothing to learn", root)
    return Examples(frames, [here.path, *paths])


def reader_of(root: str, split: str) -> Callable[[dict[str, Any]], list[Labelled]]:
    """What gives the frames of a dialogue in the SGD format, by the schema of a split. Raises InputError."""
    here = _schema_of(root, split)
    services = {service.service_name: service for service in here.services}
    return lambda raw: labelled(dialogues_in_memory([raw], root)[0], services, root)


def _schema_of(root: str, split: str) -> SplitSchemas:
    schemas = {one.split: one for one in read_root(root, leave_out_bad=True)}
    return schemas.get(split) or next(iter(schemas.values()))


def labelled(dialogue: Dialogue, services: dict[str, Service], path: str) -> list[Labelled]:
    """The frames of a dialogue. Raises InputError where the schema lacks a service, or a frame its state."""
    states = []
    for frame in (frame for turn in dialogue.turns if turn.speaker == "USER" for frame in turn.frames):
        if frame.service not in services:
            raise InputError(f"the schema has no service {frame.service!r}", path, dialogue.dialogue_id)
        if not isinstance(frame.state, State):
            raise InputError(f"the frame of {frame.service} has no state", path, dialogue.dialogue_id)
        states.append(frame.state)
    return [Labelled(one, state) for one, state in zip(examples(dialogue, services), states, strict=True)]


def joint_goal_accuracy(model: Model, frames: Sequence[Labelled]) -> float:
    """The mean over all frames whose service has slots, as ``parapet evaluate --task dst`` computes it.

    0 where there are no such frames.
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
    """The frames of some dialogues, drawn, as many as make ``most`` frames at most, in their order; at least one.

    Whole dialogues: what a model computes for a turn serves those after it too.

    Args:
      frames: to draw from.
      most: 0 for all.
      seed: of the draw.
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
        data, frames = json_of(chunk.dialogues, states)
        counts = {f"predicted/{name}": frames}
        if counting.cut:
            counts[f"too_long/{name}"] = counting.cut
        return Answers([Part(chunk.file.predictions, (chunk.number,), data)], counts)
