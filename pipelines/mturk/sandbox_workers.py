"""``parapet mturk sandbox-workers``."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from pathlib import Path

from parapet.pipelines.command import EXIT_FAILURE, StrictParser, run_checked

DESCRIPTION = """\
Plays workers against a local MTurk ('parapet mturk sandbox-server'): they accept HITs, fill in the forms as they are
served, and submit them. With --answers they say what others have said, without it words that mean nothing."""

EXAMPLE = """\
  parapet mturk sandbox-workers --workers 20
  parapet mturk sandbox-workers --answers my_crowd/assignments.jsonl"""


def parser() -> StrictParser:
    """The command line."""
    made = StrictParser("mturk sandbox-workers", DESCRIPTION, EXAMPLE)
    made.add_argument("--url", metavar="URL", help="of the local MTurk (default AWS_ENDPOINT_URL_MTURK)")
    made.add_argument(
        "--answers", metavar="FILE", help="JSON lines of boto3 assignments, whose workers and answers are played again"
    )
    made.add_argument("--workers", type=int, default=20, metavar="N", help="how many are made up (20)")
    made.add_argument("--seed", type=int, default=0, metavar="N", help="of what they say (0)")
    return made


def check(args: argparse.Namespace) -> argparse.Namespace:
    """Raises InputError where there is no address."""
    from parapet.schemas.errors import InputError
    from parapet.transforms.mturk.client import ENDPOINT_VARIABLE, PRODUCTION, SANDBOX

    args.url = args.url or os.environ.get(ENDPOINT_VARIABLE)
    if not args.url or args.url.rstrip("/") in (PRODUCTION, SANDBOX):
        raise InputError(f"the address of a local MTurk, please, here or in {ENDPOINT_VARIABLE}", "--url")
    return args


def act(args: argparse.Namespace) -> int:
    """Plays."""
    from parapet.local_mturk.practice import simulate

    report = simulate(args.url, Path(args.answers) if args.answers else None, args.workers, args.seed)
    if not args.quiet:
        print(report.text())
    return 0 if report.submitted else EXIT_FAILURE


def run(argv: Sequence[str] | None = None) -> int:
    """Runs ``parapet mturk sandbox-workers``. Returns the exit status."""
    return run_checked(parser(), argv, check, act, "what was submitted stays")
