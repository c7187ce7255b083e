"""The flags that name what a model of dialogue states learns from, and the reading of it."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from pipelines.command import StrictParser, check_apart
from schemas.errors import InputError
from schemas.layout import sample_root

if TYPE_CHECKING:
    from evaluation.models.dst.data import Labelled

OPTIONS = ("split", "dev_split", "held_out")


def add_corpora(made: StrictParser) -> None:
    """Adds the flags."""
    add = made.add_argument
    told = "corpora to learn from, those of 'parapet augment' too (default: the bundled sample)"
    add("--train", nargs="+", metavar="ROOT", help=told)
    add("--split", default="train", metavar="NAME", help="which split of them (default train)")
    add("--dev", metavar="ROOT", help="corpus that chooses the best epoch (default: the first of --train)")
    add("--dev_split", default="dev", metavar="NAME", help="which split of it (default dev)")
    told = "instead of --dev: so large a share of the training dialogues chooses the best epoch"
    add("--held_out", type=float, metavar="X", help=told)


def read_corpora(args: argparse.Namespace) -> tuple[list[Labelled], list[Labelled]]:
    """The frames to learn from, and those that choose the best epoch; sets ``args.given``, (flag, path) of each file.

    Raises:
      InputError: a corpus cannot be read or has nothing to learn.
    """
    from evaluation.models.dst.data import held_out, read_labels

    roots = args.train or [str(sample_root())]
    for root in roots:
        check_apart(args.output, train=root)
    check_apart(args.output, dev=args.dev)
    if args.held_out is not None and args.dev:
        raise InputError("give one of the two: dialogues that choose the best epoch, or a share", "--dev, --held_out")
    if args.held_out is not None and not 0 < args.held_out < 1:
        raise InputError(f"{args.held_out}: give a share above 0 and below 1", "--held_out")
    sets = [read_labels(root, args.split) for root in roots]
    frames = [one for of in sets for one in of.frames]
    args.given = [("train", path) for of in sets for path in of.paths]
    if args.held_out is None:
        dev = read_labels(args.dev or roots[0], args.dev_split)
        args.given += [("dev", path) for path in dev.paths]
        return frames, dev.frames
    train, chosen = held_out(frames, args.held_out, args.seed)
    if not train or not chosen:
        raise InputError(f"{args.held_out}: of so few dialogues that leaves a part empty", "--held_out")
    return train, chosen
