"""What the commands that make splits share: they differ in their flags and in the split."""

from __future__ import annotations

import argparse
import json
import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import msgspec

from parapet.pipelines.command import check_apart, run_command, say, warn_dead_letters
from parapet.pipelines.flags import EXIT_USAGE, Parser
from parapet.schemas.layout import sample_root

if TYPE_CHECKING:
    import apache_beam as beam

    from parapet.schemas.dialogue import DialogueFile
    from parapet.transforms.runs import RunInfo
    from parapet.transforms.splits.split import Split, SplitCorpus


class Config(msgspec.Struct, frozen=True):
    """A run: the split, its dialogue files, and whether it is an error that a set has too few dialogues."""

    run: RunInfo
    split: Split
    files: list[DialogueFile]
    require_full: bool


def run_split(
    parser: Parser, argv: Sequence[str] | None, split_of: Callable[[argparse.Namespace, SplitCorpus], Split]
) -> int:
    """Runs the command of a split. Returns the exit status.

    Args:
      parser: its flags; ``--sgd`` and ``--max_bad`` are among them.
      argv: the arguments.
      split_of: makes the split of the flags and the corpus; raises InputError where the corpus does not allow it.
    """
    return run_command(parser, argv, lambda args: _check(args, split_of), _build, _report, _inputs)


def _check(args: argparse.Namespace, split_of: Callable[[argparse.Namespace, SplitCorpus], Split]) -> Config:
    from parapet.transforms.runs import RunInfo
    from parapet.transforms.splits.split import read_split_corpus

    check_apart(args.output, sgd=args.sgd)
    corpus = read_split_corpus(args.sgd or str(sample_root()))
    split = split_of(args, corpus)
    for line in corpus.problems_of(split.splits()):
        logging.warning("%s", line)
    options = {**split.options(), "max_bad": float(args.max_bad)}
    run = RunInfo(split.name, args.output, options, args.max_bad)
    return Config(run, split, corpus.files(split.splits()), getattr(args, "require_full", False))


def _inputs(config: Config) -> list[tuple[str, str]]:
    return [("--sgd", config.split.corpus.root)]


def _build(pipeline: beam.Pipeline, config: Config) -> None:
    import apache_beam as beam

    from parapet.transforms import files
    from parapet.transforms.progress import expect_dialogues
    from parapet.transforms.splits.split import WriteSplit

    expect_dialogues(config.files)
    files.prepare(config.run.output, config.split.name)
    _ = pipeline | "Dialogue files" >> beam.Create(config.files) | "Split" >> WriteSplit(config.split, config.run)


def _report(config: Config, counters: dict[str, int]) -> int | None:
    from parapet.transforms.dead_letters import of_dialogues
    from parapet.transforms.files import read_written

    statistics = json.loads(read_written(config.run.output, "statistics.json"))
    for line in config.split.summary(statistics):
        say(line)
    warn_dead_letters(config.run.output, of_dialogues)
    for line in statistics["short"]:
        (logging.error if config.require_full else logging.warning)("%s", line)
    return EXIT_USAGE if config.require_full and statistics["short"] else None
