"""``parapet mturk collect``."""

from __future__ import annotations

import argparse
import logging
from collections.abc import Sequence

from parapet.pipelines.command import EXIT_FAILURE, counted, run_checked
from parapet.pipelines.flags import StrictParser
from parapet.pipelines.mturk import session

DESCRIPTION = """\
Downloads what workers have submitted so far into DIR/assignments.jsonl, for --responses of 'parapet compose' and other
commands. Then grants qualifications, so that nobody who did a task sees its sibling, or any task beyond
--max_per_worker. Run it often while a batch is open."""

EXAMPLE = """\
  parapet mturk collect --batch my_batch
  parapet mturk collect --batch my_batch --block_list blocked.txt"""


# What reads the answers to tasks other than those on schemas.
_READERS = {
    "rewrites": "compose_variations",
    "ratings": "evaluate --task ratings",
    "validity": "evaluate --task validity",
}


class Config(session.Config, frozen=True, kw_only=True):
    """A collection, and the workers who are blocked."""

    blocked: list[str]


def parser() -> StrictParser:
    """The command line."""
    parser = StrictParser("mturk collect", DESCRIPTION, EXAMPLE)
    session.add_batch(parser)
    session.add_block_list(parser)
    session.add_network(parser)
    return parser


def check(args: argparse.Namespace) -> Config:
    """Raises InputError where a flag or file cannot be used."""
    from parapet.transforms.mturk.batch import Batch
    from parapet.transforms.mturk.grants import read_block_list

    shared = session.shared(args)
    Batch(args.batch, writable=False)
    return Config(**shared, blocked=read_block_list(args.block_list) if args.block_list else [])


def act(config: Config) -> int:
    """Collects."""
    from parapet.transforms.mturk import collected
    from parapet.transforms.mturk.collect import collect
    from parapet.transforms.mturk.grants import grant

    with session.open_batch(config.batch) as batch:
        client = session.client_for(batch, config)
        with session.progress("collecting", config) as show:
            found = collect(client, batch, config.parallel_calls, show)
        lines = collected.load(batch.folder)
        with session.progress("keeping workers out", config) as show:
            granted = grant(client, batch, lines, config.blocked, config.key, (), config.parallel_calls, show)
        session.report_failures(granted.failures, "keeping workers out")
        for assignment_id in found.replaced:
            logging.warning("%s has other work than before; the old is in %s", assignment_id, collected.REPLACED)
        for hit_id in found.gone:
            logging.warning("%s: MTurk no longer has this HIT of %s", hit_id, batch.hits()[hit_id].task_id)
        for hit_id, why in found.unreadable:
            logging.error("%s of %s was not collected: %s", hit_id, batch.hits()[hit_id].task_id, why)
        kept_out = ", ".join(f"{why} {n:,}" for why, n in sorted(granted.counts.items()))
        table = session.finish(batch, lines, config.key)
        if not config.quiet:
            print(
                f"{counted(found.new, 'new assignment')}, {found.changed:,} with another status, {found.total:,} in all"
                + (f"; qualifications granted: {kept_out}" if kept_out else "")
            )
            print(table())
        tasks = {hit.task_id.rpartition(":")[2] for hit in batch.hits().values()}
        command = next((_READERS[task] for task in sorted(tasks) if task in _READERS), "compose")
        logging.info("next: parapet %s --responses %s ...", command, batch.folder / collected.FILE)
        return EXIT_FAILURE if granted.failures or found.unreadable else 0


def run(argv: Sequence[str] | None = None) -> int:
    """Runs ``parapet mturk collect``. Returns the exit status."""
    return run_checked(parser(), argv, check, act, session.STOPPED)
