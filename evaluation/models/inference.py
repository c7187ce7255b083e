"""What the Beam parts of the models share: a model is loaded once in a process, and gets a chunk at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from apache_beam.ml.inference.base import ModelHandler


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


def check_balance(counts: dict[str, int], asked: str, told: str) -> dict[str, int]:
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
