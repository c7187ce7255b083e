"""Times the training of a model, by the cases that each family of models defines.

A case runs in rounds that alternate between the ways, so that other load on the machine affects all alike; the best of
each way counts. Each has a new learner with the same seed, whose texts are already tokenized. The ways:

- a bare PyTorch loop that draws an order, takes its batches, padded to their longest, and steps, and nothing else;
- our epochs alone;
- a whole training, with dev after each epoch, the log and the state on disk;
- for trackers, after the epochs, the prediction of the training frames.

Seconds are CPU seconds of all threads; on a GPU, they are wall-clock seconds.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor
from transformers.utils import logging as transformers_logging

from parapet.evaluation.dst.model import Example, Model
from parapet.evaluation.models.configs import TrainingConfig
from parapet.evaluation.models.saving import BY_MODEL, seed_all
from parapet.evaluation.models.training import Learner, Position, Stretch, fit, train_batches
from parapet.pipelines.models import family_of
from parapet.transforms.storage.checkpoints import Checkpoint, inspect

ROUNDS, SECONDS = 3, 12.0  # least number of rounds of a case, and least time, so that quick cases are timed more often
BARE, EPOCHS, ALL, TRACKED = "bare", "epochs", "all", "tracked"

Row = TypeVar("Row")

sys.path.append(str(Path(__file__).parents[1] / "tests"))  # the tests' modules make tiny checkpoints


@dataclass(frozen=True)
class Case:
    """A model to time.

    Attributes:
      name: its name in the table.
      unit: the unit of examples.
      make: makes a new learner; its config has the batch size.
      config: the settings of its training; dev must not be perfect before the last epoch.
      loss: makes the loss of the bare loop, with token ids prepared, in place of the learner's own.
      groups: the sizes of groups of examples that no batch mixes.
      tracker: makes the tracker with the learner's module.
      asked: the tracker's inputs.
    """

    name: str
    unit: str
    make: Callable[[], Any]
    config: TrainingConfig
    loss: Callable[[Any], Callable[[Tensor], Tensor]] | None = None
    groups: Callable[[Any], Sequence[int]] | None = None
    tracker: Callable[[Any], Model] | None = None
    asked: Sequence[Example] = ()


def flags_of(model: str, args: argparse.Namespace, *more: str) -> argparse.Namespace:
    """Parses the flags of ``parapet train MODEL``: its defaults, overridden by the benchmark's flags and ``more``."""
    given = {"output": "-", "epochs": args.epochs, "patience": args.epochs, "threads": args.threads}
    given |= {"device": args.device, "batch_size": args.batch_size, "checkpoint": "-" if model in BY_MODEL else None}
    argv = [f"--{flag}={value}" for flag, value in given.items() if value is not None]
    return family_of(model).train_parser().parse([*argv, *more])[0]


def checkpoint_of(model: str, args: argparse.Namespace, texts: Sequence[str], **shape: Any) -> Checkpoint:
    """Opens the checkpoint of ``--checkpoint``, or saves a new one with random weights.

    Args:
      model: the model that starts from it.
      args: the flags.
      texts: for the tokenizer of a new checkpoint, with 2,000 tokens.
      shape: the shape of a new checkpoint, besides its two layers of 128.
    """
    kinds = BY_MODEL[model]
    path = args.checkpoint
    if not path:
        path = args.folder / "train" / f"{model}-checkpoint"
        shutil.rmtree(path, ignore_errors=True)
        transformers_logging.disable_progress_bar()
        save = getattr(import_module(f"tiny_{kinds[0]}"), f"save_{kinds[0]}")
        save(path, texts, size=128, layers=2, vocabulary=2000, **shape)
    return inspect(str(path), kinds)


def split(rows: list[Row], number: int) -> tuple[list[Row], list[Row]]:
    """Returns this number of rows, repeated if there are fewer, and a tenth of them for dev."""
    taken = (rows * (number // len(rows) + 1))[:number]
    return taken, taken[: max(1, number // 10)]


def rates_of(case: Case, args: argparse.Namespace) -> tuple[int, dict[str, float]]:
    """Returns the number of examples in an epoch, and the examples or frames per second of each way."""
    learner = case.make()
    groups = case.groups(learner) if case.groups else [sum(map(len, learner.batches(torch.Generator())))]
    rounds: list[dict[str, float]] = []
    while len(rounds) < ROUNDS or sum(sum(rates.values()) for rates in rounds) < SECONDS:
        rounds.append(dict(_round(case, groups, args)))
    best = {way: min(rates[way] for rates in rounds) for way in rounds[0]}
    trained = args.epochs * sum(groups)
    done = {BARE: trained, EPOCHS: trained, ALL: trained, TRACKED: len(case.asked)}
    return sum(groups), {way: done[way] / spent for way, spent in best.items()}


def _round(case: Case, groups: Sequence[int], args: argparse.Namespace) -> Iterator[tuple[str, float]]:
    """Yields the seconds of each way."""

    def timed(way: Callable[[], object]) -> float:
        started = seconds(args.device)
        way()
        return seconds(args.device) - started

    learner = begun(case)
    loss = case.loss(learner) if case.loss else learner.loss
    yield BARE, timed(lambda: bare(learner, groups, loss, args.epochs, args.device))
    learner = begun(case)
    yield EPOCHS, timed(lambda: train_epochs(learner, case.config, args.epochs))
    if case.tracker:
        tracker = case.tracker(learner)
        learner.module.eval()
        yield TRACKED, timed(lambda: tracker.predict(case.asked))
    learner = begun(case)
    out = str(args.folder / "train" / "state")
    shutil.rmtree(out, ignore_errors=True)
    yield ALL, timed(lambda: whole(learner, case.config, out))


def begun(case: Case) -> Learner:
    """Makes a learner with the same initial parameters each time."""
    seed_all("0", "parameters")
    learner: Learner = case.make()
    return learner


def seconds(device: str) -> float:
    """Returns CPU seconds so far; with a GPU, synchronised wall-clock seconds."""
    if device == "cuda":
        torch.cuda.synchronize()
        return time.perf_counter()
    return time.process_time()


def bare(learner: Any, groups: Sequence[int], loss: Callable[[Tensor], Tensor], epochs: int, device: str) -> None:
    """Trains with a minimal loop."""
    learner.module.train()
    for _ in range(epochs):
        order, first = [], 0
        for size in groups:
            order += (torch.randperm(size) + first).split(learner.config.batch_size)
            first += size
        for number in torch.randperm(len(order)).tolist():
            with torch.autocast(device, torch.bfloat16, enabled=device == "cuda"):
                found = loss(order[number])
            learner.optimiser.zero_grad(set_to_none=True)
            found.backward()
            learner.optimiser.step()


def train_epochs(learner: Learner, config: TrainingConfig, epochs: int) -> None:
    """Trains like the command, without dev and state."""
    position = Position()
    for _ in range(epochs):
        batches = Stretch(learner, config, position)
        train_batches(learner, config, batches, position, epochs * len(batches))
        position = batches.end


def whole(learner: Learner, config: TrainingConfig, out: str) -> None:
    """Trains like the command."""
    log = fit(learner, config, out, {"benchmark": True}).log
    if len(log) < (config.epochs or 0):
        raise SystemExit(f"dev was perfect after {len(log)} of {config.epochs} epochs: this cannot be compared")
