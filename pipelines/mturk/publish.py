"""``parapet mturk publish``."""

from __future__ import annotations

import argparse
import logging
import tempfile
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from parapet.pipelines.command import EXIT_FAILURE, counted, run_checked
from parapet.pipelines.flags import INPUT, RUNNING, StrictParser
from parapet.pipelines.mturk import session

if TYPE_CHECKING:
    from parapet.transforms.mturk import collected
    from parapet.transforms.mturk.batch import Batch
    from parapet.transforms.mturk.hits_folder import Hit

DESCRIPTION = """\
Publishes the HITs of a 'parapet hits' folder. Shows the cost and checks the balance first. Each HIT is published once:
after an error, run the same command again. The first run of a batch decides which workers may do it."""

EXAMPLE = """\
  parapet mturk publish --hits my_hits --batch my_batch --dry_run
  parapet mturk publish --hits my_hits --batch my_batch --countries US,CA --max_per_worker 10
  parapet mturk publish --hits my_hits --batch my_batch --tasks names       # names first; publish descriptions later
  parapet mturk publish --hits my_hits --batch my_batch --production        # real money"""

_SETTINGS = ("countries", "min_approval", "min_approved", "masters", "required", "excluded", "max_per_worker")


class Config(session.Config, frozen=True, kw_only=True):
    """What is published, and to whom.

    Attributes:
      endpoint: where to.
      settings: who may work on the HITs, as far as flags say it.
      pages: the HITs.
      blocked: worker ids.
      recover: whether a lost journal is begun again.
    """

    endpoint: str
    settings: dict[str, object]
    pages: list[Hit]
    blocked: list[str]
    recover: bool


def parser() -> StrictParser:
    """The command line."""
    parser = StrictParser("mturk publish", DESCRIPTION, EXAMPLE)
    add = parser.group(INPUT)
    add("--hits", required=True, metavar="DIR", reads=True, help="output of 'parapet hits'")
    session.add_batch(parser)
    add("--tasks", metavar="LIST", help="tasks to publish, such as names (default: all); the others may follow")
    add = parser.group("workers")
    add("--countries", metavar="LIST", help="countries, such as US,CA; or 'any' (default: US)")
    add("--min_approval", type=int, metavar="PERCENT", help="minimum share of approved assignments (default: 90)")
    add("--min_approved", type=int, metavar="N", help="minimum number of approved assignments (default: any)")
    add("--max_per_worker", type=int, metavar="N", help="assignments that one worker may do (default: any)")
    add("--masters", rare=True, action="store_true", default=None, help="only MTurk's Masters")
    for flag, dest, text in (("require", "required", "must"), ("exclude", "excluded", "must not")):
        text = f"id of a qualification that workers {text} have; may be repeated"
        add(f"--{flag}_qualification", rare=True, dest=dest, action="append", metavar="ID", help=text)
    session.add_block_list(parser)
    session.add_spending(parser)
    add = parser.group(RUNNING)
    text = "allow HITs with ten or more assignments, for which the fee is higher"
    add("--allow_extra_fee", rare=True, action="store_true", help=text)
    text = "begin a lost journal again from batch.json, and look at MTurk for the HITs that are out"
    add("--recover", rare=True, action="store_true", help=text)
    text = "address of MTurk (default: AWS_ENDPOINT_URL_MTURK, else MTurk's sandbox)"
    add("--endpoint_url", rare=True, metavar="URL", help=text)
    session.add_network(parser)
    return parser


