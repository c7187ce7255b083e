"""Prediction as a Beam transform: dialogues of all sets through a tracker, to dialogues in the SGD format."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial

import apache_beam as beam
import msgspec
from apache_beam.ml.inference.base import KeyedModelHandler, RunInference

from evaluation.dst.files import Dialogue, Frame, Turn, parse_dialogues
from evaluation.dst.frames import State
from evaluation.dst.model import Model, predicted
from evaluation.dst.sets import Set
from evaluation.models.devices import enough_memory
from evaluation.models.dst.loading import load
from evaluation.models.inference import ChunkHandler
from transforms import files

CHUNK = 32  # dialogues that are one element of Beam's: always the same ones, so the same is computed

Place = tuple[str, str, int]  # the set, the file below the predictions, the chunk's number
Asked = tuple[str, tuple[Dialogue, ...]]  # the set, its dialogues

PREDICTIONS = "predictions"


class Job(msgspec.Struct, frozen=True):
    """What is predicted.

    Attributes:
      output: the output folder.
      model: its name.
      folder: where it is.
      device: ``auto``, ``cpu`` or ``cuda``.
      threads: of torch, in each worker.
      batch: what the model computes at a time.
      sets: by name.
      inputs: (set, path of a file of dialogues, path of its predictions below the output folder).
    """

    output: str
    model: str
    folder: str
    device: str
    threads: int
    batch: int
    sets: dict[str, Set]
    inputs: tuple[tuple[str, str, str], ...]


def handler(job: Job) -> ChunkHandler:
    """How RunInference tracks."""
    load_it = partial(load, job.folder, job.model, job.device, job.batch)
    return ChunkHandler(job.threads, load_it, partial(tracked, job))


def tracked(job: Job, model: Model, asked: Asked) -> list[Dialogue]:
    """The dialogues of a chunk, with predicted states."""
    name, dialogues = asked
    # The model makes its own batches: it knows which examples are alike.
    everything = sum(len(turn.frames) for one in dialogues for turn in one.turns) or 1
    with enough_memory(f"lower --batch_size, which is {job.batch}"):
        found = predicted(model, dialogues, job.sets[name].services, everything, job.model)
    return [with_texts(one, found[one.dialogue_id]) for one in dialogues]


class Predict(beam.PTransform):
    """Files of dialogues to files of the same dialogues with predicted states, staged.

    Args:
      job: what is predicted.
    """

    def __init__(self, job: Job) -> None:
        super().__init__()
        self.job = job

    def expand(self, pipeline: beam.Pipeline) -> tuple[beam.PCollection, beam.PCollection]:
        """To (what was written, (name, n) to be summed)."""
        chunks = (
            pipeline
            | "Files" >> beam.Create(list(self.job.inputs))
            | "Read" >> beam.FlatMap(chunks_of)
            | "Spread" >> beam.Reshuffle()
        )
        states = chunks | "Track" >> RunInference(KeyedModelHandler(handler(self.job)))
        written = (
            states
            | "By file" >> beam.Map(by_file)
            | "Gather" >> beam.GroupByKey()
            | "Write" >> beam.Map(write, self.job.output)
        )
        asked = chunks | "Asked" >> beam.Map(lambda one: (f"asked/{one[0][0]}", frames_in(one[1][1])))
        told = states | "Told" >> beam.Map(lambda one: (f"predicted/{one[0][0]}", frames_in(one[1])))
        return written, (asked, told) | "Counts" >> beam.Flatten()


def chunks_of(file: tuple[str, str, str]) -> Iterator[tuple[Place, Asked]]:
    """The dialogues of a file, chunk by chunk. Raises InputError where it cannot be read."""
    name, path, relative = file
    dialogues = parse_dialogues(files.read_bytes(path), path)
    for first in range(0, max(len(dialogues), 1), CHUNK):  # an empty file has a file of predictions too
        yield (name, relative, first // CHUNK), (name, tuple(dialogues[first : first + CHUNK]))


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


def by_file(told: tuple[Place, list[Dialogue]]) -> tuple[str, tuple[int, bytes]]:
    """(the file, (the chunk's number, its dialogues as JSON, without brackets))."""
    (_, relative, chunk), dialogues = told
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
