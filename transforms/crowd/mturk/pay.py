"""Decide on payments and pay: everyone, unless a rejection is requested; each assignment and each bonus once.

Payment does not depend on whether the data is accepted. Before each call, the current state is read from MTurk.
"""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal

import msgspec

from parapet.schemas.decisions import neutralise
from parapet.schemas.errors import InputError
from parapet.transforms.crowd.answer_files import read_lines, read_records, read_rows, worker_hash
from parapet.transforms.crowd.hits.terms import CENT, REWARD
from parapet.transforms.crowd.mturk.batch import Batch, Call, Failure, Told, perform
from parapet.transforms.crowd.mturk.client import chunks, in_parallel, pages
from parapet.transforms.crowd.mturk.collect import Line, is_final, list_assignments, same_work
from parapet.transforms.crowd.times import read_time

# Reasons that certainly show careless work. All other work is paid, including duplicates, answers that were not drawn,
# work of another program, and answers that a reviewer merely disliked.
CARELESS = {
    "blank": "left blank",
    "placeholder": "a filler instead of an answer",
    "gibberish": "random letters",
    "single_character": "a single letter or digit",
    "markup": "HTML, an address or a formula",
    "prompt_copy": "a copy of the question",
    "same_answer": "the same words in half of the form or more",
    "too_fast": "submitted faster than the form can be read",
    "too_long": "far too long for what was asked",
}

MAX_FEEDBACK = 1_024  # characters, also for the reason of a bonus

# With these errors MTurk may be refusing a repeated call, so its outcome is looked up.
_DONE_BEFORE = ("InvalidAssignmentState", "DuplicateRequest")

_VERDICTS = {"Approved": "approve", "Rejected": "reject"}  # by MTurk's status

APPROVE, REJECT = "Approve", "Reject"  # columns of the requester site

# Columns with text by workers or from the input; the others are MTurk's own.
_STRANGERS = ("Answer.", "Input.")


class Payment(msgspec.Struct, frozen=True):
    """The decision on one assignment.

    Attributes:
      feedback: the message to the worker about a rejection.
    """

    assignment_id: str
    verdict: Literal["approve", "reject"]
    feedback: str = ""

    @property
    def key(self) -> str:
        """Return the key in the journal."""
        return f"pay:{self.assignment_id}"


class Judged(msgspec.Struct, frozen=True):
    """The result of ``compose`` for one assignment.

    Attributes:
      reasons: how many of its answers were rejected for which reason (``""``: not rejected).
      worker: the worker's hash. ``submitted``: the time; together they identify the submission.
      dead: whether some or all of it could not be read; it is paid in this case.
    """

    reasons: Counter[str]
    worker: str = ""
    submitted: datetime | None = None
    dead: bool = False

    def is_of(self, line: Line, key: bytes) -> bool:
        """Whether this submission was judged, and not another one with the same id, since MTurk reuses ids."""
        if self.worker and self.worker != worker_hash(key, line["WorkerId"]):
            return False
        submitted, _ = read_time(str(line.get("SubmitTime", "")))
        return self.submitted is None or int(self.submitted.timestamp()) == submitted


def read_audit(folder: str) -> dict[str, Judged]:
    """Read the audit in an output folder of ``compose``, by assignment id.

    Raises:
      InputError: there is no audit, or it is invalid.
    """
    import pyarrow.parquet as pq

    place = Path(folder)
    place = place.parent if place.name == "responses.parquet" else place
    if not (place / "run.json").exists():
        raise InputError("not a complete output of 'parapet compose': it has no run.json", place)
    columns = ["response_id", "disposition", "reason", "worker_hash", "submit_time"]
    try:
        table = pq.read_table(place / "responses.parquet", columns=columns)
        letters = (place / "dead_letters.jsonl").read_bytes().splitlines()
        dead = {str(msgspec.json.decode(line)["key"]).partition(":")[0] for line in letters}
    except (OSError, ValueError, KeyError, TypeError, RecursionError, msgspec.MsgspecError) as error:
        raise InputError(f"cannot be read: {error}", place) from None
    audit: dict[str, Judged] = {}
    rows = zip(*(table[name].to_pylist() for name in columns), strict=True)
    for response_id, disposition, reason, worker, submitted in rows:
        assignment_id = response_id.partition(":")[0]
        reasons = audit[assignment_id].reasons if assignment_id in audit else Counter()
        reasons[reason.partition(":")[0] if disposition == "rejected" else ""] += 1
        audit[assignment_id] = Judged(reasons, worker, submitted, assignment_id in dead)
    return audit | {each: Judged(Counter(), dead=True) for each in sorted(dead - audit.keys())}


