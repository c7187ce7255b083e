"""Prediction as a Beam transform: dialogues of all sets through a tracker, to dialogues in the SGD format."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any

import apache_beam as beam
import msgspec
from apache_beam.ml.inference.base import RunInference

from parapet.evaluation.dst.files import Dialogue, Frame, Turn
from parapet.evaluation.dst.frames import State
from parapet.evaluation.dst.model import Example, Model, predicted
from parapet.evaluation.dst.sets import Set
from parapet.evaluation.models import inference
from parapet.evaluation.models.devices import enough_memory
from parapet.evaluation.models.dst.loading import Limited, load
from parapet.evaluation.models.inference import Chunk, ChunkHandler, Chunks, Place, chunks_of_dialogues
from parapet.transforms import files

CHUNK = 32  # dialogues

Tracked = tuple[Place, list[Dialogue], int]  # with predicted states; how many inputs of the model were too long


class Job(inference.Job, frozen=True, kw_only=True):
    """What is predicted.

    Attributes:
      model: the name of the model.
      sets: by name.
      inputs: (set, path of a file of dialogues, path of its predictions below the output folder).
    """

    model: str
    sets: dict[str, Set]
    inputs: tuple[tuple[str, str, str], ...]


def handler(job: Job) -> ChunkHandler:
    """How RunInference tracks."""
    load_it = partial(load, job.folder, job.model, job.device, job.batch)
    return ChunkHandler(job.threads, load_it, partial(tracked, job))


class Counting:
    """A tracker that is asked for one chunk, and how many of its inputs were too long for it.

    Of its own for each chunk, as the threads of a worker share the tracker.

    Args:
      tracker: it itself.
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


def tracked(job: Job, model: Model, chunk: Chunk) -> Tracked:
    """The dialogues of a chunk, with predicted states."""
    place, dialogues = chunk
    counting = Counting(model)
    # The model makes its own batches: it knows which examples are alike.
    everything = sum(len(turn.frames) for one in dialogues for turn in one.turns) or 1
    with enough_memory(f"lower --batch_size, which is {job.batch}"):
        found = predicted(counting, dialogues, job.sets[place[0]].services, everything, job.model)
    return place, [with_texts(one, found[one.dialogue_id]) for one in dialogues], counting.cut


class Predict(inference.Prediction):
    """Files of dialogues to files of the same dialogues with predicted states, staged."""

    job: Job

    def expand(self, pipeline: beam.Pipeline) -> tuple[beam.PCollection, beam.PCollection]:
        """To (what was written, (name, n) to be summed)."""
        chunks = pipeline | "Chunks" >> Chunks(self.job.inputs, chunks_of_dialogues, CHUNK)
        states = chunks | "Track" >> RunInference(handler(self.job))
        written = (
            states
            | "By file" >> beam.Map(by_file)
            | "Gather" >> beam.GroupByKey()
            | "Write" >> beam.Map(write, self.job.output)
        )
        asked = chunks | "Asked" >> beam.Map(lambda one: (f"asked/{one[0][0]}", frames_in(one[1])))
        told = states | "Told" >> beam.FlatMap(counts_in)
        return written, (asked, told) | "Counts" >> beam.Flatten()


def counts_in(found: Tracked) -> Iterator[tuple[str, int]]:
    """Counts the frames with a state, and the inputs of the model that were too long."""
    (name, *_), dialogues, cut = found
    yield f"predicted/{name}", frames_in(dialogues)
    if cut:
        yield f"too_long/{name}", cut


def with_texts(reference: Dialogue, found: Dialogue) -> Dialogue:
    """A prediction with the utterances and services of its dialogue, as the SGD format has them."""
    turns = [
        Turn(turn.speaker, other.frames, turn.utterance)
        for turn, other in zip(reference.turns, found.turns, strict=True)
    ]
    return Dialogue(reference.dialogue_id, turns, reference.services)


def frames_in(dialogues: Iterable[Dialogue]) -> int:
    """How many frames of user turns there are."""
    return sum(len(turn.frames) for one in dialogues for turn in one.turns if turn.speaker == "USER")


def by_file(found: Tracked) -> tuple[str, tuple[int, bytes]]:
    """(the file, (the chunk's number, its dialogues as JSON, without brackets))."""
    (_, relative, chunk), dialogues, _ = found
    return relative, (chunk, b",\n".join(msgspec.json.encode(in_order(one)) for one in dialogues))


def in_order(dialogue: Dialogue) -> Dialogue:
    """A dialogue whose states name their slots in the order of the alphabet, whatever the model did."""
    turns = [Turn(turn.speaker, [_in_order(frame) for frame in turn.frames], turn.utterance) for turn in dialogue.turns]
    return Dialogue(dialogue.dialogue_id, turns, dialogue.services)


def _in_order(frame: Frame) -> Frame:
    if not isinstance(frame.state, State):
        return frame
    values = dict(sorted(frame.state.slot_values.items()))
    return Frame(
        frame.service, State(frame.state.active_intent, sorted(frame.state.requested_slots), values), frame.slots
    )


def write(of_file: tuple[str, Iterable[tuple[int, bytes]]], output: str) -> files.Written:
    """Writes the predictions for a file's dialogues."""
    relative, chunks = of_file
    data = b",\n".join(data for _, data in sorted(chunks) if data)
    return files.write_staged(output, relative, b"[" + data + b"]\n")
