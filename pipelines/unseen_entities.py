"""``parapet unseen_entities``: dialogues whose slot values occur nowhere in training."""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from parapet.pipelines.command import check_apart, run_command, say_summary, warn_dead_letters
from parapet.pipelines.flags import INPUT, Parser, add_max_bad, add_seed, add_sgd, add_split
from parapet.schemas.errors import InputError
from parapet.schemas.layout import sample_root

if TYPE_CHECKING:
    import apache_beam as beam

    from parapet.transforms.corpora import Corpus
    from parapet.transforms.entities.perturbation import UnseenEntities
    from parapet.transforms.runs import RunInfo

EXAMPLE = """\
  parapet unseen_entities --output unseen                        # the sample's test dialogues
  parapet unseen_entities --sgd sgd --split dev --values corpus --output unseen
  parapet unseen_entities --sgd sgd --values gazetteer.csv --categorical replace --output unseen"""


def parser() -> Parser:
    """The flags."""
    what = (
        "Replaces slot values by others that do not occur in training: OUT/test/dialogues_001.json, and "
        "a row for every value in OUT/replacements."
    )
    parser = Parser("unseen_entities", what, EXAMPLE)
    add_sgd(parser)
    add_split(parser, many=True)
    parser.group(INPUT)(
        "--training",
        metavar="ROOT",
        reads=True,
        help="corpus whose values in the split train are not used (default: --sgd)",
    )
    add = parser.group("values")
    add(
        "--values",
        metavar="SOURCE",
        default="generated",
        help="generated, corpus (the half of its names that is held out), or a CSV file slot_or_kind,value",
    )
    add(
        "--categorical",
        choices=("keep", "replace"),
        default="keep",
        help="keep the values of categorical slots, or replace them by others of their set",
    )
    add(
        "--least_changed",
        rare=True,
        type=float,
        metavar="X",
        default=0.5,
        help="fail if fewer of the dialogues with open slots change",
    )
    add_max_bad(parser)
    add_seed(parser)
    return parser


class Config(msgspec.Struct, frozen=True):
    """What the command does.

    Attributes:
      perturbation: fitted to the corpus.
      corpus: the dialogues that are perturbed.
      info: the run.
      root: of the corpus.
    """

    perturbation: UnseenEntities
    corpus: Corpus
    info: RunInfo
    root: str


def run(argv: Sequence[str] | None = None) -> int:
    """Runs the command. Returns the exit status."""
    return run_command(parser(), argv, check, build, report, lambda config: [("--sgd", config.root)])


def check(args: argparse.Namespace) -> Config:
    """Reads the flags, and lists corpus and training. Raises InputError where they cannot work."""
    from parapet.transforms.corpora import listed, read_corpus
    from parapet.transforms.entities.perturbation import UnseenEntities
    from parapet.transforms.runs import RunInfo

    check_apart(args.output, sgd=args.sgd, training=args.training)
    perturbation = UnseenEntities(
        seed=args.seed,
        values=args.values,
        categorical=args.categorical,
        training=args.training,
        least_changed=args.least_changed,
        max_bad=args.max_bad,
    )
    root = str(args.sgd or sample_root())
    splits = list(dict.fromkeys(listed(args.split)))
    if not splits:
        raise InputError("give one or more of train, dev, test", "--split")
    corpus = read_corpus(root, splits)
    for line in corpus.problems:
        logging.warning("%s", line)
    perturbation.splits = tuple(corpus.folders)
    perturbation.fit(read_corpus(root, None))
    options = {"split": args.split, **perturbation.options(), "max_bad": float(args.max_bad)}
    return Config(perturbation, corpus, RunInfo("unseen_entities", args.output, options, args.max_bad), root)


def build(pipeline: beam.Pipeline, config: Config) -> None:
    """Dialogue files -> the same with other values, their rows, numbers and a page."""
    from parapet.transforms import files
    from parapet.transforms.perturbed_files import PerturbCorpus

    files.prepare(config.info.output, config.info.pipeline)
    pipeline | "Perturb" >> PerturbCorpus(config.perturbation, config.corpus, config.info)


def report(config: Config, _: dict[str, int]) -> None:
    """Prints what was replaced, what was kept, and what was left out."""
    statistics = say_summary(config.info.output, config.perturbation)
    if missing := statistics.get("missing"):
        logging.warning("%s", missing)
    warn_dead_letters(config.info.output, config.perturbation.tallies)


if __name__ == "__main__":
    sys.exit(run())
