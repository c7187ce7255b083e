"""``parapet reminders``: a simulated corpus of dialogues about reminders."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from parapet.pipelines.command import Parser, counted, run_command, run_header
from parapet.schemas.errors import InputError
from parapet.schemas.layout import SPLITS

if TYPE_CHECKING:
    import apache_beam as beam

EXAMPLE = """\
  parapet reminders --output reminders                       # 1,000 dialogues for training, 200 and 200
  parapet reminders --dialogues 50,50,400 --seed 7 --output reminders
  parapet unseen_entities --sgd reminders --output unseen    # the test with values that training does not have"""


def parser() -> Parser:
    """The flags."""
    what = (
        "A simulator -> a corpus of dialogues about reminders: OUT/train/dialogues_001.json, OUT/train/schema.json.\n"
        "An agenda-based user speaks with a system that sets, finds, moves and cancels reminders."
    )
    made = Parser("reminders", what, EXAMPLE)
    add = made.add_argument
    add(
        "--dialogues",
        metavar="LIST",
        default="1000,200,200",
        help="how many, of train, dev, test; 0 for none (default 1000,200,200)",
    )
    add("--per_file", type=int, metavar="N", default=128, help="dialogues of a file (default 128)")
    add("--seed", default="0", help="of all dialogues: any text (default 0)")
    return made


def run(argv: Sequence[str] | None = None) -> int:
    """Runs the command. Returns the exit status."""
    return run_command(parser(), argv, check, build, report)


def check(args: argparse.Namespace) -> argparse.Namespace:
    """Reads the flags. Raises InputError where they cannot work."""
    from parapet.transforms.corpora import listed

    sizes = listed(args.dialogues)
    fine = all(size.isascii() and size.isdigit() and len(size) < 8 for size in sizes)
    if len(sizes) != len(SPLITS) or not fine or not any(map(int, sizes)):
        raise InputError("give three numbers, of train, dev and test, such as 1000,200,200", "--dialogues")
    if not 1 <= args.per_file <= 10_000:
        raise InputError(f"{args.per_file} is not from 1 to 10,000", "--per_file")
    args.sizes = {split: int(size) for split, size in zip(SPLITS, sizes, strict=True) if int(size)}
    return args


def build(pipeline: beam.Pipeline, args: argparse.Namespace) -> None:
    """Numbers -> what dialogues would say -> those that must be made again -> files, numbers and a page."""
    from functools import partial

    import apache_beam as beam

    from parapet.transforms import files
    from parapet.transforms.reminders import outputs, writing

    files.prepare(args.output, "reminders")
    shares = pipeline | "Shares" >> beam.Create(writing.shares_of(args.sizes, args.per_file))
    digests = shares | "Spread" >> beam.Reshuffle() | "Digests" >> beam.FlatMap(writing.digests_of, args.seed)
    attempts = (
        pipeline
        | "Seed" >> beam.Create([args.seed], reshuffle=False)
        | "Attempts" >> beam.Map(writing.attempts_of, beam.pvalue.AsIter(digests))
    )
    written = (
        shares
        | "Spread files" >> beam.Reshuffle()
        | "Dialogues" >> writing.WriteDialogues(args.output, args.seed, attempts)
    )
    different = (
        written[writing.DIGESTS] | "Different" >> beam.Distinct() | "One" >> beam.Map(lambda _: ("different", 1))
    )
    counts = (written[writing.COUNTS], different) | "Counts" >> beam.Flatten()
    texts = (
        written[writing.TEXTS]
        | "Texts" >> beam.FlatMapTuple(lambda split, said: ((split, text) for text in said))
        | "Different texts" >> beam.Distinct()
        | "Of splits" >> beam.combiners.Count.PerKey()
    )
    about = outputs.About(args.sizes, args.seed)
    small = (
        pipeline
        | "Once" >> beam.Create([about], reshuffle=False)
        | "Metadata files"
        >> beam.FlatMap(
            outputs.metadata_files,
            beam.pvalue.AsList(written[writing.TALLIES] | "Sum tallies" >> beam.CombinePerKey(sum)),
            beam.pvalue.AsList(texts),
            beam.pvalue.AsList(counts | "Sum counts" >> beam.CombinePerKey(sum)),
            beam.pvalue.AsList(written[writing.EXAMPLES]),
        )
        | "Write" >> files.WriteFiles(args.output)
    )
    (
        (written.written, small)
        | "All files" >> beam.Flatten()
        | "Publish" >> files.Publish(args.output, header(args), counts, partial(writing.check_counts, sizes=args.sizes))
    )


def header(args: argparse.Namespace) -> dict[str, Any]:
    """What ``run.json`` says besides files and counts."""
    options = {"dialogues": args.sizes, "per_file": args.per_file, "seed": args.seed}
    return run_header("reminders", options)


def report(args: argparse.Namespace, counters: dict[str, int]) -> None:
    """Says what was made."""
    from parapet.transforms.files import read_written

    if args.quiet:
        return
    for split, of in json.loads(read_written(args.output, "statistics.json"))["splits"].items():
        said = f"{counted(of['turns'], 'turn')}, {of['different_utterances']:,} different utterances"
        print(f"{split}: {counted(of['dialogues'], 'dialogue')}, {said}")


if __name__ == "__main__":
    sys.exit(run())
