"""``parapet compare``: compares systems with paired significance tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

from parapet.pipelines.evaluate import Evaluation
from parapet.schemas.errors import InputError
from parapet.transforms.core import options
from parapet.transforms.core.options import option

if TYPE_CHECKING:
    from parapet.evaluation.compare import page


class Compare(Evaluation):
    """``parapet compare``."""

    name = "compare"
    description = """\
Puts outputs of 'parapet evaluate' into one table: a row for each system, a column for each set, with intervals, the
change from the original and the unweighted mean, as RADDLE has it. Tests which differences are significant, paired by
dialogue."""
    example = """\
  parapet compare --systems ours=scores/ours theirs=scores/theirs --output board
  parapet compare --systems ours=scores/ours_dst ours=scores/ours_ood theirs=scores/their_dst theirs=scores/their_ood \\
    --baseline theirs --output board
  parapet compare --systems a=scores/a b=scores/b --metrics joint_goal_accuracy schema_sensitivity --output board"""
    note = """\
A system may have results of several tasks. Numbers that a system lacks are dashes; means are over the sets that all
systems have. The dialogues of a set must be the same."""
    group = "comparison"
    systems: list[str] = option(
        options.REQUIRED,
        "systems; OUT is an output of 'evaluate', and NAME may be repeated",
        group=options.INPUT,
        metavar="NAME=OUT",
        path=True,
    )
    metrics: list[str] = option(
        [],
        "columns: METRIC, SET/METRIC, TASK/SET/METRIC; or seen, unseen or a SERVICE for SET "
        "(default: the main metrics on each set)",
        metavar="NAME",
    )
    average: list[str] = option(
        [],
        "columns that the average counts, named as for --metrics (default: the main metric of each task on each set)",
        rare=True,
        metavar="NAME",
    )
    sets: list[str] = option(
        [], "sets that are compared, in the order of the columns (default: all)", rare=True, metavar="SET"
    )
    baseline: str = option("", "system to compare the others with (default: all pairs)", metavar="NAME")
    replicates: int = option(10_000, "replicates of the tests; 0: no tests", rare=True, ge=0, le=1_000_000)
    seed: str = options.seed("the tests")

    def task(self) -> page.Compare:
        """Makes the comparison."""
        import msgspec

        from parapet.evaluation.compare.board import Config
        from parapet.evaluation.compare.page import Compare

        systems: dict[str, list[str]] = {}
        for value in self.systems:
            name, equals, path = value.partition("=")
            if not equals or not name.strip() or not path:
                raise InputError(f"{value!r} is not of the form NAME=OUT", "--systems")
            systems.setdefault(name.strip(), []).append(path)
        if self.baseline and self.baseline not in systems:
            known = ", ".join(systems)
            raise InputError(f"there is no system {self.baseline!r}: must be one of {known}", "--baseline")
        return Compare(systems=systems, config=msgspec.convert(self, Config, from_attributes=True))


COMMAND = Compare
