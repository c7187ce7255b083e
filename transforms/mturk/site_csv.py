"""The review file of the requester site: a batch's results again, with Approve and Reject filled in."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from typing import BinaryIO

import msgspec

from parapet.schemas.decisions import neutralise
from parapet.schemas.errors import InputError
from parapet.transforms.crowd.ingest import read_lines, read_records
from parapet.transforms.mturk.decide import Payment

APPROVE, REJECT = "Approve", "Reject"

# Text by strangers; the rest of the row is MTurk's own.
_STRANGERS = ("Answer.", "Input.")


class Reviewed(msgspec.Struct):
    """A filled-in file.

    Attributes:
      data: UTF-8.
      approved: rows marked. ``rejected`` too. ``settled``: rows that were not open any more.
      unknown: (row, assignment id) of those that the audit does not have: left open.
      broken: (row, reason) of those that cannot be read; they are not in ``data``.
    """

    data: bytes = b""
    approved: int = 0
    rejected: int = 0
    settled: int = 0
    unknown: list[tuple[int, str]] = []
    broken: list[tuple[int, str]] = []


def fill_in(handle: BinaryIO, path: str, payments: Mapping[str, Payment]) -> Reviewed:
    """Marks every row that is still to be settled.

    Args:
      handle: a batch results CSV.
      path: its name, for messages.
      payments: assignment id to what is to become of it.

    Raises:
      InputError: the file has no usable header.
    """
    records = read_records(read_lines(handle))
    first = next(records, None)
    columns = [] if first is None or first.problem else [cell.strip() for cell in first.cells]
    missing = [name for name in ("AssignmentId", "AssignmentStatus") if name not in columns]
    if missing:
        raise InputError(f"no batch results: the header lacks {', '.join(missing)}", path, "row 1")
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
