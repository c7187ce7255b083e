"""``parapet statistics``: schemas + variants -> the numbers of SGD-X Table 1 and self-BLEU, as JSON and a page.

Each service is counted on its own; the counts are gathered into ``statistics.json`` and ``report.html``.
"""

from __future__ import annotations

import argparse
import json
import logging
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from parapet.pipelines.command import check_apart, read_good, run_command, say
from parapet.pipelines.flags import INPUT, Parser, add_schema_variants, add_sgd
from parapet.schemas.distribution import run_header
from parapet.schemas.errors import InputError
from parapet.schemas.layout import (
    SINGLE,
    SPLITS,
    TEST,
    TRAIN,
    as_path,
    is_root,
    is_there,
    read_root,
    sample_root,
    services_by_name,
    split_of_folder,
    variant_roots,
)
from parapet.schemas.service import Service

if TYPE_CHECKING:
    import apache_beam as beam

    from parapet.transforms.table1 import Counts, Names

EXAMPLE = "  parapet statistics --sgd sgd --variants sgd/sgd_x/data --split test --output sgd_x_statistics"


class Item(msgspec.Struct, frozen=True):
    """A service to measure: the original, its variants, and whether train lacks it."""

    original: Service
    variants: dict[str, Service]
    unseen: bool


class Config(msgspec.Struct, frozen=True):
    """What to measure.

    Attributes:
      output: the folder to write.
      items: the services that have variants.
      variants: the names of the variants, in natural order.
      split: of the services whose names are looked up among those of train.
      names: of train.
      left_out: the services that no variant has.
    """

    output: str
    items: list[Item]
    variants: list[str]
    split: str
    names: Names
    left_out: list[str]


