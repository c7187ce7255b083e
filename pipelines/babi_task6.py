"""``parapet babi_task6``: calls of DSTC2 as dialog bAbI task 6, and as a corpus in the SGD layout."""

from __future__ import annotations

import argparse
import json
import logging
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from parapet.pipelines.command import Parser, add_max_bad, check_apart, counted, run_command, run_header, warn_left_out
from parapet.schemas.errors import InputError

if TYPE_CHECKING:
    import apache_beam as beam

    from parapet.transforms.dead_letters import Tallies

EXAMPLE = """\
  parapet babi_task6 --logs dstc2 --output task6
  parapet babi_task6 --logs dstc2 --split_rule original --user asr --output task6_recognised
  parapet babi_task6 --logs dstc2 --kb dialog-babi-task6-dstc2-kb.txt --max_bad 5% --output task6"""

PAPER, ORIGINAL = "paper", "original"
TRANSCRIPTION, ASR = "transcription", "asr"


def parser() -> Parser:
    """The flags."""
    what = (
        "Logs and labels of DSTC2 -> dialog bAbI task 6 (Bordes et al. 2017): OUT/dialog-babi-task6-dstc2-trn.txt,\n"
        "-dev, -tst, -candidates and -kb; and the same dialogues with states, spans, acts and API results in OUT/sgd."
    )
    made = Parser("babi_task6", what, EXAMPLE)
    add = made.add_argument
    add("--logs", required=True, metavar="ROOT", help="DSTC2 as it unpacks: data/ and scripts/config/dstc2_*.flist")
    add(
        "--split_rule",
        choices=(PAPER, ORIGINAL),
        default=PAPER,
        help="paper: dev keeps its first 500 calls, the others go to train; original: DSTC2's lists (default paper)",
    )
    add(
        "--user",
        choices=(TRANSCRIPTION, ASR),
        default=TRANSCRIPTION,
        help="what users say: the label's transcription, or what the recogniser heard first (default transcription)",
    )
    add(
        "--kb",
        metavar="FILE",
        help="knowledge base: a file of dialog bAbI (1 NAME R_cuisine VALUE) or a JSON list of restaurants "
        "(default: what the system says of the restaurants it offers)",
    )
    add("--ontology", metavar="FILE", help="(default ROOT/scripts/config/ontology_dstc2.json)")
    add("--seed", default="0", help="of the ratings: any text (default 0)")
    add_max_bad(made, "calls of a split")
    return made


def run(argv: Sequence[str] | None = None) -> int:
    """Runs the command. Returns the exit status."""
    return run_command(parser(), argv, check, build, report, inputs)


def inputs(args: argparse.Namespace) -> list[tuple[str, str]]:
    """What workers read: the calls."""
    return [("--logs", args.logs)]


def check(args: argparse.Namespace) -> argparse.Namespace:
    """Reads lists, ontology and knowledge base. Raises InputError where they cannot work."""
    from parapet.transforms.dstc2 import plan
    from parapet.transforms.dstc2.knowledge import read_knowledge
    from parapet.transforms.dstc2.writing import Task

    check_apart(args.output, logs=args.logs)
    args.found = plan.read_logs(args.logs, plan.PAPER_DEV if args.split_rule == PAPER else None)
    if not any(args.found.splits.values()):
        raise InputError("the lists name no call", args.logs, "--logs")
    missing = [split for split in ("train", "dev", "test") if split not in args.found.splits]
    if missing:
        logging.warning("there is no list of %s", ", ".join(missing))
    ontology = plan.read_ontology(args.logs, args.ontology)
    given = read_knowledge(args.kb) if args.kb else None
    args.task = Task(args.output, args.found.folder, args.user == ASR, ontology, given, args.seed)
    return args


def options_of(args: argparse.Namespace) -> dict[str, Any]:
    """The flags that shape the content."""
    return {
        "split_rule": args.split_rule,
        "user": args.user,
        "kb": bool(args.kb),
        "seed": args.seed,
        "max_bad": float(args.max_bad),
    }


def build(pipeline: beam.Pipeline, args: argparse.Namespace) -> None:
    """Batches of calls -> calls and what they say of restaurants -> dialogues -> files, numbers and a page."""
    from functools import partial

    import apache_beam as beam

    from parapet.transforms import files
    from parapet.transforms.dead_letters import DeadLettersFile
    from parapet.transforms.dstc2 import outputs, writing
    from parapet.transforms.dstc2.invariants import check_counts

    files.prepare(args.output, "babi_task6")
    read = pipeline | "Batches" >> beam.Create(args.found.batches) | "Calls" >> writing.ReadCalls(args.task)
    facts = read[writing.FACTS] | "Sum facts" >> beam.CombinePerKey(sum)
    written = read.read | "Dialogues" >> writing.WriteTask(args.task, facts)
    about = outputs.About(args.task, tuple(args.found.splits), args.found.moved, options_of(args))
    small = (
        pipeline
        | "Once" >> beam.Create([about], reshuffle=False)
        | "Metadata files"
        >> beam.FlatMap(
            outputs.metadata_files,
            beam.pvalue.AsList(facts),
            *(beam.pvalue.AsList(one) for one in outputs.summed(written)),
        )
    )
    letters = written[writing.DEAD] | "Dead letters" >> DeadLettersFile(
        written[writing.COUNTS], tallies_of(args), args.max_bad, "converted"
    )
    texts = outputs.babi_files(written, list(args.found.splits))
    others = (small, letters, texts) | "Other files" >> beam.Flatten() | "Write" >> files.WriteFiles(args.output)
    calls = {split: len(names) for split, names in args.found.splits.items()}
    (
        (written.written, others)
        | "All files" >> beam.Flatten()
        | "Publish"
        >> files.Publish(args.output, header(args), written[writing.COUNTS], partial(check_counts, calls=calls))
    )


def tallies_of(args: argparse.Namespace) -> Tallies:
    """What is held against ``--max_bad``."""
    from functools import partial

    from parapet.transforms.dstc2.invariants import tallies

    return partial(tallies, splits=list(args.found.splits))


def header(args: argparse.Namespace) -> dict[str, Any]:
    """What ``run.json`` says besides files and counts."""
    return run_header("babi_task6", options_of(args))


def report(args: argparse.Namespace, counters: dict[str, int]) -> None:
    """Says what each split came to."""
    from parapet.transforms.files import read_written

    numbers = json.loads(read_written(args.output, "statistics.json"))
    if not args.quiet:
        for split, one in numbers["splits"].items():
            found = f"{one['api_calls']:,} API calls, {one['facts']:,} facts"
            print(f"{split}: {counted(one['dialogues'], 'dialogue')}, {found}")
        print(f"{counted(numbers['restaurants'], 'restaurant')}, {numbers['candidates']:,} candidates")
        if numbers["moved_from_dev_to_train"]:
            print(f"moved from dev to train: {counted(numbers['moved_from_dev_to_train'], 'call')}")
    warn_left_out(args.output, tallies_of(args))


if __name__ == "__main__":
    sys.exit(run())
