"""The flags that name the corpora that a model learns from, and the reading of them."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from parapet.pipelines.command import StrictParser, add_split, check_apart
from parapet.schemas.errors import InputError
from parapet.schemas.layout import TRAIN, sample_root

if TYPE_CHECKING:
    from parapet.evaluation.models.dst.data import Labelled

OPTIONS = ("split", "dev_split", "held_out")
Row = TypeVar("Row")


def add_corpora(made: StrictParser, train: str = "corpora to learn from, those of 'parapet augment' too") -> None:
    """Adds the flags; ``train`` says what the corpora are."""
    add = made.add_argument
    add("--train", nargs="+", metavar="ROOT", help=f"{train} (default: the bundled sample)")
    add_split(made, TRAIN, text="which split of them")
    add("--dev", metavar="ROOT", help="corpus that chooses the best epoch (default: the first of --train)")
    add("--dev_split", default="dev", metavar="NAME", help="which split of it (default dev)")
    told = "instead of --dev: so large a share of the training dialogues chooses the best epoch"
    add("--held_out", type=float, metavar="X", help=told)


def read_corpora(
    args: argparse.Namespace, read: Callable[[str, str], tuple[list[Row], list[str]]], dialogue: Callable[[Row], str]
) -> tuple[list[Row], list[Row]]:
    """The rows to learn from, and those that choose the best epoch; sets ``args.given``, (flag, path) of each file.

    Args:
      args: the flags.
      read: (a corpus, a split) to its rows and the files that they are of.
      dialogue: what tells the dialogue of a row, for ``--held_out``.

    Raises:
      InputError: a corpus cannot be read or has nothing to learn.
    """
    from parapet.evaluation.models.holding_out import held_out

    roots = args.train or [str(sample_root())]
    for root in roots:
        check_apart(args.output, train=root)
    check_apart(args.output, dev=args.dev)
    if args.held_out is not None and args.dev:
        raise InputError("give one of the two: dialogues that choose the best epoch, or a share", "--dev, --held_out")
    if args.held_out is not None and not 0 < args.held_out < 1:
        raise InputError(f"{args.held_out}: give a share above 0 and below 1", "--held_out")
    sets = [read(root, args.split) for root in roots]
    learned = [row for rows, _ in sets for row in rows]
    args.given = [("train", path) for _, paths in sets for path in paths]
    if args.held_out is None:
        chosen_by, paths = read(args.dev or roots[0], args.dev_split)
        args.given += [("dev", path) for path in paths]
        return learned, chosen_by
    learned, chosen_by = held_out(learned, args.held_out, args.seed, dialogue)
    if not learned or not chosen_by:
        raise InputError(f"{args.held_out}: of so few dialogues that leaves a part empty", "--held_out")
    return learned, chosen_by


def read_frames(args: argparse.Namespace) -> tuple[list[Labelled], list[Labelled]]:
    """As :func:`read_corpora`, for a model of dialogue states."""
    from parapet.evaluation.models.dst.data import read_labels

    def read(root: str, split: str) -> tuple[list[Labelled], list[str]]:
        found = read_labels(root, split)
        return found.frames, found.paths

    return read_corpora(args, read, lambda one: one.opening)
