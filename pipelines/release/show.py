"""``parapet release show``: what a release holds, at a glance."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence

from parapet.pipelines.command import run_checked
from parapet.pipelines.flags import INPUT, StrictParser, add_json

DESCRIPTION = """\
Prints an overview of a release: licence, parent, configurations, splits, rows, counts, sources; or, given the folder
of a dataset, its versions."""

EXAMPLE = """\
  parapet release show releases/my_dataset
  parapet release show releases/my_dataset/1.0.0 --json"""


def parser() -> StrictParser:
    """The command line."""
    parser = StrictParser("release show", DESCRIPTION, EXAMPLE)
    parser.group(INPUT)("release", metavar="PATH", help="NAME/VERSION, or NAME for its versions; local or gs://")
    add_json(parser)
    return parser


def check(args: argparse.Namespace) -> argparse.Namespace:
    """Reads the release or dataset. Raises InputError if there is none."""
    from parapet.schemas.layout import as_path
    from parapet.schemas.release import MANIFEST
    from parapet.transforms.release import show
    from parapet.transforms.release.opening import read_manifest

    root = as_path(args.release)
    if (root / MANIFEST).is_file():
        manifest = read_manifest(root)
        args.overview, args.lines = show.overview(manifest), show.release_lines(manifest)
    else:
        dataset = show.read_dataset(root)
        args.overview, args.lines = show.dataset_overview(dataset), show.dataset_lines(dataset)
    return args


def act(args: argparse.Namespace) -> None:
    """Prints it."""
    print(json.dumps(args.overview, indent=2) if args.json else "\n".join(args.lines))


def run(argv: Sequence[str] | None = None) -> int:
    """Runs ``parapet release show``. Returns the exit status."""
    return run_checked(parser(), argv, check, act, "nothing was changed")


if __name__ == "__main__":
    sys.exit(run())
