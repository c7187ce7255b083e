"""``parapet ood``: dialogues with out-of-domain utterances at stated rates."""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from parapet.pipelines.command import check_apart, run_command, say_summary, warn_dead_letters
from parapet.pipelines.flags import Parser, add_max_bad, add_seed, add_sgd, add_split
from parapet.schemas.errors import InputError
from parapet.schemas.layout import sample_root
from parapet.transforms.ood import OWN

if TYPE_CHECKING:
    import apache_beam as beam

    from parapet.transforms.corpora import Corpus
    from parapet.transforms.ood.perturbation import OutOfDomain
    from parapet.transforms.runs import RunInfo

EXAMPLE = """\
  parapet ood --output my_ood                                # the sample, with turns of its own other domains
  parapet ood --sgd sgd --split train,test --rates 0.1,0.5 --place append --output my_ood
  parapet ood --sgd sgd --source kvret_train_public.json --output my_ood"""


def parser() -> Parser:
    """The flags."""
    what = (
        "Inserts out-of-domain user turns into dialogues, each followed by a fallback of the system: "
        "OUT/ood-10/train/dialogues_001.json, and a row for every user turn in OUT/ood-10/turns."
    )
    parser = Parser("ood", what, EXAMPLE)
    add_sgd(parser)
    add_split(parser, many=True)
    add = parser.group("out-of-domain turns")
    add(
        "--source",
        metavar="SOURCE",
        default=OWN,
        help="utterances: own (turns of the corpus in other domains), a file or folder (text, JSON lines, DSTC2, "
        "Stanford key-value, SGD), or a plug-in",
    )
    add("--rates", metavar="LIST", default="0.1,0.2,0.5", help="inserted turns per user turn, a set for each rate")
    add(
        "--place",
        choices=("append", "between"),
        default="between",
        help="at the end of the dialogue, or between a system turn and the next user turn",
    )
    add_max_bad(parser, "dialogues or rows of --source")
    add_seed(parser)
    return parser


class Config(msgspec.Struct, frozen=True):
    """What the command does.

    Attributes:
      perturbation: with its rates and source, fitted to the corpus.
      corpus: the dialogues that are written.
      whole: the corpus with all its splits.
      info: the run.
      inputs: (flag, path) of what workers read.
    """

    perturbation: OutOfDomain
    corpus: Corpus
    whole: Corpus
    info: RunInfo
    inputs: list[tuple[str, str]]


def run(argv: Sequence[str] | None = None) -> int:
    """Runs the command. Returns the exit status."""
    return run_command(parser(), argv, check, build, report, lambda config: config.inputs)


def check(args: argparse.Namespace) -> Config:
    """Reads flags, and lists corpus and source. Raises InputError where it cannot work."""
    from parapet.transforms import plugins
    from parapet.transforms.corpora import listed, read_corpus
    from parapet.transforms.ood.perturbation import OutOfDomain
    from parapet.transforms.ood.plan import check_places_of
    from parapet.transforms.runs import RunInfo

    check_apart(args.output, sgd=args.sgd, source=None if args.source == OWN else args.source)
    perturbation = OutOfDomain(
        seed=args.seed, rates=args.rates, source=args.source, place=args.place, max_bad=args.max_bad
    )
    root = args.sgd or sample_root()
    splits = list(dict.fromkeys(listed(args.split)))
    if not splits:
        raise InputError("give one or more splits, such as train,test", "--split")
    corpus, whole = read_corpus(root, splits), read_corpus(root, None)
    for line in whole.problems:
        logging.warning("%s", line)
    perturbation.splits = sorted({file.split for file in corpus.files})
    perturbation.fit(whole)
    check_places_of(corpus.files, perturbation.config)
    plugin = perturbation.plugin()
    options = {"split": perturbation.splits, **perturbation.options(), "max_bad": float(args.max_bad)}
    info = RunInfo("ood", args.output, options, args.max_bad, header=plugins.recorded(plugin))
    inputs = [("--sgd", str(root))]
    if args.source != OWN and not plugin:
        inputs.append(("--source", args.source))
    return Config(perturbation, corpus, whole, info, inputs)


def build(pipeline: beam.Pipeline, config: Config) -> None:
    """Corpus and source -> places and foreign utterances -> a plan -> the sets, their rows, numbers, a page."""
    from parapet.transforms import files
    from parapet.transforms.perturbed_files import PerturbCorpus

    files.prepare(config.info.output, config.info.pipeline)
    pipeline | "Perturb" >> PerturbCorpus(config.perturbation, config.corpus, config.info, config.whole.files)


def report(config: Config, _: dict[str, int]) -> None:
    """Prints what was injected into each set."""
    numbers = say_summary(config.info.output, config.perturbation)
    pool = numbers["pool"]
    if 3 * pool["familiar"] > pool["kept"]:
        logging.warning(
            "%s foreign utterances have only content words that in-domain turns have, too: are they foreign?",
            f"{pool['familiar']:,} of {pool['kept']:,}",
        )
    warn_dead_letters(config.info.output, config.perturbation.tallies)


if __name__ == "__main__":
    sys.exit(run())
