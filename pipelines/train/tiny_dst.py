"""``parapet train tiny_dst``: a small state tracker, from scratch."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING

from pipelines.command import StrictParser, UsageError, counted, run_checked
from pipelines.train.corpora import OPTIONS as CORPORA
from pipelines.train.corpora import add_corpora, read_corpora
from pipelines.train.flags import RESUMED, STOPPED, TRAINING, Defaults, add_training, check_numbers, header
from schemas.errors import InputError

if TYPE_CHECKING:
    from evaluation.models.dst.tiny.learning import Settings

DESCRIPTION = """\
A small net that reads schema and dialogue: what in the dialogue may be a value is weighed against what the schema says
of each slot. Trained from scratch, in minutes on a CPU."""
EXAMPLE = """\
  parapet train tiny_dst --output my_model                                       # on the bundled sample
  parapet train tiny_dst --train sets/oracle --dev sgd --output my_model         # on a set of 'parapet augment'"""
OPTIONS = (*TRAINING, *CORPORA, "size")


def parser(model: str = "tiny_dst") -> StrictParser:
    """The command line."""
    made = StrictParser(f"train {model}", DESCRIPTION, EXAMPLE, RESUMED)
    add_corpora(made)
    number = add_training(made, Defaults(epochs=20, patience=8, batch=4, rate=0.005, unit="dialogues"))
    number("--size", type=int, default=64, metavar="N", help="of the embeddings (default 64)")
    made.add_argument("--output", required=True, metavar="OUT", help="folder to write, local or gs://")
    return made


def check(args: argparse.Namespace) -> None:
    """Reads what is trained on. Raises InputError for flags and files that cannot work."""
    from evaluation.models.dst.tiny.saving import LARGEST
    from evaluation.models.packages import check_installed

    check_numbers(args, {"size": 1})
    if args.size > LARGEST:
        raise InputError(f"{args.size}: give {LARGEST} or less", "--size")
    check_installed("torch", "safetensors")
    args.frames, args.dev_frames = read_corpora(args)
    from evaluation.models.devices import device_of

    args.device = device_of(args.device).type  # where it is computed shapes the weights


def act(args: argparse.Namespace, _: list[str]) -> None:
    """Trains and writes."""
    from evaluation.models import resuming
    from evaluation.models.dst.tiny.learning import train
    from evaluation.models.dst.tiny.saving import Card
    from evaluation.models.saving import MODEL, WEIGHTS, card_bytes, weights_bytes
    from evaluation.models.training import log_bytes
    from evaluation.writing import publish
    from transforms import files

    args.model = "tiny_dst"
    try:
        files.prepare(args.output, "train_tiny_dst")
    except InputError as error:
        raise UsageError(error.reason, error.path, error.where) from None
    head = header(args, OPTIONS, args.given)
    settings = settings_of(args)
    trained = train(settings, args.frames, args.dev_frames, args.output, head, not args.quiet)
    best = trained.best
    head["result"] = {"epoch": best.epoch, "epochs": len(trained.log), "dev": best.dev}
    written = {
        MODEL: card_bytes(Card(buckets=settings.buckets, size=settings.size)),
        WEIGHTS: weights_bytes(trained.weights),
        "log.jsonl": log_bytes(trained.log),
    }
    publish(args.output, written, head)
    resuming.clear(args.output)
    if not args.quiet:
        told = f"joint goal accuracy on dev is {best.dev:.2%} after {counted(best.epoch, 'epoch')}"
        print(f"tiny_dst: {told}; the model is in {args.output}")


def settings_of(args: argparse.Namespace) -> Settings:
    """How the net is trained."""
    from evaluation.models.dst.tiny.learning import Settings

    return Settings(
        size=args.size,
        batch=args.batch_size,
        rate=args.learning_rate,
        epochs=args.epochs,
        patience=args.patience,
        seed=args.seed,
        threads=args.threads,
        device=args.device,
    )


def run(argv: Sequence[str]) -> int:
    """Runs ``parapet train tiny_dst ...``; ``argv`` begins with the model. Returns the exit status."""
    return run_checked(parser(argv[0]), argv[1:], check, act, STOPPED)
