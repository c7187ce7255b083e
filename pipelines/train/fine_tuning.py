"""The flags of the commands that fine-tune a checkpoint, and the look at it."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from parapet.pipelines.command import StrictParser, check_apart
from parapet.pipelines.train.flags import Add, check_numbers, check_torch, training_of
from parapet.schemas.errors import InputError

if TYPE_CHECKING:
    from parapet.transforms.checkpoints import Checkpoint


def add_checkpoint(made: StrictParser, told: str) -> None:
    """Adds ``--checkpoint``."""
    made.add_argument("--checkpoint", required=True, metavar="DIR", help=told)


def add_fine_tuning(add: Add, warmup: float, length: int) -> None:
    """Adds the flags of a tracker's training, with their defaults; ``add`` as ``add_training`` gives it."""
    told = f"of all steps, over which the learning rate rises before it falls (default {warmup:g})"
    add("--warmup", type=float, default=warmup, metavar="X", help=told)
    told = f"tokens of an input at most; of longer ones the oldest of the dialogue is left out (default {length})"
    add("--max_length", type=int, default=length, metavar="N", help=told)
    told = "share of the inputs without a value that an epoch has, drawn anew for each (default 1: all)"
    add("--negatives", type=float, default=1.0, metavar="X", help=told)
    told = "so many frames of dev choose the best epoch, drawn; 0 for all (default 1000)"
    add("--dev_frames", type=int, default=1000, metavar="N", help=told)


FINE_TUNING = ("warmup", "max_length", "negatives", "dev_frames")


def check_fine_tuning(args: argparse.Namespace) -> None:
    """Raises InputError for numbers that cannot be."""
    check_numbers(args, {"max_length": 16, "dev_frames": 0})
    for flag in ("warmup", "negatives"):
        if not 0 <= getattr(args, flag) <= 1:
            raise InputError(f"{getattr(args, flag)}: give a share, from 0 to 1", f"--{flag}")


def fine_tuning_of(args: argparse.Namespace) -> dict[str, Any]:
    """What the settings of all of them have, by its name there."""
    return {
        **training_of(args),
        "warmup": args.warmup,
        "length": args.max_length,
        "negatives": args.negatives,
        "dev_frames": args.dev_frames,
    }


def read_checkpoint(args: argparse.Namespace, kinds: Sequence[str], *packages: str) -> Checkpoint:
    """Looks at ``--checkpoint`` and what is needed to train it; sets ``args.device`` as :func:`check_torch` does.

    Args:
      args: the flags.
      kinds: the architectures that are taken.
      packages: that are needed besides torch and transformers.

    Raises:
      InputError: it cannot be trained here.
    """
    from parapet.transforms.checkpoints import inspect

    check_apart(args.output, checkpoint=args.checkpoint)
    found = inspect(args.checkpoint, kinds, "--checkpoint")
    check_torch(args, "transformers", *packages)
    return found
