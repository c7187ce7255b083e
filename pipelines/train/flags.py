"""What the commands that train share: the flags of a training, their limits, what ``run.json`` says of it."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

from pipelines.command import StrictParser
from schemas.errors import InputError

RESUMED = """\
OUT/.training has the state after each epoch: a training that was stopped goes on from it when the same command is run
again, to the same model."""
STOPPED = "run the same command again: it goes on after the last whole epoch"

Add = Callable[..., Any]


class Defaults(msgspec.Struct, frozen=True):
    """Those of a model's training.

    Attributes:
      batch: examples of a batch; ``unit`` what they are.
    """

    epochs: int
    patience: int
    batch: int
    rate: float
    unit: str
    optimiser: str = "Adam"


def add_training(made: StrictParser, defaults: Defaults) -> Add:
    """Adds the flags of a training; gives what adds further ones to their group."""
    add = made.add_argument_group("training").add_argument
    epochs, patience, batch, rate = defaults.epochs, defaults.patience, defaults.batch, defaults.rate
    add("--epochs", type=int, default=epochs, metavar="N", help=f"at most (default {epochs})")
    told = f"stop after so many that were no better (default {patience})"
    add("--patience", type=int, default=patience, metavar="N", help=told)
    add("--batch_size", type=int, default=batch, metavar="N", help=f"{defaults.unit} (default {batch})")
    told = f"of {defaults.optimiser} (default {rate:g})"
    add("--learning_rate", type=float, default=rate, metavar="X", help=told)
    add("--seed", default="0", metavar="TEXT", help="of all that is drawn (default 0)")
    told = "of the CPU; another number rounds otherwise (default 1)"
    add("--threads", type=int, default=1, metavar="N", help=told)
    add("--device", choices=("auto", "cpu", "cuda"), default="auto", help="where to compute (default: a GPU if any)")
    return add


TRAINING = ("epochs", "patience", "batch_size", "learning_rate", "seed", "threads", "device")
_LEAST = {"epochs": 1, "patience": 1, "batch_size": 1, "threads": 1}


def check_numbers(args: argparse.Namespace, least: Mapping[str, int] = {}, above: Iterable[str] = ()) -> None:
    """Raises InputError for numbers that cannot be.

    Args:
      args: of a model; it may lack flags that are named here.
      least: flag to the least that it may be, besides those of a training.
      above: flags whose numbers are above 0, besides the learning rate.
    """
    for flag, lowest in {**_LEAST, **least}.items():
        if not lowest <= getattr(args, flag, lowest) <= 2**31:
            raise InputError(f"{getattr(args, flag)}: give {lowest} or more", f"--{flag}")
    for flag in ("learning_rate", *above):
        if not 0 < getattr(args, flag, 1) < 1e6:
            raise InputError(f"{getattr(args, flag)}: give a number above 0", f"--{flag}")


def header(
    args: argparse.Namespace, options: Iterable[str], given: Iterable[tuple[str, str]], torch: bool = True
) -> dict[str, Any]:
    """What ``run.json`` says besides the files, and what a training must agree in to go on.

    Args:
      args: with ``model``.
      options: the flags that shape the content; a model has some of them.
      given: (flag, path) of the files that were read.
      torch: whether it is trained by torch.
    """
    from importlib.metadata import version

    from evaluation.writing import sha256_of
    from schemas.layout import as_path

    head: dict[str, Any] = {
        "pipeline": f"train_{args.model}",
        "version": version("parapet"),
        "options": {flag: getattr(args, flag) for flag in sorted(options) if hasattr(args, flag)},
        "inputs": [
            {"flag": flag, "name": as_path(path).name, "sha256": sha256_of(as_path(path))} for flag, path in given
        ],
    }
    return {**head, "torch": version("torch")} if torch else head
