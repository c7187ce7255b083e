"""``parapet mturk pay``."""

from __future__ import annotations

import argparse
import logging
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from parapet.pipelines.command import EXIT_FAILURE, StrictParser, counted, run_checked
from parapet.pipelines.mturk import session

DESCRIPTION = """\
Settles the assignments that compose has audited: all are approved and paid, also those whose answers cannot be used.
Payment and the acceptance of data are separate decisions. Rejections, which harm a worker's standing, are made only
where they are asked for, and carry feedback. MTurk is read again before every call: what was settled elsewhere is left
as it is. Every payment goes into DIR/ledger.csv."""

EXAMPLE = """\
  parapet mturk pay --batch my_batch --audit my_variants --dry_run
  parapet mturk pay --batch my_batch --audit my_variants
  parapet mturk pay --batch my_batch --audit my_variants --reject --dry_run    # who would be rejected, and why
  parapet mturk pay --batch my_batch --bonuses bonuses.csv"""

_SHOWN = 20


def parser() -> StrictParser:
    """The command line."""
    made = StrictParser("mturk pay", DESCRIPTION, EXAMPLE)
    session.add_batch(made)
    made.add_argument("--audit", metavar="DIR", help="folder that 'parapet compose' made from this batch")
    made.add_argument("--all", action="store_true", help="also approve what was collected and is not in the audit")
    made.add_argument(
        "--reject", action="store_true", help="reject assignments of which every answer is careless for certain"
    )
    made.add_argument(
        "--rejections", metavar="FILE", help="CSV with assignment_id and feedback: reject these in any case"
    )
    made.add_argument("--bonuses", metavar="FILE", help="CSV with assignment_id, amount and reason: one bonus each")
    session.add_network(made)
    session.add_spending(made)
    return made


def check(args: argparse.Namespace) -> argparse.Namespace:
    """Reads everything that is needed. Raises InputError where it cannot be used."""
    from parapet.schemas.errors import InputError
    from parapet.transforms.crowd.worker_key import load_worker_key
    from parapet.transforms.mturk import collected
    from parapet.transforms.mturk.bonus import read_bonuses, unsent
    from parapet.transforms.mturk.decide import Payment

    session.check_network(args)
    args.key = load_worker_key()
    if not (args.audit or args.all or args.bonuses):
        raise InputError("say what is to be paid: --audit DIR, --all or --bonuses FILE")
    if (args.reject or args.rejections) and not args.audit:
        raise InputError("rejections need the audit that they follow from: add --audit DIR")
    with session.open_batch(args.batch, writable=False) as batch:
        session.check_place(batch, args.production)
        hits = batch.hits()
        lines = collected.load(batch.folder)
        args.lines = {line["AssignmentId"]: line for line in lines if line["HITId"] in hits}
        if len(args.lines) < len(lines):
            strange = counted(len(lines) - len(args.lines), "assignment")
            logging.warning("%s in %s of no HIT of this batch: left alone", strange, collected.FILE)
        args.payments = _payments(args) if args.audit else {}
        args.unknown = [each for each in args.lines if each not in args.payments]
        if args.all:
            args.payments |= {each: Payment(each, "approve") for each in args.unknown}
        args.given = unsent(batch, read_bonuses(args.bonuses, args.lines), args.bonuses) if args.bonuses else []
    return args


def _payments(args: argparse.Namespace) -> dict[str, Any]:
    """What becomes of each assignment that the audit judged, if it is still the same worker's work."""
    from parapet.transforms.mturk.decide import check_named, decide, is_of, read_audit, read_rejections

    audit = read_audit(args.audit)
    named = read_rejections(args.rejections) if args.rejections else {}
    if named:
        check_named(args.rejections, audit)
    payments = decide(audit, args.reject, named)
    return {
        each: payments[each] for each, line in args.lines.items() if each in payments and is_of(audit, line, args.key)
    }


