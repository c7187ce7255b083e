"""The training loop of all models: epochs, the best one by dev, early stopping, a state on disk after each epoch.

It does what Trainer of transformers does, and three things more that ``docs/train.md`` compares: a training that was
killed at any moment resumes, one with other flags is refused, and models without a checkpoint need no transformers.
"""

from __future__ import annotations

import io
import json
import logging
import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec
import torch
from apache_beam.io.filesystems import FileSystems
from torch import Tensor, nn

from parapet.evaluation.models.devices import enough_memory, seed_all
from parapet.schemas.errors import InputError
from parapet.transforms import files
from parapet.transforms.progress import expect, tracked

FOLDER = ".training"  # below the output folder, until the training ends
STATE = f"{FOLDER}/state.pt"
LOG = f"{FOLDER}/log.jsonl"
PERFECT = 1.0


class Schedule(msgspec.Struct, frozen=True):
    """How long to train, and how fast.

    Attributes:
      epochs: the maximum.
      patience: training stops after this many epochs without an improvement.
      seed: of all random numbers.
      warmup: the share of all steps, of ``epochs`` epochs, over which the learning rate rises to its full height.
      decay: whether it falls linearly from there to zero at the last step.
      clip: the largest norm of the gradients, to which longer ones are scaled down; 0 for none.
    """

    epochs: int
    patience: int
    seed: str
    warmup: float = 0.0
    decay: bool = False
    clip: float = 0.0

    def rate(self, step: int, steps: int) -> float:
        """The share of the full learning rate at a step, with ``steps`` steps per epoch."""
        total = self.epochs * steps
        rising = self.warmup * total
        if step < rising:
            return (step + 1) / (rising + 1)
        return (total - step) / (total - rising) if self.decay else 1.0


class TrainingConfig(msgspec.Struct, frozen=True, kw_only=True):
    """How a model is trained: the flags that all have, by their names. Each family has a config of its own besides.

    Attributes:
      batch_size: examples per batch.
      learning_rate: the full one.
      epochs, patience: see :class:`Schedule`.
      seed: of all random numbers.
      threads: of the CPU.
      device: ``cpu`` or ``cuda``.
    """

    batch_size: int
    learning_rate: float
    epochs: int
    patience: int
    seed: str
    threads: int
    device: str

    @property
    def schedule(self) -> Schedule:
        """For the training loop: a constant learning rate, unless a family has another."""
        return Schedule(self.epochs, self.patience, self.seed)

    @property
    def memory_hint(self) -> str:
        """What to do where memory is used up."""
        return f"lower --batch_size, which is {self.batch_size}"


class Learner(ABC):
    """A model with its data: what a family of models defines, and :func:`train` trains.

    Attributes:
      module: what is trained, on its device.
      optimiser: of its parameters.
      metric: the name of what ``dev`` measures: a share, the higher the better.
    """

    module: nn.Module
    optimiser: torch.optim.Optimizer
    metric: str

    @abstractmethod
    def batches(self, generator: torch.Generator) -> Iterable[Tensor]:
        """The batches of an epoch: numbers of examples, shape (examples,), in an order drawn from the generator."""

    @abstractmethod
    def loss(self, batch: Tensor) -> Tensor:
        """The mean loss of a batch; a scalar."""

    @abstractmethod
    def dev(self) -> float:
        """The metric on the dev set."""

    @abstractmethod
    def files(self) -> dict[str, bytes]:
        """The files of the model's folder, when the module has the weights of the best epoch: path to content."""

    def result(self) -> dict[str, float | None]:
        """What ``run.json`` says of the model besides its best epoch; called after ``files``."""
        return {}


class Epoch(msgspec.Struct, frozen=True):
    """A row of the log: the mean loss of an epoch, and the metric on the dev set after it."""

    epoch: int
    loss: float
    dev: float
    best: bool


