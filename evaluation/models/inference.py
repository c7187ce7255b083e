"""Data and predictions of all models: examples, and a Beam transform that reads files in chunks and writes predictions.

A family of models defines a :class:`Job`, which reads chunks, loads the model, and answers a chunk.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

import apache_beam as beam
import msgspec
from apache_beam.ml.inference.base import ModelHandler, RunInference

from parapet.evaluation.dst.frames import Dialogue, parse_dialogues
from parapet.evaluation.dst.model import Set
from parapet.evaluation.endpoint.outcomes import check_refusals
from parapet.schemas.limits import MAX_DIALOGUE_FILE
from parapet.transforms.core import files, progress, seeding
from parapet.transforms.core.inputs import read_input

Row = TypeVar("Row")


class Examples(msgspec.Struct, Generic[Row], frozen=True):
    """The examples of a split of a corpus.

    Attributes:
      rows: in the order of files and dialogues.
      paths: the files read.
    """

    rows: list[Row]
    paths: list[str]


def held_out(
    rows: Iterable[Row], share: float, seed: str, dialogue: Callable[[Row], str]
) -> tuple[list[Row], list[Row]]:
    """Splits rows into those to learn from, and those of held-out dialogues.

    A hash decides, so that a dialogue is always on the same side, whatever other dialogues there are.

    Args:
      rows: the rows of a training set.
      share: the share of dialogues to hold out.
      seed: the seed of the hash.
      dialogue: identifies the dialogue of a row; equal in all of its versions.
    """
    parts: tuple[list[Row], list[Row]] = ([], [])
    for row in rows:
        parts[seeding.stable_hash(seed, "held out", dialogue(row)) / 2**64 < share].append(row)
    return parts


File = TypeVar("File")
Chunk = TypeVar("Chunk")
Model = TypeVar("Model")


class Part(NamedTuple):
    """A part of an output file.

    Attributes:
      path: the path of the file, below the output folder.
      order: the sort key of the part in its file.
      data: whole JSON lines; for a ``.json`` file, items of a list without brackets.
    """

    path: str
    order: tuple[int | str, ...]
    data: bytes


class Answers(NamedTuple):
    """A model's answers to a chunk: parts of files, and counts by ``KIND/NAME``."""

    parts: list[Part]
    counts: Mapping[str, int]


class Job(msgspec.Struct, Generic[File, Chunk, Model], frozen=True, kw_only=True):
    """A prediction by a model.

    Attributes:
      output: the output folder.
      model: the name of the model.
      folder: the folder of a trained model, to which the following attributes also apply.
      device: ``auto``, ``cpu`` or ``cuda``.
      threads: torch's threads in each worker.
      batch_size: the size of the model's batches.
      unit: the unit of progress: the name of the chunk's attribute that has the items.
    """

    unit: ClassVar[str] = "dialogues"

    output: str
    model: str
    folder: str = ""
    device: str = "cpu"
    threads: int = 1
    batch_size: int = 1

    @abstractmethod
    def sources(self) -> Sequence[File]:
        """Lists the files to read."""

    @abstractmethod
    def chunks(self, file: File) -> Iterator[Chunk]:
        """Yields the chunks of a file, always the same ones. Raises InputError if it cannot be read."""

    def size(self, chunk: Chunk) -> int:
        """Returns the number of items of ``unit`` in a chunk."""
        return len(getattr(chunk, self.unit))

    def named(self) -> str:
        """Returns the unit of progress."""
        return self.unit

    @abstractmethod
    def asked(self, chunk: Chunk) -> Mapping[str, int]:
        """Counts the items of a chunk to be answered, by ``asked/NAME``."""

    def prepare(self) -> None:
        """Sets up a worker."""
        import torch

        torch.set_num_threads(self.threads)

    @abstractmethod
    def load(self) -> Model:
        """Loads the model, ready to answer."""

    @abstractmethod
    def answer(self, model: Model, chunk: Chunk) -> Answers:
        """Answers a chunk; the counts by ``ANSWERED/NAME`` must equal those of :meth:`asked`."""


