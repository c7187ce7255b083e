"""How the training of a model is timed, and what a family of models says for it: its cases.

A case is run in rounds, one way after the other, so that what else the machine does hits all alike; the best of each
way counts. Each has a new learner, of the same seed, with its texts read and made token ids before. The ways:

- a bare PyTorch loop, that draws an order, takes its batches, padded to their longest, and steps, and nothing else;
- ours, the epochs alone;
- all that a training does, with dev after each epoch, the log and the state on disk;
- of trackers, after the epochs, the prediction of the frames that they were trained on.

Seconds are CPU seconds, of all threads; on a GPU they are those on the clock.
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

ROUNDS, SECONDS = 3, 12.0  # at least so many rounds of a case, and so long: what is quick is timed more often
BARE, EPOCHS, ALL, TRACKED = "bare", "epochs", "all", "tracked"

Row = TypeVar("Row")

sys.path.append(str(Path(__file__).parents[1] / "tests"))  # they make tiny checkpoints


@dataclass(frozen=True)
class Case:
    """A model that is timed.

    Attributes:
      name: as the table has it.
      unit: what an example is.
      make: a new learner; its config has the batch size.
      config: of its training; dev may not be perfect before the last epoch.
      loss: makes what the bare loop has instead of the learner's own loss, with the token ids ready.
      groups: the sizes of groups of examples that no batch mixes.
      tracker: what predicts with the learner's module.
      asked: what it predicts.
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
    """The flags of ``parapet train MODEL``: its defaults, but for what the benchmark's own and ``more`` say."""
    given = {"output": "-", "epochs": args.epochs, "patience": args.epochs, "threads": args.threads}
    given |= {"device": args.device, "batch_size": args.batch_size, "checkpoint": "-" if model in BY_MODEL else None}
    argv = [f"--{flag}={value}" for flag, value in given.items() if value is not None]
    return family_of(model).train_parser().parse([*argv, *more])[0]


def checkpoint_of(model: str, args: argparse.Namespace, texts: Sequence[str], **shape: Any) -> Checkpoint:
    """That of ``--checkpoint``, or a new one with random weights, saved as real ones are.

    Args:
      model: that begins with it.
      args: the flags.
      texts: for the tokenizer of a new one, of 2,000 tokens.
      shape: of a new one, besides its two layers of 128.
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
    """So many rows, again from the first where there are fewer; and a tenth of them for dev."""
    taken = (rows * (number // len(rows) + 1))[:number]
    return taken, taken[: max(1, number // 10)]


def rates_of(case: Case, args: argparse.Namespace) -> tuple[int, dict[str, float]]:
    """How many examples an epoch has; and how many of them, or of frames, each way does in a second."""
    learner = case.make()
    groups = case.groups(learner) if case.groups else [sum(map(len, learner.batches(torch.Generator())))]
    rounds: list[dict[str, float]] = []
    while len(rounds) < ROUNDS or sum(sum(one.values()) for one in rounds) < SECONDS:
        rounds.append(dict(_round(case, groups, args)))
    best = {way: min(one[way] for one in rounds) for way in rounds[0]}
    trained = args.epochs * sum(groups)
    done = {BARE: trained, EPOCHS: trained, ALL: trained, TRACKED: len(case.asked)}
    return sum(groups), {way: done[way] / spent for way, spent in best.items()}


def _round(case: Case, groups: Sequence[int], args: argparse.Namespace) -> Iterator[tuple[str, float]]:
    """The seconds of each way."""

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
    """A learner; its parameters are drawn alike each time."""
    seed_all("0", "parameters")
    learner: Learner = case.make()
    return learner


def seconds(device: str) -> float:
    """CPU seconds so far; with a GPU, those on the clock when it is done."""
    if device == "cuda":
        torch.cuda.synchronize()
        return time.perf_counter()
    return time.process_time()


def bare(learner: Any, groups: Sequence[int], loss: Callable[[Tensor], Tensor], epochs: int, device: str) -> None:
    """Trains as little as can be."""
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
    """Trains as the command does, without dev and state."""
    position = Position()
    for _ in range(epochs):
        batches = Stretch(learner, config, position)
        train_batches(learner, config, batches, position, epochs * len(batches))
        position = batches.end


def whole(learner: Learner, config: TrainingConfig, out: str) -> None:
    """Trains as the command does."""
    log = fit(learner, config, out, {"benchmark": True}).log
    if len(log) < (config.epochs or 0):
        raise SystemExit(f"dev was perfect after {len(log)} of {config.epochs} epochs: this cannot be compared")
