"""``parapet plan``: how many examples, repeats and wordings show a difference, from a pilot or from a guess."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

from parapet.pipelines import app, command
from parapet.schemas.errors import InputError
from parapet.transforms.core import options
from parapet.transforms.core.options import option
from parapet.transforms.report.text import aligned, counted, number, percent

if TYPE_CHECKING:
    from parapet.evaluation.planning import Pilot

REPEATS, WORDINGS = [1, 3, 5], [1, 5]
_EXAMPLES = 200  # without a pilot
_STUDY = "study"  # section of the help


class Plan(app.Command["Pilot | None"]):
    """``parapet plan``."""

    name = "plan"
    description = """\
Plans a comparison of two systems, or of the original and other wordings, on the same examples: how many examples,
repeats and wordings show a difference with the tests of 'parapet compare', and which difference a number of examples
shows. From a pilot, or from a guess."""
    example = """\
  parapet plan --scores scores/ours scores/theirs --difference 3    # two systems
  parapet plan --scores scores/ours --difference 3                  # the original and the variants
  parapet plan --flips 15 --difference 3 --examples 200             # a guess, without a pilot"""
    note = "Turns of a dialogue are not independent, so dialogues are counted: guess --flips for whole dialogues."
    stopped = "nothing was written"
    scores: list[str] = options.folder("pilot: output of 'evaluate' for two systems, or one", "OUT", [])
    metric: str = option("", "metric of the pilot (default: the main one of its task)", rare=True, metavar="NAME")
    flips: float | None = option(
        None, "without a pilot: percentage on which the two differ, a guess", metavar="PERCENT", gt=0, le=100
    )
    difference: float = option(3.0, "points that are to be shown", group=_STUDY, metavar="POINTS", gt=0, le=100)
    examples: int | None = option(
        None, f"dialogues, or tasks (default: those of the pilot, or {_EXAMPLES})", group=_STUDY, ge=1
    )
    power: float = option(0.8, "probability of showing it", group=_STUDY, gt=0.5, lt=1)
    alpha: float = option(0.05, "level of the two-sided test", group=_STUDY, gt=0, lt=0.5)

    def check(self) -> Pilot | None:
        """Reads the pilot, if there is one. Raises InputError if it cannot be used."""
        from parapet.evaluation.planning import read_pilot

        if bool(self.scores) == (self.flips is not None):
            raise InputError("give either a pilot, or a guess", "--scores, --flips")
        if len(self.scores) > 2:
            raise InputError(f"{len(self.scores)} folders: give those of two systems, or one", "--scores")
        if self.flips is not None and self.flips < self.difference:
            raise InputError(f"must be at least {self.difference:g}, the difference: it consists of flips", "--flips")
        return read_pilot(self.scores, self.metric) if self.scores else None

    def act(self, pilot: Pilot | None) -> None:
        """Prints the plan."""
        from parapet.evaluation.planning import Study, Variance, estimate

        if pilot is None:
            variance, size, unit = Variance((self.flips or 0.0) / 100, has_difference=True), _EXAMPLES, "example"
            wordings, repeats = WORDINGS[:1], REPEATS[:1]
            command.say(f"guess: the two differ on {percent(variance.dialogue)} of the examples")
        else:
            variance = estimate(pilot.differences, pilot.dialogue_ids)
            size, items, runs = len(set(pilot.dialogue_ids)), len(pilot.dialogue_ids), pilot.differences.shape[1]
            unit = "dialogue" if size < items else "example"
            wordings = WORDINGS[: len(pilot.sets)]
            repeats = REPEATS if runs > 1 else REPEATS[:1]
            sides = self.scores if len(self.scores) > 1 else ["the original", f"variants of {self.scores[0]}"]
            command.say(f"pilot: {pilot.metric} of {' and '.join(sides)} on {', '.join(pilot.sets)}")
            command.say(f"{counted(size, unit)}, {counted(items, 'example')}, {counted(runs, 'run')}")
            difference = number(100 * pilot.differences.mean(), 1, signed=True)
            flips = percent((pilot.differences != 0).mean())
            command.say(f"difference {difference} points; the two differ on {flips} of the examples")
        size = self.examples or size
        command.say(f"power {percent(self.power, 0)} in a paired, two-sided test at the level {self.alpha:g}")
        columns = [f"{unit}s for {self.difference:g} points", f"points that {counted(size, unit)} show"]
        rows = [["repeats", "wordings", *columns]]
        for n_wordings, n_repeats in product(wordings, repeats):
            study = Study(variance, n_wordings, n_repeats, self.power, self.alpha)
            shown = study.difference(size)
            points = number(None if shown is None else 100 * shown, 1)
            rows.append([f"{n_repeats}", f"{n_wordings}", f"{study.dialogues(self.difference / 100):,}", points])
        command.say(aligned(rows))
        if len(repeats) == 1:
            command.say("what repeats would bring is unknown: a pilot with repeats shows it")
        if len(wordings) == 1:
            command.say("what more wordings would bring is unknown: a pilot with variants shows it")


COMMAND = Plan
