"""``parapet rewrite``: every dialogue of a corpus under the names of every schema variant, in the SGD layout."""

from __future__ import annotations

import argparse
import json
import logging
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from parapet.pipelines.command import check_apart, run_command, say, warn_dead_letters
from parapet.pipelines.flags import INPUT, Parser, add_max_bad, add_schema_variants, add_sgd, add_variant
from parapet.schemas.layout import sample_root
from parapet.transforms.text import counted

if TYPE_CHECKING:
    import apache_beam as beam

    from parapet.transforms.corpora import Corpus
    from parapet.transforms.runs import RunInfo
    from parapet.transforms.variants.perturbation import ApplyVariants

EXAMPLE = "  parapet rewrite --sgd sgd --variants sgd/sgd_x/data --output sgd_x_dialogues"


class Config(msgspec.Struct, frozen=True):
    """A run: the variants, matched with the corpus, and its dialogue files."""

    root: str
    perturbation: ApplyVariants
    corpus: Corpus
    info: RunInfo


def parser() -> Parser:
    """The flags."""
    description = (
        "Writes the dialogues of a corpus under the names of each schema variant, as SGD-X does: "
        "OUT/v1/test/dialogues_001.json and so on."
    )
    parser = Parser("rewrite", description, EXAMPLE)
    add_sgd(parser)
    add_schema_variants(parser, required=True)
    add_variant(parser)
    parser.group(INPUT)(
        "--mapping",
        rare=True,
        metavar="auto|position|FILE",
        default="auto",
        help="how names are matched: by a mapping.json, or by position (default: auto, DIR/mapping.json if it exists)",
    )
    add_max_bad(parser, "dialogues of a variant")
    return parser


def run(argv: Sequence[str] | None = None) -> int:
    """Runs the command. Returns the exit status."""
    return run_command(parser(), argv, check, build, report, lambda config: [("--sgd", config.root)])


def check(args: argparse.Namespace) -> Config:
    """Reads and matches the schemas. Raises InputError where none of a variant's services match."""
    from parapet.transforms.corpora import Corpus
    from parapet.transforms.runs import RunInfo
    from parapet.transforms.variants.folders import find_mapping, find_variants
    from parapet.transforms.variants.matching import check_matched, make_plan
    from parapet.transforms.variants.perturbation import ApplyVariants

    check_apart(args.output, variants=args.variants, sgd=args.sgd)
    variants = find_variants(args.variants, [name for name in args.variant.split(",") if name])
    mapping = find_mapping(args.variants, args.mapping)
    root = str(args.sgd or sample_root())
    plan = make_plan(root, variants, mapping)
    check_matched([of for split in plan.splits.values() for of in split.variants], plan.problems, args.max_bad)
    for line in plan.problems:
        logging.warning("does not match: %s", line)
    for line in plan.remarks:
        logging.warning("%s", line)
    options = {
        "variants": plan.variants,
        "matched_by": "position" if mapping is None else "mapping",
        "max_bad": float(args.max_bad),
    }
    info = RunInfo("rewrite", args.output, options, args.max_bad, "rewritten")
    return Config(root, ApplyVariants(plan), Corpus(plan.files, {}, {}), info)


def build(pipeline: beam.Pipeline, config: Config) -> None:
    """Dialogue files -> the same under each variant's names; schemas, mapping and dead letters beside them."""
    from parapet.transforms import files
    from parapet.transforms.perturbed_files import PerturbCorpus

    files.prepare(config.info.output, config.info.pipeline)
    _ = pipeline | "Rewrite" >> PerturbCorpus(config.perturbation, config.corpus, config.info)


def report(config: Config, _: dict[str, int]) -> None:
    """Prints what was written, by variant."""
    from parapet.transforms.files import read_written

    statistics = json.loads(read_written(config.info.output, "statistics.json"))
    dialogues, files = counted(statistics["dialogues"], "dialogue"), counted(statistics["files"], "file")
    say(f"{dialogues} in {files}, under the names of {counted(len(statistics['sets']), 'variant')}")
    for name, variant in statistics["sets"].items():
        say(f"{name}: {variant['dialogues']:,} rewritten, {variant['left_out']:,} left out")
    warn_dead_letters(config.info.output, config.perturbation.tallies)
    if statistics["unknown_intents"]:
        logging.warning("unchanged: %s that no schema has", counted(statistics["unknown_intents"], "intent"))


if __name__ == "__main__":
    sys.exit(run())
