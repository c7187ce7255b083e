"""``parapet statistics``: computes the numbers of SGD-X Table 1 and self-BLEU, as JSON and a page."""

from __future__ import annotations

import argparse
import json
import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from parapet.pipelines.command import read_good, run_command, say
from parapet.pipelines.flags import INPUT, SCHEMA_VARIANTS, Parser, add_sgd
from parapet.schemas.errors import run_header
from parapet.schemas.layout import SPLITS, sample_root

if TYPE_CHECKING:
    import apache_beam as beam

    from parapet.transforms.variants.table1 import Inputs

EXAMPLE = """  parapet statistics --output names_seen                 # the sample
  parapet statistics --sgd sgd --variants sgd/sgd_x/data --split test --output sgd_x_statistics"""


class Config(msgspec.Struct, frozen=True):
    """The folder to write, and the schemas to measure."""

    output: str
    inputs: Inputs


def parser() -> Parser:
    """Builds the command line."""
    description = (
        "Measures how far schema variants are from the original: the numbers of SGD-X Table 1, and self-BLEU. Without "
        "variants, how many names of unseen services occur in train. Writes OUT/statistics.json and OUT/report.html."
    )
    parser = Parser("statistics", description, EXAMPLE)
    add_sgd(parser)
    parser.group(INPUT)("--variants", metavar="DIR", reads=True, help=SCHEMA_VARIANTS)
    add = parser.group(INPUT)
    add(
        "--split",
        rare=True,
        choices=[split for split in SPLITS if split != "train"],
        help="split whose unseen services are checked for names that occur in train (default: test, else dev)",
    )
    return parser


def run(argv: Sequence[str] | None = None) -> int:
    """Runs the command. Returns the exit status."""
    return run_command(parser(), argv, check, build, report)


def check(args: argparse.Namespace) -> Config:
    """Reads and aligns the schemas. Raises InputError if they cannot be measured."""
    from parapet.transforms.variants.table1 import read_inputs

    inputs = read_inputs(args.sgd or sample_root(), args.variants, args.split, read_good)
    if inputs.train is None:
        logging.warning("there is no train/schema.json, so names that occur in train are not counted")
    if left_out := inputs.left_out:
        logging.warning("no variant has these services of the original, which are not counted: %s", _first(left_out))
    return Config(args.output, inputs)


def _first(names: Sequence[str]) -> str:
    return ", ".join(names[:5]) + (", ..." if len(names) > 5 else "")


def build(pipeline: beam.Pipeline, config: Config) -> None:
    """Wires the pipeline: measures each service, and writes the statistics of all."""
    import apache_beam as beam

    from parapet.transforms.storage.files import Publish, WriteFiles, prepare
    from parapet.transforms.variants.table1 import measure, statistics_files

    inputs = config.inputs
    prepare(config.output, "statistics")
    options = {"split": inputs.split, "variants": inputs.variants}
    measured = pipeline | "Services" >> beam.Create(inputs.items) | "Measure" >> beam.Map(measure)
    _ = (
        pipeline
        | "Inputs" >> beam.Create([inputs], reshuffle=False)
        | "Combine" >> beam.FlatMap(statistics_files, beam.pvalue.AsList(measured))
        | "Write" >> WriteFiles(config.output)
        | "Publish" >> Publish(config.output, run_header("statistics", options))
    )


def report(config: Config, counters: dict[str, int]) -> None:
    """Prints the table."""
    from parapet.transforms.storage.files import join, read_written
    from parapet.transforms.variants.table1 import text_table

    say(text_table(json.loads(read_written(config.output, "statistics.json"))))
    say(f"report: {join(config.output, 'report.html')}")
