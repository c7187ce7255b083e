"""Bonuses: each assignment's once, keyed on assignment and worker, after a look at what MTurk has paid already."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

import msgspec

from parapet.schemas.errors import InputError
from parapet.transforms.crowd.ingest import worker_hash
from parapet.transforms.hits.terms import CENT, REWARD
from parapet.transforms.mturk import collected
from parapet.transforms.mturk.answers import pages
from parapet.transforms.mturk.batch import Batch
from parapet.transforms.mturk.calls import Call, Failure, Told, chunks, in_parallel, perform
from parapet.transforms.mturk.client import code_of
from parapet.transforms.mturk.collect import list_assignments
from parapet.transforms.mturk.decide import read_rows
from parapet.transforms.mturk.pay import difference

DUPLICATE = "DuplicateRequest"
MAX_REASON = 1_024  # characters


class Bonus(msgspec.Struct, frozen=True):
    """A bonus to send.

    Attributes:
      amount: dollars.
      reason: what the worker is told.
      where: ``row 7`` of its file.
    """

    assignment_id: str
    amount: Decimal
    reason: str
    where: str = ""


class Sent(msgspec.Struct):
    """What a run sent. ``left`` holds (assignment id, why) of those that were not touched."""

    sent: int = 0
    before: int = 0
    left: list[tuple[str, str]] = []
    failures: list[Failure] = []


def read_bonuses(path: str, lines: Mapping[str, collected.Line]) -> list[Bonus]:
    """Bonuses from a CSV with the columns ``assignment_id``, ``amount`` and ``reason``.

    Args:
      path: the file.
      lines: assignment id to what was collected.

    Raises:
      InputError: a column is missing, an amount is none, an assignment is there twice or was never collected.
    """
    found: dict[str, Bonus] = {}
    for number, row in read_rows(path, ("assignment_id", "amount", "reason")):
        where = f"row {number}"
        assignment_id = row["assignment_id"]
        if assignment_id not in lines:
            raise InputError(f"assignment {assignment_id[:64]} was not collected in this batch", path, where)
        if assignment_id in found:
            raise InputError(f"assignment {assignment_id} is there twice: one bonus each", path, where)
        if not 0 < len(row["reason"]) <= MAX_REASON:
            raise InputError(f"a bonus needs a reason, up to {MAX_REASON:,} characters", path, where)
        found[assignment_id] = Bonus(assignment_id, _amount(row["amount"], path, where), row["reason"], where)
    return list(found.values())


def _amount(text: str, path: str, where: str) -> Decimal:
    digits = "0" + text.removeprefix("$")  # as written: 1e9 and 1_0 are numbers to Python, and no amounts
    amount = Decimal(digits) if len(text) <= 12 and REWARD.fullmatch(digits) else Decimal(0)
    if amount <= 0:
        raise InputError(f"{text!r} is no amount of dollars such as 0.50", path, where)
    return amount.quantize(CENT)


def unsent(batch: Batch, bonuses: Sequence[Bonus], path: str = "") -> list[Bonus]:
    """Those that no run has sent.

    Raises:
      InputError: an assignment had a bonus of another amount: a second one is a mistake until somebody says otherwise.
    """
    sent = batch.journal.with_prefix("bonus")
    for bonus in bonuses:
        before = sent.get(bonus.assignment_id)
        if before and Decimal(before["amount"]) != bonus.amount:
            reason = f"assignment {bonus.assignment_id} had a bonus of ${before['amount']} already"
            raise InputError(f"{reason}; take the row out", path, bonus.where)
    return [bonus for bonus in bonuses if bonus.assignment_id not in sent]


def send(
    client: Any,
    batch: Batch,
    bonuses: Sequence[Bonus],
    lines: Mapping[str, collected.Line],
    key: bytes,
    parallel: int = 1,
    told: Told | None = None,
) -> Sent:
    """Sends bonuses. Arguments as of :func:`parapet.transforms.mturk.pay.pay`.

    Raises:
      InputError: no further call can go well.
    """
    result = Sent()
    handled = 0
    for chunk in chunks(bonuses, max(parallel, 1) * 4):
        judged = [lines[bonus.assignment_id] for bonus in chunk]
        hits = list(dict.fromkeys(line["HITId"] for line in judged))
        now = dict(zip(hits, in_parallel(lambda each: list_assignments(client, each), hits, parallel), strict=True))
        whys = {line["AssignmentId"]: difference(line, now[line["HITId"]]) for line in judged}
        result.left += [(assignment_id, why) for assignment_id, why in whys.items() if why]
        good = [bonus for bonus in chunk if not whys[bonus.assignment_id]]
        paid = in_parallel(lambda bonus: paid_to(client, bonus.assignment_id), good, parallel)
        calls = []
        for bonus, payments in zip(good, paid, strict=True):
            call = _call_for(batch, bonus, lines[bonus.assignment_id], payments, key, result)
            calls += [call] if call else []
        failures = perform(batch.journal, calls, lambda call: _send(client, call), parallel)
        result.failures += failures
        result.sent += len(calls) - len(failures)
        handled += len(chunk)
        if told is not None:
            told(handled, len(bonuses))
    return result


def paid_to(client: Any, assignment_id: str) -> list[tuple[str, Decimal]]:
    """(worker id, dollars) of every bonus that MTurk has on the assignment."""
    listed = pages(client.list_bonus_payments, "BonusPayments", AssignmentId=assignment_id)
    return [(item["WorkerId"], Decimal(item["BonusAmount"])) for item in listed]


def _call_for(
    batch: Batch,
    bonus: Bonus,
    line: collected.Line,
    payments: list[tuple[str, Decimal]],
    key: bytes,
    result: Sent,
) -> Call | None:
    name = f"bonus:{bonus.assignment_id}"
    facts = {
        "worker_hash": worker_hash(key, line["WorkerId"]),
        "hit_id": line["HITId"],
        "amount": f"{bonus.amount:f}",
    }
    if (line["WorkerId"], bonus.amount) in payments:
        # A call of ours whose answer was lost, or somebody sent the same elsewhere.
        by = "us" if name in batch.journal.open else "elsewhere"
        batch.journal.write([("done", name, "", {**facts, "by": by})])
        result.before += 1
        return None
    if payments:
        told = ", ".join(f"${amount}" for _, amount in payments)
        result.left.append((bonus.assignment_id, f"MTurk has a bonus of {told} on it, which this batch did not send"))
        return None
    arguments = {
        "WorkerId": line["WorkerId"],
        "BonusAmount": f"{bonus.amount:f}",
        "AssignmentId": bonus.assignment_id,
        "Reason": bonus.reason,
        "UniqueRequestToken": batch.token(f"{name}:{facts['worker_hash']}"),
    }
    return Call(name, "send_bonus", arguments, facts)


def _send(client: Any, call: Call) -> dict[str, Any]:
    from botocore.exceptions import ClientError

    try:
        client.send_bonus(**call.arguments)
    except ClientError as error:
        wanted = (call.arguments["WorkerId"], Decimal(call.facts["amount"]))
        if code_of(error) != DUPLICATE or wanted not in paid_to(client, call.arguments["AssignmentId"]):
            raise
    return {"by": "us"}