def decide(audit: Mapping[str, Judged], reject: bool, named: Mapping[str, str]) -> dict[str, Payment]:
    """Approve every assignment of the audit, except those to be rejected.

    Args:
      audit: the result of :func:`read_audit`.
      reject: whether to reject assignments in which every answer is certainly careless.
      named: assignment id to feedback, for assignments to be rejected in any case.
    """
    payments = {}
    for assignment_id, judged in audit.items():
        feedback = named.get(assignment_id, "")
        if not feedback and reject and not judged.dead and judged.reasons.keys() <= CARELESS.keys():
            feedback = feedback_of(judged.reasons)
        payments[assignment_id] = Payment(assignment_id, "reject" if feedback else "approve", feedback)
    return payments


def feedback_of(reasons: Mapping[str, int]) -> str:
    """Compose the message to a worker: how many answers were rejected and why."""
    reasons_here = ", ".join(
        f"{CARELESS[reason]} ({n})" for reason, n in sorted(reasons.items(), key=lambda each: (-each[1], each[0]))
    )
    n = sum(reasons.values())
    none = f"None of the {n} answers" if n > 1 else "The answer"
    could = "could be used" if n > 1 else "could not be used"
    return f"{none} {could}: {reasons_here}. If you think this is a mistake, please write to us and we will look again."


def read_rejections(path: str, audit: Collection[str]) -> dict[str, str]:
    """Read assignment id → feedback from a CSV with the columns ``assignment_id`` and ``feedback``.

    Args:
      path: the file.
      audit: the assignments that may be rejected.

    Raises:
      InputError: a column or cell is missing, or an assignment is repeated or not in the audit; with the row.
    """
    rejections: dict[str, str] = {}
    for number, row in read_rows(path, ("assignment_id", "feedback")):
        assignment_id, where = row["assignment_id"], f"row {number}"
        if not 0 < len(row["feedback"]) <= MAX_FEEDBACK:
            raise InputError(
                f"a rejection requires feedback for the worker, of at most {MAX_FEEDBACK:,} characters", path, where
            )
        if assignment_id in rejections:
            raise InputError(f"assignment {assignment_id} appears twice", path, where)
        if assignment_id not in audit:
            raise InputError(f"the audit does not contain assignment {assignment_id[:64]}", path, where)
        rejections[assignment_id] = row["feedback"]
    return rejections


class Bonus(msgspec.Struct, frozen=True):
    """A bonus to send.

    Attributes:
      amount: dollars.
      reason: the message to the worker.
      where: ``row 7`` of its file.
    """

    assignment_id: str
    amount: Decimal
    reason: str
    where: str = ""

    @property
    def key(self) -> str:
        """Return the key in the journal."""
        return f"bonus:{self.assignment_id}"


def read_bonuses(path: str, lines: Mapping[str, Line]) -> list[Bonus]:
    """Read bonuses from a CSV with the columns ``assignment_id``, ``amount`` and ``reason``.

    Args:
      path: the file.
      lines: assignment id to the collected line.

    Raises:
      InputError: a column is missing, an amount is invalid, or an assignment is repeated or was never collected.
    """
    bonuses: dict[str, Bonus] = {}
    for number, row in read_rows(path, ("assignment_id", "amount", "reason")):
        where = f"row {number}"
        assignment_id = row["assignment_id"]
        if assignment_id not in lines:
            raise InputError(f"assignment {assignment_id[:64]} was not collected in this batch", path, where)
        if assignment_id in bonuses:
            raise InputError(f"assignment {assignment_id} appears twice: give one bonus per assignment", path, where)
        if not 0 < len(row["reason"]) <= MAX_FEEDBACK:
            raise InputError(f"a bonus requires a reason, of at most {MAX_FEEDBACK:,} characters", path, where)
        bonuses[assignment_id] = Bonus(assignment_id, _amount(row["amount"], path, where), row["reason"], where)
    return list(bonuses.values())


def _amount(text: str, path: str, where: str) -> Decimal:
    digits = "0" + text.removeprefix("$")  # Checked as written, because Python also accepts 1e9 and 1_0 as numbers.
    amount = Decimal(digits) if len(text) <= 12 and REWARD.fullmatch(digits) else Decimal(0)
    if amount <= 0:
        raise InputError(f"{text!r} is not an amount in dollars, such as 0.50", path, where)
    return amount.quantize(CENT)


