"""Decide on payments and pay: everyone, unless a rejection is requested; each assignment and each bonus once.

Payment does not depend on whether the data is accepted. :func:`collect` reads the current state before and after.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import msgspec

from parapet.schemas import errors, layout
from parapet.schemas.decisions import Record, csv_bytes
from parapet.transforms.crowd.answer_files import read_lines, read_records, read_rows, read_time, worker_hash
from parapet.transforms.crowd.hits.terms import CENT, REWARD
from parapet.transforms.crowd.mturk.batch import (
    VERDICTS,
    Batch,
    Call,
    Failures,
    Line,
    Progress,
    code_of,
    collect,
    pages,
    perform,
)

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


class Audited(msgspec.Struct, frozen=True):
    """The result of ``compose`` for one assignment.

    Attributes:
      reasons: how many of its answers were rejected for which reason (``""``: not rejected, or not readable).
      worker: the worker's hash. ``submitted``: the time; together they identify the submission.
    """

    reasons: Counter[str]
    worker: str = ""
    submitted: datetime | None = None

    def is_about(self, line: Line, key: bytes) -> bool:
        """Whether this submission was audited, and not another one with the same id, since MTurk reuses ids."""
        if self.worker and self.worker != worker_hash(key, line["WorkerId"]):
            return False
        submitted, _ = read_time(str(line.get("SubmitTime", "")))
        return self.submitted is None or int(self.submitted.timestamp()) == submitted


def read_audit(folder: str) -> dict[str, Audited]:
    """Reads the audit in an output folder of ``compose``, by assignment id.

    Raises:
      InputError: there is no audit, or it is invalid.
    """
    import pyarrow.parquet as pq

    place = Path(folder)
    if not (place / layout.MANIFEST).exists():
        raise errors.InputError(f"not a complete output of 'parapet compose': it has no {layout.MANIFEST}", place)
    columns = ["response_id", "disposition", "reason", "worker_hash", "submit_time"]
    try:
        table = pq.read_table(place / "responses.parquet", columns=columns)
        letters = (place / "dead_letters.jsonl").read_bytes().splitlines()
        unreadable = sorted({str(msgspec.json.decode(line)["key"]).partition(":")[0] for line in letters})
    except (OSError, ValueError, KeyError, TypeError, msgspec.MsgspecError) as error:
        raise errors.InputError(f"cannot be read: {error}", place) from None
    audit: dict[str, Audited] = {}
    rows = zip(*(table[name].to_pylist() for name in columns), strict=True)
    for response_id, disposition, reason, worker, submitted in rows:
        assignment = audit.setdefault(response_id.partition(":")[0], Audited(Counter(), worker, submitted))
        assignment.reasons[reason.partition(":")[0] if disposition == "rejected" else ""] += 1
    for assignment_id in unreadable:
        audit.setdefault(assignment_id, Audited(Counter())).reasons[""] += 1
    return audit


def decide(audit: Mapping[str, Audited], reject: bool, rejections: Mapping[str, str]) -> dict[str, str]:
    """Returns the feedback for each assignment of the audit that is to be rejected; empty if it is to be approved.

    Args:
      audit: the result of :func:`read_audit`.
      reject: whether to reject assignments in which every answer is certainly careless.
      rejections: assignment id to feedback, for assignments to be rejected in any case.
    """
    careless = [each for each in audit if reject and audit[each].reasons.keys() <= CARELESS.keys()]
    return {**dict.fromkeys(audit, ""), **{each: feedback_of(audit[each].reasons) for each in careless}, **rejections}


def feedback_of(reasons: Mapping[str, int]) -> str:
    """Composes the message to a worker: how many answers were rejected and why."""
    ordered = sorted(reasons.items(), key=lambda item: (-item[1], item[0]))
    why = ", ".join(f"{CARELESS[reason]} ({n})" for reason, n in ordered)
    n = sum(reasons.values())
    useless = f"None of the {n} answers could be used" if n > 1 else "The answer could not be used"
    return f"{useless}: {why}. If you think this is a mistake, please write to us and we will look again."


def _read_payments(
    path: str, columns: tuple[str, ...], known: Collection[str], unknown: str
) -> Iterable[tuple[str, str, dict[str, str]]]:
    """Yields (place, assignment id, row) of a CSV with one row for each assignment, and a text for its worker last.

    Args:
      path: the file.
      columns: the required columns.
      known: the ids of assignments that may be listed. ``unknown`` is the message about others.
    """
    seen = set()
    for number, row in read_rows(path, columns):
        place, assignment_id, text = f"row {number}", row["assignment_id"], row[columns[-1]]
        if assignment_id not in known:
            raise errors.InputError(f"assignment {assignment_id[:64]} {unknown}", path, place)
        if assignment_id in seen:
            raise errors.InputError(f"assignment {assignment_id} appears twice", path, place)
        if not 0 < len(text) <= MAX_FEEDBACK:
            reason = f"a {columns[-1]} for the worker is required, of at most {MAX_FEEDBACK:,} characters"
            raise errors.InputError(reason, path, place)
        seen.add(assignment_id)
        yield place, assignment_id, row


def read_rejections(path: str, audit: Collection[str]) -> dict[str, str]:
    """Reads assignment id → feedback from a CSV with the columns ``assignment_id`` and ``feedback``.

    Raises:
      InputError: a column or cell is missing, or an assignment is repeated or not in the audit; with the row.
    """
    rows = _read_payments(path, ("assignment_id", "feedback"), audit, "is not in the audit")
    return {assignment_id: row["feedback"] for _, assignment_id, row in rows}


class Bonus(msgspec.Struct, frozen=True):
    """A bonus to send: dollars, and the message to the worker."""

    amount: Decimal
    reason: str


def read_bonuses(path: str, lines: Collection[str]) -> dict[str, Bonus]:
    """Reads bonuses by assignment id from a CSV with the columns ``assignment_id``, ``amount`` and ``reason``.

    Args:
      path: the file.
      lines: the ids of the collected assignments.

    Raises:
      InputError: a column is missing, an amount is invalid, or an assignment is repeated or was never collected.
    """
    bonuses = {}
    columns = ("assignment_id", "amount", "reason")
    for place, assignment_id, row in _read_payments(path, columns, lines, "was not collected in this batch"):
        text = row["amount"]
        digits = "0" + text.removeprefix("$")  # Checked as written, because Python also accepts 1e9 and 1_0 as numbers.
        amount = Decimal(digits) if len(text) <= 12 and REWARD.fullmatch(digits) else Decimal(0)
        if amount <= 0:
            raise errors.InputError(f"{text!r} is not an amount in dollars, such as 0.50", path, place)
        bonuses[assignment_id] = Bonus(amount.quantize(CENT), row["reason"])
    return bonuses


def unpaid(batch: Batch, decisions: Mapping[str, str], lines: Mapping[str, Line]) -> dict[str, str]:
    """Returns the decisions on collected assignments that are not known to be approved or rejected."""
    settled = {each for each, line in lines.items() if line["AssignmentStatus"] in VERDICTS}
    settled |= batch.journal.with_prefix("pay").keys()
    return {each: decisions[each] for each in lines if each in decisions and each not in settled}


def pay(
    batch: Batch, decisions: Mapping[str, str], lines: Mapping[str, Line], progress: Progress | None = None
) -> Failures:
    """Approves and rejects assignments, and returns what MTurk refused.

    Args:
      batch: the open batch.
      decisions: the result of :func:`unpaid`.
      lines: assignment id to the collected line.
      progress: called with the number of calls.

    Raises:
      InputError: further calls would fail, too.
    """
    calls = []
    for assignment_id, feedback in decisions.items():
        verdict = "reject" if feedback else "approve"
        arguments = {"AssignmentId": assignment_id, **({"RequesterFeedback": feedback} if feedback else {})}
        facts = {**_about(batch, lines[assignment_id]), "verdict": verdict, "by": "us"}
        calls.append(Call(f"pay:{assignment_id}", f"{verdict}_assignment", arguments, facts))
    if failures := perform(batch, calls, progress):
        collect(batch)
    return {key: why for key, why in failures.items() if batch.journal.done.get(key, {}).get("by") != "us"}


def send_bonuses(
    batch: Batch, bonuses: Mapping[str, Bonus], lines: Mapping[str, Line], progress: Progress | None = None
) -> Failures:
    """Sends the bonuses of assignments for which neither the journal nor MTurk has one; returns what MTurk refused.

    Args:
      batch: the open batch.
      bonuses: assignment id to bonus.
      lines: assignment id to the collected line.
      progress: called with the number of calls.

    Raises:
      InputError: further calls would fail, too.
    """
    from botocore.exceptions import ClientError

    interrupted = set(batch.journal.open)
    calls = []
    for assignment_id, bonus in bonuses.items():
        key, facts = f"bonus:{assignment_id}", _about(batch, lines[assignment_id])
        arguments = {
            "WorkerId": lines[assignment_id]["WorkerId"],
            "BonusAmount": f"{bonus.amount:f}",
            "AssignmentId": assignment_id,
            "Reason": bonus.reason,
            "UniqueRequestToken": batch.token(f"{key}:{facts['worker_hash']}"),
        }
        if key not in batch.journal.done:
            calls.append(Call(key, "send_bonus", arguments, {**facts, "amount": f"{bonus.amount:f}", "by": "us"}))

    def send(call: Call) -> dict[str, Any]:
        listed = pages(batch.client.list_bonus_payments, "BonusPayments", AssignmentId=call.arguments["AssignmentId"])
        for payment in listed:
            return {"amount": payment["BonusAmount"], "by": "us" if call.key in interrupted else "elsewhere"}
        try:
            batch.client.send_bonus(**call.arguments)
        except ClientError as error:
            if code_of(error) != "DuplicateRequest":  # which says that the first attempt succeeded
                raise
        return {}

    return perform(batch, calls, progress, send)


def _about(batch: Batch, line: Line) -> dict[str, Any]:
    return {"worker_hash": worker_hash(batch.key, line["WorkerId"]), "hit_id": line["HITId"]}


def different_bonuses(batch: Batch, bonuses: Mapping[str, Bonus]) -> Failures:
    """Returns the bonuses that are not sent because the assignment has one of another amount."""
    sent = {each: Decimal(facts["amount"]) for each, facts in batch.journal.with_prefix("bonus").items()}
    return {
        f"bonus:{assignment_id}": f"the assignment has a bonus of ${sent[assignment_id]} already"
        for assignment_id, bonus in bonuses.items()
        if sent.get(assignment_id, bonus.amount) != bonus.amount
    }


def fill_in(path: str, decisions: Mapping[str, str]) -> tuple[bytes, Counter[str], list[Record]]:
    """Fills in the decision in every open row of a batch results CSV of the requester site.

    Args:
      path: the file.
      decisions: assignment id to feedback; see :func:`decide`.

    Returns:
      The CSV in UTF-8, the number of rows by what became of them, and the broken rows, which it does not have.

    Raises:
      OSError: the file cannot be read.
      InputError: it has no usable header.
    """
    with open(path, "rb") as handle:
        records = list(read_records(read_lines(handle)))
    columns = [cell.strip() for cell in records[0].cells] if records else []
    if missing := [name for name in ("AssignmentId", "AssignmentStatus") if name not in columns]:
        raise errors.InputError(f"not a file of batch results: the header lacks {', '.join(missing)}", path, "row 1")
    columns += [name for name in ("Approve", "Reject") if name not in columns]
    counts, rows = Counter[str](), []
    for record in records[1:]:
        if record.problem:
            continue
        row = dict(zip(columns, [*record.cells, "", ""], strict=False))
        feedback = decisions.get(row["AssignmentId"].strip())
        if row["AssignmentStatus"].strip() != "Submitted":
            counts["settled"] += 1
        elif feedback is None:
            counts["unknown"] += 1
        else:
            row |= {"Approve": "" if feedback else "X", "Reject": feedback}
            counts["rejected" if feedback else "approved"] += 1
        rows.append([row[name] for name in columns])
    return csv_bytes(columns, rows), counts, [record for record in records if record.problem]
