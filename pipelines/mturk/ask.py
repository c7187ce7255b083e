"""``parapet mturk publish``, ``topup``, ``collect`` and ``stop``."""

from __future__ import annotations

import argparse
import logging
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from functools import partial
from typing import Any

from parapet.pipelines.command import EXIT_FAILURE, counted
from parapet.pipelines.mturk.session import Session, read_session, report_failures
from parapet.schemas.errors import InputError
from parapet.transforms.crowd.hits.plan import read_shortfall
from parapet.transforms.crowd.mturk import collect as collecting
from parapet.transforms.crowd.mturk import publish as publishing
from parapet.transforms.crowd.mturk.batch import Batch, Settings, begin, where
from parapet.transforms.crowd.mturk.client import endpoint_of
from parapet.transforms.crowd.mturk.collect import Line, load
from parapet.transforms.crowd.mturk.publish import Hit, adopt, cost_of
from parapet.transforms.crowd.mturk.qualifications import make_types

Act = Callable[[], int]

# The commands that read answers to tasks other than those on schemas.
_READERS = {
    "rewrites": "compose_variations",
    "ratings": "evaluate --task ratings",
}


def publish(args: argparse.Namespace) -> Act:
    """Reads the pages and settings. Raises InputError if they cannot be used."""
    session = read_session(args)
    endpoint = endpoint_of(args.production, args.endpoint_url)
    settings: dict[str, Any] = {}
    for name in Settings.__struct_fields__:
        if (value := getattr(args, name)) is not None:
            settings[name] = tuple(dict.fromkeys(value)) if isinstance(value, list) else value
    if args.countries is not None:
        countries = _listed(args.countries)
        if not countries:
            raise InputError("must be a country code such as US, or 'any'", "--countries")
        settings["countries"] = () if countries == ["any"] else tuple(countries)
    Settings(**settings)
    pages = publishing.read_hits(args.hits, endpoint)
    if args.tasks:
        tasks, available = _listed(args.tasks), {hit.record.task for hit in pages}
        if missing := set(tasks) - available:
            reason = f"the folder has no {', '.join(sorted(missing))}; it has {', '.join(sorted(available))}"
            raise InputError(reason, "--tasks")
        pages = [hit for hit in pages if hit.record.task in tasks]
    start = partial(begin, endpoint=endpoint, given=settings)
    return partial(_publish, session, pages, start)


def _listed(text: str) -> list[str]:
    return [each.strip() for each in text.split(",") if each.strip()]


def _publish(session: Session, pages: list[Hit], start: Callable[[str], bool]) -> int:
    fresh = True

    def prepare(folder: str) -> None:
        nonlocal fresh
        fresh = start(folder)

    with session.open(prepare) as batch:
        lines = load(batch.folder)
        if not session.dry_run:
            if not fresh:
                adopt(batch, pages)
            if batch.hits():
                # Workers who have just done a task must not see its sibling.
                collecting.collect(batch)
                lines = load(batch.folder)
        waiting = publishing.unpublished(batch, pages)
        assignments = counted(sum(hit.record.assignments for hit in waiting), "assignment")
        before = len(pages) - len(waiting)
        session.announce(
            f"{counted(len(waiting), 'HIT')} to publish {where(batch.environment)}, {assignments}: "
            f"${cost_of(waiting):,.2f} with fees" + (f"; {before:,} are published already" if before else "")
        )
        return _publish_round(session, batch, pages, waiting, 0, lines)


def _publish_round(
    session: Session, batch: Batch, pages: Sequence[Hit], waiting: Sequence[Hit], round_: int, lines: Sequence[Line]
) -> int:
    """Creates HIT types, grants qualifications, creates HITs, and prints a summary."""
    session.agree(batch, cost_of(waiting))
    types = make_types(batch, publishing.type_names(pages, round_))
    # Before the HITs exist, so that excluded workers do not see them even for a minute.
    _, not_kept_out = session.keep_out(batch, lines, [(hit.record.task_id, round_) for hit in pages])
    with session.progress("publishing") as show:
        failures = publishing.publish(batch, waiting, types, round_, show)
    report_failures(failures, "publishing")
    before = len(pages) - len(waiting)
    published = counted(len(waiting) - len(failures), "HIT") + " published"
    session.finish(batch, lines, published + (f", {before:,} were published already\n" if before else "\n"))
    return _end(session, "collect", failures, not_kept_out)


def _end(session: Session, following: str, failures: Sequence[object], others: Sequence[object]) -> int:
    """Prints the next command; returns the exit status."""
    if not (session.dry_run or failures):
        logging.info("next: parapet mturk %s --batch %s", following, session.folder)
    return EXIT_FAILURE if failures or others else 0


def topup(args: argparse.Namespace) -> Act:
    """Reads the shortfall or the pages. Raises InputError if they cannot be used."""
    session = read_session(args)
    if bool(args.shortfall) == bool(args.hits):
        raise InputError("either --shortfall FILE or --hits DIR is required")
    batch = session.look()
    if not args.hits:
        lacks, digest = read_shortfall(args.shortfall), publishing.shortfall_digest(args.shortfall)
        return partial(_top_up, session, partial(_more_workers, args.shortfall, digest, lacks))
    pages = publishing.read_hits(args.hits, batch.endpoint, top_up=True)
    if new := {hit.record.task_id for hit in pages} - {hit.task_id for hit in batch.hits().values()}:
        reason = f"the batch has no HIT of {min(new)}: use 'parapet mturk publish' for new tasks"
        raise InputError(reason, args.hits)
    return partial(_top_up, session, partial(_new_hits, pages))


