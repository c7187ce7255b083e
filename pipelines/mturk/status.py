"""``parapet mturk status``."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence

from parapet.pipelines.command import run_checked
from parapet.pipelines.flags import StrictParser, add_json
from parapet.pipelines.mturk import session

DESCRIPTION = """\
Shows for each task what is published, submitted, paid and about to expire, and what it has cost, as of the last
'collect'. Makes no requests. DIR/status.html shows the same."""

EXAMPLE = """\
  parapet mturk status --batch my_batch
  parapet mturk status --batch my_batch --json"""


class Config(session.Config, frozen=True, kw_only=True):
    """What is shown, and whether as JSON."""

    json: bool


def parser() -> StrictParser:
    """The command line."""
    parser = StrictParser("mturk status", DESCRIPTION, EXAMPLE)
    session.add_batch(parser)
    add_json(parser)
    return parser


def check(args: argparse.Namespace) -> Config:
    """Raises InputError where there is no batch."""
    from parapet.transforms.mturk.batch import Batch

    Batch(args.batch, writable=False)
    return Config(**session.shared(args), json=args.json)


def act(config: Config) -> None:
    """Shows."""
    from parapet.transforms.mturk import collected
    from parapet.transforms.mturk.status import status_of, to_json

    with session.open_batch(config.batch, writable=False) as batch:
        lines = collected.load(batch.folder)
        if config.json:
            print(json.dumps(to_json(status_of(batch, lines, config.key)), indent=2))
            return
        table = session.finish(batch, lines, config.key)
        print(f"{batch.environment}, collected {batch.journal.done.get('collected', {}).get('at', 'never')}")
        print(table())


def run(argv: Sequence[str] | None = None) -> int:
    """Runs ``parapet mturk status``. Returns the exit status."""
    return run_checked(parser(), argv, check, act, session.STOPPED)
