"""``parapet mturk publish``, ``topup``, ``collect`` and ``stop``."""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from functools import partial
from typing import Any

from parapet.pipelines.command import EXIT_FAILURE, counted
from parapet.pipelines.mturk import Act, Collect, Publish, Stop, Topup
from parapet.pipelines.mturk.session import Session, report
from parapet.schemas.errors import InputError
from parapet.transforms.crowd.mturk import collect as collecting
from parapet.transforms.crowd.mturk import publish as publishing
from parapet.transforms.crowd.mturk.batch import Batch, Settings, begin
from parapet.transforms.crowd.mturk.client import endpoint_of, where
from parapet.transforms.crowd.mturk.publish import Hit
from parapet.transforms.crowd.mturk.qualifications import find_types, make_types, type_names

# The commands that read answers to tasks other than those on schemas.
_READERS = {
    "rewrites": "compose_variations",
    "ratings": "evaluate --task ratings",
}


def publish(action: Publish) -> Act:
    """Reads the pages and settings. Raises InputError if they cannot be used."""
    session = Session(action)
    endpoint = endpoint_of(action.production, action.endpoint_url)
    countries = None if action.countries is None else tuple(_split(action.countries))
    options = {
        "countries": () if countries == ("any",) else countries,
        "min_approval": action.min_approval,
        "min_approved": action.min_approved,
        "required": tuple(dict.fromkeys(action.require_qualification)) or None,
        "excluded": tuple(dict.fromkeys(action.exclude_qualification)) or None,
        "max_per_worker": action.max_per_worker,
    }
    chosen: dict[str, Any] = {name: value for name, value in options.items() if value is not None}
    Settings(**chosen)
    hits = publishing.read_hits(action.hits, endpoint)
    if action.tasks:
        tasks, available = _split(action.tasks), {hit.record.task for hit in hits}
        if missing := set(tasks) - available:
            reason = f"the folder has no {', '.join(sorted(missing))}; it has {', '.join(sorted(available))}"
            raise InputError(reason, "--tasks")
        hits = [hit for hit in hits if hit.record.task in tasks]
    return partial(_publish, session, hits, partial(begin, endpoint=endpoint, chosen=chosen))


def _split(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()] or [""]


def topup(action: Topup) -> Act:
    """Reads the pages. Raises InputError if they cannot be used."""
    session = Session(action)
    hits = publishing.read_top_up(action.hits, session.look().endpoint, action.shortfall)
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
                session.calls("collecting", collecting.collect, batch)
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
        failures = session.calls("publishing", publishing.publish, batch, waiting)
        report(failures, "publishing")
        session.finish(batch, lines, f"{counted(len(waiting) - len(failures), 'HIT')} published")
        if not (session.dry_run or failures):
            logging.info("next: parapet mturk collect --batch %s", session.folder)
        return EXIT_FAILURE if failures or not_kept_out else 0


def collect(action: Collect) -> Act:
    """Checks the flags. Raises InputError if a flag or file cannot be used."""
    session = Session(action)
    Batch(action.batch, writable=False)
    return partial(_collect, session)


def _collect(session: Session) -> int:
    with session.open() as batch:
        before = {line["AssignmentId"]: line["AssignmentStatus"] for line in collecting.load(batch.folder)}
        lines = session.calls("collecting", collecting.collect, batch)
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


def stop(action: Stop) -> Act:
    """Opens the batch. Raises InputError if it does not exist."""
    session = Session(action)
    Batch(action.batch, writable=False)
    return partial(_stop, session)


def _stop(session: Session) -> int:
    now = datetime.now(UTC)
    with session.open() as batch:
        lines = collecting.load(batch.folder)
        hit_ids = publishing.open_places(batch, lines, now)
        failures = session.calls("stopping", publishing.stop, batch, hit_ids, now)
        report(failures, "stopping")
        session.finish(batch, lines, f"{counted(len(hit_ids) - len(failures), 'HIT')} withdrawn")
        return EXIT_FAILURE if failures else 0