def act(args: argparse.Namespace) -> int:
    """Pays."""
    from parapet.transforms.mturk.bonus import Sent, send
    from parapet.transforms.mturk.pay import Paid, pay, unsettled

    with session.open_batch(args.batch, args.dry_run) as batch:
        waiting = unsettled(batch, args.payments, args.lines)
        amount = _announce(args, batch, waiting)
        client = session.client_for(batch, args, args.key, list(args.lines.values()))
        paid, sent = Paid(), Sent()
        if waiting or args.given:
            if not args.dry_run:
                session.check_invariants(client, _of_bonuses(args.given))
                session.agree(args, amount, batch.environment)
            with session.progress("paying", args) as told:
                paid = pay(client, batch, waiting, args.lines, args.key, args.parallel_calls, told)
            with session.progress("sending bonuses", args) as told:
                sent = send(client, batch, args.given, args.lines, args.key, args.parallel_calls, told)
        return _report(args, batch, paid, sent)


def _announce(args: argparse.Namespace, batch: Any, waiting: Sequence[Any]) -> Decimal:
    """Says what will be paid to whom; gives the amount in dollars, fees included."""
    from parapet.transforms.hits.terms import up_to_cent

    hits = batch.hits()
    approved = [hits[args.lines[each.assignment_id]["HITId"]] for each in waiting if each.verdict == "approve"]
    rejected = [each for each in waiting if each.verdict == "reject"]
    rewards = up_to_cent(sum((hit.reward + hit.fee for hit in approved), Decimal(0)))
    amount = rewards + _of_bonuses(args.given)
    session.tell(
        args,
        f"{counted(len(approved), 'assignment')} to approve (${rewards:,.2f} with fees), {len(rejected):,} to reject, "
        f"{session.many(len(args.given), 'bonus')} to send (${_of_bonuses(args.given):,.2f})",
    )
    for each in rejected[:_SHOWN]:
        session.tell(args, f"  reject {each.assignment_id}: {each.feedback}")
    if len(rejected) > _SHOWN:
        session.tell(args, f"  … and {len(rejected) - _SHOWN:,} more")
    late = [
        each.assignment_id
        for each in args.payments.values()
        if each.verdict == "reject"
        and (
            args.lines[each.assignment_id].get("AssignmentStatus") == "Approved"
            or batch.journal.done.get(f"pay:{each.assignment_id}", {}).get("verdict") == "approve"
        )
    ]
    if late:
        logging.warning("too late to reject, approved already: %s", ", ".join(late[:_SHOWN]))
    unknown = [each for each in args.unknown if each not in args.payments]
    if unknown and args.audit:
        logging.warning(
            "%s not in the audit and left alone: compose again from %s, or add --all",
            counted(len(unknown), "assignment"),
            batch.folder / "assignments.jsonl",
        )
    return amount


def _of_bonuses(bonuses: Sequence[Any]) -> Decimal:
    from parapet.transforms.hits.terms import up_to_cent
    from parapet.transforms.mturk.ledger import bonus_fee

    return up_to_cent(sum((bonus.amount + bonus_fee(bonus.amount) for bonus in bonuses), Decimal(0)))


def _report(args: argparse.Namespace, batch: Any, paid: Any, sent: Any) -> int:
    session.tell_failures(paid.failures, "paying")
    session.tell_failures(sent.failures, "sending bonuses")
    session.tell_left(paid.left, "assignment")
    session.tell_left(sent.left, "bonus")
    if args.dry_run:
        print("dry run: nothing was sent, nothing is kept")
        return 0
    table = session.finish(batch, list(args.lines.values()), args.key)
    if not args.quiet:
        print(
            f"{paid.approved:,} approved, {paid.rejected:,} rejected, {paid.before:,} were settled already; "
            f"{sent.sent:,} bonuses sent, {sent.before:,} were there already"
        )
        print(table())
    return EXIT_FAILURE if paid.failures or sent.failures or paid.left or sent.left else 0


def run(argv: Sequence[str] | None = None) -> int:
    """Runs ``parapet mturk pay``. Returns the exit status."""
    return run_checked(parser(), argv, check, act, session.STOPPED)