class Trained(msgspec.Struct, frozen=True):
    """The weights of the best epoch, and the log."""

    weights: dict[str, Tensor]
    log: list[Epoch]

    @property
    def best(self) -> Epoch:
        """The epoch whose weights these are."""
        return next(row for row in reversed(self.log) if row.best)


class TrainedModel(msgspec.Struct, frozen=True):
    """A trained model.

    Attributes:
      files: of its folder: path to content.
      log: of all epochs.
      best: the epoch that was kept.
      metric: what dev measures.
      result: see :meth:`Learner.result`.
    """

    files: dict[str, bytes]
    log: list[Epoch]
    best: Epoch
    metric: str
    result: dict[str, float | None]


def train(
    config: TrainingConfig,
    learner_of: Callable[[], Learner],
    output: str,
    header: Mapping[str, Any],
) -> TrainedModel:
    """Trains a model, or resumes a training that was stopped.

    Args:
      config: how.
      learner_of: makes the model with its data; new parameters are drawn from the seed.
      output: the folder that keeps the state after each epoch.
      header: what the training depends on.

    Raises:
      InputError: a checkpoint that cannot be used, too little memory, or the state of another training.
    """
    torch.set_num_threads(config.threads)
    seed_all(config.seed, "parameters")
    with enough_memory(config.memory_hint):
        learner = learner_of()
        trained = fit(learner, config.schedule, output, header)
        learner.module.load_state_dict(trained.weights)
        written = learner.files()
    return TrainedModel(written, trained.log, trained.best, learner.metric, learner.result())


def fit(learner: Learner, schedule: Schedule, output: str, header: Mapping[str, Any]) -> Trained:
    """Trains to the end; a training that was stopped resumes after its last whole epoch and ends with the same weights.

    What is drawn in an epoch depends on the seed and the epoch's number alone: the generators are seeded when it
    begins. So their states need not be kept, on whatever device.

    Args:
      learner: with new parameters.
      schedule: when to stop.
      output: the state is kept below it.
      header: what the training depends on; the state of another one is refused.

    Raises:
      InputError: the state is damaged or of another training; the loss is not finite.
    """
    device = next(learner.module.parameters()).device
    state = load_state(output, header, device)
    log: list[Epoch] = []
    best: dict[str, Tensor] = {}
    if state is not None:
        try:
            learner.module.load_state_dict(state["module"])
            learner.optimiser.load_state_dict(state["optimiser"])
            log = msgspec.json.decode(state["log"], type=list[Epoch])
            best = state["best"]
        except (KeyError, RuntimeError, ValueError, msgspec.DecodeError) as error:
            raise InputError(f"is of another program or version: {error}", output, STATE) from None
        logging.info("resuming after epoch %d", log[-1].epoch)
    while not _done(log, schedule):
        number = len(log) + 1
        started = time.monotonic()
        loss, examples = train_epoch(learner, schedule, number, log[-1] if log else None)
        rate = examples / max(time.monotonic() - started, 1e-9)
        learner.module.eval()
        with torch.inference_mode():
            dev = learner.dev()
        better = not log or dev > max(row.dev for row in log)
        log.append(Epoch(number, loss, dev, better))
        if better:
            best = {name: value.detach().clone() for name, value in learner.module.state_dict().items()}
        message = "epoch %d: loss %.4f, %s on dev %.2f%%%s, %s examples/s"
        logging.info(message, number, loss, learner.metric, 100 * dev, " (best)" if better else "", f"{rate:,.0f}")
        state = {
            "header": json.dumps(header),
            "module": learner.module.state_dict(),
            "optimiser": learner.optimiser.state_dict(),
            "log": msgspec.json.encode(log),
            "best": best,
        }
        save_state(output, state, log_bytes(log))
    return Trained(best, log)


def log_bytes(log: Iterable[Epoch]) -> bytes:
    """The log as JSON lines."""
    return b"".join(msgspec.json.encode(row) + b"\n" for row in log)