def unsent(batch: Batch, bonuses: Sequence[Bonus], path: str = "") -> list[Bonus]:
    """Return the bonuses that no run has sent.

    Raises:
      InputError: an assignment already had a bonus of another amount; a second one is treated as a mistake.
    """
    sent = batch.journal.with_prefix("bonus")
    for bonus in bonuses:
        before = sent.get(bonus.assignment_id)
        if before and Decimal(before["amount"]) != bonus.amount:
            reason = f"assignment {bonus.assignment_id} got a bonus of ${before['amount']} already"
            raise InputError(f"{reason}; remove the row", path, bonus.where)
    return [bonus for bonus in bonuses if bonus.assignment_id not in sent]


def unsettled(batch: Batch, payments: Mapping[str, Payment], lines: Mapping[str, Line]) -> list[Payment]:
    """Return the ``payments`` that are not known to be approved or rejected, in the order of ``lines``."""
    return [
        payments[assignment_id]
        for assignment_id, line in lines.items()
        if assignment_id in payments
        and f"pay:{assignment_id}" not in batch.journal.done
        # If an interrupted call may have settled it, it is read again, so that the ledger records who did.
        and (not is_final(line) or f"pay:{assignment_id}" in batch.journal.open)
    ]


class Settled(msgspec.Struct):
    """What a run has settled of payments or bonuses.

    Attributes:
      done: the number of successful calls, by operation.
      before: the number settled before, by an earlier run, by MTurk itself, or on the site.
      left: (assignment id, reason) of those that were not touched.
      failures: the calls that MTurk refused.
    """

    done: Counter[str] = msgspec.field(default_factory=Counter)
    before: int = 0
    left: list[tuple[str, str]] = []
    failures: list[Failure] = []


def settle(
    batch: Batch, items: Sequence[Payment | Bonus], lines: Mapping[str, Line], told: Told | None = None
) -> Settled:
    """Approve, reject and send bonuses, after reading the current assignments of each HIT again.

    Args:
      batch: the open batch.
      items: the result of :func:`unsettled` or :func:`unsent`.
      lines: assignment id to the collected line, which was judged.
      told: called with the number done.

    Raises:
      InputError: further calls would fail, too.
    """
    result = Settled()
    by_hit: dict[str, list[Payment | Bonus]] = {}
    for item in items:
        by_hit.setdefault(lines[item.assignment_id]["HITId"], []).append(item)
    handled = 0
    for chunk in chunks(list(by_hit.items()), batch.parallel * 4):
        listings = in_parallel(lambda group: list_assignments(batch, group[0]), chunk, batch.parallel)
        current = [(item, now) for (_, group), now in zip(chunk, listings, strict=True) for item in group]
        steps = in_parallel(lambda each: _next_step(batch, each[0], lines, each[1]), current, batch.parallel)
        calls = []
        for (item, _), step in zip(current, steps, strict=True):
            if isinstance(step, Call):
                calls.append(step)
            elif isinstance(step, str):
                result.left.append((item.assignment_id, step))
            else:
                batch.journal.write([("done", item.key, "", step)])
                result.before += 1
        failures = perform(batch, calls, is_done=lambda call, code: _is_done(batch.client, call, code))
        failed = {failure.key for failure in failures}
        result.failures += failures
        result.done.update(call.operation for call in calls if call.key not in failed)
        handled += len(current)
        if told is not None:
            told(handled, len(items))
    return result


def difference(judged: Line, now: Mapping[str, Line] | None) -> str:
    """Return why a judged assignment can no longer be paid by its id; empty if it can."""
    if now is None:
        return "its HIT was deleted at MTurk"
    line = now.get(judged["AssignmentId"])
    if line is None:
        return "MTurk no longer lists the assignment: it was returned or removed"
    if line["WorkerId"] != judged["WorkerId"]:
        return "its id now belongs to another worker: run collect again, then compose"
    if not same_work(line, judged):
        return "it was submitted again with other answers: run collect again, then compose"
    return ""


