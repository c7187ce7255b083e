"""The interface of a model in training, its batches, and the training loop."""

from __future__ import annotations

import io
import json
import logging
import math
from abc import ABC, abstractmethod
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import msgspec
import torch
from apache_beam.io.filesystems import FileSystems
from torch import Tensor, nn

from parapet.evaluation.dst.model import Model
from parapet.evaluation.models import configs, dst, saving
from parapet.schemas.errors import InputError
from parapet.schemas.layout import stays_within
from parapet.transforms.core import files, progress
from parapet.transforms.report.report import Report, Table, Tile, page
from parapet.transforms.report.text import counted, percent


class Learner(ABC):
    """A model with its data, which each family of models defines, and :func:`train` trains.

    Attributes:
      module: the trained module, on its device.
      optimiser: the optimiser of its parameters.
      metric: the name of the metric of ``dev``: a share, where more is better.
      total_steps: the steps of a training by epochs, if epochs differ in length; else 0.
    """

    module: nn.Module
    optimiser: torch.optim.Optimizer
    metric: str
    total_steps: int = 0

    @abstractmethod
    def batches(self, generator: torch.Generator) -> Iterable[Tensor]:
        """Yields the batches of an epoch, drawn from the generator: numbers of examples, shape (examples,)."""

    @abstractmethod
    def loss(self, batch: Tensor) -> Tensor:
        """Computes the mean loss of a batch, a scalar. A loss without a gradient changes nothing."""

    @abstractmethod
    def dev(self) -> float:
        """Computes the metric on the dev set."""

    @abstractmethod
    def files(self) -> dict[str, bytes]:
        """Makes the files of the model's folder, as path to content. The module has the best weights then."""

    def result(self) -> dict[str, float | None]:
        """Returns further results for ``run.json``; called after ``files``."""
        return {}


class TrackerLearner(Learner):
    """A state tracker with its data.

    Subclasses set ``_tracker``, which predicts with the module, and ``_dev``, the frames that select the best epoch.
    """

    metric = "joint goal accuracy"
    _tracker: Model
    _dev: Sequence[dst.Labelled]

    def dev(self) -> float:
        """Computes joint goal accuracy on dev."""
        return dst.joint_goal_accuracy(self._tracker, self._dev)


FOLDER = ".training"  # in the output folder, until the training ends


STATE = f"{FOLDER}/state.pt"


LOG = f"{FOLDER}/log.jsonl"


STAGE = "training"  # of the progress


PERFECT = 1.0


class Measurement(msgspec.Struct, frozen=True, kw_only=True):
    """A row of the log: the training since the previous row, and the metric on the dev set after it.

    Attributes:
      epoch: the number of the last step's epoch, from 1.
      step: steps of the optimiser so far.
      learning_rate: the learning rate of the last step; the highest of all groups of parameters.
      loss: the mean over the examples.
      dev: the metric.
      best: whether it is the one to keep, so far.
    """

    epoch: int
    step: int
    learning_rate: float
    loss: float
    dev: float
    best: bool


class TrainedModel(msgspec.Struct, frozen=True):
    """A trained model.

    Attributes:
      files: the files of its folder: path to content.
      log: all measurements.
      metric: the metric of dev.
      parameters: the number of trained parameters.
      result: see :meth:`Learner.result`.
    """

    files: dict[str, bytes]
    log: list[Measurement]
    metric: str
    parameters: int
    result: dict[str, float | None]

    @property
    def best(self) -> Measurement:
        """The measurement whose weights were kept."""
        return next(row for row in reversed(self.log) if row.best)


def train(
    config: configs.TrainingConfig, learner_of: Callable[[], Learner], output: str, header: Mapping[str, Any]
) -> TrainedModel:
    """Trains a model, or resumes an interrupted training.

    Args:
      config: the settings of the training.
      learner_of: makes the model with its data; new parameters are drawn from the seed.
      output: the folder that keeps the state after each measurement of the dev set.
      header: what the training depends on.

    Raises:
      InputError: the checkpoint cannot be used, memory is exhausted, the state belongs to another training, or a link
        leads it out of the folder.
    """
    if not stays_within(output, f"{FOLDER}/any"):
        raise InputError("leads outside of the output folder by a link: remove the link", files.join(output, FOLDER))
    torch.set_num_threads(config.threads)
    saving.seed_all(config.seed, "parameters")
    with saving.enough_memory(config.batch_size):
        learner = learner_of()
        weights, log = fit(learner, config, output, header)
        learner.module.load_state_dict(weights)
        written = learner.files()
    parameters = sum(parameter.numel() for parameter in learner.module.parameters() if parameter.requires_grad)
    return TrainedModel(written, log, learner.metric, parameters, learner.result())


