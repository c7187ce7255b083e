"""``parapet release verify``: is a release what it says it is?"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from parapet.pipelines import workers
from parapet.pipelines.command import EXIT_FAILURE, counted, run_checked, say
from parapet.pipelines.flags import INPUT, RUNNING, StrictParser, add_json

if TYPE_CHECKING:
    from pathlib import Path

DESCRIPTION = """\
Checks every file, row and number of a release: against its checksums and its manifest, dialogues against their
schemas, JSON against Parquet, documents against the manifest. Prints a line for each mismatch."""

EXAMPLE = """\
  parapet release verify releases/my_dataset/1.0.0
  parapet release verify releases/my_dataset          # the version that latest.json names
  parapet release verify gs://bucket/my_dataset/1.0.0 --json"""

NOTE = """\
exit status: 0 without findings, 1 with findings, 2 if there is no release.
A release that somebody changed as a whole, hashes included, passes: compare the SHA-256 of MANIFEST.json with one from
a source that you trust."""


class Config(msgspec.Struct, frozen=True):
    """A release, how many processes read it (None: one a core where it is large), and whether to print JSON."""

    root: Path
    processes: int | None
    json: bool


def parser() -> StrictParser:
    """The command line."""
    parser = StrictParser("release verify", DESCRIPTION, EXAMPLE, NOTE)
    parser.group(INPUT)("release", metavar="PATH", help="NAME/VERSION, or NAME for its latest; local or gs://")
    add_json(parser)
    text = "local processes: a number, or auto: one a core where the release is large (default: auto)"
    parser.group(RUNNING)("--workers", rare=True, type=workers.number, default=workers.AUTO, metavar="N", help=text)
    return parser


def check(args: argparse.Namespace) -> Config:
    """Raises InputError where there is no release."""
    from parapet.transforms.release.verify.examine import find_release

    return Config(find_release(args.release), None if args.workers == workers.AUTO else args.workers, args.json)


def act(config: Config) -> int:
    """Checks and prints the findings."""
    from parapet.pipelines.progress import running
    from parapet.transforms.release.verify.examine import examine

    with running("parapet release verify"):
        done = examine(config.root, config.processes)
    if config.json:
        print(json.dumps(msgspec.to_builtins(done), indent=2))
    else:
        for finding in done.findings:
            print(finding)
        if done.not_compared:
            documents = ", ".join(done.not_compared)
            say(f"another version of Parapet wrote {documents}: of these, only the facts were compared, not the text")
        numbers = ((done.files, "file"), (done.rows, "row"), (len(done.findings), "finding"))
        say(", ".join(counted(n, what) for n, what in numbers))
    return EXIT_FAILURE if done.findings else 0


def run(argv: Sequence[str] | None = None) -> int:
    """Runs ``parapet release verify``. Returns the exit status."""
    return run_checked(parser(), argv, check, act, "nothing was changed")


if __name__ == "__main__":
    sys.exit(run())
