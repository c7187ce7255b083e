"""``parapet compose_variations``: answers to rewriting tasks -> vetted variations of user turns, audit, review page."""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from parapet.pipelines.command import check_apart, counted, report_faults, run_command, say
from parapet.pipelines.crowd_answers import PublishedAnswers, add_answer_flags, answer_files, check_answers
from parapet.pipelines.flags import INPUT, Parser, add_seed, add_sgd, add_split
from parapet.schemas.layout import sample_root

if TYPE_CHECKING:
    import apache_beam as beam

    from parapet.schemas.dialogue_files import DialogueFile
    from parapet.transforms.crowd.ingest.files import Sources
    from parapet.transforms.crowd_variations.tasks import Task

EXAMPLE = """\
  parapet compose_variations --sgd my_corpus --split test --responses batch.csv --output out
  # open out/review.html in a browser, decide, download decisions.csv, then
  parapet compose_variations --sgd my_corpus --split test --responses batch.csv \\
      --decisions decisions.csv --output out"""


class Config(msgspec.Struct, frozen=True):
    """A composition of variations.

    Attributes:
      output: the folder to write.
      sgd: the corpus. ``split`` is the one whose dialogues the tasks are about, ``files`` are its dialogues.
      tasks: of the folders of ``hits`` that were given, by dialogue.
      sources: the files of answers and decisions.
      seed: of the draw among several good answers.
      require_complete: whether a turn without a good answer of each kind is a failure.
    """

    output: str
    sgd: str
    split: str
    files: tuple[DialogueFile, ...]
    tasks: dict[str, list[Task]]
    sources: Sources
    seed: int
    require_complete: bool


def parser() -> Parser:
    """The flags."""
    what = (
        "Vets what crowd workers answered to the tasks of 'parapet hits --task rewrites'. Writes OUT/rewritten.jsonl, "
        "a line for each user turn and kind (paraphrase, typos, verbose, simple) with a good answer, and an audit of "
        "every answer."
    )
    parser = Parser("compose_variations", what, EXAMPLE)
    add_sgd(parser)
    add_split(parser)
    add_answer_flags(parser)
    parser.group(INPUT)(
        "--hits",
        nargs="+",
        default=[],
        metavar="DIR",
        reads=True,
        help="outputs of 'parapet hits', to count turns without answers and to check the corpus",
    )
    text = "exit with status 1 unless every turn has a good answer of each kind"
    parser.group("composition")("--require_complete", action="store_true", help=text)
    add_seed(parser, "the choice among good answers", int, 0)
    return parser


def run(argv: Sequence[str] | None = None) -> int:
    """Runs the command. Returns the exit status."""
    return run_command(parser(), argv, check, build, report, inputs)


def check(args: argparse.Namespace) -> Config:
    """Reads corpus and tasks. Raises InputError for what cannot work."""
    from parapet.transforms.corpora import read_corpus
    from parapet.transforms.crowd_variations.tasks import REWRITING_TASKS, read_tasks

    check_apart(args.output, sgd=args.sgd)
    sample = [str(sample_root() / "crowd" / "rewrites.csv")] if args.sgd is None else []
    sources = check_answers(args, args.responses or sample, REWRITING_TASKS)
    sgd = args.sgd or str(sample_root())
    files = read_corpus(sgd, [args.split]).files
    tasks = read_tasks(args.hits)
    return Config(
        args.output,
        sgd,
        args.split,
        tuple(files),
        tasks,
        sources,
        args.seed,
        args.require_complete,
    )


def inputs(config: Config) -> list[tuple[str, str]]:
    """What workers read: dialogues, answers and decisions."""
    return [("--sgd", config.sgd), *answer_files(config.sources)]


def build(pipeline: beam.Pipeline, config: Config) -> None:
    """Composes rewritten turns and publishes them with the audit."""
    from parapet.transforms.crowd import composing
    from parapet.transforms.crowd_variations.settle import RewritingTask

    task = RewritingTask(config.files, config.tasks, config.seed, config.split, config.output)
    composing.build(pipeline, config.sources, task)


def report(config: Config, counters: dict[str, int]) -> int:
    """Says what was composed and what to do next. Returns the exit status."""
    from parapet.transforms.crowd_variations.report import of_other_sentences

    published = PublishedAnswers(config.output)
    statistics = published.statistics
    kinds = ", ".join(f"{numbers['turns']:,} {kind}" for kind, numbers in statistics["kinds"].items())
    headline = f"{statistics['complete']:,} of {counted(statistics['turns'], 'user turn')} with all four: {kinds}"
    short: int = statistics["short"]
    published.say(headline, f"still missing: {counted(short, 'rewriting')}" if short else "")
    say(f"next: parapet language_variations --rewritten {config.output}/rewritten.jsonl")
    if of_other_sentences(statistics):
        logging.warning(
            "most mistyped answers belong to other sentences: were the tasks made from this --sgd and --split?"
        )
    nothing = "" if statistics["answers"]["used"] else "no rewriting could be used"
    return published.status(nothing, short + report_faults(config.output), config.require_complete)


if __name__ == "__main__":
    sys.exit(run())
