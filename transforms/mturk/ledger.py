"""What a batch has cost so far, to the cent: every approved assignment and every bonus, in Decimal."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable
from decimal import Decimal

import msgspec

from parapet.transforms.crowd.ingest import worker_hash
from parapet.transforms.hits.terms import CENT, Terms, up_to_cent
from parapet.transforms.mturk.batch import Batch, write_whole
from parapet.transforms.mturk.collected import Line

FILE = "ledger.csv"


class Row(msgspec.Struct, frozen=True):
    """A line of the ledger.

    Attributes:
      kind: ``reward``, ``bonus`` or ``rejected`` (which costs nothing).
      amount: dollars to the worker. ``fee``: to MTurk, not rounded.
      by: ``us``, or ``elsewhere``: the site, another program, or MTurk's auto-approval.
      at: when it was seen to be done, ISO 8601.
    """

    kind: str
    task_id: str
    hit_id: str
    assignment_id: str
    worker_hash: str
    amount: Decimal
    fee: Decimal
    by: str
    at: str


def rows_of(batch: Batch, lines: Iterable[Line], key: bytes) -> list[Row]:
    """Every payment that is known, sorted by task, HIT, assignment and kind.

    Args:
      batch: the batch.
      lines: what was collected.
      key: for the workers' hashes.
    """
    hits = batch.hits()
    ours = batch.journal.with_prefix("pay")
    found = []
    for line in lines:
        assignment_id, hit = line["AssignmentId"], hits.get(line["HITId"])
        facts = ours.get(assignment_id, {})
        verdict = facts.get("verdict") or _VERDICT.get(line.get("AssignmentStatus", ""))
        if hit is None or verdict is None:
            continue
        approved = verdict == "approve"
        at = line.get("ApprovalTime") or line.get("RejectionTime") or ""
        found.append(
            Row(
                "reward" if approved else "rejected",
                hit.task_id,
                hit.hit_id,
                assignment_id,
                worker_hash(key, line["WorkerId"]),
                hit.reward if approved else Decimal(0),
                hit.fee if approved else Decimal(0),
                facts.get("by", "elsewhere"),
                str(facts.get("at", at)),
            )
        )
    for assignment_id, facts in batch.journal.with_prefix("bonus").items():
        amount = Decimal(facts["amount"])
        task_id = hits[facts["hit_id"]].task_id
        row = (facts["hit_id"], assignment_id, facts["worker_hash"], amount, bonus_fee(amount), facts["by"])
        found.append(Row("bonus", task_id, *row, facts["at"]))
    return sorted(found, key=lambda row: (row.task_id, row.hit_id, row.assignment_id, row.kind))


_VERDICT = {"Approved": "approve", "Rejected": "reject"}


def bonus_fee(amount: Decimal) -> Decimal:
    """MTurk's fee for a bonus, in dollars, not rounded: its usual share."""
    return max(amount * Terms().fee, Terms().minimum_fee)


def total(rows: Iterable[Row]) -> Decimal:
    """Dollars in all, fees included, not rounded."""
    return sum((row.amount + row.fee for row in rows), Decimal(0))


def in_cents(amounts: Iterable[Decimal]) -> list[Decimal]:
    """Amounts as whole cents that add up to their exact sum, rounded up once; each is less than a cent off."""
    cents, before, exact = [], Decimal(0), Decimal(0)
    for amount in amounts:
        exact += amount
        cents.append(up_to_cent(exact) - before)
        before = up_to_cent(exact)
    return cents


def write(batch: Batch, rows: Iterable[Row]) -> None:
    """Writes ``ledger.csv``: no worker ids, money as plain decimals."""
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(Row.__struct_fields__)
    for row in rows:
        fee = row.fee.quantize(CENT / 100)
        writer.writerow(
            [
                row.kind,
                row.task_id,
                row.hit_id,
                row.assignment_id,
                row.worker_hash,
                f"{row.amount:f}",
                f"{fee:f}",
                row.by,
                row.at,
            ]
        )
    write_whole(batch.folder / FILE, text.getvalue().encode())
