"""``parapet mturk publish``, ``topup``, ``collect`` and ``stop``."""

from __future__ import annotations

import argparse
import logging
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from functools import partial
from typing import Any

from parapet.pipelines.command import EXIT_FAILURE, counted
from parapet.pipelines.mturk.session import Session, read_session, report
from parapet.schemas.errors import InputError
from parapet.transforms.crowd.mturk import collect as collecting
from parapet.transforms.crowd.mturk import publish as publishing
from parapet.transforms.crowd.mturk.batch import Batch, Settings, begin
from parapet.transforms.crowd.mturk.client import endpoint_of, where
from parapet.transforms.crowd.mturk.publish import Hit
from parapet.transforms.crowd.mturk.qualifications import find_types, make_types, type_names

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
        countries = _split(args.countries)
        settings["countries"] = () if countries == ["any"] else tuple(countries)
    Settings(**settings)
    hits = publishing.read_hits(args.hits, endpoint)
    if args.tasks:
        tasks, available = _split(args.tasks), {hit.record.task for hit in hits}
        if missing := set(tasks) - available:
            reason = f"the folder has no {', '.join(sorted(missing))}; it has {', '.join(sorted(available))}"
            raise InputError(reason, "--tasks")
        hits = [hit for hit in hits if hit.record.task in tasks]
    return partial(_publish, session, hits, partial(begin, endpoint=endpoint, chosen=settings))


def _split(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()] or [""]


def topup(args: argparse.Namespace) -> Act:
    """Reads the pages. Raises InputError if they cannot be used."""
    session = read_session(args)
    hits = publishing.read_top_up(args.hits, session.look().endpoint, args.shortfall)
    return partial(_publish, session, hits)


def _publish(session: Session, hits: list[Hit], begin: Callable[[str], None] | None = None) -> int:
    """Publishes what is not published yet; shows the cost first."""
    with session.open(begin) as batch:
        names = type_names((hit.record.task_id for hit in hits), hits[0].round)
        if not session.dry_run:
            find_types(batch, names)
            publishing.adopt(batch, hits)
            if batch.hits():
                # Workers who have just done a task must not see its sibling, or the task again.
                with session.progress("collecting") as show:
                    collecting.collect(batch, show)
        lines = collecting.load(batch.folder)
        waiting = publishing.unpublished(batch, hits)
        assignments = counted(sum(hit.record.assignments for hit in waiting), "assignment")
        cost = sum((hit.cost for hit in waiting), Decimal(0))
        before = f"; {len(hits) - len(waiting):,} are published already" if len(waiting) < len(hits) else ""
        place = where(batch.endpoint)
        session.announce(
            f"{counted(len(waiting), 'HIT')} to publish {place}, {assignments}: ${cost:,.2f} with fees{before}"
        )
        places = publishing.open_places(batch, lines, datetime.now(UTC)).values()
        if hits[0].round and places:
            logging.warning("earlier HITs still have %s that may be taken", counted(sum(places), "open place"))
        session.agree(batch, cost)
        make_types(batch, names)
        # Before the HITs exist, so that excluded workers do not see them even for a minute.
        _, not_kept_out = session.keep_out(batch, lines, [(hit.record.task_id, hit.round) for hit in hits])
        with session.progress("publishing") as show:
            failures = publishing.publish(batch, waiting, show)
        report(failures, "publishing")
        session.finish(batch, lines, f"{counted(len(waiting) - len(failures), 'HIT')} published")
        if not (session.dry_run or failures):
            logging.info("next: parapet mturk collect --batch %s", session.folder)
        return EXIT_FAILURE if failures or not_kept_out else 0


def collect(args: argparse.Namespace) -> Act:
    """Checks the flags. Raises InputError if a flag or file cannot be used."""
    session = read_session(args)
    Batch(args.batch, writable=False)
    return partial(_collect, session)


def _collect(session: Session) -> int:
    with session.open() as batch:
        before = {line["AssignmentId"]: line["AssignmentStatus"] for line in collecting.load(batch.folder)}
        with session.progress("collecting") as show:
            lines = collecting.collect(batch, show)
        counts, not_kept_out = session.keep_out(batch, lines)
        changed = sum(before.get(line["AssignmentId"]) not in (None, line["AssignmentStatus"]) for line in lines)
        summary = f"{counted(len(lines) - len(before), 'new assignment')}, {changed:,} with another status, "
        summary += f"{len(lines):,} in all"
        if counts:
            granted = ", ".join(f"{why} {n:,}" for why, n in sorted(counts.items()))
            summary += f"; qualifications granted: {granted}"
        session.finish(batch, lines, summary)
        kinds = {hit.task_id.rpartition(":")[2] for hit in batch.hits().values()}
        command = next((_READERS[kind] for kind in sorted(kinds) if kind in _READERS), "compose")
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
        lines = collecting.load(batch.folder)
        hit_ids = publishing.open_places(batch, lines, now)
        with session.progress("stopping") as show:
            failures = publishing.stop(batch, hit_ids, now, show)
        report(failures, "stopping")
        session.finish(batch, lines, f"{counted(len(hit_ids) - len(failures), 'HIT')} withdrawn")
        return EXIT_FAILURE if failures else 0
