"""Flags, checks and reports of commands that read the answers of workers."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import msgspec

from parapet.pipelines import app, command
from parapet.schemas import layout
from parapet.schemas.errors import InputError
from parapet.transforms.core import options

if TYPE_CHECKING:
    import apache_beam as beam

    from parapet.transforms.crowd.answer_files import Sources
    from parapet.transforms.crowd.task import CrowdTask

Task = TypeVar("Task", bound="CrowdTask[Any]")

_RESPONSES = "batch results CSV of MTurk, JSON lines of its API, or folders of 'parapet mturk'"
_ENCODING = "encoding of --responses without a byte order mark"


def responses(required: bool = False) -> Any:
    """``--responses``, the files of answers."""
    return options.option(
        options.REQUIRED if required else [], _RESPONSES, group=options.INPUT, metavar="FILE|DIR", reads=True
    )


def encoding() -> Any:
    """``--encoding`` of the answers."""
    return options.option("utf-8", _ENCODING, group=options.INPUT, rare=True, metavar="NAME")


def check_answers(responses: Sequence[str], decisions: list[str], encoding: str) -> Sources:
    """Checks the files of answers and decisions; a folder of ``parapet mturk`` stands for the answers collected in it.

    Raises InputError if a file is missing, or the encoding is unknown.
    """
    from parapet.transforms.crowd.answer_files import Sources
    from parapet.transforms.crowd.mturk.batch import ASSIGNMENTS

    if not responses:
        raise InputError("is required: give the files with the answers", "--responses")
    is_folder = [layout.is_there(path) and layout.as_path(path).is_dir() for path in responses]
    files = [
        str(layout.as_path(p) / ASSIGNMENTS) if folder else p for p, folder in zip(responses, is_folder, strict=True)
    ]
    sources = Sources(files, decisions, encoding)
    sources.check("--")
    return sources


class Composing(app.Pipeline[Task]):
    """A command that composes answers; its settings are the task that they answer.

    Attributes:
      corpus: the option that names what was asked about; without it, the answers are those of the sample.
      complete: when a composition is complete.
      sample: the sample's files of answers.
    """

    corpus: ClassVar[str]
    sample: ClassVar[tuple[str, ...]]
    complete: ClassVar[str]
    group = "composition"
    responses: list[str] = responses()
    decisions: list[str] = options.option(
        [], "decisions of reviewers, CSV", group=options.INPUT, metavar="FILE", reads=True
    )
    encoding: str = encoding()
    require_complete: bool = options.option(False, "exit with status 1 unless every {complete}")

    @cached_property
    def sources(self) -> Sources:
        """The files of answers and decisions. Raises InputError if one cannot be used."""
        crowd = layout.sample_root() / "crowd"
        of_sample = [] if getattr(self, self.corpus) else [str(crowd / name) for name in self.sample]
        return check_answers(self.responses or of_sample, self.decisions, self.encoding)

    def inputs(self, task: Task) -> list[tuple[str, str]]:
        """Lists the files that workers read."""
        return [(f"--{name}", path) for name, path in self.sources.files()]

    def wire(self, pipeline: beam.Pipeline, task: Task) -> None:
        """Reads the answers, has them composed, and publishes the result with the audit of every answer."""
        from parapet.transforms.crowd.ingest import Dedupe, ReadAnswers
        from parapet.transforms.crowd.task import WriteComposition

        read = pipeline | ReadAnswers(self.sources.responses, encoding=self.encoding, kind=task.kind).with_outputs()
        distinct = read.assignments | Dedupe().with_outputs()
        outcomes, dead, *others = self.compose(distinct.assignments, task)
        dead_letters = [read.dead_letters, distinct.dead_letters, *dead]
        outcomes | WriteComposition(task, distinct.assignments, dead_letters, *others)

    def compose(self, assignments: beam.PCollection, task: Task) -> tuple[Any, ...]:
        """Composes answers. Returns outcomes, collections of dead letters, and what WriteComposition takes else."""
        raise NotImplementedError

    def conclude(self, headline: str, short: int, missing: str, nothing: str) -> int:
        """Prints what was composed and what to do next. Returns the exit status.

        Args:
          headline: the summary of what was composed.
          short: the number of units that need more answers.
          missing: the same in words, as in ``1 service needs more answers``; may be empty.
          nothing: the message if nothing was composed; else empty.
        """
        from parapet.schemas.rows import IN_WORDS, DeadLetter
        from parapet.transforms.core.files import read_written

        out, statistics = self.output, self.statistics()
        answers = statistics["answers"]
        lines = read_written(out, layout.DEAD_LETTERS).splitlines()
        letters = [msgspec.json.decode(line, type=DeadLetter) for line in lines]
        command.say(headline)
        command.say("answers: " + "; ".join(f"{n:,} {IN_WORDS.get(name, name)}" for name, n in answers.items()))
        command.say(f"report: {out}/report.html")
        if answers["review"]:
            held = command.counted(answers["review"], "answer")
            command.say(f"review: {held} held for review; decide in {out}/review.html, then run again with --decisions")
        if missing:
            logging.warning("%s, see %s/shortfall.csv", missing, out)
        for warning in statistics.get("warnings", ()):
            logging.warning("%s", warning)
        if letters:
            by_reason = Counter(letter.reason.partition(":")[0] for letter in letters).most_common()
            reasons = ", ".join(f"{n:,} {reason}" for reason, n in by_reason)
            records = command.counted(len(letters), "record")
            logging.warning("%s could not be used, see %s/dead_letters.jsonl: %s", records, out, reasons)
        if not self.written(layout.MANIFEST)["counts"].get("assignments"):
            nothing = "no assignment could be read from the files of --responses"
        if nothing:
            # Decisions are unusable if the answers that they are about are.
            letters.sort(key=lambda letter: letter.stage == "decisions")
            first = f" (the first unusable record: {letters[0].source}: {letters[0].reason})" if letters else ""
            logging.error("%s%s; see %s/report.html", nothing, first, out)
        return command.EXIT_FAILURE if nothing or (short and self.require_complete) else 0
