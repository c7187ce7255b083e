"""``parapet release show``: what a release holds, at a glance."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from parapet.pipelines.command import run_checked
from parapet.pipelines.flags import INPUT, StrictParser, add_json

if TYPE_CHECKING:
    from parapet.schemas.release_manifest import Manifest
    from parapet.transforms.release.show import Dataset

DESCRIPTION = """\
Prints an overview of a release: licence, parent, configurations, splits, rows, counts, sources; or, given the folder
of a dataset, its versions."""

EXAMPLE = """\
  parapet release show releases/my_dataset
  parapet release show releases/my_dataset/1.0.0 --json"""


class Config(msgspec.Struct, frozen=True):
    """A release, or all versions of a dataset; and whether they are printed as JSON."""

    manifest: Manifest | None
    dataset: Dataset | None
    json: bool


def parser() -> StrictParser:
    """The command line."""
    parser = StrictParser("release show", DESCRIPTION, EXAMPLE)
    parser.group(INPUT)("release", metavar="PATH", help="NAME/VERSION, or NAME for its versions; local or gs://")
    add_json(parser)
    return parser


def check(args: argparse.Namespace) -> Config:
    """Raises InputError where there is no release."""
    from parapet.schemas.layout import as_path
    from parapet.schemas.release_manifest import MANIFEST
    from parapet.transforms.release.opening import read_manifest
    from parapet.transforms.release.show import read_dataset

    root = as_path(args.release)
    one = (root / MANIFEST).is_file()
    return Config(read_manifest(root), None, args.json) if one else Config(None, read_dataset(root), args.json)


def act(config: Config) -> None:
    """Shows."""
    from parapet.transforms.release import show

    if config.manifest is not None:
        found, lines = show.overview(config.manifest), show.release_lines(config.manifest)
    else:
        assert config.dataset is not None
        found, lines = show.dataset_overview(config.dataset), show.dataset_lines(config.dataset)
    print(json.dumps(found, indent=2) if config.json else "\n".join(lines))


def run(argv: Sequence[str] | None = None) -> int:
    """Runs ``parapet release show``. Returns the exit status."""
    return run_checked(parser(), argv, check, act, "nothing was changed")


if __name__ == "__main__":
    sys.exit(run())
