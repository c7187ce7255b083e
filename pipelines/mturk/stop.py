"""``parapet mturk stop``."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime

from parapet.pipelines.command import EXIT_FAILURE, counted, run_checked
from parapet.pipelines.flags import StrictParser, add_dry_run
from parapet.pipelines.mturk import session

DESCRIPTION = """\
Withdraws every HIT of the batch. Workers who have begun may still submit, and must be paid; nobody else can begin.
'parapet mturk topup --shortfall' offers HITs again that lack answers."""

EXAMPLE = "  parapet mturk stop --batch my_batch"


def parser() -> StrictParser:
    """The command line."""
    parser = StrictParser("mturk stop", DESCRIPTION, EXAMPLE)
    session.add_batch(parser)
    add_dry_run(parser)
    session.add_network(parser)
    return parser


def check(args: argparse.Namespace) -> session.Config:
    """Raises InputError where there is no batch."""
    from parapet.transforms.mturk.batch import Batch

    config = session.Config(**session.shared(args))
    Batch(args.batch, writable=False)
    return config


def act(config: session.Config) -> int:
    """Stops."""
    from parapet.transforms.mturk import collected
    from parapet.transforms.mturk.stop import open_hits, stop

    now = datetime.now(UTC)
    with session.open_batch(config.batch, config.dry_run) as batch:
        lines = collected.load(batch.folder)
        hit_ids = open_hits(batch, Counter(line["HITId"] for line in lines), now)
        client = session.client_for(batch, config, lines)
        with session.progress("stopping", config) as show:
            failures = stop(client, batch, hit_ids, now, config.parallel_calls, show)
        session.report_failures(failures, "stopping")
        if config.dry_run:
            print("dry run: nothing was sent, nothing is kept")
        elif not config.quiet:
            print(f"{counted(len(hit_ids) - len(failures), 'HIT')} off offer")
            print(session.finish(batch, lines, config.key, warn=False)())
        return EXIT_FAILURE if failures else 0


def run(argv: Sequence[str] | None = None) -> int:
    """Runs ``parapet mturk stop``. Returns the exit status."""
    return run_checked(parser(), argv, check, act, session.STOPPED)
