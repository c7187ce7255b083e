"""The training loop that all models share: epochs, the best by dev, early stopping, a state after each epoch."""

from __future__ import annotations

import json
import logging
import math
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Protocol

import msgspec
import torch
from torch import Tensor, nn

from parapet.evaluation.models import resuming
from parapet.evaluation.models.devices import seed_all
from parapet.schemas.errors import InputError

PERFECT = 1.0


class Learner(Protocol):
    """A model with its data.

    Attributes:
      module: what is trained, on its device.
      optimiser: of its parameters.
      metric: what ``dev`` gives, as people call it; a share, the more the better.
    """

    module: nn.Module
    optimiser: torch.optim.Optimizer
    metric: str

    def batches(self, generator: torch.Generator) -> Iterable[Tensor]:
        """The batches of an epoch: numbers of examples, in an order that the generator draws."""

    def loss(self, batch: Tensor) -> Tensor:
        """The mean loss of a batch."""

    def dev(self) -> float:
        """How good it is on the dev set."""


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """How a model is trained; each has settings of its own besides.

    Attributes:
      batch: examples of a batch.
      rate: the full learning rate.
      epochs, patience: when to stop.
      seed: of all that is drawn.
      threads, device: of the CPU how many; where to compute.
    """

    batch: int
    rate: float
    epochs: int
    patience: int
    seed: str
    threads: int
    device: str

    def begin(self) -> None:
        """Sets what torch draws new parameters from, and the threads that it computes with."""
        torch.set_num_threads(self.threads)
        seed_all(self.seed, "parameters")

    def schedule(self, warmup: float = 0.0, decay: bool = False, clip: float = 0.0) -> Schedule:
        """For the training loop."""
        return Schedule(self.epochs, self.patience, self.seed, warmup, decay, clip)


class Schedule(msgspec.Struct, frozen=True):
    """How long to train.

    Attributes:
      epochs: at most.
      patience: stops after so many epochs that were not better than the best.
      seed: of all that is drawn.
      warmup: the share of all steps, of ``epochs`` epochs, over which the learning rate rises to its full height.
      decay: lets it fall from there to nothing at the last step, evenly.
      clip: gradients are scaled down to this norm where they are longer; 0 for as they are.
    """

    epochs: int
    patience: int
    seed: str
    warmup: float = 0.0
    decay: bool = False
    clip: float = 0.0

    def rate(self, step: int, steps: int) -> float:
        """The share of the full learning rate in a step, of so many in an epoch."""
        total = self.epochs * steps
        rising = self.warmup * total
        if step < rising:
            return (step + 1) / (rising + 1)
        return (total - step) / (total - rising) if self.decay else 1.0


class Epoch(msgspec.Struct, frozen=True):
    """A row of the log. The mean loss of the epoch, and the metric on the dev set after it."""

    epoch: int
    loss: float
    dev: float
    best: bool


class Trained(msgspec.Struct, frozen=True):
    """What came of a training: the weights of the best epoch, and the log."""

    weights: dict[str, Tensor]
    log: list[Epoch]

    @property
    def best(self) -> Epoch:
        """The epoch whose weights these are."""
        return next(row for row in reversed(self.log) if row.best)


