"""``parapet compare``: systems next to each other, with paired tests."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from parapet.pipelines.command import check_apart
from parapet.pipelines.evaluate import run_task
from parapet.pipelines.flags import StrictParser
from parapet.schemas.errors import InputError

if TYPE_CHECKING:
    from parapet.evaluation.compare.leaderboard import Compare

DESCRIPTION = """\
Outputs of 'parapet evaluate' for several systems -> a leaderboard with the unweighted mean of all numbers (as
RADDLE's), and which differences are significant: paired tests over dialogues, corrected by Holm."""

EXAMPLE = """\
  parapet compare --systems ours=scores/ours theirs=scores/theirs --output board
  parapet compare --systems ours=scores/ours_dst ours=scores/ours_ood theirs=scores/their_dst theirs=scores/their_ood \\
    --baseline theirs --output board
  parapet compare --systems a=scores/a b=scores/b --metrics joint_goal_accuracy schema_sensitivity --output board"""

NOTE = """\
A system may have results of several tasks. All systems need the same tasks, on the same turns of the same sets."""


def parser() -> StrictParser:
    """The flags."""
    parser = StrictParser("compare", DESCRIPTION, EXAMPLE, NOTE)
    add = parser.add_argument
    add(
        "--systems",
        required=True,
        nargs="+",
        metavar="NAME=OUT",
        help="two or more; OUT is an output of 'parapet evaluate'",
    )
    add(
        "--metrics",
        nargs="+",
        default=[],
        metavar="NAME",
        help="columns: METRIC, SET/METRIC or TASK/SET/METRIC (default: the main metric of each task, on each set)",
    )
    add("--baseline", metavar="NAME", help="compare the others with this one only (default: all pairs)")
    add("--replicates", type=int, default=10_000, metavar="N", help="replicates of the tests; 0: none (default 10000)")
    add("--seed", default="0", help="of the tests: any text (default 0)")
    add("--output", required=True, metavar="OUT", help="folder to write, local or gs://")
    return parser


def task(args: argparse.Namespace) -> Compare:
    """The comparison that the flags describe."""
    from parapet.evaluation.compare.leaderboard import Compare, SignificanceConfig

    if not 0 <= args.replicates <= 1_000_000:
        raise InputError("0 to 1000000", "--replicates")
    systems = _parse(args.systems)
    for name, paths in systems.items():
        for path in paths:
            check_apart(args.output, **{f"systems {name}": path})
    if args.baseline is not None and args.baseline not in systems:
        raise InputError(f"there is no system {args.baseline!r}, only {', '.join(systems)}", "--baseline")
    settings = SignificanceConfig(args.baseline, args.seed, args.replicates)
    return Compare(systems=systems, metrics=tuple(args.metrics), settings=settings)


def _parse(values: Sequence[str]) -> dict[str, list[str]]:
    systems: dict[str, list[str]] = {}
    for value in values:
        name, equals, path = value.partition("=")
        if not equals or not name.strip() or not path:
            raise InputError(f"expected NAME=OUT, found {value!r}", "--systems")
        systems.setdefault(name.strip(), []).append(path)
    if len(systems) < 2:
        raise InputError("give two systems or more", "--systems")
    return systems


def run(argv: Sequence[str] | None = None) -> int:
    """Runs the command. Returns the exit status."""
    return run_task(parser(), argv, task)


if __name__ == "__main__":
    sys.exit(run())
