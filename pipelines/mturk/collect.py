"""``parapet mturk collect``."""

from __future__ import annotations

import argparse
import logging
from collections.abc import Sequence

from parapet.pipelines.command import EXIT_FAILURE, StrictParser, counted, run_checked
from parapet.pipelines.mturk import session

DESCRIPTION = """\
Reads what workers have handed in so far into DIR/assignments.jsonl, which 'parapet compose --responses' takes as it is.
May be run at any time, also while work is still coming in. Then grants the qualifications that follow: who has done a
task no longer sees its sibling, who is at the cap sees nothing more. Run it often while a batch is out."""

EXAMPLE = """\
  parapet mturk collect --batch my_batch
  parapet mturk collect --batch my_batch --block_list blocked.txt"""


def parser() -> StrictParser:
    """The command line."""
    made = StrictParser("mturk collect", DESCRIPTION, EXAMPLE)
    session.add_batch(made)
    session.add_block_list(made)
    session.add_network(made)
    return made


def check(args: argparse.Namespace) -> argparse.Namespace:
    """Raises InputError where a flag or file cannot be used."""
    from parapet.transforms.crowd.worker_key import load_worker_key
    from parapet.transforms.mturk.batch import Batch
    from parapet.transforms.mturk.grants import read_block_list

    session.check_network(args)
    Batch(args.batch, writable=False)
    args.blocked = read_block_list(args.block_list) if args.block_list else []
    args.key = load_worker_key()
    return args


def act(args: argparse.Namespace) -> int:
    """Collects."""
    from parapet.transforms.mturk import collected
    from parapet.transforms.mturk.collect import collect
    from parapet.transforms.mturk.grants import grant

    with session.open_batch(args.batch) as batch:
        client = session.client_for(batch, args, args.key)
        with session.progress("collecting", args) as told:
            found = collect(client, batch, args.parallel_calls, told)
        lines = collected.load(batch.folder)
        with session.progress("keeping workers out", args) as told:
            granted = grant(client, batch, lines, args.blocked, args.key, (), args.parallel_calls, told)
        session.tell_failures(granted.failures, "keeping workers out")
        for assignment_id in found.replaced:
            logging.warning("%s has other work than before; the old is in %s", assignment_id, collected.REPLACED)
        for hit_id in found.gone:
            logging.warning("%s: MTurk no longer has this HIT of %s", hit_id, batch.hits()[hit_id].task_id)
        kept_out = ", ".join(f"{why} {n:,}" for why, n in sorted(granted.counts.items()))
        table = session.finish(batch, lines, args.key)
        if not args.quiet:
            print(
                f"{counted(found.new, 'new assignment')}, {found.changed:,} with another status, {found.total:,} in all"
                + (f"; qualifications granted: {kept_out}" if kept_out else "")
            )
            print(table())
        logging.info("next: parapet compose --responses %s ...", batch.folder / collected.FILE)
        return EXIT_FAILURE if granted.failures else 0


def run(argv: Sequence[str] | None = None) -> int:
    """Runs ``parapet mturk collect``. Returns the exit status."""
    return run_checked(parser(), argv, check, act, session.STOPPED)
