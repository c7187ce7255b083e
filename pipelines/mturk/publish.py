"""``parapet mturk publish``."""

from __future__ import annotations

import argparse
import logging
import tempfile
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from parapet.pipelines.command import EXIT_FAILURE, counted, run_checked
from parapet.pipelines.flags import StrictParser
from parapet.pipelines.mturk import session

if TYPE_CHECKING:
    from parapet.transforms.mturk import collected
    from parapet.transforms.mturk.batch import Batch
    from parapet.transforms.mturk.hits_folder import Hit

DESCRIPTION = """\
Publishes the HITs of a 'hits' folder, each once: run it again after whatever went wrong. Shows the cost and checks the
balance first. Who may work on them is fixed by the first run of a batch: later ones and top-ups keep to it."""

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
    """

    endpoint: str
    settings: dict[str, object]
    pages: list[Hit]
    blocked: list[str]


def parser() -> StrictParser:
    """The command line."""
    flags = StrictParser("mturk publish", DESCRIPTION, EXAMPLE)
    flags.add_argument("--hits", required=True, metavar="DIR", help="folder that 'parapet hits' made")
    session.add_batch(flags)
    flags.add_argument("--tasks", metavar="LIST", help="only these, such as names; the others may follow later")
    flags.add_argument(
        "--allow_extra_fee",
        action="store_true",
        help="allow HITs with ten or more assignments, for which MTurk charges more",
    )
    flags.add_argument(
        "--endpoint_url",
        metavar="URL",
        help="where to, such as a local server (default AWS_ENDPOINT_URL_MTURK, else MTurk's sandbox)",
    )
    session.add_block_list(flags)
    session.add_network(flags)
    session.add_spending(flags)
    who = flags.add_argument_group("who may work on them")
    who.add_argument("--countries", metavar="LIST", help="countries of workers, such as US,CA; or 'any' (default US)")
    who.add_argument("--min_approval", type=int, metavar="PERCENT", help="of their assignments approved (default 90)")
    who.add_argument("--min_approved", type=int, metavar="N", help="assignments approved at least (default any)")
    who.add_argument("--masters", action="store_true", default=None, help="only MTurk's Masters")
    who.add_argument(
        "--require_qualification", dest="required", action="append", metavar="ID", help="one that workers must have"
    )
    who.add_argument(
        "--exclude_qualification", dest="excluded", action="append", metavar="ID", help="one that they must not have"
    )
    who.add_argument(
        "--max_per_worker", type=int, metavar="N", help="assignments of this batch that one worker may do (default any)"
    )
    return flags


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
    return Config(**shared, endpoint=endpoint, settings=settings, pages=pages, blocked=blocked)


def act(config: Config) -> int:
    """Publishes."""
    from parapet.transforms.mturk import batch as batches

    if not config.dry_run:
        batches.begin(config.batch, config.endpoint, config.settings)
        return _publish(config, config.batch)
    with tempfile.TemporaryDirectory() as copy:
        session.copy_batch(config.batch, copy)
        batches.begin(copy, config.endpoint, config.settings)
        return _publish(config, copy)


def _publish(config: Config, folder: str) -> int:
    from parapet.transforms.mturk import collected
    from parapet.transforms.mturk.collect import collect
    from parapet.transforms.mturk.publish import adopt, cost_of, unpublished

    with session.open_batch(folder) as batch:
        lines = collected.load(batch.folder)
        client = session.client_for(batch, config, lines)
        if not config.dry_run:
            adopt(client, batch, config.pages)
            if batch.hits():
                # Those who have just done a task must not be shown its sibling.
                collect(client, batch, config.parallel_calls)
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
