"""``parapet babi_task6``: converts calls of DSTC2 to dialog bAbI task 6, and to a corpus in the SGD layout."""

from __future__ import annotations

import argparse
import json
import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

from parapet.pipelines.command import counted, run_command, say, warn_dead_letters
from parapet.pipelines.flags import INPUT, Parser, add_max_bad, add_seed
from parapet.schemas.errors import InputError

if TYPE_CHECKING:
    import apache_beam as beam

    from parapet.transforms.simulators.task6.conversion import Config

EXAMPLE = """\
  parapet babi_task6 --logs dstc2 --output task6
  parapet babi_task6 --logs dstc2 --split_rule original --user asr --output task6_recognised
  parapet babi_task6 --logs dstc2 --kb dialog-babi-task6-dstc2-kb.txt --max_bad 5% --output task6"""

PAPER, ORIGINAL = "paper", "original"
TRANSCRIPTION, ASR = "transcription", "asr"


def parser() -> Parser:
    """Builds the command line."""
    description = (
        "Converts logs and labels of DSTC2 to dialog bAbI task 6 (Bordes et al. 2017), "
        "OUT/dialog-babi-task6-dstc2-trn.txt and so on; and to the SGD format, with states, spans, acts and API "
        "results, in OUT/sgd."
    )
    parser = Parser("babi_task6", description, EXAMPLE)
    add = parser.group(INPUT)
    add(
        "--logs",
        required=True,
        metavar="ROOT",
        reads=True,
        help="DSTC2, unpacked: data/ and scripts/config/dstc2_*.flist",
    )
    add(
        "--kb",
        metavar="FILE",
        reads=True,
        help="knowledge base of dialog bAbI (default: what the system says about restaurants)",
    )
    add(
        "--ontology",
        rare=True,
        metavar="FILE",
        reads=True,
        help="ontology (default: ROOT/scripts/config/ontology_dstc2.json)",
    )
    add = parser.group("conversion")
    add(
        "--split_rule",
        choices=(PAPER, ORIGINAL),
        default=PAPER,
        help="splits: dev keeps its first 500 calls and the rest goes to train, or those of DSTC2",
    )
    add(
        "--user",
        choices=(TRANSCRIPTION, ASR),
        default=TRANSCRIPTION,
        help="what users say: the transcription, or the first ASR hypothesis",
    )
    add_max_bad(parser, "calls of a split")
    add_seed(parser, "the ratings")
    return parser


def run(argv: Sequence[str] | None = None) -> int:
    """Runs the command. Returns the exit status."""
    return run_command(parser(), argv, check, build, report, inputs)


def inputs(config: Config) -> list[tuple[str, str]]:
    """Lists the files that workers read: the calls."""
    return [("--logs", config.logs.folder)]


def check(args: argparse.Namespace) -> Config:
    """Reads the lists, the ontology and the knowledge base. Raises InputError if one of them cannot be used."""
    from parapet.transforms.simulators.task6 import calls
    from parapet.transforms.simulators.task6.calls import read_knowledge
    from parapet.transforms.simulators.task6.conversion import Config

    logs = calls.read_logs(args.logs, calls.PAPER_DEV if args.split_rule == PAPER else None)
    if not any(logs.splits.values()):
        raise InputError("the lists name no calls", args.logs, "--logs")
    missing = [split for split in ("train", "dev", "test") if split not in logs.splits]
    if missing:
        logging.warning("there is no list of %s", ", ".join(missing))
    return Config(
        output=args.output,
        logs=logs,
        split_rule=args.split_rule,
        user=args.user,
        ontology=calls.read_ontology(args.logs, args.ontology),
        knowledge=read_knowledge(args.kb) if args.kb else None,
        seed=args.seed,
        max_bad=args.max_bad,
    )


def build(pipeline: beam.Pipeline, config: Config) -> None:
    """Wires the pipeline: reads calls in batches, converts them, and writes dialogues, statistics and a page."""
    from functools import partial

    import apache_beam as beam

    from parapet.transforms.running.runs import FinishRun, RunInfo, WriteEach
    from parapet.transforms.simulators.task6 import conversion
    from parapet.transforms.simulators.task6.calls import gathered
    from parapet.transforms.storage import files

    info = RunInfo("babi_task6", config.output, config.options(), config.max_bad, "converted")
    files.prepare(config.output, info.pipeline)
    read = (
        pipeline
        | "Batches" >> beam.Create(config.logs.batches)
        | "Spread" >> beam.Reshuffle()
        | "Calls" >> beam.FlatMap(conversion.read_batch, config).with_outputs(conversion.STATEMENTS, main="calls")
    )
    statements = read[conversion.STATEMENTS] | "Sum statements" >> beam.CombinePerKey(sum)
    knowledge = beam.pvalue.AsSingleton(
        pipeline
        | "Given restaurants" >> beam.Create([config.knowledge], reshuffle=False)
        | "Restaurants" >> beam.Map(lambda known, found: known or gathered(found), beam.pvalue.AsIter(statements))
    )
    write = WriteEach(
        partial(conversion.write_batch, config=config), knowledge, others=(conversion.BABI,), progress=("calls",)
    )
    outputs = read.calls | "Spread calls" >> beam.Reshuffle() | "Dialogues" >> write
    _ = outputs | "Finish" >> FinishRun(
        info,
        partial(conversion.metadata_files, config=config),
        knowledge,
        beam.pvalue.AsList(outputs.others[conversion.BABI]),
        tallies=config.tallies,
        invariants=config.invariants(),
        shown=conversion.SHOWN,
    )


def report(config: Config, _: dict[str, int]) -> None:
    """Prints the size of each split."""
    from parapet.transforms.storage.files import read_written

    statistics = json.loads(read_written(config.output, "statistics.json"))
    for split, numbers in statistics["splits"].items():
        sizes = f"{numbers['api_calls']:,} API calls, {numbers['facts']:,} facts"
        say(f"{split}: {counted(numbers['dialogues'], 'dialogue')}, {sizes}")
    say(f"{counted(statistics['restaurants'], 'restaurant')}, {statistics['candidates']:,} candidates")
    if statistics["moved_from_dev_to_train"]:
        say(f"moved from dev to train: {counted(statistics['moved_from_dev_to_train'], 'call')}")
    warn_dead_letters(config.output, config.tallies)
