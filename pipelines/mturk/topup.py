"""``parapet mturk topup``."""

from __future__ import annotations

import argparse
import logging
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from parapet.pipelines.command import EXIT_FAILURE, StrictParser, counted, run_checked
from parapet.pipelines.mturk import session
from parapet.pipelines.mturk.publish import publish_round

DESCRIPTION = """\
Asks for more answers where compose found elements short of them. Either more workers for the HITs that are out
(--shortfall; up to nine a HIT, beyond which MTurk's fee doubles), or new HITs that ask only for what is missing
(--hits, a folder of 'parapet hits --shortfall'), which those who did the task or its sibling do not see."""

EXAMPLE = """\
  parapet mturk topup --batch my_batch --shortfall my_variants/shortfall.csv
  parapet hits --schemas my_corpus --shortfall my_variants/shortfall.csv --output top_up --sandbox
  parapet mturk topup --batch my_batch --hits top_up --dry_run"""


def parser() -> StrictParser:
    """The command line."""
    made = StrictParser("mturk topup", DESCRIPTION, EXAMPLE)
    session.add_batch(made)
    made.add_argument("--shortfall", metavar="FILE", help="shortfall.csv of 'parapet compose': more workers a HIT")
    made.add_argument("--hits", metavar="DIR", help="folder of 'parapet hits --shortfall': new HITs")
    session.add_block_list(made)
    session.add_network(made)
    session.add_spending(made)
    return made


def check(args: argparse.Namespace) -> argparse.Namespace:
    """Reads everything that is needed. Raises InputError where it cannot be used."""
    from parapet.schemas.errors import InputError
    from parapet.transforms.crowd.worker_key import load_worker_key
    from parapet.transforms.mturk.grants import read_block_list
    from parapet.transforms.mturk.hits_folder import read_hits
    from parapet.transforms.mturk.top_up import read_lacks

    session.check_network(args)
    if bool(args.shortfall) == bool(args.hits):
        raise InputError("one of --shortfall FILE and --hits DIR, please")
    with session.open_batch(args.batch, writable=False) as batch:
        session.check_place(batch, args.production)
        if args.hits:
            args.pages = read_hits(args.hits, batch.endpoint, top_up=True)
            first = {hit.record.task_id for hit in args.pages} - {hit.task_id for hit in batch.hits().values()}
            if first:
                reason = f"the batch has no HIT of {min(first)}: use 'parapet mturk publish' for what is new"
                raise InputError(reason, args.hits)
        else:
            args.digest, args.lacks = read_lacks(args.shortfall)
    args.blocked = read_block_list(args.block_list) if args.block_list else []
    args.key = load_worker_key()
    return args


def act(args: argparse.Namespace) -> int:
    """Tops up."""
    from parapet.transforms.mturk import collected
    from parapet.transforms.mturk.collect import collect
    from parapet.transforms.mturk.top_up import look_up

    with session.open_batch(args.batch, args.dry_run) as batch:
        lines = collected.load(batch.folder)
        client = session.client_for(batch, args, args.key, lines)
        if not args.dry_run:
            # Who has done what decides who may not do more, and how many places are still open.
            look_up(client, batch)
            with session.progress("collecting", args) as told:
                collect(client, batch, args.parallel_calls, told)
            lines = collected.load(batch.folder)
        return _new_hits(args, batch, client, lines) if args.hits else _more_workers(args, batch, client, lines)


def _new_hits(args: argparse.Namespace, batch: Any, client: Any, lines: Sequence[Any]) -> int:
    from parapet.transforms.mturk.publish import adopt, cost_of, round_of, unpublished

    round_ = round_of(batch, args.pages)
    if not args.dry_run:
        adopt(client, batch, args.pages, round_)
    waiting = unpublished(batch, args.pages, round_)
    cost = cost_of(waiting)
    session.tell(args, f"top-up {round_}: {counted(len(waiting), 'HIT')} to publish: ${cost:,.2f} with fees")
    if not args.dry_run:
        session.check_invariants(client, cost)
        session.agree(args, cost, batch.environment)
    return publish_round(args, batch, client, args.pages, round_, lines)


def _more_workers(args: argparse.Namespace, batch: Any, client: Any, lines: Sequence[Any]) -> int:
    from parapet.transforms.mturk import top_up
    from parapet.transforms.mturk.grants import grant

    now = datetime.now(UTC)
    plan = top_up.plan(batch, args.digest, args.lacks, Counter(line["HITId"] for line in lines), now)
    cost = sum((each.cost for each in plan.additions), Decimal(0))
    workers, reopened = sum(each.workers for each in plan.additions), sum(each.reopen for each in plan.additions)
    session.tell(
        args,
        f"{counted(workers, 'more assignment')} on {counted(len(plan.additions), 'HIT')}: ${cost:,.2f} with fees"
        + (f"; {reopened:,} on offer again" if reopened else ""),
    )
    if plan.full:
        logging.warning(
            "%s with fewer workers than needed: a HIT gets no tenth; for these make new HITs with "
            "'parapet hits --shortfall %s' and give them with --hits: %s",
            counted(len(plan.full), "task"),
            args.shortfall,
            ", ".join(plan.full[:10]),
        )
    for task_id in plan.unknown[:10]:
        logging.warning("no HIT of this batch asks for what %s lacks", task_id)
    if not plan.additions:
        session.finish(batch, lines, args.key)
        done = any(key.startswith(f"add:{args.digest}:") for key in batch.journal.done)
        again = ": this shortfall was topped up already; collect and compose again" if done else ""
        session.tell(args, f"nothing to do{again}")
        return EXIT_FAILURE if plan.full or plan.unknown else 0
    if not args.dry_run:
        session.check_invariants(client, cost)
        session.agree(args, cost, batch.environment)
    upcoming = [(each.task_id, 0) for each in plan.additions]
    granted = grant(client, batch, lines, args.blocked, args.key, upcoming, args.parallel_calls)
    session.tell_failures(granted.failures, "keeping workers out")
    with session.progress("topping up", args) as told:
        failures = top_up.top_up(client, batch, plan.additions, plan.digest, now, told, args.parallel_calls)
    session.tell_failures(failures, "topping up")
    table = session.finish(batch, lines, args.key)
    if args.dry_run:
        print("dry run: nothing was sent, nothing is kept")
    elif not args.quiet:
        print(table())
    if not (args.dry_run or failures):
        logging.info("next: parapet mturk collect --batch %s", args.batch)
    return EXIT_FAILURE if failures or granted.failures or plan.unknown else 0


def run(argv: Sequence[str] | None = None) -> int:
    """Runs ``parapet mturk topup``. Returns the exit status."""
    return run_checked(parser(), argv, check, act, session.STOPPED)