def check(args: argparse.Namespace) -> Config:
    """Reads everything that is needed. Raises InputError where it cannot be used."""
    from parapet.schemas.errors import InputError
    from parapet.transforms.mturk.batch import Settings
    from parapet.transforms.mturk.client import endpoint_of
    from parapet.transforms.mturk.grants import read_block_list
    from parapet.transforms.mturk.hits_folder import read_hits

    shared = session.shared(args)
    endpoint = endpoint_of(args.production, args.endpoint_url)
    given = {name: value for name in _SETTINGS if (value := getattr(args, name)) is not None}
    if "countries" in given:
        countries = [each.strip() for each in given["countries"].split(",") if each.strip()]
        if not countries:
            raise InputError("a country such as US, or 'any'", "--countries")
        given["countries"] = () if countries == ["any"] else tuple(countries)
    settings: dict[str, Any] = {
        name: tuple(dict.fromkeys(value)) if isinstance(value, list) else value for name, value in given.items()
    }
    Settings(**settings)
    pages = read_hits(args.hits, endpoint, args.allow_extra_fee)
    if args.tasks:
        tasks = {each.strip() for each in args.tasks.split(",")}
        there = {hit.record.task for hit in pages}
        if tasks - there:
            reason = f"the folder has no {', '.join(sorted(tasks - there))}; it has {', '.join(sorted(there))}"
            raise InputError(reason, "--tasks")
        pages = [hit for hit in pages if hit.record.task in tasks]
    blocked = read_block_list(args.block_list) if args.block_list else []
    return Config(**shared, endpoint=endpoint, settings=settings, pages=pages, blocked=blocked, recover=args.recover)


def act(config: Config) -> int:
    """Publishes."""
    from parapet.transforms.mturk import batch as batches

    if not config.dry_run:
        fresh = batches.begin(config.batch, config.endpoint, config.settings, config.recover)
        return _publish(config, config.batch, fresh)
    with tempfile.TemporaryDirectory() as copy:
        session.copy_batch(config.batch, copy)
        batches.begin(copy, config.endpoint, config.settings)
        return _publish(config, copy, fresh=True)


def _publish(config: Config, folder: str, fresh: bool) -> int:
    from parapet.transforms.mturk import collected
    from parapet.transforms.mturk.collect import collect
    from parapet.transforms.mturk.publish import adopt, cost_of, unpublished

    with session.open_batch(folder) as batch:
        lines = collected.load(batch.folder)
        client = session.client_for(batch, config, lines)
        if not config.dry_run:
            if not fresh:
                adopt(client, batch, config.pages)
            if batch.hits():
                # Those who have just done a task must not be shown its sibling.
                collect(client, batch, config.parallel_calls).require_all()
                lines = collected.load(batch.folder)
        waiting = unpublished(batch, config.pages)
        cost = cost_of(waiting)
        assignments = sum(hit.record.assignments for hit in waiting)
        before = len(config.pages) - len(waiting)
        session.announce(
            config,
            f"{counted(len(waiting), 'HIT')} to publish {session.where(batch.environment)}, "
            f"{counted(assignments, 'assignment')}: ${cost:,.2f} with fees"
            + (f"; {before:,} are out already" if before else ""),
        )
        if not config.dry_run:
            session.check_funds(client, cost)
            session.agree(config, cost, batch.environment)
        return publish_round(config, batch, client, config.pages, 0, lines, config.blocked)


def publish_round(
    config: session.Config,
    batch: Batch,
    client: Any,
    pages: Sequence[Hit],
    round_: int,
    lines: Sequence[collected.Line],
    blocked: Sequence[str],
) -> int:
    """Types, grants, HITs; says what was done."""
    from parapet.transforms.mturk.grants import grant
    from parapet.transforms.mturk.publish import publish, type_names
    from parapet.transforms.mturk.qualifications import make_types

    types = make_types(client, batch, type_names(pages, round_), config.parallel_calls)
    # Before the HITs: who may not do them must not see them for a minute.
    upcoming = [(hit.record.task_id, round_) for hit in pages]
    granted = grant(client, batch, lines, blocked, config.key, upcoming, config.parallel_calls)
    session.report_failures(granted.failures, "keeping workers out")
    with session.progress("publishing", config) as show:
        made = publish(client, batch, pages, types, round_, config.parallel_calls, show)
    session.report_failures(made.failures, "publishing")
    if config.dry_run:
        print("dry run: nothing was sent, nothing is kept")
        return 0
    table = session.finish(batch, lines, config.key)
    if not config.quiet:
        print(f"{counted(made.made, 'HIT')} published" + (f", {made.before:,} were out already" if made.before else ""))
        print(table())
    if not made.failures:
        logging.info("next: parapet mturk collect --batch %s", config.batch)
    return EXIT_FAILURE if made.failures or granted.failures else 0


def run(argv: Sequence[str] | None = None) -> int:
    """Runs ``parapet mturk publish``. Returns the exit status."""
    return run_checked(parser(), argv, check, act, session.STOPPED)
