"""``parapet mturk sandbox-workers``."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from pathlib import Path

import msgspec

from parapet.pipelines.command import EXIT_FAILURE, run_checked, say
from parapet.pipelines.flags import INPUT, StrictParser, add_seed

DESCRIPTION = """\
Simulates workers of a local MTurk ('parapet mturk sandbox-server'): they accept HITs, fill in the forms and submit
them, with the answers of --answers, or with meaningless words."""

EXAMPLE = """\
  parapet mturk sandbox-workers --workers 20
  parapet mturk sandbox-workers --answers my_crowd/assignments.jsonl"""


class Config(msgspec.Struct, frozen=True):
    """Simulated workers."""

    url: str
    answers: str
    workers: int
    seed: int


def parser() -> StrictParser:
    """The command line."""
    parser = StrictParser("mturk sandbox-workers", DESCRIPTION, EXAMPLE)
    add = parser.group(INPUT)
    add("--url", metavar="URL", help="address of the local MTurk (default: AWS_ENDPOINT_URL_MTURK)")
    text = "assignments to answer again, with their workers: JSON lines of boto3"
    add("--answers", metavar="FILE", reads=True, help=text)
    add("--workers", type=int, default=20, metavar="N", help="number of workers, without --answers")
    add_seed(parser, "what they answer", int, 0)
    return parser


def check(args: argparse.Namespace) -> Config:
    """Raises InputError where there is no address."""
    from parapet.schemas.errors import InputError
    from parapet.transforms.mturk.client import ENDPOINT_VARIABLE, PRODUCTION, SANDBOX

    url = args.url or os.environ.get(ENDPOINT_VARIABLE)
    if not url or url.rstrip("/") in (PRODUCTION, SANDBOX):
        raise InputError(f"the address of a local MTurk, please, here or in {ENDPOINT_VARIABLE}", "--url")
    return Config(url, args.answers or "", args.workers, args.seed)


def act(config: Config) -> int:
    """Plays."""
    from parapet.local_mturk.practice import simulate

    report = simulate(config.url, Path(config.answers) if config.answers else None, config.workers, config.seed)
    say(report.text())
    return 0 if report.submitted else EXIT_FAILURE


def run(argv: Sequence[str] | None = None) -> int:
    """Runs ``parapet mturk sandbox-workers``. Returns the exit status."""
    return run_checked(parser(), argv, check, act, "what was submitted stays")
