"""``parapet train tiny_dst``: a small state tracker, from scratch."""

from __future__ import annotations

import argparse

from parapet.pipelines.command import StrictParser
from parapet.pipelines.train.corpora import OPTIONS as CORPORA
from parapet.pipelines.train.corpora import add_corpora, read_frames
from parapet.pipelines.train.flags import (
    RESUMED,
    TRAINING,
    Defaults,
    add_training,
    check_numbers,
    check_torch,
    training_of,
)
from parapet.pipelines.train.publishing import begin, end
from parapet.schemas.errors import InputError

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
    made.set_defaults(model="tiny_dst")
    return made


def check(args: argparse.Namespace) -> argparse.Namespace:
    """Reads what is trained on. Raises InputError for flags and files that cannot work."""
    from parapet.evaluation.models.dst.tiny.saving import LARGEST

    check_numbers(args, {"size": 1})
    if args.size > LARGEST:
        raise InputError(f"{args.size}: give {LARGEST} or less", "--size")
    check_torch(args)
    args.frames, args.dev_frames = read_frames(args)
    return args


def act(args: argparse.Namespace) -> None:
    """Trains and writes."""
    from parapet.evaluation.models.dst.tiny.learning import Settings, train
    from parapet.evaluation.models.dst.tiny.saving import Card
    from parapet.evaluation.models.saving import MODEL, WEIGHTS, card_bytes, weights_bytes

    head = begin(args, OPTIONS, args.given, "torch")
    settings = Settings(size=args.size, **training_of(args))
    trained = train(settings, args.frames, args.dev_frames, args.output, head, not args.quiet)
    card = Card(buckets=settings.buckets, size=settings.size)
    made = {MODEL: card_bytes(card), WEIGHTS: weights_bytes(trained.weights)}
    end(args, head, made, trained, f"joint goal accuracy on dev is {trained.best.dev:.2%}")