class Predict(beam.PTransform):
    """Predicts files, and returns (PCollection of files.Written, PCollection of (name, n) to be summed).

    Args:
      job: the prediction.
    """

    def __init__(self, job: Job[Any, Any, Any]) -> None:
        super().__init__()
        self.job = job

    def expand(self, pipeline: beam.Pipeline) -> tuple[beam.PCollection, beam.PCollection]:
        """Sees the class."""
        job = self.job
        chunks = (
            pipeline
            | "Files" >> beam.Create(list(job.sources()))
            | "Read" >> beam.FlatMap(_chunks, job)
            | "Spread" >> beam.Reshuffle()
        )
        answers = chunks | "Predict" >> RunInference(_Handler(job))
        written = (
            answers
            | "By file" >> beam.FlatMap(lambda answer: [(part.path, (part.order, part.data)) for part in answer.parts])
            | "Gather" >> beam.GroupByKey()
            | "Write" >> beam.Map(write, job.output)
        )
        questions = chunks | "Asked" >> beam.FlatMap(lambda chunk: job.asked(chunk).items())
        answered = answers | "Answered" >> beam.FlatMap(lambda answer: answer.counts.items())
        return written, (questions, answered) | "Counts" >> beam.Flatten()


def _chunks(file: File, job: Job[File, Chunk, Any]) -> Iterator[Chunk]:
    for chunk in job.chunks(file):
        progress.expect(job.size(chunk), job.named())
        yield chunk


class _Handler(ModelHandler[Any, Any, Any]):
    """Loads and runs a model for RunInference: one chunk at a time, as the model makes its own batches."""

    def __init__(self, job: Job[Any, Any, Any]) -> None:
        self.job = job

    def load_model(self) -> Any:
        self.job.prepare()
        return self.job.load()

    def run_inference(
        self, batch: Sequence[Any], model: Any, inference_args: dict[str, Any] | None = None
    ) -> Iterator[Answers]:
        for chunk in batch:
            answers = self.job.answer(model, chunk)
            progress.advance(self.job.size(chunk), self.job.named())
            yield answers

    def batch_elements_kwargs(self) -> dict[str, int]:
        return {"min_batch_size": 1, "max_batch_size": 1}


def write(file: tuple[str, Iterable[tuple[tuple[int | str, ...], bytes]]], output: str) -> files.Written:
    """Writes the parts of a file in their order."""
    path, parts = file
    data = [data for _, data in sorted(parts) if data]
    whole = b"[" + b",\n".join(data) + b"]\n" if path.endswith(".json") else b"".join(data)
    return files.write_staged(output, path, whole)


def check_invariants(counts: dict[str, int], asked: str, answered: str, max_bad: Fraction) -> dict[str, int]:
    """Checks that everything was answered, and returns the counts.

    Args:
      counts: by ``KIND/NAME``, or ``KIND``.
      asked: the kind that counts expected predictions; ``answered`` is the kind that counts predictions.
      max_bad: the share of requests that an endpoint may refuse.

    Raises:
      InputError: it refused more.
      RuntimeError: some predictions are missing.
    """
    check_refusals(counts, max_bad)
    first, second = (
        {name.partition("/")[2]: n for name, n in counts.items() if n and name.partition("/")[0] == kind}
        for kind in (asked, answered)
    )
    if first != second:
        raise RuntimeError(f"the counts do not balance: {counts}")
    return counts


class DialogueFile(NamedTuple):
    """A file of dialogues: its set, its path, and the path of its predictions below the output folder."""

    set: str
    path: str
    predictions: str


class Dialogues(NamedTuple):
    """A chunk of a file of dialogues; ``number`` is that of the chunk, from 0."""

    file: DialogueFile
    number: int
    dialogues: tuple[Dialogue, ...]


class DialoguesJob(Job[DialogueFile, Dialogues, Model], frozen=True, kw_only=True):
    """A prediction for the dialogues of sets.

    Attributes:
      chunk_size: dialogues in a chunk.
      sets: by name.
      inputs: the files of dialogues.
    """

    chunk_size: ClassVar[int]

    sets: dict[str, Set]
    inputs: tuple[DialogueFile, ...]

    def sources(self) -> Sequence[DialogueFile]:
        """Lists the files of dialogues."""
        return self.inputs

    def chunks(self, file: DialogueFile) -> Iterator[Dialogues]:
        """Yields chunks of the dialogues of a file. An empty file has one chunk, so that it gets a file of predictions.

        Raises:
          InputError: the file cannot be read.
        """
        dialogues = parse_dialogues(read_input(file.path, MAX_DIALOGUE_FILE), file.path)
        for first in range(0, max(len(dialogues), 1), self.chunk_size):
            yield Dialogues(file, first // self.chunk_size, tuple(dialogues[first : first + self.chunk_size]))
