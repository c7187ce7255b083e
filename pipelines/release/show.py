"""``parapet release show``: what a release holds, at a glance."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence

from parapet.pipelines.command import StrictParser, run_checked

DESCRIPTION = """\
Shows what a release says of itself: licence, what it follows, configurations, splits, rows, counts, sources. Of a
dataset's folder, all its versions."""

EXAMPLE = """\
  parapet release show releases/my_dataset
  parapet release show releases/my_dataset/1.0.0 --json"""


def parser() -> StrictParser:
    """The command line."""
    made = StrictParser("release show", DESCRIPTION, EXAMPLE)
    made.add_argument("release", metavar="PATH", help="NAME/VERSION, or NAME for its versions; local or gs://")
    made.add_argument("--json", action="store_true", help="the same as JSON")
    return made


def check(args: argparse.Namespace) -> argparse.Namespace:
    """Raises InputError where there is no release."""
    from parapet.schemas.layout import as_path
    from parapet.schemas.release_manifest import MANIFEST
    from parapet.transforms.release.opening import read_manifest
    from parapet.transforms.release.show import read_dataset

    root = as_path(args.release)
    one = (root / MANIFEST).is_file()
    args.manifest, args.dataset = (read_manifest(root), None) if one else (None, read_dataset(root))
    return args


def act(args: argparse.Namespace) -> None:
    """Shows."""
    from parapet.transforms.release import show

    if args.manifest is not None:
        found, lines = show.overview(args.manifest), show.release_lines(args.manifest)
    else:
        found, lines = show.dataset_overview(args.dataset), show.dataset_lines(args.dataset)
    print(json.dumps(found, indent=2) if args.json else "\n".join(lines))


def run(argv: Sequence[str] | None = None) -> int:
    """Runs ``parapet release show``. Returns the exit status."""
    return run_checked(parser(), argv, check, act, "nothing was changed")


if __name__ == "__main__":
    sys.exit(run())
