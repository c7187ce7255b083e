"""``parapet plan``: how many examples, repeats and wordings show a difference, from a pilot or from guesses."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from parapet.pipelines.app import Command
from parapet.pipelines.command import say
from parapet.schemas.errors import InputError
from parapet.transforms.reports.text import aligned, counted, number, percent
from parapet.transforms.running import options
from parapet.transforms.running.options import option

if TYPE_CHECKING:
    from parapet.evaluation.planning import Goal, Pilot, Study

REPEATS, WORDINGS = (1, 3, 5), (1, 5)


_GUESSES, _STUDY = "guesses, without a pilot", "study"  # sections of the help


class Planned(NamedTuple):
    """Studies, and what they are planned from: a pilot, or a guess of the share on which the two differ."""

    goal: Goal
    pilot: Pilot | None
    flips: float | None
    studies: list[Study]


class Plan(Command[Planned]):
    """``parapet plan``."""

    name = "plan"
    description = """\
Plans a comparison of two systems, or of the original and other wordings, on the same examples: how many examples,
repeats and wordings show a difference with the tests of 'parapet compare', and which difference a number of examples
shows. From a pilot, or from guesses."""
    example = """\
  parapet plan --scores scores/ours scores/theirs --difference 3    # two systems
  parapet plan --scores scores/ours --difference 3                  # the original and the variants
  parapet plan --flips 15 --difference 3 --examples 200             # a guess, without a pilot"""
    note = """\
Turns of a dialogue are not independent, so dialogues are counted. With --accuracy and without --flips, the two are
taken to err independently of each other, which is cautious: real systems fail on the same examples."""
    stopped = "nothing was written"
    scores: list[str] = options.folder("pilot: output of 'evaluate' for two systems, or one", "OUT", [])
    sets: list[str] = option([], "wordings of the pilot (default: its variants)", rare=True, metavar="SET")
    metric: str = option("", "metric of the pilot (default: the main one of its task)", rare=True, metavar="NAME")
    accuracy: float | None = option(
        None, "percentage that a system gets right", group=_GUESSES, metavar="PERCENT", ge=0, le=100
    )
    flips: float | None = option(
        None, "percentage on which the two differ", group=_GUESSES, metavar="PERCENT", gt=0, le=100
    )
    difference: float = option(3.0, "points that are to be shown", group=_STUDY, metavar="POINTS", gt=0, le=100)
    examples: int | None = option(
        None, "dialogues, or tasks: also which difference they show (default: those of the pilot)", group=_STUDY, ge=1
    )
    power: float = option(0.8, "probability of showing it", group=_STUDY, gt=0.5, lt=1)
    alpha: float = option(0.05, "level of the two-sided test", group=_STUDY, gt=0, lt=0.5)
    comparisons: int = option(1, "tests of the study: Holm's correction at its worst", group=_STUDY, ge=1, le=10_000)
    json: bool = option(False, "print JSON", group=options.OUTPUT)

    def check(self) -> Planned:
        """Reads the pilot, and plans. Raises InputError if it cannot be used."""
        from parapet.evaluation import planning

        has_guess = self.accuracy is not None or self.flips is not None
        if bool(self.scores) == has_guess:
            raise InputError("give either a pilot, or guesses", "--scores, --accuracy, --flips")
        if len(self.scores) > 2:
            raise InputError(f"{len(self.scores)} folders: give those of two systems, or one", "--scores")
        goal = planning.Goal(self.difference / 100, self.power, self.alpha / self.comparisons)
        if not self.scores:
            accuracy, flips = (None if value is None else value / 100 for value in (self.accuracy, self.flips))
            variance = planning.guessed(goal.difference, accuracy, flips)
            studies = planning.studies(variance, goal, (1,), (1,), self.examples)
            return Planned(goal, None, variance.dialogue, studies)
        pilot = planning.read_pilot(self.scores, self.metric, self.sets)
        wordings, repeats = WORDINGS[: len(pilot.sets)], REPEATS if pilot.runs > 1 else (1,)
        dialogues = self.examples or pilot.dialogues
        return Planned(goal, pilot, None, planning.studies(pilot.variance, goal, wordings, repeats, dialogues))

    def act(self, planned: Planned) -> None:
        """Prints the plan."""
        if self.json:
            print(json.dumps(msgspec.to_builtins(planned._asdict()), indent=2))
            return
        for line in self.lines(planned):
            say(line)

    def lines(self, planned: Planned) -> Iterator[str]:
        """Yields the lines of the terminal."""
        pilot, goal = planned.pilot, planned.goal
        unit = "examples" if pilot is None or pilot.dialogues == pilot.items else "dialogues"
        if pilot is None:
            yield f"guess: the two differ on {percent(planned.flips)} of the examples"
        else:
            yield from _facts(pilot, self.scores, unit)
        yield f"power {percent(goal.power, 0)} in a paired, two-sided test at the level {goal.alpha:.3g}"
        dialogues = self.examples or (pilot and pilot.dialogues)
        heading = [f"{unit} for {self.difference:g} points"]
        heading += [f"points that {dialogues:,} {unit} show"] if dialogues else []
        rows = [["repeats", "wordings", *heading]]
        for study in planned.studies:
            shown = number(None if study.shown is None else 100 * study.shown, 1)
            row = [f"{study.repeats}", f"{study.wordings}", f"{study.dialogues:,}", shown]
            rows.append(row[: len(rows[0])])
        yield aligned(rows)
        yield from _unknown(pilot)


def _facts(pilot: Pilot, scores: list[str], unit: str) -> Iterator[str]:
    """Yields what the pilot says about the variance."""
    sides = " and ".join(scores) if len(scores) > 1 else f"the original and other wordings of {scores[0]}"
    yield f"pilot: {pilot.metric} of {sides} on {', '.join(pilot.sets)}"
    items = f" with {counted(pilot.items, 'example')}" * (unit == "dialogues")
    size = f"{counted(pilot.dialogues, unit[:-1])}{items}, {counted(pilot.runs, 'run')}"
    yield f"{size}; difference {number(100 * pilot.difference, 1, signed=True)} points"
    of_runs = "" if pilot.flips_of_runs is None else f"; two runs of a system on {percent(pilot.flips_of_runs)}"
    yield f"the two differ on {percent(pilot.flips)} of the examples{of_runs}"
    if items:
        yield f"design effect {pilot.design_effect:.1f}: examples of a dialogue are not independent, so dialogues count"
    yield f"the numbers of {unit} have a standard error of {percent(pilot.error, 0)}"


def _unknown(pilot: Pilot | None) -> Iterator[str]:
    """Yields what repeats and wordings are planned without."""
    if pilot is None:
        yield "guesses say nothing about repeats and wordings: a pilot does (--scores)"
        yield "if the examples are turns of dialogues, count dialogues"
        return
    if pilot.runs == 1:
        yield "the pilot has one run, so what repeats would bring is unknown: evaluate it with repeats"
    if len(pilot.sets) == 1:
        yield "the pilot has one wording, so what more wordings would bring is unknown: evaluate it with variants"


COMMAND = Plan