def _top_up(session: Session, ask: Callable[[Session, Batch, list[Line]], int]) -> int:
    with session.open() as batch:
        if not session.dry_run:
            # The finished assignments decide which workers are excluded and how many places are open.
            publishing.look_up(batch)
            adopt(batch, [])  # updates the sizes of HITs that another copy of the journal has topped up
            with session.progress("collecting") as show:
                collecting.collect(batch, show)
        return ask(session, batch, load(batch.folder))


def _new_hits(pages: list[Hit], session: Session, batch: Batch, lines: list[Line]) -> int:
    round_ = publishing.round_of(batch, pages)
    if not session.dry_run:
        adopt(batch, pages, round_)
    waiting = publishing.unpublished(batch, pages, round_)
    cost = cost_of(waiting)
    session.announce(f"top-up {round_}: {counted(len(waiting), 'HIT')} to publish: ${cost:,.2f} with fees")
    return _publish_round(session, batch, pages, waiting, round_, lines)


def _more_workers(
    shortfall: str,
    digest: str,
    lacks: Mapping[tuple[str, str], int],
    session: Session,
    batch: Batch,
    lines: list[Line],
) -> int:
    now = datetime.now(UTC)
    submitted = Counter(line["HITId"] for line in lines)
    additions, full, unknown = publishing.plan_top_up(batch, digest, lacks, submitted, now)
    cost = sum((each.cost for each in additions), Decimal(0))
    workers, reopened = sum(each.workers for each in additions), sum(each.reopen for each in additions)
    session.announce(
        f"{counted(workers, 'more assignment')} on {counted(len(additions), 'HIT')}: ${cost:,.2f} with fees"
        + (f"; {reopened:,} offered again" if reopened else "")
    )
    if full:
        logging.warning(
            "%s cannot get all the workers needed, because a HIT takes at most nine: make new HITs with "
            "'parapet hits --shortfall %s' and publish them with --hits: %s",
            counted(len(full), "task"),
            shortfall,
            ", ".join(full[:10]),
        )
    for task_id in unknown[:10]:
        logging.warning("this batch has no HIT of %s, which needs more answers", task_id)
    if not additions:
        done = any(key.startswith(f"add:{digest}:") for key in batch.journal.done)
        again = ": HITs were topped up for this shortfall already; collect and compose again" if done else ""
        session.announce(f"nothing to do{again}")
        session.finish(batch, lines, "")
        return EXIT_FAILURE if full or unknown else 0
    session.agree(batch, cost)
    _, not_kept_out = session.keep_out(batch, lines, [(each.hit.task_id, 0) for each in additions])
    with session.progress("topping up") as show:
        failures = publishing.top_up(batch, additions, digest, now, show)
    report_failures(failures, "topping up")
    session.finish(batch, lines, "")
    return _end(session, "collect", failures, [*not_kept_out, *unknown])


def collect(args: argparse.Namespace) -> Act:
    """Checks the flags. Raises InputError if a flag or file cannot be used."""
    session = read_session(args)
    Batch(args.batch, writable=False)
    return partial(_collect, session)


def _collect(session: Session) -> int:
    with session.open() as batch:
        with session.progress("collecting") as show:
            collected = collecting.collect(batch, show)
        lines = load(batch.folder)
        counts, not_kept_out = session.keep_out(batch, lines)
        tasks = {hit_id: hit.task_id for hit_id, hit in batch.hits().items()}
        for hit_id in collected.gone:
            logging.warning("%s: MTurk no longer has this HIT of %s", hit_id, tasks[hit_id])
        granted = ", ".join(f"{why} {n:,}" for why, n in sorted(counts.items()))
        summary = f"{counted(collected.new, 'new assignment')}, {collected.changed:,} with another status, "
        summary += f"{len(lines):,} in all" + (f"; qualifications granted: {granted}" if granted else "")
        session.finish(batch, lines, summary + "\n")
        kinds = sorted({task_id.rpartition(":")[2] for task_id in tasks.values()})
        command = next((_READERS[kind] for kind in kinds if kind in _READERS), "compose")
        logging.info("next: parapet %s --responses %s ...", command, batch.folder / collecting.FILE)
        return EXIT_FAILURE if not_kept_out else 0


def stop(args: argparse.Namespace) -> Act:
    """Opens the batch. Raises InputError if it does not exist."""
    session = read_session(args)
    Batch(args.batch, writable=False)
    return partial(_stop, session)


def _stop(session: Session) -> int:
    now = datetime.now(UTC)
    with session.open() as batch:
        lines = load(batch.folder)
        hit_ids = publishing.open_hits(batch, Counter(line["HITId"] for line in lines), now)
        with session.progress("stopping") as show:
            failures = publishing.stop(batch, hit_ids, now, show)
        report_failures(failures, "stopping")
        summary = f"{counted(len(hit_ids) - len(failures), 'HIT')} withdrawn\n"
        session.finish(batch, lines, summary, warn=False)
        return EXIT_FAILURE if failures else 0
