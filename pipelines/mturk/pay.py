"""``parapet mturk pay``, ``site-csv`` and ``status``."""

from __future__ import annotations

import argparse
import json
import logging
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from functools import partial
from pathlib import Path

import msgspec

from parapet.pipelines.command import EXIT_FAILURE, counted, say
from parapet.pipelines.mturk.session import Session, many, read_session, report_failures, report_left
from parapet.schemas.errors import InputError
from parapet.transforms.crowd.hits.terms import up_to_cent
from parapet.transforms.crowd.mturk import pay as paying
from parapet.transforms.crowd.mturk.batch import Batch, write_whole
from parapet.transforms.crowd.mturk.collect import FILE, Line, load
from parapet.transforms.crowd.mturk.pay import Bonus, Judged, Payment, Reviewed, Settled
from parapet.transforms.crowd.mturk.status import bonus_fee, ledger_rows, status_of

Act = Callable[[], int]

_SHOWN = 20


def pay(args: argparse.Namespace) -> Act:
    """Reads the audit or the bonuses. Raises InputError if they cannot be used."""
    session = read_session(args)
    if not (args.audit or args.all or args.bonuses):
        raise InputError("one of --audit DIR, --all and --bonuses FILE is required")
    if (args.reject or args.rejections) and not args.audit:
        raise InputError("rejections require the audit that they are based on: add --audit DIR")
    batch = session.look()
    hits, every = batch.hits(), load(batch.folder)
    lines = {line["AssignmentId"]: line for line in every if line["HITId"] in hits}
    if len(lines) < len(every):
        strange = counted(len(every) - len(lines), "assignment")
        logging.warning("%s in %s, which belong to no HIT of this batch, were left unchanged", strange, FILE)
    payments: dict[str, Payment] = {}
    if args.audit:
        audit, decided = _decide(args)
        # Skip assignments that another worker has done since.
        payments = {each: decided[each] for each, line in lines.items() if _is_of(audit, line, session.key)}
    unknown = [each for each in lines if each not in payments]
    if args.all:
        payments |= {each: Payment(each, "approve") for each in unknown}
    elif unknown and args.audit:
        logging.warning(
            "%s not in the audit, left unchanged: compose again from %s, or add --all",
            counted(len(unknown), "assignment"),
            batch.folder / FILE,
        )
    bonuses: list[Bonus] = []
    if args.bonuses:
        bonuses = paying.unsent(batch, paying.read_bonuses(args.bonuses, lines), args.bonuses)
    return partial(_pay, session, lines, payments, bonuses)


def _decide(args: argparse.Namespace) -> tuple[dict[str, Judged], dict[str, Payment]]:
    audit = paying.read_audit(args.audit)
    named = paying.read_rejections(args.rejections, audit) if args.rejections else {}
    return audit, paying.decide(audit, args.reject, named)


def _is_of(audit: Mapping[str, Judged], line: Line, key: bytes) -> bool:
    judged = audit.get(line["AssignmentId"])
    return judged is not None and judged.is_of(line, key)


def _pay(session: Session, lines: dict[str, Line], payments: dict[str, Payment], bonuses: list[Bonus]) -> int:
    with session.open() as batch:
        waiting = paying.unsettled(batch, payments, lines)
        fees = (bonus.amount + bonus_fee(bonus.amount) for bonus in bonuses)
        for_bonuses = up_to_cent(sum(fees, Decimal(0)))
        amount = for_bonuses + _announce(session, batch, lines, waiting, len(bonuses), for_bonuses)
        _warn_late(batch, lines, payments)
        paid, sent = Settled(), Settled()
        if waiting or bonuses:
            session.agree(batch, amount, held=for_bonuses)
            with session.progress("paying") as show:
                paid = paying.settle(batch, waiting, lines, show)
            with session.progress("sending bonuses") as show:
                sent = paying.settle(batch, bonuses, lines, show)
        report_failures(paid.failures, "paying")
        report_failures(sent.failures, "sending bonuses")
        report_left(paid.left, "assignment")
        report_left(sent.left, "bonus")
        session.finish(
            batch,
            list(lines.values()),
            f"{paid.done['approve_assignment']:,} approved, {paid.done['reject_assignment']:,} rejected, "
            f"{paid.before:,} were approved or rejected already; {sent.done['send_bonus']:,} bonuses sent, "
            f"{sent.before:,} were sent already\n",
        )
        bad = [*paid.failures, *sent.failures, *paid.left, *sent.left]
        return EXIT_FAILURE if bad and not session.dry_run else 0


