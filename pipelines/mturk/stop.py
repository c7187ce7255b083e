"""``parapet mturk stop``."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime

from parapet.pipelines.command import EXIT_FAILURE, StrictParser, counted, run_checked
from parapet.pipelines.mturk import session

DESCRIPTION = """\
Takes every HIT of the batch off offer. Who is working on one may still hand it in, and is to be paid; nobody else can
begin. What was handed in stays. 'parapet mturk topup --shortfall' puts those on offer again that answers are missing
from."""

EXAMPLE = "  parapet mturk stop --batch my_batch"


def parser() -> StrictParser:
    """The command line."""
    made = StrictParser("mturk stop", DESCRIPTION, EXAMPLE)
    session.add_batch(made)
    session.add_network(made)
    made.add_argument("--dry_run", action="store_true", help="print the calls, send nothing")
    return made


def check(args: argparse.Namespace) -> argparse.Namespace:
    """Raises InputError where there is no batch."""
    from parapet.transforms.crowd.worker_key import load_worker_key
    from parapet.transforms.mturk.batch import Batch

    session.check_network(args)
    Batch(args.batch, writable=False)
    args.key = load_worker_key()
    return args


def act(args: argparse.Namespace) -> int:
    """Stops."""
    from parapet.transforms.mturk import collected
    from parapet.transforms.mturk.stop import open_hits, stop

    now = datetime.now(UTC)
    with session.open_batch(args.batch, args.dry_run) as batch:
        lines = collected.load(batch.folder)
        hit_ids = open_hits(batch, Counter(line["HITId"] for line in lines), now)
        client = session.client_for(batch, args, args.key, lines)
        with session.progress("stopping", args) as told:
            failures = stop(client, batch, hit_ids, now, args.parallel_calls, told)
        session.tell_failures(failures, "stopping")
        if args.dry_run:
            print("dry run: nothing was sent, nothing is kept")
        elif not args.quiet:
            print(f"{counted(len(hit_ids) - len(failures), 'HIT')} off offer")
            print(session.finish(batch, lines, args.key, warn=False)())
        return EXIT_FAILURE if failures else 0


def run(argv: Sequence[str] | None = None) -> int:
    """Runs ``parapet mturk stop``. Returns the exit status."""
    return run_checked(parser(), argv, check, act, session.STOPPED)
