"""What the Beam parts of the models share: files in chunks, a model that gets one at a time, counts that balance."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import apache_beam as beam
import msgspec
from apache_beam.ml.inference.base import ModelHandler

from parapet.evaluation.dst.files import Dialogue, parse_dialogues
from parapet.transforms.files import read_bytes

Place = tuple[str, str, int]  # the set, the file of its predictions, the chunk's number
Chunk = tuple[Place, tuple[Dialogue, ...]]


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """What is predicted; that of each model says more.

    Attributes:
      output: the output folder.
      folder: where the model is.
      device: ``auto``, ``cpu`` or ``cuda``.
      threads: of torch, in each worker.
      batch: what the model computes at a time.
    """

    output: str
    folder: str
    device: str
    threads: int
    batch: int


class Prediction(beam.PTransform):
    """A model's part of a pipeline: to (what was written, (name, n) to be summed).

    Args:
      job: what is predicted.
    """

    def __init__(self, job: Any) -> None:
        super().__init__()
        self.job = job


class Chunks(beam.PTransform):
    """Files to chunks of what is in them, spread over the workers.

    Args:
      files: each as ``read`` takes it.
      read: (a file, what else it needs) to chunks. Always the same ones, so that the same is computed.
      more: what else it needs.
    """

    def __init__(self, files: Iterable[Any], read: Callable[..., Iterable[Any]], *more: Any) -> None:
        super().__init__()
        self.files, self.read, self.more = list(files), read, more

    def expand(self, pipeline: beam.Pipeline) -> beam.PCollection:
        """To PCollection of chunks."""
        return (
            pipeline
            | "Files" >> beam.Create(self.files)
            | "Read" >> beam.FlatMap(self.read, *self.more)
            | "Spread" >> beam.Reshuffle()
        )


def chunks_of_dialogues(file: tuple[str, str, str], size: int) -> Iterator[Chunk]:
    """The dialogues of a file, so many at a time.

    Args:
      file: its set, its path, the path of its predictions below the output folder.
      size: of a chunk.

    Raises:
      InputError: it cannot be read.
    """
    name, path, relative = file
    dialogues = parse_dialogues(read_bytes(path), path)
    for first in range(0, max(len(dialogues), 1), size):  # an empty file has a file of predictions too
        yield (name, relative, first // size), tuple(dialogues[first : first + size])


class ChunkHandler(ModelHandler[Any, Any, Any]):
    """How RunInference loads and runs a model. A chunk is a batch already; it makes its own batches of it.

    Args:
      threads: of torch, in each worker.
      load: gives the model.
      run: (the model, a chunk) to what it says of that.
    """

    def __init__(self, threads: int, load: Callable[[], Any], run: Callable[[Any, Any], Any]) -> None:
        super().__init__()
        self.threads, self.load, self.run = threads, load, run

    def load_model(self) -> Any:
        """The model."""
        import torch

        torch.set_num_threads(self.threads)
        return self.load()

    def run_inference(
        self, batch: Sequence[Any], model: Any, inference_args: dict[str, Any] | None = None
    ) -> Iterator[Any]:
        """What it says of each chunk."""
        for chunk in batch:
            yield self.run(model, chunk)

    def batch_elements_kwargs(self) -> dict[str, int]:
        """One chunk at a time."""
        return {"min_batch_size": 1, "max_batch_size": 1}


def check_invariants(counts: dict[str, int], asked: str, told: str) -> dict[str, int]:
    """The counts as they are.

    Args:
      counts: by ``KIND/NAME``.
      asked: the kind that counts what was to be predicted; ``told`` the one that counts what was.

    Raises:
      RuntimeError: something has no prediction.
    """
    first, second = (
        {name.partition("/")[2]: n for name, n in counts.items() if n and name.partition("/")[0] == kind}
        for kind in (asked, told)
    )
    if first != second:
        raise RuntimeError(f"the counts do not balance: {counts}")
    return counts
