"""Flags, checks and reports of commands that read the answers of workers."""

from __future__ import annotations

import argparse
import json
import logging
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from parapet.pipelines.command import EXIT_FAILURE, counted, say
from parapet.pipelines.flags import INPUT, Parser, StrictParser
from parapet.schemas import layout
from parapet.schemas.errors import InputError

if TYPE_CHECKING:
    import apache_beam as beam

    from parapet.transforms.crowd.composing import CrowdTask
    from parapet.transforms.crowd.ingest import Sources, TaskKind


_RESPONSES = "batch results CSV of MTurk, JSON lines of its API, or folders of 'parapet mturk'"


def add_answer_flags(parser: Parser) -> None:
    """Adds ``--responses``, ``--decisions`` and ``--encoding``."""
    add = parser.group(INPUT)
    add("--responses", nargs="+", metavar="FILE|DIR", reads=True, help=_RESPONSES)
    add("--decisions", nargs="+", default=[], metavar="FILE", reads=True, help="decisions of reviewers, CSV")
    _add_encoding(parser, INPUT)


def _add_encoding(parser: StrictParser, group: str) -> None:
    text = "encoding of --responses without a byte order mark"
    parser.group(group)("--encoding", rare=True, default="utf-8", metavar="NAME", help=text)


def add_judgements(parser: StrictParser, task: str, group: str = INPUT, required: bool = True) -> None:
    """Adds ``--hits``, ``--responses`` and ``--encoding`` for judgements by people.

    Args:
      parser: the command's parser.
      task: the ``--task`` of ``parapet hits``.
      group: the help section.
      required: whether the flags are required.
    """
    add = parser.group(group)
    add("--hits", required=required, metavar="DIR", reads=True, help=f"output of 'parapet hits --task {task}'")
    add("--responses", nargs="+", default=[], required=required, metavar="FILE|DIR", reads=True, help=_RESPONSES)
    _add_encoding(parser, group)


def responses_of(args: argparse.Namespace) -> tuple[str, ...]:
    """Lists the files of ``--responses``, and the answers in folders of ``parapet mturk``.

    Raises InputError if a file or the encoding cannot be used.
    """
    from parapet.transforms.crowd.ingest import check_encoding, check_file

    paths = _files_of(args.responses)
    for path in paths:
        check_file(path, "--responses")
    check_encoding(args.encoding, "--encoding")
    return tuple(paths)


def _files_of(responses: Sequence[str]) -> list[str]:
    """Lists the files of ``--responses``; a folder of ``parapet mturk`` stands for the answers collected in it."""
    from parapet.transforms.crowd.mturk.collect import FILE

    folders = [path for path in responses if layout.is_there(path) and layout.as_path(path).is_dir()]
    return [str(layout.as_path(path) / FILE) if path in folders else path for path in responses]


def check_answers(args: argparse.Namespace, responses: Sequence[str], kind: TaskKind) -> Sources:
    """Checks the files of answers and decisions.

    Args:
      args: the flags.
      responses: the response files, from the flag or the sample.
      kind: the kind of tasks whose answers are accepted.

    Raises:
      InputError: a file is missing, or the encoding is unknown.
    """
    from parapet.transforms.crowd.ingest import Sources

    if not responses:
        raise InputError("is required: give the files with the answers", "--responses")
    files = _files_of(responses)
    sources = Sources(files, args.decisions, args.encoding, kind)
    sources.check("--")
    return sources


class Composition(msgspec.Struct, frozen=True):
    """Answers to compose.

    Attributes:
      task: the task that they answer.
      sources: the files of answers and decisions.
      require_complete: whether the command fails if a unit needs more answers.
      others: (flag, path) of other files that workers read.
    """

    task: CrowdTask[Any]
    sources: Sources
    require_complete: bool
    others: tuple[tuple[str, str], ...] = ()


def inputs(config: Composition) -> list[tuple[str, str]]:
    """Lists the files that workers read."""
    return [*config.others, *((f"--{name}", path) for name, path in config.sources.files())]


def build(pipeline: beam.Pipeline, config: Composition) -> None:
    """Composes the answers and publishes the results with the audit."""
    from parapet.transforms.crowd import composing

    composing.build(pipeline, config.sources, config.task)


