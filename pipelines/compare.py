"""``parapet compare``: compares systems with paired significance tests."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from parapet.pipelines.evaluate import run_task
from parapet.pipelines.flags import INPUT, StrictParser, add_output, add_seed
from parapet.schemas.errors import InputError

if TYPE_CHECKING:
    from parapet.evaluation.compare.page import Compare

DESCRIPTION = """\
Puts outputs of 'parapet evaluate' into one table: a row for each system, a column for each set, with intervals, the
change from the original and the unweighted mean, as RADDLE has it. Tests which differences are significant, paired by
dialogue."""

EXAMPLE = """\
  parapet compare --systems ours=scores/ours theirs=scores/theirs --output board
  parapet compare --systems ours=scores/ours_dst ours=scores/ours_ood theirs=scores/their_dst theirs=scores/their_ood \\
    --baseline theirs --output board
  parapet compare --systems a=scores/a b=scores/b --metrics joint_goal_accuracy schema_sensitivity --output board"""

NOTE = """\
A system may have results of several tasks. Systems are compared on the tasks and sets that all of them have; the turns
of a set must be the same."""


def parser() -> StrictParser:
    """Builds the command line."""
    parser = StrictParser("compare", DESCRIPTION, EXAMPLE, NOTE)
    text = "systems; OUT is an output of 'evaluate', and NAME may be repeated"
    parser.group(INPUT)("--systems", required=True, nargs="+", metavar="NAME=OUT", apart=True, help=text)
    add_output(parser)
    add = parser.group("comparison")
    add(
        "--metrics",
        nargs="+",
        default=[],
        metavar="NAME",
        help="columns: METRIC, SET/METRIC, TASK/SET/METRIC; or seen, unseen or a SERVICE for SET "
        "(default: the main metrics on each set)",
    )
    text = "columns that the average counts, named as for --metrics (default: the main metric of each task on each set)"
    add("--average", rare=True, nargs="+", default=[], metavar="NAME", help=text)
    text = "sets that are compared, in the order of the columns (default: all)"
    add("--sets", rare=True, nargs="+", default=[], metavar="SET", help=text)
    text = "system to compare the others with (default: all pairs)"
    add("--baseline", default="", metavar="NAME", help=text)
    text = "replicates of the tests; 0: no tests"
    add("--replicates", rare=True, type=int, default=10_000, metavar="N", help=text)
    text = "show also sets that only some systems have; means are over the sets that all have"
    add("--all", action="store_true", help=text)
    add_seed(parser, "the tests")
    return parser


def task(args: argparse.Namespace) -> Compare:
    """Makes the comparison that the flags describe."""
    from parapet.evaluation.compare.board import Config
    from parapet.evaluation.compare.page import Compare

    if not 0 <= args.replicates <= 1_000_000:
        raise InputError("must be from 0 to 1000000", "--replicates")
    systems = _parse(args.systems)
    if twice := [name for name in args.sets if args.sets.count(name) > 1]:
        raise InputError(f"{twice[0]!r} appears twice", "--sets")
    if args.baseline and args.baseline not in systems:
        known = ", ".join(systems)
        raise InputError(f"there is no system {args.baseline!r}: must be one of {known}", "--baseline")
    chosen: dict[str, Any] = {name: tuple(getattr(args, name)) for name in ("metrics", "average", "sets")}
    tests: dict[str, Any] = {name: getattr(args, name) for name in ("baseline", "seed", "replicates")}
    return Compare(systems=systems, config=Config(**chosen, **tests, everything=args.all))


def _parse(values: Sequence[str]) -> dict[str, list[str]]:
    systems: dict[str, list[str]] = {}
    for value in values:
        name, equals, path = value.partition("=")
        if not equals or not name.strip() or not path:
            raise InputError(f"{value!r} is not of the form NAME=OUT", "--systems")
        systems.setdefault(name.strip(), []).append(path)
    return systems


def run(argv: Sequence[str] | None = None) -> int:
    """Runs the command. Returns the exit status."""
    return run_task(parser(), argv, task)
