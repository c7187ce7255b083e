"""``parapet release diff``: two releases, row by row."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from parapet.pipelines.command import EXIT_FAILURE, run_checked
from parapet.pipelines.flags import INPUT, OUTPUT, RUNNING, StrictParser, add_json

if TYPE_CHECKING:
    from parapet.transforms.release.opening import Release

DESCRIPTION = """\
Compares two releases row by row: which rows were added, removed and changed, how the first changed rows differ, and
which version number that requires. Compares the files as they are: one that is missing, or not the one that its
manifest lists, is a problem, which is printed."""

EXAMPLE = """\
  parapet release diff releases/my_dataset/1.0.0 releases/my_dataset/1.1.0
  parapet release diff releases/my_dataset/1.0.0 releases/my_dataset --output diff.html"""

NOTE = "exit status: 0 whether or not they differ, 1 if one is not as its manifest says, 2 if there is no release."


class Config(msgspec.Struct, frozen=True):
    """Two releases; how to read them; the page that is written besides, if any; whether to print JSON."""

    old: Release
    new: Release
    quick: bool
    output: str
    json: bool


def parser() -> StrictParser:
    """The command line."""
    parser = StrictParser("release diff", DESCRIPTION, EXAMPLE, NOTE)
    add = parser.group(INPUT)
    add("old", metavar="OLD", help="NAME/VERSION, or NAME for its latest; local or gs://")
    add("new", metavar="NEW", help="the release to compare with it")
    text = "compare the sizes of files with the manifests, not their hashes"
    parser.group(RUNNING)("--quick", rare=True, action="store_true", help=text)
    parser.group(OUTPUT)("--output", metavar="PAGE", help="HTML page to write, too")
    add_json(parser)
    return parser


def check(args: argparse.Namespace) -> Config:
    """Raises InputError where one of the two is no release."""
    from parapet.transforms.release.opening import open_release

    return Config(open_release(args.old), open_release(args.new), args.quick, args.output or "", args.json)


def act(config: Config) -> int:
    """Compares and prints. Gives the exit status."""
    import logging

    from parapet.transforms.release.diff.compare import compare
    from parapet.transforms.release.diff.standing import standing
    from parapet.transforms.release.diff.text import diff_lines, diff_page

    files = (standing(config.old, config.quick), standing(config.new, config.quick))
    difference = compare(config.old, config.new, files)
    if difference.old.name != difference.new.name:
        logging.warning("these are two datasets: %s and %s", difference.old.name, difference.new.name)
    if config.json:
        print(json.dumps(msgspec.to_builtins(difference), indent=2))
    else:
        print("\n".join(diff_lines(difference)))
    if config.output:
        from parapet.transforms.files import whole

        with whole(config.output) as handle:
            handle.write(diff_page(difference).encode())
        logging.info("wrote %s", config.output)
    return EXIT_FAILURE if difference.problems else 0


def run(argv: Sequence[str] | None = None) -> int:
    """Runs ``parapet release diff``. Returns the exit status."""
    return run_checked(parser(), argv, check, act, "nothing was changed")


if __name__ == "__main__":
    sys.exit(run())