class PublishedAnswers:
    """A published run and the summary that its command prints.

    Attributes:
      output: the folder.
      statistics: ``statistics.json``.
      assignments: the number of assignments that could be read.
      unused: the number of unusable records by reason; ``first_unused`` has the first record of each.
      stages: the stages that rejected records.
    """

    def __init__(self, output: str) -> None:
        from parapet.schemas.layout import DEAD_LETTERS, MANIFEST
        from parapet.schemas.rows import DeadLetter
        from parapet.transforms.storage.compressed import open_plain
        from parapet.transforms.storage.files import join, read_written

        self.output = output
        self.statistics: dict[str, Any] = json.loads(read_written(output, "statistics.json"))
        self.assignments: int = json.loads(read_written(output, MANIFEST))["counts"].get("assignments", 0)
        self.unused: Counter[str] = Counter()
        self.first_unused: dict[str, DeadLetter] = {}
        self.stages: set[str] = set()
        with open_plain(join(output, DEAD_LETTERS)) as lines:
            for line in lines:
                letter = msgspec.json.decode(line, type=DeadLetter)
                reason = letter.reason.partition(":")[0]
                self.unused[reason] += 1
                self.first_unused.setdefault(reason, letter)
                self.stages.add(letter.stage)

    def say(self, headline: str, missing: str) -> None:
        """Prints the results and what to do next, and warns about missing and unused answers.

        Args:
          headline: the summary of what was composed.
          missing: how many units need more answers, as in ``1 service needs more answers``; empty if none.
        """
        from parapet.schemas.rows import IN_WORDS

        out, answers = self.output, self.statistics["answers"]
        say(headline)
        say("answers: " + "; ".join(f"{n:,} {IN_WORDS.get(name, name)}" for name, n in answers.items()))
        say(f"report: {out}/report.html")
        if answers["review"]:
            say(
                f"review: {counted(answers['review'], 'answer')} held for review; decide in {out}/review.html, "
                "then run again with --decisions"
            )
        if missing:
            logging.warning("%s, see %s/shortfall.csv", missing, out)
        for warning in self.statistics.get("warnings", ()):
            logging.warning("%s", warning)
        if self.unused:
            records = counted(self.unused.total(), "record")
            reasons = ", ".join(f"{n:,} {reason}" for reason, n in self.unused.most_common())
            logging.warning("%s could not be used, see %s/dead_letters.jsonl: %s", records, out, reasons)

    def status(self, nothing: str, missing: int, require_complete: bool) -> int:
        """Returns the exit status; logs the reason if nothing was composed.

        Args:
          nothing: the message if nothing was composed; else empty.
          missing: the number of units that need more answers.
          require_complete: whether missing answers are a failure.
        """
        if not self.assignments:
            nothing = "no assignment could be read from the files of --responses"
        if nothing:
            logging.error("%s: %s", nothing, "; ".join(self._why_nothing()) or "the files contain no assignments")
            return EXIT_FAILURE
        return EXIT_FAILURE if missing and require_complete else 0

    def _why_nothing(self) -> list[str]:
        answers, out = self.statistics["answers"], self.output
        why = []
        if self.unused:
            dead = counted(self.unused.total(), "dead letter")
            why.append(f"{dead} ({out}/dead_letters.jsonl): {self._most_common()}")
        if answers["rejected"]:
            most_common = Counter(self.statistics["reasons"]["rejected"]).most_common(3)
            reasons = ", ".join(f"{n:,} {reason}" for reason, n in most_common)
            why.append(f"{counted(answers['rejected'], 'answer')} rejected ({out}/report.html): {reasons}")
        if answers["review"]:
            why.append(f"{counted(answers['review'], 'answer')} held for review: decide in {out}/review.html")
        if answers["surplus"] or answers["duplicate"] or answers["used"]:
            why.append(f"{out}/shortfall.csv lists what is still missing")
        return why

    def _most_common(self) -> str:
        """Formats the three most common reasons of dead letters, each with its first record."""
        ordered = sorted(self.unused, key=lambda reason: (-self.unused[reason], reason))
        examples = [
            f"{self.unused[reason]:,} {reason} ({first.source}: {first.reason.partition(': ')[2]})"
            for reason in ordered[:3]
            for first in (self.first_unused[reason],)
        ]
        return ", ".join(examples) + (f" and {len(ordered) - 3} more reasons" if len(ordered) > 3 else "")
