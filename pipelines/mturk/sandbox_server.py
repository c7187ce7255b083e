"""``parapet mturk sandbox-server``."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from parapet.pipelines.command import run_checked
from parapet.pipelines.flags import StrictParser, add_seed

if TYPE_CHECKING:
    from parapet.local_mturk.faults import Faults

DESCRIPTION = """\
Runs a local MTurk for practice and tests, until Ctrl-C: it answers boto3, and shows HITs to workers in a browser. It
keeps everything in one file, and continues from it. Set the variables that it prints where you run 'parapet mturk
publish'."""

EXAMPLE = """\
  parapet mturk sandbox-server --state practice.sqlite
  parapet mturk sandbox-server --state practice.sqlite --throttle 0.1 --drop_after 0.02    # a bad day"""

_RATES = {
    "throttle": "share of calls refused as too many",
    "error": "share of calls that fail with a server error",
    "drop_before": "share of calls whose connection breaks before they take effect",
    "drop_after": "share of calls whose connection breaks after they took effect",
}


class Config(msgspec.Struct, frozen=True):
    """A local MTurk."""

    state: str
    port: int
    seed: int
    faults: Faults
    balance: Decimal


def parser() -> StrictParser:
    """The command line."""
    parser = StrictParser("mturk sandbox-server", DESCRIPTION, EXAMPLE)
    add = parser.group("server")
    add("--state", required=True, metavar="FILE", help="where everything is kept (SQLite)")
    add("--port", type=int, default=8765, metavar="N", help="port on 127.0.0.1; 0 for a free one")
    add("--balance", default="10000", metavar="DOLLARS", help="initial balance of the account")
    add = parser.group("faults")
    for name, text in _RATES.items():
        add(f"--{name}", rare=True, type=float, default=0.0, metavar="RATE", help=text)
    add_seed(parser, "ids and faults", int, 0)
    return parser


def check(args: argparse.Namespace) -> Config:
    """Raises InputError where a flag cannot be used."""
    from parapet.local_mturk.faults import Faults
    from parapet.schemas.errors import InputError

    faults = Faults(**{name: getattr(args, name) for name in _RATES})
    if not 0 <= args.port <= 65_535:
        raise InputError("0 to 65535", "--port")
    try:
        balance = Decimal(args.balance)
        if not balance.is_finite() or balance < 0:
            raise InvalidOperation
    except InvalidOperation:
        raise InputError("an amount in dollars, such as 250", "--balance") from None
    return Config(args.state, args.port, args.seed, faults, balance)


def act(config: Config) -> int:
    """Serves."""
    from parapet.local_mturk.practice import serve

    return serve(Path(config.state), config.port, config.seed, config.faults, config.balance)


def run(argv: Sequence[str] | None = None) -> int:
    """Runs ``parapet mturk sandbox-server``. Returns the exit status."""
    return run_checked(parser(), argv, check, act, "everything is kept")
