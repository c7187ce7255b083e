"""``parapet reminders``: simulates a corpus of dialogues about reminders."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

from parapet.pipelines.command import counted, run_command, say
from parapet.pipelines.flags import OUTPUT, Parser, add_seed
from parapet.schemas.errors import InputError
from parapet.schemas.layout import SPLITS

if TYPE_CHECKING:
    import apache_beam as beam

    from parapet.transforms.simulators.reminders.corpus import Config

EXAMPLE = """\
  parapet reminders --output reminders                       # 1,000 dialogues for training, 200 and 200
  parapet reminders --dialogues 50,50,400 --seed 7 --output reminders
  parapet unseen_entities --sgd reminders --output unseen    # values that training does not have"""


def parser() -> Parser:
    """Builds the command line."""
    description = (
        "Simulates dialogues about reminders, in the SGD format: an agenda-based user talks to a system that sets, "
        "finds, moves and cancels reminders. Writes OUT/train/dialogues_001.json, OUT/train/schema.json and so on."
    )
    parser = Parser("reminders", description, EXAMPLE)
    add = parser.group("simulation")
    text = "number of dialogues of train, dev and test"
    add("--dialogues", metavar="LIST", default="1000,200,200", help=text)
    parser.group(OUTPUT)("--per_file", rare=True, type=int, metavar="N", default=128, help="dialogues per file")
    add_seed(parser)
    return parser


def run(argv: Sequence[str] | None = None) -> int:
    """Runs the command. Returns the exit status."""
    return run_command(parser(), argv, check, build, report)


def check(args: argparse.Namespace) -> Config:
    """Reads the flags. Raises InputError if they cannot be used."""
    from parapet.transforms.perturbation.corpora import listed
    from parapet.transforms.simulators.reminders.corpus import Config

    sizes = listed(args.dialogues)
    fine = all(size.isascii() and size.isdigit() and len(size) < 8 for size in sizes)
    if len(sizes) != len(SPLITS) or not fine or not any(map(int, sizes)):
        raise InputError(
            "must be three numbers of dialogues, for train, dev and test (example: 1000,200,200)", "--dialogues"
        )
    if not 1 <= args.per_file <= 10_000:
        raise InputError(f"{args.per_file}: must be from 1 to 10,000", "--per_file")
    return Config(
        output=args.output,
        sizes={split: int(size) for split, size in zip(SPLITS, sizes, strict=True) if int(size)},
        per_file=args.per_file,
        seed=args.seed,
    )


def build(pipeline: beam.Pipeline, config: Config) -> None:
    """Wires the pipeline: finds duplicates by digests, simulates the other dialogues, and writes files and a page."""
    from functools import partial

    import apache_beam as beam

    from parapet.transforms.running.progress import expect
    from parapet.transforms.running.runs import FinishRun, RunInfo, WriteEach
    from parapet.transforms.simulators.reminders import corpus
    from parapet.transforms.storage import files

    info = RunInfo("reminders", config.output, config.options())
    files.prepare(config.output, info.pipeline)
    expect(sum(config.sizes.values()), "dialogues")
    shards = pipeline | "Shards" >> beam.Create(config.shards())
    digests = shards | "Spread" >> beam.Reshuffle() | "Digests" >> beam.Map(corpus.digest_shard, config.seed)
    attempts = (
        pipeline
        | "Seed" >> beam.Create([config.seed], reshuffle=False)
        | "Attempts" >> beam.Map(corpus.choose_attempts, beam.pvalue.AsIter(digests))
    )
    write = WriteEach(
        partial(corpus.write_shard, config=config),
        beam.pvalue.AsSingleton(attempts),
        others=(corpus.DIGESTS, corpus.UTTERANCES),
        progress=("dialogues",),
    )
    outputs = shards | "Spread files" >> beam.Reshuffle() | "Dialogues" >> write
    _ = outputs._replace(dead_letters=None) | "Finish" >> FinishRun(  # the pipeline reads no records
        info,
        partial(corpus.metadata_files, config=config),
        beam.pvalue.AsList(outputs.others[corpus.DIGESTS]),
        beam.pvalue.AsList(outputs.others[corpus.UTTERANCES]),
        invariants=config.invariants(),
        shown=corpus.SHOWN,
    )


def report(config: Config, _: dict[str, int]) -> None:
    """Prints the size of each split."""
    from parapet.transforms.storage.files import read_written

    for split, numbers in json.loads(read_written(config.output, "statistics.json"))["splits"].items():
        sizes = f"{counted(numbers['turns'], 'turn')}, {numbers['different_utterances']:,} different utterances"
        say(f"{split}: {counted(numbers['dialogues'], 'dialogue')}, {sizes}")