class Position(NamedTuple):
    """The progress of a training: completed steps, number of the epoch from 1, and its completed batches."""

    steps: int = 0
    epoch: int = 1
    batches: int = 0


def fit(
    learner: Learner, config: configs.TrainingConfig, output: str, header: Mapping[str, Any]
) -> tuple[dict[str, Tensor], list[Measurement]]:
    """Trains to the end, and returns the best weights with the log.

    An interrupted training resumes from its last state and ends with the same weights. Draws depend on the seed and the
    position only, with which the generators are seeded. Their states therefore need not be stored, on any device.

    Args:
      learner: with new parameters.
      config: the settings of the training.
      output: the state is stored below this folder.
      header: what the training depends on; the state of another training is refused.

    Raises:
      InputError: the state is damaged or belongs to another training, or the loss is not finite.
    """
    state = load_state(output, header, next(learner.module.parameters()).device)
    log: list[Measurement] = []
    best: dict[str, Tensor] = {}
    position = Position()
    if state is not None:
        learner.module.load_state_dict(state["module"])
        learner.optimiser.load_state_dict(state["optimiser"])
        log = msgspec.json.decode(state["log"], type=list[Measurement])
        position = Position(*state["position"])
        best = state["best"]
        logging.info("resuming after %s", _name(log[-1], config))
    begun = position.steps
    while not _done(log, config):
        batches = Interval(learner, config, position)
        total = config.steps or learner.total_steps or config.most_epochs * len(batches)
        if position.steps == begun:
            progress.expect(total - begun, "steps", STAGE)  # those of this run, as its speed is that of these
        loss = train_batches(learner, config, batches, position, total, [row.dev for row in log])
        end = batches.end
        learner.module.eval()
        with torch.inference_mode():
            dev = learner.dev()
        row = Measurement(
            epoch=end.epoch if end.batches else end.epoch - 1,
            step=end.steps,
            learning_rate=max(float(group["lr"]) for group in learner.optimiser.param_groups),
            loss=loss,
            dev=dev,
            best=_is_best(dev, log, config),
        )
        log.append(row)
        position = end
        if row.best:
            best = {name: value.detach().clone() for name, value in learner.module.state_dict().items()}
        message = "%s: loss %.4f, %s on dev %.2f%%%s"
        name, note = _name(row, config), " (best)" if row.best and config.keep == "best" else ""
        logging.info(message, name, loss, learner.metric, 100 * dev, note)
        state = {
            "header": json.dumps(header),
            "module": learner.module.state_dict(),
            "optimiser": learner.optimiser.state_dict(),
            "log": msgspec.json.encode(log),
            "position": list(position),
            "best": best,
        }
        save_state(output, state, log_bytes(log))
    return best, log


def log_bytes(log: Iterable[Measurement]) -> bytes:
    """Encodes the log as JSON lines."""
    return b"".join(msgspec.json.encode(row) + b"\n" for row in log)


def _name(row: Measurement, config: configs.TrainingConfig) -> str:
    return f"epoch {row.epoch}" if config.steps is None else f"step {row.step:,}"


def _is_best(dev: float, log: list[Measurement], config: configs.TrainingConfig) -> bool:
    if config.keep == "last":
        return True
    highest = max((row.dev for row in log), default=-1.0)
    # Of equal results, --steps keeps the last: before anything is right, the first has learned least.
    return dev > highest or (config.steps is not None and dev == highest)


def _done(log: list[Measurement], config: configs.TrainingConfig) -> bool:
    if not log:
        return False
    if config.steps is not None:
        return log[-1].step >= config.steps
    if config.keep == "last":
        return len(log) >= config.most_epochs
    best = max(log, key=lambda row: row.dev)  # the first of equal ones
    # A model without any correct prediction so far may still be about to learn.
    impatient = config.patience is not None and best.dev > 0 and len(log) - best.epoch >= config.patience
    return best.dev >= PERFECT or len(log) >= config.most_epochs or impatient