def fit(
    learner: Learner, schedule: Schedule, output: str, header: Mapping[str, Any], progress: bool = False
) -> Trained:
    """Trains to the end, or from where a training before was stopped to the same end.

    What is drawn in an epoch depends on the seed and the epoch's number alone: the generators are seeded when it
    begins. So their states need not be kept, on whatever device.

    Args:
      learner: with new parameters.
      schedule: when to stop.
      output: below it the state is kept.
      header: what the training depends on; a state of another one is refused.
      progress: shows a bar on the terminal.

    Raises:
      InputError: the state is damaged or of another training; the loss is no number any more.
    """
    device = next(learner.module.parameters()).device
    state = resuming.load(output, header, device)
    log: list[Epoch] = []
    best: dict[str, Tensor] = {}
    if state is not None:
        try:
            learner.module.load_state_dict(state["module"])
            learner.optimiser.load_state_dict(state["optimiser"])
            log = msgspec.json.decode(state["log"], type=list[Epoch])
            best = state["best"]
        except (KeyError, RuntimeError, ValueError, msgspec.DecodeError) as error:
            raise InputError(f"is of another program or version: {error}", output, resuming.STATE) from None
        logging.info("going on after epoch %d", log[-1].epoch)
    while not _done(log, schedule):
        number = len(log) + 1
        started = time.monotonic()
        loss, examples = train_epoch(learner, schedule, number, progress)
        seconds = time.monotonic() - started
        learner.module.eval()
        with torch.inference_mode():
            dev = learner.dev()
        better = not log or dev > max(row.dev for row in log)
        log.append(Epoch(number, loss, dev, better))
        if better:
            best = {name: value.detach().clone() for name, value in learner.module.state_dict().items()}
        rate = examples / max(seconds, 1e-9)
        told = "epoch %d: loss %.4f, %s on dev %.2f%%%s, %s examples a second"
        logging.info(told, number, loss, learner.metric, 100 * dev, " (best)" if better else "", f"{rate:,.0f}")
        kept = {
            "header": json.dumps(header),
            "module": learner.module.state_dict(),
            "optimiser": learner.optimiser.state_dict(),
            "log": msgspec.json.encode(log),
            "best": best,
        }
        resuming.save(output, kept, log_bytes(log))
    return Trained(best, log)


def log_bytes(log: Iterable[Epoch]) -> bytes:
    """The log as JSON lines."""
    return b"".join(msgspec.json.encode(row) + b"\n" for row in log)


def _done(log: list[Epoch], schedule: Schedule) -> bool:
    if not log:
        return False
    best = max(log, key=lambda row: row.dev)  # the first of those that are equally good
    impatient = best.dev > 0 and len(log) - best.epoch >= schedule.patience  # until something is right, it may begin
    return best.dev >= PERFECT or len(log) >= schedule.epochs or impatient


def train_epoch(learner: Learner, schedule: Schedule, number: int, progress: bool = False) -> tuple[float, int]:
    """Trains on all batches once.

    Args:
      learner, schedule: as :func:`fit` has them.
      number: of the epoch, from 1; what is drawn depends on it.
      progress: shows a bar on the terminal.

    Returns:
      The mean loss, and the number of examples.

    Raises:
      InputError: the loss is no number any more.
    """
    seed_all(schedule.seed, "epoch", str(number))
    generator = torch.Generator().manual_seed(torch.initial_seed())
    device = next(learner.module.parameters()).device
    total = torch.zeros((), dtype=torch.float64, device=device)
    examples = 0
    learner.module.train()
    batches = list(learner.batches(generator))
    trained = [one for one in learner.module.parameters() if one.requires_grad]
    full = [float(group.setdefault("initial_lr", group["lr"])) for group in learner.optimiser.param_groups]
    with _bar(f"epoch {number}", len(batches), progress) as advance:
        for step, batch in enumerate(batches, (number - 1) * len(batches)):
            for group, rate in zip(learner.optimiser.param_groups, full, strict=True):
                group["lr"] = rate * schedule.rate(step, len(batches))
            # Half the memory and more than twice the speed on a GPU; a CPU gains nothing.
            with torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
                loss = learner.loss(batch)
            learner.optimiser.zero_grad(set_to_none=True)
            loss.backward()
            if schedule.clip:
                nn.utils.clip_grad_norm_(trained, schedule.clip)
            learner.optimiser.step()
            total += loss.detach() * len(batch)  # asked for once an epoch: each question waits for the GPU
            examples += len(batch)
            advance()
    mean = float(total) / examples
    if not math.isfinite(mean):
        raise InputError(f"the loss is no number any more in epoch {number}: lower it", "--learning_rate")
    return mean, examples


@contextmanager
def _bar(title: str, steps: int, shown: bool) -> Iterator[Callable[[], object]]:
    if not shown or not sys.stderr.isatty():
        yield lambda: None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(title, total=steps)
        yield lambda: bar.advance(task)
