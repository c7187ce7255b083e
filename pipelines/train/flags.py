"""The flags of a training that all models share, and their limits."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

from parapet.pipelines.command import StrictParser
from parapet.schemas.errors import InputError

RESUMED = """\
OUT/.training has the state after each epoch: a training that was stopped goes on from it when the same command is run
again, to the same model."""

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


def check_torch(args: argparse.Namespace, *packages: str) -> None:
    """Sees that what trains is installed, and chooses the device.

    Args:
      args: of which ``device`` is changed: where it is computed shapes the weights, so it is told in full.
      packages: that are needed besides torch and safetensors.

    Raises:
      InputError: a package is missing, or the GPU that is asked for.
    """
    from parapet.evaluation.models.packages import check_installed

    check_installed("torch", "safetensors", *packages)
    from parapet.evaluation.models.devices import device_of

    args.device = device_of(args.device).type


def training_of(args: argparse.Namespace) -> dict[str, Any]:
    """What every :class:`parapet.evaluation.models.training.Settings` has, by its name there."""
    return {
        "batch": args.batch_size,
        "rate": args.learning_rate,
        "epochs": args.epochs,
        "patience": args.patience,
        "seed": args.seed,
        "threads": args.threads,
        "device": args.device,
    }