class Interval:
    """The batches until the next measurement of the dev set, drawn epoch by epoch with seeded generators.

    Args:
      learner, config: see :func:`fit`.
      position: the progress of the training.

    Attributes:
      end: the position after the batches yielded so far.

    Raises:
      InputError: there are no batches.
    """

    def __init__(self, learner: Learner, config: configs.TrainingConfig, position: Position) -> None:
        self.learner, self.config, self.end = learner, config, position
        self._epoch = _epoch(learner, config, position.epoch)
        self._count = len(self._epoch)
        if config.steps is not None and config.eval_steps is not None:
            self._count = min(config.eval_steps, config.steps - position.steps)
            saving.seed_all(config.seed, "step", str(position.steps))

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Tensor]:
        for number in range(self._count):
            steps, epoch, done = self.end
            if number and not done:
                with torch.random.fork_rng():  # dropout must not depend on where epochs begin
                    self._epoch = _epoch(self.learner, self.config, epoch)
            batch, ended = self._epoch[done], done + 1 == len(self._epoch)
            self.end = Position(steps + 1, epoch + ended, 0 if ended else done + 1)
            yield batch


def _epoch(learner: Learner, config: configs.TrainingConfig, number: int) -> list[Tensor]:
    """Draws the batches of an epoch."""
    saving.seed_all(config.seed, "epoch", str(number))
    batches = list(learner.batches(torch.Generator().manual_seed(torch.initial_seed())))
    if not batches:
        raise InputError("there is nothing to learn from: no example is left", "--train")
    return batches


def train_batches(
    learner: Learner,
    config: configs.TrainingConfig,
    batches: Interval,
    position: Position,
    total: int,
    dev: Sequence[float] = (),
) -> float:
    """Trains on batches.

    Args:
      learner, config: see :func:`fit`.
      batches: numbers of examples.
      position: the position before the batches.
      total: the steps of the whole training.
      dev: all earlier results on dev.

    Returns:
      The mean loss over the examples.

    Raises:
      InputError: the loss is not finite.
    """
    device = next(learner.module.parameters()).device
    # Twice the speed, with half the memory, on a GPU and on the matrix units of a CPU; no gain on other CPUs.
    fast = device.type == "cuda" or torch.cpu._is_amx_tile_supported()
    learner.module.train()
    trained = [parameter for parameter in learner.module.parameters() if parameter.requires_grad]
    full = [float(group.setdefault("initial_lr", group["lr"])) for group in learner.optimiser.param_groups]
    losses = torch.zeros(len(batches), dtype=torch.float64, device=device)
    norm = config.clipped_norm
    lengths = []
    for number, batch in enumerate(progress.tracked(batches, "steps", STAGE)):
        for group, rate in zip(learner.optimiser.param_groups, full, strict=True):
            group["lr"] = rate * config.rate(position.steps + number, total, dev)
        with torch.autocast(device.type, torch.bfloat16, enabled=fast):
            loss = learner.loss(batch)
        if loss.requires_grad:  # without a gradient, this batch has nothing to learn
            learner.optimiser.zero_grad(set_to_none=True)
            loss.backward()
            if norm:
                nn.utils.clip_grad_norm_(trained, norm)
            learner.optimiser.step()
        losses[number] = loss.detach()  # read at the end, since each reading waits for the GPU
        lengths.append(len(batch))
    sizes = torch.tensor(lengths, dtype=torch.float64)
    mean = float((losses.cpu() * sizes).sum() / sizes.sum())
    if not math.isfinite(mean):
        raise InputError(f"the loss is not a finite number in epoch {position.epoch}: lower it", "--learning_rate")
    return mean


def save_state(output: str, state: Mapping[str, Any], log: bytes) -> None:
    """Writes a state and the log so far; each replaces the previous one atomically.

    The log is written first: a kill in between leaves a log that is a row ahead, which will be written again.
    """
    buffer = io.BytesIO()
    torch.save(dict(state), buffer)
    files.make_folder(files.join(output, FOLDER))
    for relative, data in ((LOG, log), (STATE, buffer.getvalue())):
        with files.whole(files.join(output, relative)) as handle:
            handle.write(data)


def load_state(output: str, header: Mapping[str, Any], device: torch.device) -> dict[str, Any] | None:
    """Loads the state of an interrupted training; None if there is none.

    Args:
      output: the output folder.
      header: what the training depends on; must equal that of the state.
      device: the device of the tensors.

    Raises:
      InputError: the state is damaged, or belongs to a training with other flags or files.
    """
    place = files.join(output, STATE)
    if not FileSystems.exists(place):
        return None
    undo = f"delete {files.join(output, FOLDER)} to start again"
    try:
        # weights_only allows only tensors and plain values, so that a file cannot run code.
        state = torch.load(io.BytesIO(files.read_bytes(place)), map_location=device, weights_only=True)
        saved = json.loads(state["header"])
    except Exception as error:  # damaged files lead to various errors of zip files, pickles and torch
        raise InputError(f"is damaged ({type(error).__name__}): {undo}", place) from None
    if saved != header:
        others = ", ".join(differing(saved, header))
        reason = (
            f"contains an unfinished training with other {others}: use the same ones, choose another --output, "
            f"or {undo}"
        )
        raise InputError(reason, place)
    return dict(state)


