"""``parapet compare``: systems next to each other, with paired tests."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from parapet.pipelines.command import StrictParser, check_apart, run_checked
from parapet.schemas.distribution import parapet_version
from parapet.schemas.errors import InputError

DESCRIPTION = """\
What 'parapet evaluate' wrote of several systems -> a leaderboard with the unweighted mean of all numbers (RADDLE's),
and which differences are more than chance: paired tests over dialogues, corrected by Holm."""

EXAMPLE = """\
  parapet compare --systems ours=scores/ours theirs=scores/theirs --output board
  parapet compare --systems ours=scores/ours_dst ours=scores/ours_ood theirs=scores/their_dst theirs=scores/their_ood \\
    --baseline theirs --output board
  parapet compare --systems a=scores/a b=scores/b --metrics joint_goal_accuracy schema_sensitivity --output board"""

NOTE = """\
A system may have results of several tasks; all must have the same ones, of the same turns of the same sets."""


def parser() -> StrictParser:
    """The command line."""
    made = StrictParser("compare", DESCRIPTION, EXAMPLE, NOTE)
    add = made.add_argument
    add("--systems", required=True, nargs="+", metavar="NAME=OUT", help="two or more; OUT is of 'parapet evaluate'")
    add(
        "--metrics",
        nargs="+",
        default=[],
        metavar="NAME",
        help="columns: METRIC, SET/METRIC or TASK/SET/METRIC (default: the task's headline, of each set)",
    )
    add("--baseline", metavar="NAME", help="compare the others with this one only (default: all pairs)")
    add("--replicates", type=int, default=10_000, metavar="N", help="of the tests; 0: none (default 10000)")
    add("--seed", default="0", help="of the tests: any text (default 0)")
    add("--output", required=True, metavar="OUT", help="folder to write, local or gs://")
    return made


def check(args: argparse.Namespace) -> argparse.Namespace:
    """Reads. Raises InputError for results that cannot be compared."""
    from parapet.evaluation.compare.results import check_same_sets, columns_of, read_outcome

    if not 0 <= args.replicates <= 1_000_000:
        raise InputError("0 to 1000000", "--replicates")
    args.folders = _parse(args.systems)
    for name, paths in args.folders.items():
        for path in paths:
            check_apart(args.output, **{f"systems {name}": path})
    if args.baseline is not None and args.baseline not in args.folders:
        raise InputError(f"no such system: {args.baseline!r}; there are: {', '.join(args.folders)}", "--baseline")
    args.outcomes = {name: [read_outcome(path) for path in paths] for name, paths in args.folders.items()}
    check_same_sets(args.outcomes)
    args.columns = columns_of(next(iter(args.outcomes.values())), args.metrics)
    return args


def _parse(given: Sequence[str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for one in given:
        name, equals, path = one.partition("=")
        if not equals or not name.strip() or not path:
            raise InputError(f"expected NAME=OUT, found {one!r}", "--systems")
        found.setdefault(name.strip(), []).append(path)
    if len(found) < 2:
        raise InputError("give two systems or more", "--systems")
    return found


def act(args: argparse.Namespace) -> None:
    """Compares, writes and tells."""
    from parapet.evaluation.compare.leaderboard import AVERAGE, files_of, heads, leaderboard, untested
    from parapet.evaluation.pages import plain
    from parapet.evaluation.writing import publish

    board = leaderboard(args.outcomes, args.columns, args.baseline, args.seed, args.replicates)
    options = {
        "systems": sorted(args.folders),
        "columns": [column.name for column in args.columns],
        **board["settings"],
    }
    publish(args.output, files_of(board), {"pipeline": "compare", "version": parapet_version(), "options": options})
    if args.quiet:
        return
    for name in board["systems"]:
        said = ", ".join(
            f"{head} {plain(board['values'][name][column['name']])}"
            for head, column in zip(heads(board), board["columns"], strict=True)
        )
        print(f"{name}: average {plain(board[AVERAGE][name])}; {said}")
    clear = sum(one["p_holm"] < 0.05 for one in board["tests"])
    if board["tests"]:
        print(f"{clear:,} of {len(board['tests']):,} differences have p < 0.05 after Holm's correction")
    if sentence := untested(board):
        print(sentence)


def run(argv: Sequence[str] | None = None) -> int:
    """Runs the command. Returns the exit status."""
    return run_checked(parser(), argv, check, act, "nothing was published, run the same command again")


if __name__ == "__main__":
    sys.exit(run())
