"""``parapet augment``: training sets in which the same dialogues appear under the original and under other schemas."""

from __future__ import annotations

import argparse
import json
import logging
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from parapet.pipelines.command import (
    Parser,
    add_max_bad,
    add_split,
    check_apart,
    counted,
    run_command,
    run_header,
    warn_left_out,
)
from parapet.schemas.layout import TRAIN, sample_root

if TYPE_CHECKING:
    import apache_beam as beam

    from parapet.transforms.augment.plan import Plan
    from parapet.transforms.dead_letters import Tallies

EXAMPLE = """  parapet augment --sgd sgd --backtrans back_translated --oracle sgd/sgd_x/data \\
    --sets none,backtrans,oracle,corrupted,backtrans+oracle --output training_sets"""


def parser() -> Parser:
    """The flags."""
    what = "Dialogues x schema variants -> training sets: OUT/SET/train/dialogues_001.json and OUT/SET/parquet."
    flags = Parser("augment", what, EXAMPLE)
    add = flags.add_argument
    add("--sgd", metavar="ROOT", help="the original corpus (default: the bundled sample)")
    add(
        "--sets",
        metavar="LIST",
        help="training sets, parted by commas: none (the originals alone), backtrans, oracle, corrupted, or mixes such "
        "as backtrans+oracle; every set has the originals (default: none, corrupted, and those with a folder)",
    )
    add("--backtrans", metavar="DIR", help="back-translated variants: back_translate's OUT")
    add("--oracle", metavar="DIR", help="crowdsourced variants: compose's OUT, or sgd_x/data")
    add("--variant", metavar="NAMES", default="", help="which of these variants, parted by commas (default: all)")
    add(
        "--corruptions",
        metavar="LIST",
        default="replace,order,both",
        help="the variants of the set corrupted (default: replace,order,both)",
    )
    add("--replace_rate", metavar="X", type=float, help="probability with which a word is replaced (default: 0.2)")
    add("--order_rate", metavar="X", type=float, help="share of words that leave their place (default: 0.3)")
    add("--seed", default="0", help="of the corruptions: any text (default: 0)")
    add_split(flags, TRAIN)
    add_max_bad(flags, "dialogues of a variant")
    return flags


def run(argv: Sequence[str] | None = None) -> int:
    """Runs the command. Returns the exit status."""
    return run_command(parser(), argv, check, build, report, inputs)


def inputs(args: argparse.Namespace) -> list[tuple[str, str]]:
    """What workers read: the dialogues."""
    return [("--sgd", str(args.sgd or sample_root()))]


def check(args: argparse.Namespace) -> argparse.Namespace:
    """Reads, matches and corrupts the schemas. Raises InputError where none of a variant's do match."""
    from parapet.transforms.augment import plan, sets
    from parapet.transforms.augment.corrupt import Rates
    from parapet.transforms.variants.matching import check_matched

    check_apart(args.output, sgd=args.sgd, backtrans=args.backtrans, oracle=args.oracle)
    folders = {kind: folder for kind in ("backtrans", "oracle") if (folder := getattr(args, kind))}
    chosen = sets.parse_sets(sets.default_sets(folders) if args.sets is None else args.sets)
    sets.check_folders(chosen, folders)
    operations = sets.parse_operations(args.corruptions)
    given = {"replace": args.replace_rate, "order": args.order_rate}
    rates = Rates(**{what: rate for what, rate in given.items() if rate is not None})
    rates.check()
    args.plan = made = plan.make_plan(
        args.sgd or sample_root(),
        args.split,
        chosen,
        folders,
        [name for name in args.variant.split(",") if name],
        plan.Corrupting(operations, rates, args.seed),
    )
    check_matched(made.work.versions[1:], made.problems, args.max_bad)
    for line in made.problems:
        logging.warning("does not match: %s", line)
    for line in made.remarks:
        logging.warning("%s", line)
    return args


def build(pipeline: beam.Pipeline, args: argparse.Namespace) -> None:
    """Dialogue files -> those of each set, and Parquet; schemas, mappings and dead letters beside them."""
    from functools import partial

    import apache_beam as beam

    from parapet.transforms import files
    from parapet.transforms.augment import augmenting, outputs, tables
    from parapet.transforms.dead_letters import DeadLettersFile

    plan: Plan = args.plan
    work = plan.work
    labels = [variant.name for variant in work.versions]
    files.prepare(args.output, "augment")
    augmented = (
        pipeline | "Dialogue files" >> beam.Create(plan.files) | "Augment" >> augmenting.AugmentFiles(args.output, work)
    )
    shards = augmented[augmenting.ROWS] | "Parquet" >> tables.WriteShards(args.output, work.split, work.sets)
    small = pipeline | "Metadata files" >> beam.Create(outputs.metadata_files(plan))
    dead = augmented[augmenting.DEAD] | "Dead letters" >> DeadLettersFile(
        augmented[augmenting.COUNTS], tallies_of(args), args.max_bad, "augmented"
    )
    ids = (
        pipeline
        | "Unique" >> beam.Create(["unique_ids"], reshuffle=False)
        | "Check ids"
        >> beam.Map(augmenting.check_ids, ids=beam.pvalue.AsList(augmented[augmenting.IDS]), labels=labels[1:])
    )
    corrupted = pipeline | "Corrupted" >> beam.Create(outputs.corruption_counts(plan), reshuffle=False)
    counts = (augmented[augmenting.COUNTS], shards[tables.COUNTS], ids, corrupted) | "Counts" >> beam.Flatten()
    written = (small, dead) | "Other files" >> beam.Flatten() | "Write" >> files.WriteFiles(args.output)
    (
        (augmented.written, shards.written, written)
        | "All files" >> beam.Flatten()
        | "Publish"
        >> files.Publish(
            args.output,
            header(args),
            counts,
            partial(augmenting.check_invariants, labels=labels, sets=work.sets),
        )
    )


def tallies_of(args: argparse.Namespace) -> Tallies:
    """What is held against ``--max_bad``."""
    from functools import partial

    from parapet.transforms.dead_letters import of_variants

    return partial(of_variants, variants=[variant.name for variant in args.plan.work.versions])


def header(args: argparse.Namespace) -> dict[str, Any]:
    """What ``run.json`` says besides files and counts."""
    from parapet.transforms.augment.outputs import options_of

    options = {**options_of(args.plan), "max_bad": float(args.max_bad)}
    return run_header("augment", options)


def report(args: argparse.Namespace, counters: dict[str, int]) -> None:
    """Says what was written, by set, and how much the corruptions changed."""
    from parapet.transforms.augment.outputs import shares_changed
    from parapet.transforms.files import MANIFEST, read_written

    counts = json.loads(read_written(args.output, MANIFEST))["counts"]
    if not args.quiet:
        print(f"{counted(counts.get('dialogues', 0), 'dialogue')} in {counted(counts['files'], 'file')}")
        for one in args.plan.work.sets:
            print(
                f"{one.name}: {counted(counts.get(f'dialogues/{one.name}', 0), 'dialogue')}: {', '.join(one.versions)}"
            )
        for line in shares_changed(counts):
            print(line)
    warn_left_out(args.output, tallies_of(args))
    if counts.get("unknown_intents"):
        logging.warning("left as they are: %s that no schema has", counted(counts["unknown_intents"], "intent"))


if __name__ == "__main__":
    sys.exit(run())
