"""``parapet mturk sandbox-server`` and ``sandbox-workers``: a local MTurk for practice."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path

from parapet.local_mturk.faults import Faults
from parapet.local_mturk.server import serve, simulate
from parapet.pipelines.command import EXIT_FAILURE, say
from parapet.pipelines.mturk.session import dollars
from parapet.schemas.errors import InputError
from parapet.transforms.crowd.mturk.client import ENDPOINT_VARIABLE, PRODUCTION, SANDBOX


def sandbox_server(args: argparse.Namespace) -> Callable[[], int]:
    """Raises InputError where a flag cannot be used."""
    faults = Faults(args.throttle, args.error, args.drop_before, args.drop_after)
    if not 0 <= args.port <= 65_535:
        raise InputError("0 to 65535", "--port")
    balance = dollars(args.balance)
    if balance is None or balance < 0:
        raise InputError("an amount in dollars, such as 250", "--balance")
    return partial(serve, Path(args.state), args.port, args.seed, faults, balance)


def sandbox_workers(args: argparse.Namespace) -> Callable[[], int]:
    """Raises InputError where there is no address."""
    url = args.url or os.environ.get(ENDPOINT_VARIABLE)
    if not url or url.rstrip("/") in (PRODUCTION, SANDBOX):
        raise InputError(f"the address of a local MTurk, please, here or in {ENDPOINT_VARIABLE}", "--url")
    return partial(_simulate, url, Path(args.answers) if args.answers else None, args.workers, args.seed)


def _simulate(url: str, answers: Path | None, workers: int, seed: int) -> int:
    report = simulate(url, answers, workers, seed)
    say(report.text())
    return 0 if report.submitted else EXIT_FAILURE
