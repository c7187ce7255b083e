"""``parapet mturk pay``."""

from __future__ import annotations

import argparse
import logging
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from parapet.pipelines.command import EXIT_FAILURE, counted, run_checked
from parapet.pipelines.flags import INPUT, StrictParser
from parapet.pipelines.mturk import session

if TYPE_CHECKING:
    from parapet.transforms.mturk import collected
    from parapet.transforms.mturk.bonus import Bonus
    from parapet.transforms.mturk.decide import Payment

DESCRIPTION = """\
Approves and pays the assignments that 'parapet compose' has audited, also those whose answers are not used. It rejects,
with feedback, only where asked to: a rejection harms a worker's standing. Assignments that were settled elsewhere stay
as they are. Every payment is recorded in DIR/ledger.csv."""

EXAMPLE = """\
  parapet mturk pay --batch my_batch --audit my_variants --dry_run
  parapet mturk pay --batch my_batch --audit my_variants
  parapet mturk pay --batch my_batch --audit my_variants --reject --dry_run    # who would be rejected, and why
  parapet mturk pay --batch my_batch --bonuses bonuses.csv"""

_SHOWN = 20


class Config(session.Config, frozen=True, kw_only=True):
    """What is paid.

    Attributes:
      audit: whether assignments were judged.
      lines: assignment id to the assignment, of the batch's HITs.
      payments: assignment id to what becomes of it.
      unknown: assignments that the audit does not have.
      bonuses: those that no run has sent.
    """

    audit: bool
    lines: dict[str, collected.Line]
    payments: dict[str, Payment]
    unknown: list[str]
    bonuses: list[Bonus]


def parser() -> StrictParser:
    """The command line."""
    parser = StrictParser("mturk pay", DESCRIPTION, EXAMPLE)
    session.add_batch(parser)
    add = parser.group(INPUT)
    add("--audit", metavar="DIR", reads=True, help="output of 'parapet compose' for this batch")
    text = "CSV with assignment_id, amount and reason: one bonus each"
    add("--bonuses", metavar="FILE", reads=True, help=text)
    add("--all", action="store_true", help="also approve what was collected and is not in the audit")
    session.add_rejections(parser)
    session.add_spending(parser)
    session.add_network(parser)
    return parser


def check(args: argparse.Namespace) -> Config:
    """Reads everything that is needed. Raises InputError where it cannot be used."""
    from parapet.schemas.errors import InputError
    from parapet.transforms.mturk import collected
    from parapet.transforms.mturk.bonus import read_bonuses, unsent
    from parapet.transforms.mturk.decide import Payment

    shared = session.shared(args)
    if not (args.audit or args.all or args.bonuses):
        raise InputError("say what is to be paid: --audit DIR, --all or --bonuses FILE")
    if (args.reject or args.rejections) and not args.audit:
        raise InputError("rejections need the audit that they follow from: add --audit DIR")
    with session.open_batch(args.batch, writable=False) as batch:
        session.check_place(batch, args.production)
        hits = batch.hits()
        every = collected.load(batch.folder)
        lines = {line["AssignmentId"]: line for line in every if line["HITId"] in hits}
        if len(lines) < len(every):
            strange = counted(len(every) - len(lines), "assignment")
            logging.warning("%s in %s of no HIT of this batch: left alone", strange, collected.FILE)
        payments = _payments(args, lines, shared["key"]) if args.audit else {}
        unknown = [each for each in lines if each not in payments]
        if args.all:
            payments |= {each: Payment(each, "approve") for each in unknown}
        bonuses = unsent(batch, read_bonuses(args.bonuses, lines), args.bonuses) if args.bonuses else []
    return Config(**shared, audit=bool(args.audit), lines=lines, payments=payments, unknown=unknown, bonuses=bonuses)


