"""``parapet rewrite --tasks``: renames tools in BFCL tasks, and in the expected calls, as in tool variants."""

from __future__ import annotations

import argparse
import json
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from parapet.pipelines.command import counted, say, warn_dead_letters
from parapet.schemas.errors import InputError

if TYPE_CHECKING:
    import apache_beam as beam

    from parapet.schemas.dialogue import DialogueFile
    from parapet.transforms.running.runs import RunInfo
    from parapet.transforms.variants.tasks import TaskVariant


class Config(msgspec.Struct, frozen=True):
    """The files of tasks, the variants, and the run as in its manifest."""

    files: list[DialogueFile]
    variants: list[TaskVariant]
    info: RunInfo


def check(args: argparse.Namespace) -> Config:
    """Reads the variants. Raises InputError if they cannot be used."""
    from parapet.transforms.running.runs import RunInfo
    from parapet.transforms.variants.matching import find_variants
    from parapet.transforms.variants.tasks import list_tasks, read_variant

    if args.sgd is not None:
        raise InputError("cannot be combined with --tasks: give one of the two", "--sgd")
    if args.mapping != "auto":
        raise InputError(
            "is for --sgd, not for --tasks: the names.json of each variant has the names of tools", "--mapping"
        )
    variants_here = find_variants(args.variants, [name for name in args.variant.split(",") if name])
    variants = [read_variant(name, path) for name, path in variants_here.items()]
    options = {"variants": [*variants_here], "max_bad": float(args.max_bad)}
    return Config(list_tasks(args.tasks), variants, RunInfo("rewrite", args.output, options, args.max_bad, "rewritten"))


def inputs(config: Config) -> list[tuple[str, str]]:
    """Lists the files that workers read: the tasks."""
    return [("--tasks", file.path) for file in config.files]


def build(pipeline: beam.Pipeline, config: Config) -> None:
    """Wires the pipeline: writes tasks and answers for each variant."""
    import apache_beam as beam

    from parapet.schemas.tools import NAMES
    from parapet.transforms.running.counts import Balance, CountKey, Equal
    from parapet.transforms.running.runs import FinishRun, WriteEach
    from parapet.transforms.storage.files import prepare
    from parapet.transforms.variants.tasks import tallies, write_file

    prepare(config.info.output, config.info.pipeline)
    names = [variant.name for variant in config.variants]
    mappings = {f"{variant.name}/{NAMES}": variant.mapping for variant in config.variants}
    variants = [msgspec.structs.replace(variant, mapping=b"") for variant in config.variants]  # workers do not need it
    write = WriteEach(
        partial(write_file, variants=variants, output=config.info.output), shown=0, progress=("files", "tasks")
    )
    finish = FinishRun(
        config.info,
        lambda *_: mappings,
        tallies=partial(tallies, variants=names),
        invariants=[
            Equal({CountKey("files"): len(config.files)}),
            Balance("tasks", ["written", "left_out"], sets=names),
        ],
    )
    _ = pipeline | "Files" >> beam.Create(config.files) | "Tasks" >> write | "Finish" >> finish


def report(config: Config, counters: dict[str, int]) -> None:
    """Prints the number of tasks of each variant."""
    from parapet.schemas.layout import MANIFEST
    from parapet.transforms.running.counts import Counts
    from parapet.transforms.storage.files import read_written
    from parapet.transforms.variants.tasks import tallies

    counts = Counts.of_json(json.loads(read_written(config.info.output, MANIFEST))["counts"])
    names = [variant.name for variant in config.variants]
    for name in names:
        say(
            f"{name}: {counted(counts.sum('written', set=name), 'task')} rewritten, "
            f"{counts.sum('left_out', set=name):,} left out"
        )
    warn_dead_letters(config.info.output, partial(tallies, variants=names))
