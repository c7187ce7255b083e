"""``parapet augment``: training sets that have the same dialogues under the original schemas and under others."""

from __future__ import annotations

import argparse
import json
import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from parapet.pipelines.command import counted, run_command, say, warn_dead_letters
from parapet.pipelines.flags import INPUT, Parser, add_max_bad, add_seed, add_sgd, add_split, add_variant
from parapet.schemas.layout import TRAIN, sample_root

if TYPE_CHECKING:
    import apache_beam as beam

    from parapet.transforms.running.runs import RunInfo
    from parapet.transforms.splits.augment.plan import Plan

EXAMPLE = """  parapet augment --output training_sets                # the sample, with corrupted schemas
  parapet augment --sgd sgd --backtrans back_translated --oracle sgd/sgd_x/data \\
    --sets none,backtrans,oracle,corrupted,backtrans+oracle --output training_sets"""


class Config(msgspec.Struct, frozen=True):
    """The settings of a run."""

    root: str
    plan: Plan
    info: RunInfo


def parser() -> Parser:
    """Builds the command line."""
    description = (
        "Makes training sets from dialogues and schema variants: OUT/SET/train/dialogues_001.json. "
        "Every set has the original dialogues, too."
    )
    parser = Parser("augment", description, EXAMPLE)
    add_sgd(parser)
    add_split(parser, TRAIN)
    add = parser.group(INPUT)
    add("--backtrans", metavar="DIR", reads=True, help="back-translated variants: the output of 'back_translate'")
    add("--oracle", metavar="DIR", reads=True, help="crowdsourced variants: the output of 'compose', or sgd_x/data")
    add_variant(parser)
    add = parser.group("training sets")
    add(
        "--sets",
        metavar="LIST",
        help="none, backtrans, oracle, corrupted, or mixes such as backtrans+oracle "
        "(default: none, corrupted, and those with a folder)",
    )
    add(
        "--corruptions",
        metavar="LIST",
        default="replace,order,both",
        help="variants of the set corrupted: words replaced, words in another order, both",
    )
    add("--replace_rate", metavar="X", type=float, help="probability that a word is replaced (default: 0.2)")
    add("--order_rate", metavar="X", type=float, help="share of words that change places (default: 0.3)")
    add_max_bad(parser, "dialogues of a variant")
    add_seed(parser)
    return parser


def run(argv: Sequence[str] | None = None) -> int:
    """Runs the command. Returns the exit status."""
    return run_command(parser(), argv, check, build, report, lambda config: [("--sgd", config.root)])


def check(args: argparse.Namespace) -> Config:
    """Reads, matches and corrupts the schemas. Raises InputError if no service of a variant matches."""
    from parapet.transforms.running.runs import RunInfo
    from parapet.transforms.splits.augment import plan as plans
    from parapet.transforms.splits.augment.plan import Rates
    from parapet.transforms.variants.matching import check_matched

    folders = {kind: folder for kind in ("backtrans", "oracle") if (folder := getattr(args, kind))}
    sets = plans.parse_sets(plans.default_sets(folders) if args.sets is None else args.sets)
    plans.check_folders(sets, folders)
    operations = plans.parse_operations(args.corruptions)
    requested = {"replace": args.replace_rate, "order": args.order_rate}
    rates = Rates(**{operation: rate for operation, rate in requested.items() if rate is not None})
    rates.check()
    root = str(args.sgd or sample_root())
    plan = plans.make_plan(
        root,
        args.split,
        sets,
        folders,
        [name for name in args.variant.split(",") if name],
        plans.CorruptionConfig(operations, rates, args.seed),
    )
    check_matched(plan.augmentation.versions[1:], plan.problems, args.max_bad)
    for line in plan.problems:
        logging.warning("does not match the corpus: %s", line)
    for line in plan.remarks:
        logging.warning("%s", line)
    options = {**plan.options(), "max_bad": float(args.max_bad)}
    return Config(root, plan, RunInfo("augment", args.output, options, args.max_bad, "augmented"))


def build(pipeline: beam.Pipeline, config: Config) -> None:
    """Wires the pipeline: writes the dialogues, schemas and mappings of each set, and dead letters."""
    import apache_beam as beam

    from parapet.transforms.running.progress import expect_dialogues
    from parapet.transforms.splits.augment.augmenting import Augment
    from parapet.transforms.storage import files

    files.prepare(config.info.output, config.info.pipeline)
    expect_dialogues(config.plan.files)
    _ = pipeline | "Dialogue files" >> beam.Create(config.plan.files) | "Sets" >> Augment(config.plan, config.info)


def report(config: Config, _: dict[str, int]) -> None:
    """Prints what was written for each set, and how much the corruptions changed."""
    from functools import partial

    from parapet.transforms.splits.augment.augmenting import lines_of, tallies_of
    from parapet.transforms.storage.files import read_written

    statistics = json.loads(read_written(config.info.output, "statistics.json"))
    for line in lines_of(statistics):
        say(line)
    warn_dead_letters(config.info.output, partial(tallies_of, plan=config.plan))
    if statistics["unknown_intents"]:
        logging.warning("left unchanged: %s that no schema has", counted(statistics["unknown_intents"], "intent"))
