"""``parapet rewrite``: every dialogue of a corpus under the names of every schema variant, in the SGD layout."""

from __future__ import annotations

import argparse
import json
import logging
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pipelines.command import Parser, check_apart, counted, run_command, run_header
from schemas.errors import InputError
from schemas.layout import sample_root

if TYPE_CHECKING:
    import apache_beam as beam

    from transforms.rewrite.plan import Plan

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
    add(
        "--leave_out",
        action="store_true",
        help="go on without the dialogues that cannot be rewritten; OUT/dead_letters.jsonl has them",
    )
    add(
        "--mend_published",
        action="store_true",
        help="keep the values that the published SGD-X generator loses (Events_1 in v3, RentalCars_3 in v5)",
    )
    return flags


def run(argv: Sequence[str] | None = None) -> int:
    """Runs the command. Returns the exit status."""
    return run_command(parser(), argv, build, check, report, inputs)


def inputs(args: argparse.Namespace) -> list[tuple[str, str]]:
    """What workers read: the dialogues."""
    return [("--sgd", str(args.sgd or sample_root()))]


def check(args: argparse.Namespace) -> None:
    """Reads and matches the schemas. Raises InputError where they do not match, with all mismatches."""
    from transforms.rewrite.plan import make_plan
    from transforms.rewrite.variants import find_mapping, find_variants

    check_apart(args.output, variants=args.variants, sgd=args.sgd)
    wanted = [name for name in args.variant.split(",") if name]
    variants = find_variants(args.variants, wanted)
    mapped = find_mapping(args.variants, args.mapping)
    args.by = "position" if mapped is None else "mapping"
    args.plan = plan = make_plan(args.sgd or sample_root(), variants, mapped, args.mend_published)
    if plan.problems and not args.leave_out:
        what = f"{counted(len(plan.problems), 'mismatch').replace('mismatchs', 'mismatches')}, nothing was written"
        hint = "--leave_out goes on without the dialogues that need these services"
        raise InputError("\n".join([f"{what}; {hint}:", *plan.problems]), args.variants, "--variants")
    for line in plan.problems:
        logging.warning("left out: %s", line)
    for line in plan.remarks:
        logging.warning("%s", line)


def build(pipeline: beam.Pipeline, args: argparse.Namespace) -> None:
    """Dialogue files -> the same under each variant's names; schemas, mapping and dead letters beside them."""
    from functools import partial

    import apache_beam as beam

    from transforms import files
    from transforms.rewrite import rewriting
    from transforms.rewrite.names import mapping_bytes
    from transforms.rewrite.variants import MAPPING

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
    letters = rewritten[rewriting.DEAD] | "Dead letters" >> rewriting.LettersFile(args.leave_out)
    small = (schemas, mapping, letters) | "Other files" >> beam.Flatten() | "Write" >> files.WriteFiles(args.output)
    (
        (rewritten.written, small)
        | "All files" >> beam.Flatten()
        | "Publish"
        >> files.Publish(
            args.output,
            header(args),
            rewritten[rewriting.COUNTS],
            partial(rewriting.check_balance, variants=len(plan.variants)),
        )
    )


def header(args: argparse.Namespace) -> dict[str, Any]:
    """What ``run.json`` says besides files and counts."""
    options = {
        "variants": args.plan.variants,
        "matched_by": args.by,
        "leave_out": args.leave_out,
        "mend_published": args.mend_published,
    }
    return run_header("rewrite", options)


def report(args: argparse.Namespace, counters: dict[str, int]) -> None:
    """Says what was written, by variant."""
    from transforms.files import MANIFEST, read_written
    from transforms.rewrite.rewriting import DEAD_LETTERS

    counts = json.loads(read_written(args.output, MANIFEST))["counts"]
    if not args.quiet:
        dialogues, files = counted(counts.get("dialogues", 0), "dialogue"), counted(counts["files"], "file")
        print(f"{dialogues} in {files}, under the names of {counted(len(args.plan.variants), 'variant')}")
        for name in args.plan.variants:
            done, lacking = (counts.get(f"{what}/{name}", 0) for what in ("rewritten", "left_out"))
            print(f"{name}: {done:,} rewritten, {lacking:,} left out")
    place = f"{args.output}/{DEAD_LETTERS}"
    if counts.get("left_out"):
        logging.warning("left out: %s, see %s", counted(counts["left_out"], "dialogue"), place)
    if counts.get("broken_files"):
        logging.warning("could not be read: %s, see %s", counted(counts["broken_files"], "file"), place)
    if counts.get("unknown_intents"):
        logging.warning("left as they are: %s that no schema has", counted(counts["unknown_intents"], "intent"))


if __name__ == "__main__":
    sys.exit(run())
