"""Paying: each assignment approved or rejected once, each bonus sent once, after a fresh look at MTurk."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from parapet.transforms.crowd.ingest import worker_hash
from parapet.transforms.mturk import collected
from parapet.transforms.mturk.batch import Batch
from parapet.transforms.mturk.calls import Call, Failure, Told, chunks, in_parallel, perform
from parapet.transforms.mturk.client import code_of
from parapet.transforms.mturk.collect import Listing, list_assignments
from parapet.transforms.mturk.decide import Payment

BAD_STATE = "InvalidAssignmentState"


class Paid(msgspec.Struct):
    """What a run of ``pay`` did.

    Attributes:
      approved: assignments approved now. ``rejected`` now.
      before: settled already: by an earlier run, by MTurk itself, or on the site.
      left: (assignment id, why) of those that were not touched.
      failures: what MTurk refused.
    """

    approved: int = 0
    rejected: int = 0
    before: int = 0
    left: list[tuple[str, str]] = []
    failures: list[Failure] = []


def unsettled(batch: Batch, payments: Mapping[str, Payment], lines: Mapping[str, collected.Line]) -> list[Payment]:
    """Those of ``payments`` that, for all we know, are neither approved nor rejected yet, in the order of ``lines``."""
    return [
        payments[assignment_id]
        for assignment_id, line in lines.items()
        if assignment_id in payments
        and f"pay:{assignment_id}" not in batch.journal.done
        # One that a cut-off call may have settled is looked at again, so that the ledger says who did.
        and (not collected.is_final(line) or f"pay:{assignment_id}" in batch.journal.open)
    ]


def pay(
    client: Any,
    batch: Batch,
    payments: Sequence[Payment],
    lines: Mapping[str, collected.Line],
    key: bytes,
    parallel: int = 1,
    told: Told | None = None,
) -> Paid:
    """Approves and rejects. Every HIT is read again just before: what its assignments are now decides.

    Args:
      client: boto3's.
      batch: the open batch.
      payments: of :func:`unsettled`.
      lines: assignment id to what was collected; the work that was judged.
      key: for the workers' hashes, by which the journal knows them.
      parallel: calls under way at a time.
      told: called with the number done.

    Raises:
      InputError: no further call can go well.
    """
    result = Paid()
    of_hit: dict[str, list[Payment]] = {}
    for payment in payments:
        of_hit.setdefault(lines[payment.assignment_id]["HITId"], []).append(payment)
    handled = 0
    for chunk in chunks(list(of_hit.items()), max(parallel, 1) * 4):
        fresh = in_parallel(lambda item: list_assignments(client, item[0]), chunk, parallel)
        calls = []
        for (_, wanted), now in zip(chunk, fresh, strict=True):
            for payment in wanted:
                call = _call_for(batch, payment, lines[payment.assignment_id], now, key, result)
                calls += [call] if call else []
        before = len(result.failures)
        result.failures += perform(batch.journal, calls, lambda call: _settle(client, call), parallel)
        failed = {failure.key for failure in result.failures[before:]}
        done = [call for call in calls if call.key not in failed]
        result.approved += sum(call.operation == "approve_assignment" for call in done)
        result.rejected += sum(call.operation == "reject_assignment" for call in done)
        handled += sum(len(wanted) for _, wanted in chunk)
        if told is not None:
            told(handled, len(payments))
    return result


def difference(judged: collected.Line, now: Listing) -> str:
    """Why the assignment that was judged cannot be paid by its id; ``""`` where it can."""
    if now.gone:
        return "MTurk no longer has its HIT: it was deleted elsewhere"
    if now.unreadable:
        return now.unreadable
    line = now.lines.get(judged["AssignmentId"])
    if line is None:
        return "MTurk no longer lists it: it was returned or removed"
    if line["WorkerId"] != judged["WorkerId"]:
        return "its id is now another worker's: collect again, then compose"
    if not collected.same_work(line, judged):
        return "it was submitted anew with other answers: collect again, then compose"
    return ""


def _call_for(
    batch: Batch,
    payment: Payment,
    judged: collected.Line,
    now: Listing,
    key: bytes,
    result: Paid,
) -> Call | None:
    why = difference(judged, now)
    if why:
        result.left.append((payment.assignment_id, why))
        return None
    worker = worker_hash(key, judged["WorkerId"])
    name = f"pay:{payment.assignment_id}"
    status = now.lines[payment.assignment_id]["AssignmentStatus"]
    facts = {"worker_hash": worker, "hit_id": judged["HITId"], "verdict": payment.verdict}
    if status != "Submitted":
        # Settled by a call of ours whose answer was lost, by MTurk's auto-approval, or by somebody on the site.
        ours = name in batch.journal.open
        batch.journal.write(
            [("done", name, "", {**facts, "verdict": _VERDICT[status], "by": "us" if ours else "elsewhere"})]
        )
        result.before += 1
        return None
    operation = f"{payment.verdict}_assignment"
    arguments = {"AssignmentId": payment.assignment_id}
    if payment.verdict == "reject":
        arguments["RequesterFeedback"] = payment.feedback
    return Call(name, operation, arguments, facts)


_VERDICT = {"Approved": "approve", "Rejected": "reject"}


def _settle(client: Any, call: Call) -> dict[str, Any]:
    from botocore.exceptions import ClientError

    try:
        getattr(client, call.operation)(**call.arguments)
    except ClientError as error:
        if code_of(error) != BAD_STATE:
            raise
        # An earlier attempt of this very call may have gone through and its answer been lost.
        now = client.get_assignment(AssignmentId=call.arguments["AssignmentId"])["Assignment"]["AssignmentStatus"]
        if _VERDICT.get(now) != call.facts["verdict"]:
            raise
    return {"by": "us"}
