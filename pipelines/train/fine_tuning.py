"""What the commands share that fine-tune a checkpoint on dialogue states: its flag, and what is done with the model."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pipelines.command import StrictParser, UsageError, check_apart, counted
from pipelines.train.flags import Add, header
from schemas.errors import InputError

if TYPE_CHECKING:
    from evaluation.models.training import Trained
    from transforms.checkpoints import Checkpoint


def add_checkpoint(made: StrictParser, told: str) -> None:
    """Adds ``--checkpoint``."""
    made.add_argument("--checkpoint", required=True, metavar="DIR", help=told)


def add_fine_tuning(add: Add, warmup: float, length: int) -> None:
    """Adds flags of a training on frames, with their defaults; ``add`` as ``add_training`` gives it."""
    told = f"of all steps, over which the learning rate rises before it falls (default {warmup:g})"
    add("--warmup", type=float, default=warmup, metavar="X", help=told)
    told = f"tokens of an input at most; of longer ones the oldest of the dialogue is left out (default {length})"
    add("--max_length", type=int, default=length, metavar="N", help=told)
    told = "share of the inputs without a value that an epoch has, drawn anew for each (default 1: all)"
    add("--negatives", type=float, default=1.0, metavar="X", help=told)
    told = "so many frames of dev choose the best epoch, drawn; 0 for all (default 1000)"
    add("--dev_frames", type=int, default=1000, metavar="N", help=told)


FINE_TUNING = ("warmup", "max_length", "negatives", "dev_frames")
LEAST = {"max_length": 16, "dev_frames": 0}
_SHARES = ("warmup", "negatives")


def read_checkpoint(args: argparse.Namespace, kinds: Sequence[str], *packages: str) -> Checkpoint:
    """Looks at ``--checkpoint`` and what is needed to train it; sets ``args.device``.

    Args:
      args: the flags.
      kinds: the architectures that are taken.
      packages: that are needed besides torch and transformers.

    Raises:
      InputError: it cannot be trained here; a share is none.
    """
    from evaluation.models.packages import check_installed
    from transforms.checkpoints import inspect

    for flag in _SHARES:
        if not 0 <= getattr(args, flag) <= 1:
            raise InputError(f"{getattr(args, flag)}: give a share, from 0 to 1", f"--{flag}")
    check_apart(args.output, checkpoint=args.checkpoint)
    found = inspect(args.checkpoint, kinds, "--checkpoint")
    check_installed("torch", "safetensors", "transformers", *packages)
    from evaluation.models.devices import device_of

    args.device = device_of(args.device).type  # where it is computed shapes the weights
    return found


def begin(args: argparse.Namespace, options: Iterable[str]) -> dict[str, Any]:
    """Makes the output folder; gives what ``run.json`` says before the training.

    Args:
      args: with ``given``, as :func:`pipelines.train.corpora.read_corpora` sets it.
      options: the flags that shape the content.
    """
    from importlib.metadata import version

    from transforms import checkpoints, files

    try:
        files.prepare(args.output, f"train_{args.model}")
    except InputError as error:
        raise UsageError(error.reason, error.path, error.where) from None
    head = header(args, options, args.given)
    return {**head, "transformers": version("transformers"), "checkpoint": checkpoints.digest(args.checkpoint)}


def end(args: argparse.Namespace, head: dict[str, Any], made: Mapping[str, bytes], trained: Trained) -> None:
    """Publishes a model with its log, and says how good it is.

    Args:
      args: the flags.
      head: as :func:`begin` gave it.
      made: the model's files.
      trained: how it went.
    """
    from evaluation.models import resuming
    from evaluation.models.training import log_bytes
    from evaluation.writing import publish

    best = trained.best
    head["result"] = {"epoch": best.epoch, "epochs": len(trained.log), "dev": best.dev}
    publish(args.output, {**made, "log.jsonl": log_bytes(trained.log)}, head)
    resuming.clear(args.output)
    if not args.quiet:
        told = f"joint goal accuracy {best.dev:.2%} on dev after {counted(best.epoch, 'epoch')}"
        print(f"{args.model}: {told}; the model is in {args.output}")
