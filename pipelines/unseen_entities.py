"""``parapet unseen_entities``: dialogues whose slot values occur nowhere in training."""

from __future__ import annotations

import argparse
import json
import logging
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from parapet.pipelines.command import (
    Parser,
    add_max_bad,
    add_split,
    check_apart,
    counted,
    run_command,
    run_header,
    warn_left_out,
)
from parapet.schemas.errors import InputError
from parapet.schemas.layout import sample_root

if TYPE_CHECKING:
    import apache_beam as beam

    from parapet.transforms.corpora import Corpus

EXAMPLE = """\
  parapet unseen_entities --output unseen                        # the sample's test dialogues
  parapet unseen_entities --sgd sgd --split dev --values corpus --output unseen
  parapet unseen_entities --sgd sgd --values gazetteer.csv --categorical replace --output unseen"""


def parser() -> Parser:
    """The flags."""
    what = (
        "Dialogues -> the same with slot values that occur nowhere in training: OUT/test/dialogues_001.json, and\n"
        "a row for every value in OUT/replacements."
    )
    made = Parser("unseen_entities", what, EXAMPLE)
    add = made.add_argument
    add("--sgd", metavar="ROOT", help="corpus (default: the bundled sample)")
    add_split(made, many=True)
    add("--training", metavar="ROOT", help="corpus whose split train is what has been seen (default: --sgd)")
    add(
        "--values",
        metavar="SOURCE",
        default="generated",
        help="where new values come from: generated, corpus (the half of its own names that is held out), or a CSV "
        "file slot_or_kind,value (default generated)",
    )
    add(
        "--categorical",
        choices=("keep", "replace"),
        default="keep",
        help="values of categorical slots: keep, or replace by others of their closed set (default keep)",
    )
    add(
        "--least_changed",
        type=float,
        metavar="X",
        default=0.5,
        help="share of the dialogues with open slots that must change, or the run fails (default 0.5)",
    )
    add("--seed", default="0", help="of all choices: any text (default 0)")
    add_max_bad(made)
    return made


def run(argv: Sequence[str] | None = None) -> int:
    """Runs the command. Returns the exit status."""
    return run_command(parser(), argv, check, build, report, inputs)


def inputs(args: argparse.Namespace) -> list[tuple[str, str]]:
    """What workers read: the dialogues."""
    return [("--sgd", str(args.sgd or sample_root()))]


def check(args: argparse.Namespace) -> argparse.Namespace:
    """Reads flags, corpus, training and values. Raises InputError where it cannot work."""
    from parapet.transforms.corpora import read_corpus
    from parapet.transforms.entities.study import Config, split_train, study

    check_apart(args.output, sgd=args.sgd, training=args.training)
    if not 0 <= args.least_changed <= 1:
        raise InputError(f"{args.least_changed:g} is no share: give 0 to 1", "--least_changed")
    root = args.sgd or sample_root()
    splits = list(dict.fromkeys(split.strip() for split in args.split.split(",") if split.strip()))
    if not splits:
        raise InputError("give one or more of train, dev, test", "--split")
    args.corpus = read_corpus(root, splits)
    for line in args.corpus.problems:
        logging.warning("%s", line)
    whole = read_corpus(root, None)
    training = split_train(read_corpus(args.training, None) if args.training else whole, args.training or root)
    config = Config(args.values, args.categorical == "replace", args.seed, args.max_bad)
    args.replacer, args.leaking, warning = study(args.corpus, whole, training, config)
    if warning:
        logging.warning("%s", warning)
    return args


def options_of(args: argparse.Namespace) -> dict[str, Any]:
    """The flags that shape the content."""
    return {
        "split": args.split,
        "values": args.replacer.sources.mode,
        "categorical": args.categorical,
        "least_changed": args.least_changed,
        "seed": args.seed,
        "training_elsewhere": args.training is not None,
        "max_bad": float(args.max_bad),
    }


def build(pipeline: beam.Pipeline, args: argparse.Namespace) -> None:
    """Dialogue files -> the same with other values, their rows, numbers and a page."""
    from functools import partial

    import apache_beam as beam

    from parapet.transforms import files
    from parapet.transforms.dead_letters import DeadLettersFile, of_dialogues
    from parapet.transforms.entities import outputs, writing

    files.prepare(args.output, "unseen_entities")
    corpus: Corpus = args.corpus
    written = (
        pipeline
        | "Dialogue files" >> beam.Create(corpus.files, reshuffle=False)
        | "Set" >> writing.WriteSet(args.output, args.replacer)
    )
    counts = written[writing.COUNTS] | "Sum counts" >> beam.CombinePerKey(sum)
    tallies = written[writing.TALLIES] | "Sum tallies" >> beam.CombinePerKey(sum)
    examples = written[writing.EXAMPLES] | "Examples" >> beam.combiners.Top.Smallest(
        writing.SHOWN, key=lambda drawn: drawn[0]
    )
    small = (
        pipeline
        | "Once" >> beam.Create([about_of(args)], reshuffle=False)
        | "Metadata files"
        >> beam.FlatMap(
            outputs.metadata_files,
            beam.pvalue.AsList(counts),
            beam.pvalue.AsList(tallies),
            beam.pvalue.AsList(examples),
        )
    )
    dead = written[writing.DEAD] | "Dead letters" >> DeadLettersFile(
        written[writing.COUNTS], of_dialogues, args.max_bad
    )
    others = (small, dead) | "Other files" >> beam.Flatten() | "Write" >> files.WriteFiles(args.output)
    (
        (written.written, others)
        | "All files" >> beam.Flatten()
        | "Publish"
        >> files.Publish(
            args.output,
            header(args),
            written[writing.COUNTS],
            partial(writing.check_invariants, least_changed=args.least_changed),
        )
    )


def about_of(args: argparse.Namespace) -> Any:
    """What is known before anything is replaced."""
    from parapet.transforms.entities.outputs import About

    training = args.replacer.training
    return About(
        options_of(args),
        args.corpus.schemas,
        {"texts": training.texts, "grams": len(training.grams)},
        {name: len(pool) for name, pool in sorted(args.replacer.sources.pools.items())},
        args.leaking,
    )


def header(args: argparse.Namespace) -> dict[str, Any]:
    """What ``run.json`` says besides files and counts."""
    return run_header("unseen_entities", options_of(args))


def report(args: argparse.Namespace, counters: dict[str, int]) -> None:
    """Says what was replaced, what was kept, and what was left out."""
    from parapet.transforms.dead_letters import of_dialogues
    from parapet.transforms.files import read_written

    numbers = json.loads(read_written(args.output, "statistics.json"))
    if not args.quiet:
        print(
            f"{numbers['changed']:,} of {counted(numbers['dialogues'], 'dialogue')} changed, "
            f"{numbers['turns_changed']:,} of {counted(numbers['turns'], 'turn')}"
        )
        kept = ", ".join(f"{n:,} {reason}" for reason, n in numbers["kept"].items())
        print(f"{counted(numbers['values']['replaced'], 'value')} replaced; kept: {kept or 'none'}")
        print(f"leaks: {numbers['leaks']} (of {counted(numbers['training']['texts'], 'text')} of training)")
    warn_left_out(args.output, of_dialogues)


if __name__ == "__main__":
    sys.exit(run())