def _next_step(
    batch: Batch, item: Payment | Bonus, lines: Mapping[str, Line], now: Mapping[str, Line] | None
) -> Call | dict[str, Any] | str:
    """Return the call to make, the facts if it is already settled, or the reason why neither is possible."""
    line = lines[item.assignment_id]
    if why := difference(line, now):
        return why
    facts = {"worker_hash": worker_hash(batch.key, line["WorkerId"]), "hit_id": line["HITId"]}
    # Settled by a call of ours whose response was lost, or by MTurk's auto-approval, or by somebody on the site.
    by = "us" if item.key in batch.journal.open else "elsewhere"
    if isinstance(item, Payment):
        status = (now or {})[item.assignment_id]["AssignmentStatus"]
        if status != "Submitted":
            return {**facts, "verdict": _VERDICTS[status], "by": by}
        feedback = {"RequesterFeedback": item.feedback} if item.verdict == "reject" else {}
        arguments = {"AssignmentId": item.assignment_id, **feedback}
        return Call(item.key, f"{item.verdict}_assignment", arguments, {**facts, "verdict": item.verdict, "by": "us"})
    facts["amount"] = f"{item.amount:f}"
    sent = _bonuses_on(batch.client, item.assignment_id)
    if (line["WorkerId"], item.amount) in sent:
        return {**facts, "by": by}
    if sent:
        amounts = ", ".join(f"${amount}" for _, amount in sent)
        return f"MTurk lists a bonus of {amounts} for it, which this batch did not send"
    arguments = {
        "WorkerId": line["WorkerId"],
        "BonusAmount": facts["amount"],
        "AssignmentId": item.assignment_id,
        "Reason": item.reason,
        "UniqueRequestToken": batch.token(f"{item.key}:{facts['worker_hash']}"),
    }
    return Call(item.key, "send_bonus", arguments, {**facts, "by": "us"})


def _bonuses_on(client: Any, assignment_id: str) -> list[tuple[str, Decimal]]:
    """Return (worker id, dollars) of every bonus that MTurk has for the assignment."""
    listed = pages(client.list_bonus_payments, "BonusPayments", AssignmentId=assignment_id)
    return [(item["WorkerId"], Decimal(item["BonusAmount"])) for item in listed]


def _is_done(client: Any, call: Call, code: str) -> bool:
    assignment_id = call.arguments["AssignmentId"]
    if code not in _DONE_BEFORE:
        return False
    if call.operation == "send_bonus":
        bonus = (call.arguments["WorkerId"], Decimal(call.facts["amount"]))
        return bonus in _bonuses_on(client, assignment_id)
    status = client.get_assignment(AssignmentId=assignment_id)["Assignment"]["AssignmentStatus"]
    return bool(_VERDICTS.get(status) == call.facts["verdict"])


class Reviewed(msgspec.Struct):
    """A results file with decisions filled in.

    Attributes:
      data: the CSV in UTF-8.
      approved: the number of rows approved. ``rejected``: rejected. ``settled``: already settled before.
      unknown: (row, assignment id) of rows that are not in the audit and stay open.
      broken: (row, reason) of rows that cannot be read; they are not in ``data``.
    """

    data: bytes = b""
    approved: int = 0
    rejected: int = 0
    settled: int = 0
    unknown: list[tuple[int, str]] = []
    broken: list[tuple[int, str]] = []


def fill_in(handle: io.BufferedReader, path: str, payments: Mapping[str, Payment]) -> Reviewed:
    """Fill in the decision in every open row.

    Args:
      handle: a batch results CSV.
      path: its name, for messages.
      payments: assignment id to decision.

    Raises:
      InputError: the file has no usable header.
    """
    records = read_records(read_lines(handle))
    first = next(records, None)
    columns = [] if first is None or first.problem else [cell.strip() for cell in first.cells]
    missing = [name for name in ("AssignmentId", "AssignmentStatus") if name not in columns]
    if missing:
        raise InputError(f"not a file of batch results: the header lacks {', '.join(missing)}", path, "row 1")
    columns += [name for name in (APPROVE, REJECT) if name not in columns]
    result, text = Reviewed(), io.StringIO(newline="")
    writer = csv.writer(text, quoting=csv.QUOTE_ALL, lineterminator="\n")
    writer.writerow(columns)
    for record in records:
        if record.problem:
            result.broken.append((record.number, record.problem))
            continue
        row = dict(zip(columns, [*record.cells, "", ""], strict=False))
        _mark(row, record.number, payments, result)
        writer.writerow([neutralise(row[name]) if name.startswith(_STRANGERS) else row[name] for name in columns])
    result.data = text.getvalue().encode()
    return result


def _mark(row: dict[str, str], number: int, payments: Mapping[str, Payment], result: Reviewed) -> None:
    assignment_id = row["AssignmentId"].strip()
    payment = payments.get(assignment_id)
    if row["AssignmentStatus"].strip() != "Submitted":
        result.settled += 1
    elif payment is None:
        result.unknown.append((number, assignment_id))
    elif payment.verdict == "approve":
        row[APPROVE], row[REJECT] = "X", ""
        result.approved += 1
    else:
        row[APPROVE], row[REJECT] = "", payment.feedback
        result.rejected += 1
