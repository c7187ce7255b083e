"""Prediction as a Beam transform: files of dialogues through a model, each to a file of answers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial

import apache_beam as beam
import msgspec
from apache_beam.ml.inference.base import KeyedModelHandler, RunInference

from parapet.evaluation.models import inference
from parapet.evaluation.models.babi.data import dialogues_in
from parapet.evaluation.models.babi.saving import Answerer, load
from parapet.evaluation.models.inference import ChunkHandler, Chunks
from parapet.transforms import files
from parapet.transforms.babi_format import BabiDialogue, Exchange

CHUNK = 64  # dialogues

Dialogues = tuple[BabiDialogue, ...]
Place = tuple[int, int]  # which file, which chunk of it


class Job(inference.Job, frozen=True, kw_only=True):
    """What is predicted.

    Attributes:
      model: the name of the model.
      memory: lines of history that the model reads, the last ones; None for all.
      inputs: (path of a file of dialogues, path of its answers below the output folder).
    """

    model: str
    memory: int | None
    inputs: tuple[tuple[str, str], ...]


class Rows(msgspec.Struct, frozen=True):
    """The answers to a chunk.

    Attributes:
      chunk: its number in the file.
      data: JSON lines.
      answers: how many.
      empty: how many of them say nothing.
    """

    chunk: int
    data: bytes
    answers: int
    empty: int


def handler(job: Job) -> ChunkHandler:
    """How RunInference answers."""
    return ChunkHandler(job.threads, partial(_load, job), _answers)


def _load(job: Job) -> Answerer:
    return load(job.folder, job.model, job.device, job.batch)[1]


def _answers(model: Answerer, dialogues: Dialogues) -> list[list[str]]:
    return model.answers(dialogues)


class Predict(inference.Prediction):
    """Files of dialogues to files of answers, staged."""

    job: Job

    def expand(self, pipeline: beam.Pipeline) -> tuple[beam.PCollection, beam.PCollection]:
        """To (what was written, (name, n) to be summed)."""
        chunks = pipeline | "Chunks" >> Chunks(range(len(self.job.inputs)), chunks_of, self.job)
        rows = chunks | "Answer" >> RunInference(KeyedModelHandler(handler(self.job))) | "Rows" >> beam.Map(rows_of)
        written = rows | "By file" >> beam.GroupByKey() | "Write answers" >> beam.Map(write, self.job)
        turns = chunks | "Turns" >> beam.FlatMap(turns_in, self.job)
        answers = rows | "Answers" >> beam.FlatMap(answers_in, self.job)
        return written, (turns, answers) | "Counts" >> beam.Flatten()


def chunks_of(file: int, job: Job) -> Iterator[tuple[Place, Dialogues]]:
    """The dialogues of a file, chunk by chunk. Raises InputError where it cannot be read."""
    path = job.inputs[file][0]
    dialogues = dialogues_in(files.read_bytes(path), path)
    for first in range(0, len(dialogues), CHUNK):
        yield (file, first // CHUNK), tuple(dialogues[first : first + CHUNK])


def rows_of(answered: tuple[Place, Sequence[Sequence[str]]]) -> tuple[int, Rows]:
    """(the file, the chunk with its rows as JSON lines, as ``parapet evaluate --task ranking`` takes them)."""
    (file, chunk), answers = answered
    rows = [
        msgspec.json.encode({"dialogue": chunk * CHUNK + i, "turn": turn, "answer": answer}) + b"\n"
        for i, of_dialogue in enumerate(answers)
        for turn, answer in enumerate(of_dialogue)
    ]
    empty = sum(not answer for of_dialogue in answers for answer in of_dialogue)
    return file, Rows(chunk, b"".join(rows), len(rows), empty)


def write(of_file: tuple[int, Iterable[Rows]], job: Job) -> files.Written:
    """Writes the answers to a file's dialogues."""
    file, rows = of_file
    ordered = sorted(rows, key=lambda one: one.chunk)
    return files.write_staged(job.output, job.inputs[file][1], b"".join(one.data for one in ordered))


def turns_in(read: tuple[Place, Dialogues], job: Job) -> Iterator[tuple[str, int]]:
    """Counts what is to be answered, and what of it has more history than the model reads."""
    (file, _), dialogues = read
    lengths = [length for dialogue in dialogues for length in histories(dialogue)]
    yield f"turns/{job.inputs[file][1]}", len(lengths)
    if job.memory is not None and (long := sum(length > job.memory for length in lengths)):
        yield f"too_long/{job.inputs[file][1]}", long


def histories(dialogue: BabiDialogue) -> Iterator[int]:
    """How many lines stand before what the user says, of each turn: a turn leaves two, a fact one."""
    lines = 0
    for one in dialogue.lines:
        if isinstance(one, Exchange):
            yield lines
        lines += 2 if isinstance(one, Exchange) else 1


def answers_in(one: tuple[int, Rows], job: Job) -> Iterator[tuple[str, int]]:
    """Counts what is answered, and what of it is empty."""
    file, rows = one
    yield f"answers/{job.inputs[file][1]}", rows.answers
    if rows.empty:
        yield f"empty/{job.inputs[file][1]}", rows.empty