def _done(log: list[Epoch], schedule: Schedule) -> bool:
    if not log:
        return False
    best = max(log, key=lambda row: row.dev)  # the first of those that are equally good
    # A model that has nothing right yet may still be about to learn.
    impatient = best.dev > 0 and len(log) - best.epoch >= schedule.patience
    return best.dev >= PERFECT or len(log) >= schedule.epochs or impatient


def train_epoch(learner: Learner, schedule: Schedule, number: int, previous: Epoch | None = None) -> tuple[float, int]:
    """Trains on all batches once.

    Args:
      learner, schedule: see :func:`fit`.
      number: of the epoch, from 1; what is drawn depends on it.
      previous: the epoch before, whose loss is shown.

    Returns:
      The mean loss, and the number of examples.

    Raises:
      InputError: the loss is not finite.
    """
    seed_all(schedule.seed, "epoch", str(number))
    generator = torch.Generator().manual_seed(torch.initial_seed())
    device = next(learner.module.parameters()).device
    total = torch.zeros((), dtype=torch.float64, device=device)
    examples = 0
    learner.module.train()
    batches = list(learner.batches(generator))
    trained = [parameter for parameter in learner.module.parameters() if parameter.requires_grad]
    full = [float(group.setdefault("initial_lr", group["lr"])) for group in learner.optimiser.param_groups]
    stage = f"epoch {number} of {schedule.epochs}" + (f", loss {previous.loss:.4f}" if previous else "")
    expect(len(batches), "steps", stage)
    for step, batch in enumerate(tracked(batches, "steps", stage), (number - 1) * len(batches)):
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
        total += loss.detach() * len(batch)  # read once an epoch: each reading waits for the GPU
        examples += len(batch)
    mean = float(total) / examples
    if not math.isfinite(mean):
        raise InputError(f"the loss is not a finite number in epoch {number}: lower it", "--learning_rate")
    return mean, examples


def save_state(output: str, state: Mapping[str, Any], log: bytes) -> None:
    """Writes a state and the log so far; each replaces the previous one in a single step.

    The log goes first: a kill between the two leaves a log that is an epoch ahead, and is written again.
    """
    buffer = io.BytesIO()
    torch.save(dict(state), buffer)
    files.make_folder(files.join(output, FOLDER))
    for relative, data in ((LOG, log), (STATE, buffer.getvalue())):
        with files.whole(files.join(output, relative)) as handle:
            handle.write(data)


def load_state(output: str, header: Mapping[str, Any], device: torch.device) -> dict[str, Any] | None:
    """The state that a training left, or None.

    Args:
      output: the output folder.
      header: what the training depends on; that of the state must be the same.
      device: where its tensors go.

    Raises:
      InputError: it is damaged, or of a training with other flags or files.
    """
    place = files.join(output, STATE)
    if not FileSystems.exists(place):
        return None
    undo = f"delete {files.join(output, FOLDER)} to start again"
    try:
        # Nothing but tensors and plain values: a file cannot run code of its own.
        state = torch.load(io.BytesIO(files.read_bytes(place)), map_location=device, weights_only=True)
        saved = json.loads(state["header"])
    except Exception as error:  # of zip files, pickles, torch: whatever a damaged file leads to
        raise InputError(f"is damaged ({type(error).__name__}): {undo}", place) from None
    if saved != header:
        others = ", ".join(differing(saved, header))
        reason = f"an unfinished training with other {others} is here: use those, another --output, or {undo}"
        raise InputError(reason, place)
    return dict(state)


def differing(first: Mapping[str, Any], second: Mapping[str, Any]) -> list[str]:
    """What differs between two headers: flags and versions by their names."""
    names: list[str] = []
    for key in sorted({*first, *second}):
        left, right = first.get(key), second.get(key)
        if left == right:
            continue
        if isinstance(left, Mapping) and isinstance(right, Mapping):
            names += [f"--{name}" for name in sorted({*left, *right}) if left.get(name) != right.get(name)]
        else:
            names.append(key)
    return names


def clear_state(output: str) -> None:
    """Deletes the state, when the model is published."""
    files.clear(files.join(output, FOLDER))
