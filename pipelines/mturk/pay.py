"""``parapet mturk pay``, ``site-csv`` and ``status``."""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from decimal import Decimal
from functools import partial

import msgspec

from parapet.pipelines.command import EXIT_FAILURE, counted, say
from parapet.pipelines.mturk import Act, Pay, SiteCsv, Status
from parapet.pipelines.mturk.session import Session, report
from parapet.schemas.decisions import Record
from parapet.schemas.errors import InputError
from parapet.transforms.crowd.hits.terms import fee_for, up_to_cent
from parapet.transforms.crowd.mturk import collect as collecting
from parapet.transforms.crowd.mturk import pay as paying
from parapet.transforms.crowd.mturk.batch import Batch, Failures, Line
from parapet.transforms.crowd.mturk.client import environment_of
from parapet.transforms.crowd.mturk.pay import Audited, Bonus
from parapet.transforms.crowd.mturk.status import ledger_rows, status_of
from parapet.transforms.storage import disk


def pay(action: Pay) -> Act:
    """Reads the audit or the bonuses. Raises InputError if they cannot be used."""
    session = Session(action)
    if not (action.audit or action.all or action.bonuses):
        raise InputError("one of --audit DIR, --all and --bonuses FILE is required")
    if (action.reject or action.rejections) and not action.audit:
        raise InputError("rejections require the audit that they are based on: add --audit DIR")
    lines = _lines_of(session.look())
    audit, feedback = _decide(action) if action.audit else (None, {})
    bonuses = paying.read_bonuses(action.bonuses, lines) if action.bonuses else {}
    return partial(_pay, session, audit, feedback, action.all, bonuses, lines)


def _lines_of(batch: Batch) -> dict[str, Line]:
    """Returns assignment id to line, without assignments of other batches, which somebody may have added."""
    hits = batch.hits()
    return {line["AssignmentId"]: line for line in collecting.load(batch.folder) if line["HITId"] in hits}


def _decide(action: Pay | SiteCsv) -> tuple[dict[str, Audited], dict[str, str]]:
    audit = paying.read_audit(action.audit)
    rejections = paying.read_rejections(action.rejections, audit) if action.rejections else {}
    return audit, paying.decide(audit, action.reject, rejections)


def _pay(
    session: Session,
    audit: Mapping[str, Audited] | None,
    feedback: Mapping[str, str],
    is_for_all: bool,
    bonuses: Mapping[str, Bonus],
    lines_before: Mapping[str, Line],
) -> int:
    with session.open() as batch:
        if not session.dry_run:
            session.calls("collecting", collecting.collect, batch)
        hits, lines = batch.hits(), _lines_of(batch)
        # What compose says about another submission with the same id says nothing about this one.
        judged = audit or {}
        known = {each for each, line in lines.items() if each in judged and judged[each].is_about(line, session.key)}
        if audit is not None and not is_for_all and len(known) < len(lines):
            unknown = counted(len(lines) - len(known), "assignment")
            advice = f"compose again from {batch.folder / collecting.FILE}, or add --all"
            logging.warning("%s not in the audit, left unchanged: %s", unknown, advice)
        decisions = {each: feedback[each] if each in known else "" for each in lines if is_for_all or each in known}
        late = [each for each in decisions if decisions[each] and lines[each]["AssignmentStatus"] == "Approved"]
        if late:
            logging.warning("too late to reject, because they are approved already: %s", ", ".join(late))
        decisions = paying.unpaid(batch, decisions, lines)
        due = {each: bonus for each, bonus in bonuses.items() if f"bonus:{each}" not in batch.journal.done}
        for_bonuses = up_to_cent(sum((bonus.amount + fee_for(bonus.amount, 1) for bonus in due.values()), Decimal(0)))
        approved = [hits[lines[each]["HITId"]] for each in decisions if not decisions[each]]
        rewards = up_to_cent(sum((hit.reward + hit.fee for hit in approved), Decimal(0)))
        session.announce(
            f"{counted(len(approved), 'assignment')} to approve (${rewards:,.2f} with fees), "
            f"{len(decisions) - len(approved):,} to reject, "
            f"{counted(len(due), 'bonus', 'bonuses')} to send (${for_bonuses:,.2f})"
        )
        for each, text in decisions.items():
            if text:
                session.announce(f"  reject {each}: {text}")
        failures: Failures = {}
        if decisions or due:
            session.agree(batch, rewards + for_bonuses, held=for_bonuses)
            failures |= session.calls("paying", paying.pay, batch, decisions, lines)
            # To the worker whose work was read: MTurk refuses if the id is another worker's by now.
            failures |= session.calls("sending bonuses", paying.send_bonuses, batch, due, lines_before)
        failures |= paying.different_bonuses(batch, bonuses)
        report(failures, "paying")
        verdicts = Counter(bool(text) for each, text in decisions.items() if f"pay:{each}" not in failures)
        sent = sum(f"bonus:{each}" not in failures for each in due)
        summary = f"{verdicts[False]:,} approved, {verdicts[True]:,} rejected, {counted(sent, 'bonus', 'bonuses')} sent"
        session.finish(batch, list(lines.values()), summary)
        return EXIT_FAILURE if failures else 0


def site_csv(action: SiteCsv) -> Act:
    """Reads the results and the audit. Raises InputError if they cannot be used."""
    _, decisions = _decide(action)
    return partial(_site_csv, action, *paying.fill_in(action.results, decisions))


def _site_csv(action: SiteCsv, data: bytes, counts: Counter[str], broken: Sequence[Record]) -> int:
    disk.write(action.output, data, private=True)
    for record in broken:
        logging.error("%s: row %d: left out: %s", action.results, record.number, record.problem)
    if counts["unknown"]:
        unknown = counted(counts["unknown"], "assignment")
        logging.warning("%s not in the audit, neither approved nor rejected: compose again with this file", unknown)
    say(
        f"{action.output}: {counts['approved']:,} to approve, {counts['rejected']:,} to reject, "
        f"{counts['settled']:,} approved or rejected already, {counts['unknown']:,} without a decision"
    )
    return EXIT_FAILURE if broken else 0


def status(action: Status) -> Act:
    """Opens the batch. Raises InputError if it does not exist."""
    session = Session(action)
    Batch(action.batch, writable=False)
    return partial(_status, session, action.json)


def _status(session: Session, as_json: bool) -> int:
    batch = Batch(session.folder, writable=False)
    batch.key = session.key
    lines = collecting.load(batch.folder)
    if as_json:
        now = status_of(batch, lines, ledger_rows(batch, lines))
        print(json.dumps(msgspec.to_builtins(now), indent=2))
        return 0
    collected_at = batch.journal.done.get("collected", {}).get("at", "never")
    session.finish(batch, lines, f"{environment_of(batch.endpoint)}, collected {collected_at}", print)
    return 0
