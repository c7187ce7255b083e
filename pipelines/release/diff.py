"""``parapet release diff``: two releases, row by row."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from parapet.pipelines.command import run_checked
from parapet.pipelines.flags import INPUT, OUTPUT, StrictParser, add_json

if TYPE_CHECKING:
    from parapet.transforms.release.opening import Release

DESCRIPTION = """\
Compares two releases row by row: which rows were added, removed and changed, how the first changed rows differ, and
which version number that requires. Trusts their manifests: run 'parapet release verify' first."""

EXAMPLE = """\
  parapet release diff releases/my_dataset/1.0.0 releases/my_dataset/1.1.0
  parapet release diff releases/my_dataset/1.0.0 releases/my_dataset --output diff.html"""

NOTE = "exit status: 0 whether or not they differ, 1 if one cannot be read, 2 if there is no release."


class Config(msgspec.Struct, frozen=True):
    """Two releases; the page that is written besides, if any; and whether the difference is printed as JSON."""

    old: Release
    new: Release
    output: str
    json: bool


def parser() -> StrictParser:
    """The command line."""
    parser = StrictParser("release diff", DESCRIPTION, EXAMPLE, NOTE)
    add = parser.group(INPUT)
    add("old", metavar="OLD", help="NAME/VERSION, or NAME for its latest; local or gs://")
    add("new", metavar="NEW", help="the release to compare with it")
    parser.group(OUTPUT)("--output", metavar="PAGE", help="HTML page to write, too")
    add_json(parser)
    return parser


def check(args: argparse.Namespace) -> Config:
    """Raises InputError where one of the two is no release."""
    from parapet.transforms.release.opening import open_release

    return Config(open_release(args.old), open_release(args.new), args.output or "", args.json)


def act(config: Config) -> None:
    """Compares and prints."""
    import logging

    from parapet.transforms.release.diff.compare import compare
    from parapet.transforms.release.diff.text import diff_lines, diff_page

    difference = compare(config.old, config.new)
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


def run(argv: Sequence[str] | None = None) -> int:
    """Runs ``parapet release diff``. Returns the exit status."""
    return run_checked(parser(), argv, check, act, "nothing was changed")


if __name__ == "__main__":
    sys.exit(run())