def differing(first: Mapping[str, Any], second: Mapping[str, Any]) -> list[str]:
    """Lists the differences between two headers: the names of flags and versions."""
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


Option = str | int | float | bool | None


def page_of(model: str, options: Mapping[str, Option], trained: TrainedModel) -> str:
    """Makes the page of a training.

    Args:
      model: the name of the model.
      options: the flags of the training.
      trained: the model with its log.
    """
    log, best, metric = trained.log, trained.best, trained.metric
    by_steps = options.get("steps") is not None
    where = f"step {best.step:,}" if by_steps else f"epoch {best.epoch}"
    selected = f"with the highest {metric} on dev were kept, the {'last' if by_steps else 'first'} of equal ones"
    return page(
        Report(
            command="train",
            title=f"Training of {model}",
            headline=f"{model}: {metric} on dev {percent(best.dev)} after {where}",
            lead=f"The weights {'of the last step were kept' if options.get('keep') == 'last' else selected}.",
            tiles=[
                Tile(f"{metric} on dev", percent(best.dev)),
                Tile("steps", f"{log[-1].step:,}"),
                Tile("trained parameters", f"{trained.parameters:,}"),
                Tile("loss at the end", f"{log[-1].loss:.4g}"),
                *(Tile(name.replace("_", " "), f"{value:,.6g}") for name, value in trained.result.items() if value),
            ],
            sections=[_measurements(log, metric)],
            links={
                "log.jsonl": f"The {counted(len(log), 'measurement')} of the table.",
                "run.json": "Flags, hashes of the files, versions.",
            },
        )
    )


def _measurements(log: Sequence[Measurement], metric: str) -> Table:
    rows = [
        [str(row.epoch), f"{row.step:,}", f"{row.learning_rate:.3g}", f"{row.loss:.4g}", percent(row.dev)]
        for row in log
    ]
    best = max(number for number, row in enumerate(log) if row.best)
    columns = ["epoch", "step", "learning rate", "mean loss since the row before", f"{metric} on dev"]
    return Table(
        title="Measurements", columns=columns, rows=rows, text_columns=1, best=[(best, 4)], numbers_in="log.jsonl"
    )


POOL = 64  # batches whose examples are sorted by length; with more, the order would be less random


def bucketed(lengths: Tensor, batch: int, generator: torch.Generator) -> Iterator[Tensor]:
    """Yields the batches of an epoch: numbers of examples, shuffled, sorted by length within pools, then batched.

    Args:
      lengths: the length of each example, on the CPU; shape (examples,).
      batch: examples in a batch.
      generator: the random generator.
    """
    batches = [
        batch_ids
        for pool in torch.randperm(len(lengths), generator=generator).split(batch * POOL)
        for batch_ids in pool[lengths[pool].argsort(stable=True)].split(batch)
    ]
    for i in torch.randperm(len(batches), generator=generator).tolist():
        yield batches[i]


def by_length(lengths: Sequence[int], batch: int) -> Iterator[list[int]]:
    """Yields batches in a fixed order: numbers of examples, the longest first, so that memory runs out at once."""
    order = sorted(range(len(lengths)), key=lambda i: -lengths[i])
    for start in range(0, len(order), batch):
        yield order[start : start + batch]