def parser() -> Parser:
    """The flags."""
    what = (
        "Measures how far schema variants are from the original: the numbers of SGD-X Table 1, and self-BLEU. "
        "Writes OUT/statistics.json and OUT/report.html."
    )
    parser = Parser("statistics", what, EXAMPLE)
    add_sgd(parser)
    add_schema_variants(parser, required=True)
    parser.group(INPUT)(
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
    """Reads and aligns the schemas. Raises InputError where they cannot be measured."""
    check_apart(args.output, variants=args.variants, sgd=args.sgd)
    config = read_config(args.output, args.sgd or sample_root(), args.variants, args.split)
    if left_out := config.left_out:
        shown = ", ".join(left_out[:5]) + (", ..." if len(left_out) > 5 else "")
        logging.warning("services of the original that no variant has, not counted: %s", shown)
    return config


def read_config(output: str, sgd: str | Path, folder: str | Path, split: str | None) -> Config:
    """Reads original and variants, and brings their services together.

    Raises:
      InputError: no train split, no services that train lacks, no variants, or variants that do not match.
    """
    from parapet.transforms import table1

    splits, train, alone = _splits_of(sgd)
    if train is None:
        raise InputError("there is no train/schema.json, so nothing can be seen in train", sgd)
    split = split or alone or (TEST if TEST in splits else "dev")
    if split not in splits:
        there = ", ".join(splits)
        raise InputError(f"there is no {split}/schema.json (found: {there}); choose with --split", sgd)
    seen = {service.service_name for service in train}
    unseen = {service.service_name for service in splits[split]} - seen
    if not unseen:
        raise InputError(f"train has all services of {split}, so there are no unseen ones to measure", sgd, "--split")
    originals = {service.service_name: service for services in splits.values() for service in services}
    variants = read_variants(folder, alone)
    try:
        aligned = table1.align(originals, variants)
    except InputError as error:
        raise InputError(error.reason, folder, "--variants") from None
    if not unseen & set(aligned):
        raise InputError(f"no variant has any of the services of {split} that train lacks", folder, "--variants")
    return Config(
        output=output,
        items=[Item(originals[name], services, name in unseen) for name, services in aligned.items()],
        variants=list(variants),
        split=split,
        names=table1.names_of(train),
        left_out=[name for name in originals if name not in aligned],
    )


def _splits_of(sgd: str | Path) -> tuple[dict[str, list[Service]], list[Service] | None, str | None]:
    """The services of each split, those of train, and the split where it is one's folder: train is beside it."""
    splits = {split.split: split.services for split in read_good(sgd)}
    alone = split_of_folder(sgd)
    if alone is None:
        return splits, splits.get(TRAIN), None
    folder = as_path(sgd).resolve()
    beside = (folder.parent if folder.is_file() else folder).parent / TRAIN
    return {alone: splits[SINGLE]}, read_good(beside)[0].services if is_root(beside) else None, alone


def read_variants(folder: str | Path, split: str | None = None) -> dict[str, dict[str, Service]]:
    """The services of each variant below ``folder``, in natural order of the variants (v2 before v10).

    Args:
      folder: holds ``v1/train/schema.json`` and so on.
      split: only its services; a variant that has no splits is taken whole.

    Raises:
      InputError: no such folder, no variants in it, or it is itself a variant.
    """
    folder = as_path(folder)
    if not is_there(folder) or not folder.is_dir():
        raise InputError("there is no such folder", folder, "--variants")
    if is_root(folder):
        raise InputError("this is one corpus; give the folder that holds the variants' folders", folder, "--variants")
    found = variant_roots(folder)
    if not found:
        raise InputError("no variants here: expected folders such as v1/train/schema.json", folder, "--variants")
    return {
        name: services_by_name([part for part in read_root(path) if split is None or part.split in (split, SINGLE)])
        for name, path in found.items()
    }


def build(pipeline: beam.Pipeline, config: Config) -> None:
    """Services -> counts -> one set of numbers -> files."""
    import apache_beam as beam

    from parapet.transforms.files import Publish, WriteFiles, prepare
    from parapet.transforms.progress import expect

    prepare(config.output, "statistics")
    expect(len(config.items), "services")
    counts = (
        pipeline | "Services" >> beam.Create(config.items) | "Count service" >> beam.Map(count_item, names=config.names)
    )
    about = {
        "split": config.split,
        "services": len(config.items),
        "unseen_services": sum(item.unseen for item in config.items),
        "services_without_variants": config.left_out,
    }
    header = run_header("statistics", {"split": config.split, "variants": config.variants})
    _ = (
        pipeline
        | "Variants" >> beam.Create([config.variants], reshuffle=False)
        | "Make files" >> beam.FlatMap(make_files, counts=beam.pvalue.AsList(counts), about=about)
        | "Write" >> WriteFiles(config.output)
        | "Publish" >> Publish(config.output, header)
    )


def count_item(item: Item, names: Names) -> Counts:
    """Counts one service; the names only of a service that train lacks."""
    from apache_beam.metrics import Metrics

    from parapet.transforms import table1
    from parapet.transforms.progress import advance

    counts = table1.count(item.original, item.variants, names if item.unseen else None)
    Metrics.counter("parapet", "services").inc()
    advance(1, "services")
    return counts


def make_files(variants: list[str], counts: list[Counts], about: Mapping[str, Any]) -> list[tuple[str, bytes]]:
    """The output: statistics.json and report.html."""
    from parapet.transforms import table1
    from parapet.transforms.report import page
    from parapet.transforms.table1_report import statistics_report

    statistics = {**table1.rounded(table1.table(counts, variants)), **about, "bleu_signature": table1.bleu_signature()}
    return [
        ("statistics.json", (json.dumps(statistics, indent=2) + "\n").encode()),
        ("report.html", page(statistics_report(statistics)).encode()),
    ]


def report(config: Config, counters: dict[str, int]) -> None:
    """Prints the table."""
    from parapet.transforms.files import join, read_written

    say(text_table(json.loads(read_written(config.output, "statistics.json"))))
    say(f"report: {join(config.output, 'report.html')}")


def text_table(statistics: Mapping[str, Any]) -> str:
    """Table 1 as text, shares in per cent."""
    rows = {"original": statistics["original"], **statistics["variants"], "average": statistics["average"]}
    width = max(len(name) for name in rows)
    lines = [f"{'':{width}}  slots seen  intents seen  name distance  description BLEU"]
    for name, row in rows.items():
        cells = (
            _cell(row["slot_names_seen"], ".1%", 10),
            _cell(row["intent_names_seen"], ".1%", 12),
            _cell(row.get("name_distance"), ".3f", 13),
            _cell(row.get("description_bleu"), ".2f", 16),
        )
        lines.append("  ".join((f"{name:{width}}", *cells)).rstrip())
    lines.append(f"self-BLEU {_cell(statistics['self_bleu'], '.2f', 0)}")
    return "\n".join(lines)


def _cell(value: float | None, form: str, width: int) -> str:
    return f"{'-' if value is None else format(value, form):>{width}}"


if __name__ == "__main__":
    sys.exit(run())