def _announce(
    session: Session,
    batch: Batch,
    lines: Mapping[str, Line],
    waiting: Sequence[Payment],
    bonuses: int,
    for_bonuses: Decimal,
) -> Decimal:
    """Prints who will be paid how much; returns the dollars for approvals, including fees."""
    hits = batch.hits()
    approved = [hits[lines[each.assignment_id]["HITId"]] for each in waiting if each.verdict == "approve"]
    rejected = [each for each in waiting if each.verdict == "reject"]
    rewards = up_to_cent(sum((hit.reward + hit.fee for hit in approved), Decimal(0)))
    session.announce(
        f"{counted(len(approved), 'assignment')} to approve (${rewards:,.2f} with fees), {len(rejected):,} to reject, "
        f"{many(bonuses, 'bonus')} to send (${for_bonuses:,.2f})"
    )
    for each in rejected[:_SHOWN]:
        session.announce(f"  reject {each.assignment_id}: {each.feedback}")
    if len(rejected) > _SHOWN:
        session.announce(f"  … and {len(rejected) - _SHOWN:,} more")
    return rewards


def _warn_late(batch: Batch, lines: Mapping[str, Line], payments: Mapping[str, Payment]) -> None:
    paid = {each for each, facts in batch.journal.with_prefix("pay").items() if facts.get("verdict") == "approve"}
    paid |= {each for each, line in lines.items() if line.get("AssignmentStatus") == "Approved"}
    late = [each for each, payment in payments.items() if payment.verdict == "reject" and each in paid]
    if late:
        logging.warning("too late to reject, because they are approved already: %s", ", ".join(late[:_SHOWN]))


def site_csv(args: argparse.Namespace) -> Act:
    """Reads the results and the audit. Raises InputError if they cannot be used."""
    _, payments = _decide(args)
    try:
        with open(args.results, "rb") as handle:
            return partial(_site_csv, args, paying.fill_in(handle, args.results, payments))
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", args.results) from None


def _site_csv(args: argparse.Namespace, filled: Reviewed) -> int:
    write_whole(Path(args.output), filled.data, private=True)
    for row, reason in filled.broken:
        logging.error("%s: row %d: left out: %s", args.results, row, reason)
    if filled.unknown:
        row, assignment_id = filled.unknown[0]
        logging.warning(
            "%s not in the audit, neither approved nor rejected, the first in row %d (%s): compose again "
            "with this file",
            counted(len(filled.unknown), "assignment"),
            row,
            assignment_id[:64],
        )
    say(
        f"{args.output}: {filled.approved:,} to approve, {filled.rejected:,} to reject, {filled.settled:,} "
        f"approved or rejected already, {len(filled.unknown):,} without a decision"
    )
    return EXIT_FAILURE if filled.broken else 0


def status(args: argparse.Namespace) -> Act:
    """Opens the batch. Raises InputError if it does not exist."""
    session = msgspec.structs.replace(read_session(args), quiet=False)
    Batch(args.batch, writable=False)
    return partial(_status, session, args.json)


def _status(session: Session, as_json: bool) -> int:
    batch = Batch(session.folder, writable=False)
    batch.key = session.key
    lines = load(batch.folder)
    if as_json:
        now = status_of(batch, lines, ledger_rows(batch, lines))
        print(json.dumps(msgspec.to_builtins(now), indent=2))
        return 0
    collected_at = batch.journal.done.get("collected", {}).get("at", "never")
    session.finish(batch, lines, f"{batch.environment}, collected {collected_at}\n")
    return 0