class Rows:
    """Rows of token ids in one tensor, gathered and padded without a Python loop over them.

    Args:
      rows: the token ids of each example; may be empty.
      device: the device of the batches.
    """

    def __init__(self, rows: Sequence[Sequence[int]], device: torch.device | str = "cpu") -> None:
        self.lengths = torch.tensor([len(row) for row in rows], dtype=torch.long)
        self.starts = self.lengths.cumsum(0) - self.lengths
        self.flat = torch.tensor([token for row in rows for token in row], dtype=torch.int32)
        self.device = torch.device(device)

    def padded(self, ids: Tensor, fill: int, left: bool = False) -> tuple[Tensor, Tensor]:
        """Returns token ids and mask of some rows; both of shape (examples, the longest of them; at least 1).

        Args:
          ids: numbers of rows, on the CPU; shape (examples,).
          fill: the padding token.
          left: whether to pad on the left.
        """
        lengths = self.lengths[ids]
        width = max(1, int(lengths.max())) if len(ids) else 1
        columns = torch.arange(width)
        offsets = columns - (width - lengths)[:, None] if left else columns.expand(len(ids), width)
        mask = (offsets >= 0) & (offsets < lengths[:, None])
        tokens = torch.full((len(ids), width), fill, dtype=torch.long)
        tokens[mask] = self.flat[(self.starts[ids][:, None] + offsets)[mask]].long()
        return tokens.to(self.device, non_blocking=True), mask.long().to(self.device, non_blocking=True)


# Rounding errors of logits in single precision are far smaller, and differences between them usually far larger.
DOUBT = 1e-2


Decision = TypeVar("Decision")


# Rows to (decision, margin by which the best choice beats the next).
Decide = Callable[[Sequence[int]], Iterable[tuple[Decision, float]]]


def settled(batches: Iterable[Sequence[int]], decide: Decide[Decision]) -> list[Decision]:
    """Returns the decision of each row, in the order of their numbers.

    Close decisions are repeated in a batch of their own.

    Args:
      batches: numbers of rows; together all of them.
      decide: computes a batch.
    """
    decisions: dict[int, Decision] = {}
    for numbers in batches:
        for number, (decision, margin) in zip(numbers, decide(numbers), strict=True):
            if len(numbers) > 1 and not margin >= DOUBT:
                ((decision, _),) = decide([number])
            decisions[number] = decision
    return [decisions[number] for number in sorted(decisions)]


History = tuple[tuple[str, str], ...]  # (speaker, utterance) of each turn


Stretch = tuple[int, int]  # the position of some tokens: the first one, and the one behind the last


class Tokens:
    """Concatenated tokens of texts."""

    def __init__(self) -> None:
        self.flat = array("i")

    def add(self, ids: Iterable[int]) -> Stretch:
        """Appends tokens; returns their position."""
        start = len(self.flat)
        self.flat.extend(ids)
        return start, len(self.flat)


class Pairs:
    """Rows of a dialogue and a schema, to be taken in batches.

    Args:
      tokens: the store of tokens.
      rows: (dialogue, schema) of each row.
      limit: the maximum number of tokens in a row. Dialogues are cut on the left; schemas are never cut, and may exceed
        the limit.
      first: the token that each row begins with, if any.
    """

    def __init__(
        self, tokens: Tokens, rows: Sequence[tuple[Stretch, Stretch]], limit: int, first: int | None = None
    ) -> None:
        self.flat = torch.tensor(tokens.flat, dtype=torch.int32)
        self.first = first
        self.lead = int(first is not None)  # number of tokens before the dialogue
        places = torch.tensor([(*dialogue, *schema) for dialogue, schema in rows], dtype=torch.long).view(-1, 4)
        starts, self.ends, self.schemas, schema_ends = places.unbind(1)
        self.widths = schema_ends - self.schemas
        self.starts = torch.maximum(starts, self.ends - (limit - self.lead - self.widths).clamp(min=0))
        self.cut = int((self.starts > starts).sum())
        self.stretches = self.ends - self.starts  # lengths of the dialogues
        self.lengths = self.lead + self.stretches + self.widths

    def __len__(self) -> int:
        return len(self.lengths)

    def padded(self, ids: Tensor, fill: int) -> tuple[Tensor, Tensor]:
        """Returns token ids and mask of some rows; both of shape (rows, the longest of them).

        Args:
          ids: numbers of rows, on the CPU; shape (rows,).
          fill: the padding token.
        """
        columns = torch.arange(int(self.lengths[ids].max())) - self.lead
        own = self.stretches[ids][:, None]
        places = torch.where(
            columns < own, self.starts[ids][:, None] + columns, self.schemas[ids][:, None] - own + columns
        )
        mask = columns < self.lengths[ids][:, None] - self.lead
        tokens = self.flat[places.clamp(0, len(self.flat) - 1)].long().masked_fill(~mask, fill)
        if self.first is not None:
            tokens[:, 0] = self.first
        return tokens, mask.long()

    def decisions(self, batch: int, decide: Decide[Decision]) -> list[Decision]:
        """Returns the decision of each row, which does not depend on its batch."""
        return settled(list(by_length(self.lengths.tolist(), batch)), decide)
