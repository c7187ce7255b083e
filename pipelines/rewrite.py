"""``parapet rewrite``: every dialogue of a corpus under the names of every schema variant, in the SGD layout."""

from __future__ import annotations

import argparse
import json
import logging
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from parapet.pipelines.command import Parser, add_max_bad, check_apart, counted, run_command, run_header, warn_left_out
from parapet.schemas.layout import sample_root

if TYPE_CHECKING:
    import apache_beam as beam

    from parapet.transforms.dead_letters import Tallies
    from parapet.transforms.variants.matching import Plan

EXAMPLE = "  parapet rewrite --sgd sgd --variants sgd/sgd_x/data --output sgd_x_dialogues"


def parser() -> Parser:
    """The flags."""
    what = (
        "Dialogues + schema variants -> the same dialogues under each variant's names: OUT/v1/test/dialogues_001.json."
    )
    flags = Parser("rewrite", what, EXAMPLE)
    add = flags.add_argument
    add("--sgd", metavar="ROOT", help="the original corpus (default: the bundled sample)")
    add(
        "--variants",
        required=True,
        metavar="DIR",
        help="folder of variants in the SGD layout (DIR/v1/train/schema.json), or one variant; compose's OUT is one",
    )
    add("--variant", metavar="NAMES", default="", help="which of them, parted by commas: v1,v3 (default: all)")
    add(
        "--mapping",
        metavar="auto|position|FILE",
        default="auto",
        help="which name stands for which: a mapping.json, or their positions (default: DIR/mapping.json if there)",
    )
    add_max_bad(flags, "dialogues of a variant")
    return flags


def run(argv: Sequence[str] | None = None) -> int:
    """Runs the command. Returns the exit status."""
    return run_command(parser(), argv, check, build, report, inputs)


def inputs(args: argparse.Namespace) -> list[tuple[str, str]]:
    """What workers read: the dialogues."""
    return [("--sgd", str(args.sgd or sample_root()))]


def check(args: argparse.Namespace) -> argparse.Namespace:
    """Reads and matches the schemas. Raises InputError where none of a variant's services match."""
    from parapet.transforms.variants.folders import find_mapping, find_variants
    from parapet.transforms.variants.matching import check_matched, make_plan

    check_apart(args.output, variants=args.variants, sgd=args.sgd)
    wanted = [name for name in args.variant.split(",") if name]
    variants = find_variants(args.variants, wanted)
    mapped = find_mapping(args.variants, args.mapping)
    args.by = "position" if mapped is None else "mapping"
    args.plan = plan = make_plan(args.sgd or sample_root(), variants, mapped)
    check_matched([of for split in plan.splits.values() for of in split.variants], plan.problems, args.max_bad)
    for line in plan.problems:
        logging.warning("does not match: %s", line)
    for line in plan.remarks:
        logging.warning("%s", line)
    return args


def build(pipeline: beam.Pipeline, args: argparse.Namespace) -> None:
    """Dialogue files -> the same under each variant's names; schemas, mapping and dead letters beside them."""
    from functools import partial

    import apache_beam as beam

    from parapet.transforms import files
    from parapet.transforms.dead_letters import DeadLettersFile
    from parapet.transforms.variants import rewriting
    from parapet.transforms.variants.folders import MAPPING, mapping_bytes

    plan: Plan = args.plan
    files.prepare(args.output, "rewrite")
    rewritten = (
        pipeline
        | "Dialogue files" >> beam.Create(plan.files)
        | "Rewrite" >> rewriting.RewriteFiles(args.output, plan.splits)
    )
    # Read here, not by the workers: the variants may be on this machine while the dialogues are on gs://.
    schemas = pipeline | "Schema files" >> beam.Create([rewriting.copy_schema(schema) for schema in plan.schemas])
    mapping = pipeline | "Mapping" >> beam.Create([(MAPPING, mapping_bytes(plan.mapped))], reshuffle=False)
    dead = rewritten[rewriting.DEAD] | "Dead letters" >> DeadLettersFile(
        rewritten[rewriting.COUNTS], tallies_of(args), args.max_bad, "rewritten"
    )
    small = (schemas, mapping, dead) | "Other files" >> beam.Flatten() | "Write" >> files.WriteFiles(args.output)
    (
        (rewritten.written, small)
        | "All files" >> beam.Flatten()
        | "Publish"
        >> files.Publish(
            args.output,
            header(args),
            rewritten[rewriting.COUNTS],
            partial(rewriting.check_invariants, variants=len(plan.variants)),
        )
    )


def tallies_of(args: argparse.Namespace) -> Tallies:
    """What is held against ``--max_bad``."""
    from functools import partial

    from parapet.transforms.dead_letters import of_variants

    return partial(of_variants, variants=args.plan.variants)


def header(args: argparse.Namespace) -> dict[str, Any]:
    """What ``run.json`` says besides files and counts."""
    options = {
        "variants": args.plan.variants,
        "matched_by": args.by,
        "max_bad": float(args.max_bad),
    }
    return run_header("rewrite", options)


def report(args: argparse.Namespace, counters: dict[str, int]) -> None:
    """Says what was written, by variant."""
    from parapet.transforms.files import MANIFEST, read_written

    counts = json.loads(read_written(args.output, MANIFEST))["counts"]
    if not args.quiet:
        dialogues, files = counted(counts.get("dialogues", 0), "dialogue"), counted(counts["files"], "file")
        print(f"{dialogues} in {files}, under the names of {counted(len(args.plan.variants), 'variant')}")
        for name in args.plan.variants:
            done, lacking = (counts.get(f"{what}/{name}", 0) for what in ("rewritten", "left_out"))
            print(f"{name}: {done:,} rewritten, {lacking:,} left out")
    warn_left_out(args.output, tallies_of(args))
    if counts.get("unknown_intents"):
        logging.warning("left as they are: %s that no schema has", counted(counts["unknown_intents"], "intent"))


if __name__ == "__main__":
    sys.exit(run())
