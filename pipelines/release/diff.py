"""``parapet release diff``: two releases, row by row."""

from __future__ import annotations

import argparse
import json
import logging
import sys
from collections.abc import Sequence

import msgspec

from parapet.pipelines.command import EXIT_FAILURE, run_checked
from parapet.pipelines.flags import INPUT, RUNNING, StrictParser, add_json

DESCRIPTION = """\
Compares two releases row by row: which rows were added, removed and changed, in which columns the changed rows differ,
and which version number that requires. A release with files that are missing, or are not those that its manifest lists,
is not compared: what is wrong with it is printed."""

EXAMPLE = """\
  parapet release diff releases/my_dataset/1.0.0 releases/my_dataset/1.1.0
  parapet release diff releases/my_dataset/1.0.0 releases/my_dataset --json"""

NOTE = "exit status: 0 whether or not they differ, 1 if one is not as its manifest says, 2 if there is no release."


def parser() -> StrictParser:
    """Returns the command line."""
    parser = StrictParser("release diff", DESCRIPTION, EXAMPLE, NOTE)
    add = parser.group(INPUT)
    add("old", metavar="OLD", help="NAME/VERSION, or NAME for its latest; local or gs://")
    add("new", metavar="NEW", help="the release to compare with it")
    text = "compare the sizes of files with the manifests, not their hashes"
    parser.group(RUNNING)("--quick", rare=True, action="store_true", help=text)
    add_json(parser)
    return parser


def check(args: argparse.Namespace) -> argparse.Namespace:
    """Opens the releases. Raises InputError if one of the two is no release."""
    from parapet.transforms.release.opening import open_release

    args.old, args.new = open_release(args.old), open_release(args.new)
    return args


def act(args: argparse.Namespace) -> int:
    """Compares and prints; returns the exit status."""
    from parapet.transforms.release.diff import compare, damage, diff_lines

    sides = {"old": args.old, "new": args.new}
    damaged = [f"{side}: {reason}" for side, release in sides.items() for reason in damage(release, args.quick)]
    if damaged:
        print(json.dumps({"problems": damaged}, indent=2) if args.json else "\n".join(damaged))
        logging.error("not compared: 'parapet release verify' says more")
        return EXIT_FAILURE
    difference = compare(args.old, args.new)
    if difference.old.name != difference.new.name:
        logging.warning("these are two datasets: %s and %s", difference.old.name, difference.new.name)
    lines = diff_lines(difference)
    print(json.dumps(msgspec.to_builtins(difference), indent=2) if args.json else "\n".join(lines))
    return 0


def run(argv: Sequence[str] | None = None) -> int:
    """Runs ``parapet release diff``. Returns the exit status."""
    return run_checked(parser(), argv, check, act, "nothing was changed")


if __name__ == "__main__":
    sys.exit(run())