def _payments(args: argparse.Namespace, lines: Mapping[str, collected.Line], key: bytes) -> dict[str, Payment]:
    """What becomes of each assignment that the audit judged, if it is still the same worker's work."""
    from parapet.transforms.mturk.decide import check_named, decide, is_of, read_audit, read_rejections

    audit = read_audit(args.audit)
    named = read_rejections(args.rejections) if args.rejections else {}
    if named:
        check_named(args.rejections, audit)
    payments = decide(audit, args.reject, named)
    return {each: payments[each] for each, line in lines.items() if each in payments and is_of(audit, line, key)}


def act(config: Config) -> int:
    """Pays."""
    from parapet.transforms.mturk.bonus import Sent, send
    from parapet.transforms.mturk.pay import Paid, pay, unsettled

    with session.open_batch(config.batch, config.dry_run) as batch:
        waiting = unsettled(batch, config.payments, config.lines)
        amount = _announce(config, batch, waiting)
        client = session.client_for(batch, config, list(config.lines.values()))
        paid, sent = Paid(), Sent()
        if waiting or config.bonuses:
            if not config.dry_run:
                session.check_funds(client, _of_bonuses(config.bonuses))
                session.agree(config, amount, batch.environment)
            with session.progress("paying", config) as show:
                paid = pay(client, batch, waiting, config.lines, config.key, config.parallel_calls, show)
            with session.progress("sending bonuses", config) as show:
                sent = send(client, batch, config.bonuses, config.lines, config.key, config.parallel_calls, show)
        return _report(config, batch, paid, sent)


def _announce(config: Config, batch: Any, waiting: Sequence[Any]) -> Decimal:
    """Says what will be paid to whom; gives the amount in dollars, fees included."""
    from parapet.transforms.hits.terms import up_to_cent

    hits = batch.hits()
    approved = [hits[config.lines[each.assignment_id]["HITId"]] for each in waiting if each.verdict == "approve"]
    rejected = [each for each in waiting if each.verdict == "reject"]
    rewards = up_to_cent(sum((hit.reward + hit.fee for hit in approved), Decimal(0)))
    amount = rewards + _of_bonuses(config.bonuses)
    session.announce(
        config,
        f"{counted(len(approved), 'assignment')} to approve (${rewards:,.2f} with fees), {len(rejected):,} to reject, "
        f"{session.many(len(config.bonuses), 'bonus')} to send (${_of_bonuses(config.bonuses):,.2f})",
    )
    for each in rejected[:_SHOWN]:
        session.announce(config, f"  reject {each.assignment_id}: {each.feedback}")
    if len(rejected) > _SHOWN:
        session.announce(config, f"  … and {len(rejected) - _SHOWN:,} more")
    late = [
        each.assignment_id
        for each in config.payments.values()
        if each.verdict == "reject"
        and (
            config.lines[each.assignment_id].get("AssignmentStatus") == "Approved"
            or batch.journal.done.get(f"pay:{each.assignment_id}", {}).get("verdict") == "approve"
        )
    ]
    if late:
        logging.warning("too late to reject, approved already: %s", ", ".join(late[:_SHOWN]))
    unknown = [each for each in config.unknown if each not in config.payments]
    if unknown and config.audit:
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


def _report(config: Config, batch: Any, paid: Any, sent: Any) -> int:
    session.report_failures(paid.failures, "paying")
    session.report_failures(sent.failures, "sending bonuses")
    session.report_left(paid.left, "assignment")
    session.report_left(sent.left, "bonus")
    if config.dry_run:
        print("dry run: nothing was sent, nothing is kept")
        return 0
    table = session.finish(batch, list(config.lines.values()), config.key)
    if not config.quiet:
        print(
            f"{paid.approved:,} approved, {paid.rejected:,} rejected, {paid.before:,} were settled already; "
            f"{sent.sent:,} bonuses sent, {sent.before:,} were there already"
        )
        print(table())
    return EXIT_FAILURE if paid.failures or sent.failures or paid.left or sent.left else 0


def run(argv: Sequence[str] | None = None) -> int:
    """Runs ``parapet mturk pay``. Returns the exit status."""
    return run_checked(parser(), argv, check, act, session.STOPPED)
