"""``parapet mturk topup``."""

from __future__ import annotations

import argparse
import logging
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from parapet.pipelines.command import EXIT_FAILURE, counted, run_checked
from parapet.pipelines.flags import INPUT, StrictParser
from parapet.pipelines.mturk import session
from parapet.pipelines.mturk.publish import publish_round

if TYPE_CHECKING:
    from parapet.transforms.mturk.hits_folder import Hit

DESCRIPTION = """\
Asks for more answers where 'parapet compose' found too few: from more workers for the published HITs (--shortfall; up
to nine for each, beyond which MTurk's fee doubles), or with new HITs that ask only for what is missing (--hits), which
workers who did the task or its sibling do not see."""

EXAMPLE = """\
  parapet mturk topup --batch my_batch --shortfall my_variants/shortfall.csv
  parapet hits --schemas my_corpus --shortfall my_variants/shortfall.csv --output top_up --sandbox
  parapet mturk topup --batch my_batch --hits top_up --dry_run"""


class Config(session.Config, frozen=True, kw_only=True):
    """What is topped up: HITs of another folder, or those that a shortfall names.

    Attributes:
      pages: the HITs of another folder.
      shortfall: the file, if there is one.
      digest: of that file.
      lacks: (task id, form field) to the number of answers that are missing.
      blocked: worker ids.
    """

    pages: list[Hit]
    shortfall: str
    digest: str
    lacks: dict[tuple[str, str], int]
    blocked: list[str]


def parser() -> StrictParser:
    """The command line."""
    parser = StrictParser("mturk topup", DESCRIPTION, EXAMPLE)
    session.add_batch(parser)
    add = parser.group(INPUT)
    text = "shortfall.csv of 'parapet compose': more workers for the HITs"
    add("--shortfall", metavar="FILE", help=text)
    add("--hits", metavar="DIR", help="output of 'parapet hits --shortfall': new HITs")
    session.add_block_list(parser)
    session.add_spending(parser)
    session.add_network(parser)
    return parser


def check(args: argparse.Namespace) -> Config:
    """Reads everything that is needed. Raises InputError where it cannot be used."""
    from parapet.schemas.errors import InputError
    from parapet.transforms.mturk.grants import read_block_list
    from parapet.transforms.mturk.hits_folder import read_hits
    from parapet.transforms.mturk.top_up import read_lacks

    shared = session.shared(args)
    pages: list[Hit] = []
    digest = ""
    lacks: dict[tuple[str, str], int] = {}
    if bool(args.shortfall) == bool(args.hits):
        raise InputError("one of --shortfall FILE and --hits DIR, please")
    with session.open_batch(args.batch, writable=False) as batch:
        session.check_place(batch, args.production)
        if args.hits:
            pages = read_hits(args.hits, batch.endpoint, top_up=True)
            first = {hit.record.task_id for hit in pages} - {hit.task_id for hit in batch.hits().values()}
            if first:
                reason = f"the batch has no HIT of {min(first)}: use 'parapet mturk publish' for what is new"
                raise InputError(reason, args.hits)
        else:
            digest, lacks = read_lacks(args.shortfall)
    blocked = read_block_list(args.block_list) if args.block_list else []
    return Config(**shared, pages=pages, shortfall=args.shortfall or "", digest=digest, lacks=lacks, blocked=blocked)


def act(config: Config) -> int:
    """Tops up."""
    from parapet.transforms.mturk import collected
    from parapet.transforms.mturk.collect import collect
    from parapet.transforms.mturk.publish import adopt
    from parapet.transforms.mturk.top_up import look_up

    with session.open_batch(config.batch, config.dry_run) as batch:
        lines = collected.load(batch.folder)
        client = session.client_for(batch, config, lines)
        if not config.dry_run:
            # Who has done what decides who may not do more, and how many places are still open.
            look_up(client, batch)
            adopt(client, batch, [])  # of HITs that another copy of the journal has topped up, the size
            with session.progress("collecting", config) as show:
                collect(client, batch, config.parallel_calls, show).require_all()
            lines = collected.load(batch.folder)
        return _new_hits(config, batch, client, lines) if config.pages else _more_workers(config, batch, client, lines)


def _new_hits(config: Config, batch: Any, client: Any, lines: Sequence[Any]) -> int:
    from parapet.transforms.mturk.publish import adopt, cost_of, round_of, unpublished

    round_ = round_of(batch, config.pages)
    if not config.dry_run:
        adopt(client, batch, config.pages, round_)
    waiting = unpublished(batch, config.pages, round_)
    cost = cost_of(waiting)
    session.announce(config, f"top-up {round_}: {counted(len(waiting), 'HIT')} to publish: ${cost:,.2f} with fees")
    if not config.dry_run:
        session.check_funds(client, cost)
        session.agree(config, cost, batch.environment)
    return publish_round(config, batch, client, config.pages, round_, lines, config.blocked)


def _more_workers(config: Config, batch: Any, client: Any, lines: Sequence[Any]) -> int:
    from parapet.transforms.mturk import top_up
    from parapet.transforms.mturk.grants import grant

    now = datetime.now(UTC)
    plan = top_up.plan(batch, config.digest, config.lacks, Counter(line["HITId"] for line in lines), now)
    cost = sum((each.cost for each in plan.additions), Decimal(0))
    workers, reopened = sum(each.workers for each in plan.additions), sum(each.reopen for each in plan.additions)
    session.announce(
        config,
        f"{counted(workers, 'more assignment')} on {counted(len(plan.additions), 'HIT')}: ${cost:,.2f} with fees"
        + (f"; {reopened:,} on offer again" if reopened else ""),
    )
    if plan.full:
        logging.warning(
            "%s with fewer workers than needed: a HIT gets no tenth; for these make new HITs with "
            "'parapet hits --shortfall %s' and give them with --hits: %s",
            counted(len(plan.full), "task"),
            config.shortfall,
            ", ".join(plan.full[:10]),
        )
    for task_id in plan.unknown[:10]:
        logging.warning("no HIT of this batch asks for what %s lacks", task_id)
    if not plan.additions:
        session.finish(batch, lines, config.key)
        done = any(key.startswith(f"add:{config.digest}:") for key in batch.journal.done)
        again = ": this shortfall was topped up already; collect and compose again" if done else ""
        session.announce(config, f"nothing to do{again}")
        return EXIT_FAILURE if plan.full or plan.unknown else 0
    if not config.dry_run:
        session.check_funds(client, cost)
        session.agree(config, cost, batch.environment)
    upcoming = [(each.task_id, 0) for each in plan.additions]
    granted = grant(client, batch, lines, config.blocked, config.key, upcoming, config.parallel_calls)
    session.report_failures(granted.failures, "keeping workers out")
    with session.progress("topping up", config) as show:
        failures = top_up.top_up(client, batch, plan.additions, plan.digest, now, show, config.parallel_calls)
    session.report_failures(failures, "topping up")
    table = session.finish(batch, lines, config.key)
    if config.dry_run:
        print("dry run: nothing was sent, nothing is kept")
    elif not config.quiet:
        print(table())
    if not (config.dry_run or failures):
        logging.info("next: parapet mturk collect --batch %s", config.batch)
    return EXIT_FAILURE if failures or granted.failures or plan.unknown else 0


def run(argv: Sequence[str] | None = None) -> int:
    """Runs ``parapet mturk topup``. Returns the exit status."""
    return run_checked(parser(), argv, check, act, session.STOPPED)
