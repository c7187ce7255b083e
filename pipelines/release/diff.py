"""``parapet release diff``: two releases, row by row."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence

from parapet.pipelines.command import StrictParser, run_checked

DESCRIPTION = """\
Compares two releases row by row, by the keys of their rows: what came, went and changed, where the first of the
changed rows differ, and which version number that asks for. The manifests are believed: 'verify' first."""

EXAMPLE = """\
  parapet release diff releases/my_dataset/1.0.0 releases/my_dataset/1.1.0
  parapet release diff releases/my_dataset/1.0.0 releases/my_dataset --output diff.html"""

NOTE = "exit status: 0 whether or not they differ, 1 where one cannot be read, 2 where there is no release."


def parser() -> StrictParser:
    """The command line."""
    made = StrictParser("release diff", DESCRIPTION, EXAMPLE, NOTE)
    made.add_argument("old", metavar="OLD", help="NAME/VERSION, or NAME for its latest; local or gs://")
    made.add_argument("new", metavar="NEW", help="the release to compare with it")
    made.add_argument("--output", metavar="PAGE", help="an HTML page to write too")
    made.add_argument("--json", action="store_true", help="the difference as JSON")
    return made


def check(args: argparse.Namespace) -> argparse.Namespace:
    """Raises InputError where one of the two is no release."""
    from parapet.transforms.release.opening import open_release

    args.releases = open_release(args.old), open_release(args.new)
    return args


def act(args: argparse.Namespace) -> None:
    """Compares and tells."""
    import logging

    import msgspec

    from parapet.transforms.release.diff.compare import compare
    from parapet.transforms.release.diff.text import diff_lines, diff_page

    difference = compare(*args.releases)
    if difference.old.name != difference.new.name:
        logging.warning("these are two datasets: %s and %s", difference.old.name, difference.new.name)
    if args.json:
        print(json.dumps(msgspec.to_builtins(difference), indent=2))
    else:
        print("\n".join(diff_lines(difference)))
    if args.output:
        from parapet.transforms.files import whole

        with whole(args.output) as handle:
            handle.write(diff_page(difference).encode())
        logging.info("wrote %s", args.output)


def run(argv: Sequence[str] | None = None) -> int:
    """Runs ``parapet release diff``. Returns the exit status."""
    return run_checked(parser(), argv, check, act, "nothing was changed")


if __name__ == "__main__":
    sys.exit(run())
