"""Prediction as a Beam transform: utterances through a classifier, to the rows that ``parapet evaluate`` takes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any

import apache_beam as beam
import msgspec
from apache_beam.ml.inference.base import RunInference

from parapet.evaluation.models import inference
from parapet.evaluation.models.classifier.answering import Answer, Classifier
from parapet.evaluation.models.classifier.asking import Asked, turns_of
from parapet.evaluation.models.classifier.data import INTENT, Turn
from parapet.evaluation.models.classifier.saving import load
from parapet.evaluation.models.inference import ChunkHandler, Chunks
from parapet.evaluation.ood.reading import IN_DOMAIN, OOD
from parapet.transforms import files

CHUNK = 2048  # turns
PREDICTIONS = "predictions"

Place = tuple[int, int]  # which file, which chunk of it
Chunk = tuple[Place, tuple[Turn, ...]]
Rows = tuple[Place, bytes, int, int]  # JSON lines, how many, and how many utterances were too long


class Job(inference.Job, frozen=True, kw_only=True):
    """What is predicted.

    Attributes:
      task: ``intent`` or ``ood``.
      threshold: from which score on a turn is out of domain; None where that is not said.
      asked: the files.
    """

    task: str
    threshold: float | None
    asked: Asked

    @property
    def file(self) -> str:
        """The path of the predictions below the output folder."""
        return f"{PREDICTIONS}/{self.task}.jsonl"


def handler(job: Job) -> ChunkHandler:
    """How RunInference classifies."""
    return ChunkHandler(job.threads, partial(_load, job), partial(answered, job))


def _load(job: Job) -> Classifier:
    return load(job.folder, job.device, job.batch)[1]


def answered(job: Job, model: Classifier, chunk: Chunk) -> Rows:
    """The rows of a chunk, as ``parapet evaluate`` takes them."""
    place, turns = chunk
    answers, long = model.answers([turn.utterance for turn in turns])
    lines = [_line(turn, answer, job) for turn, answer in zip(turns, answers, strict=True)]
    return place, b"".join(lines), len(lines), long


class Predict(inference.Prediction):
    """Files of turns to one file of predictions, staged."""

    job: Job

    def expand(self, pipeline: beam.Pipeline) -> tuple[beam.PCollection, beam.PCollection]:
        """To (what was written, (name, n) to be summed)."""
        chunks = pipeline | "Chunks" >> Chunks(range(len(self.job.asked.sources)), chunks_of, self.job)
        rows = chunks | "Answer" >> RunInference(handler(self.job))
        written = (
            rows
            | "To one file" >> beam.Map(in_one)
            | "Together" >> beam.GroupByKey()
            | "Write" >> beam.Map(write, self.job)
        )
        asked = chunks | "Asked" >> beam.FlatMap(turns_in)
        answered = rows | "Answered" >> beam.FlatMap(answers_in)
        return written, (asked, answered) | "Counts" >> beam.Flatten()


def chunks_of(number: int, job: Job) -> Iterator[Chunk]:
    """The turns of a file in all its sets, chunk by chunk. Raises InputError where it cannot be read."""
    turns = list(turns_of(job.asked, number, job.task))
    for first in range(0, len(turns), CHUNK):
        yield (number, first // CHUNK), tuple(turns[first : first + CHUNK])


def _line(turn: Turn, answer: Answer, job: Job) -> bytes:
    name, dialogue, position = turn.key
    row: dict[str, Any] = {"set": name} if name else {}
    row |= {"dialogue_id": dialogue, "turn": position}
    if job.task == INTENT:
        row["predicted"] = answer.label
    else:
        row["score"] = answer.score
        if job.threshold is not None:
            row["predicted"] = OOD if answer.score >= job.threshold else IN_DOMAIN
    if turn.label:
        row["label"] = turn.label
    return msgspec.json.encode({**row, "utterance": turn.utterance}) + b"\n"


def in_one(rows: Rows) -> tuple[int, tuple[Place, bytes]]:
    """With the same key for all."""
    return 0, rows[:2]


def write(of_all: tuple[int, Iterable[tuple[Place, bytes]]], job: Job) -> files.Written:
    """Writes all rows, in the order of files and turns."""
    return files.write_staged(job.output, job.file, b"".join(data for _, data in sorted(of_all[1])))


def turns_in(read: Chunk) -> Iterator[tuple[str, int]]:
    """Counts what is asked, in all and by set."""
    yield "asked", len(read[1])
    for name, n in Counter(turn.key[0] for turn in read[1] if turn.key[0]).items():
        yield f"turns/{name}", n


def answers_in(rows: Rows) -> Iterator[tuple[str, int]]:
    """Counts what is answered, and the utterances whose beginnings were left out."""
    yield "answered", rows[2]
    if rows[3]:
        yield "too_long", rows[3]


def check_counts(counts: dict[str, int]) -> dict[str, int]:
    """The counts as they are. Raises RuntimeError where a turn has no answer."""
    if counts.get("asked") != counts.get("answered"):
        raise RuntimeError(f"the counts do not balance: {counts}")
    return counts
