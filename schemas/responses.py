"""Crowd responses: an assignment as collected, the audit row of each answer, and the dead letters."""

from __future__ import annotations

from typing import Literal, get_args

import msgspec
import pyarrow as pa

from parapet.schemas.elements import Task

# What a crowd task asks for: a schema's names or descriptions, rewritten utterances, or ratings of utterances.
CrowdTask = Task | Literal["rewrites", "ratings", "validity"]

Disposition = Literal["used", "surplus", "duplicate", "rejected", "review"]
DISPOSITIONS: tuple[Disposition, ...] = get_args(Disposition)


class Assignment(msgspec.Struct):
    """One worker's submission of one task. The worker is known by a keyed hash only.

    Attributes:
      service_name: what the task is about: the first part of its id, of rewrites ``DIALOGUE_ID:TURN``,
        of ratings the page.
      answers: form field to text as given (line ends as ``\\n``); a field shown and left empty is ``""``.
      asked: whether ``answers`` holds every field that the form showed. In a batch CSV without ``Input.fields`` an
        empty cell may also mean that the form had no such field.
      accept_time: seconds since 1970, UTC; None where missing or unreadable. So is ``submit_time``.
      work_seconds: from acceptance to submission.
      rejected: whether the requester has rejected the assignment.
      source: ``file: row N``, for messages; never part of an output's content.
    """

    assignment_id: str
    service_name: str
    task: CrowdTask
    worker_hash: str
    answers: dict[str, str]
    asked: bool = False
    accept_time: int | None = None
    submit_time: int | None = None
    work_seconds: int | None = None
    rejected: bool = False
    source: str = ""


class DeadLetter(msgspec.Struct):
    """An input record that could not be used: where it came from, why, and what it was.

    Attributes:
      stage: where it fell out: ``schemas`` or ``dialogues``, ``ingest``, ``settle``, ``compose`` or ``decisions``.
      key: what identifies it: an assignment id, a response id or ``file: row N``.
      reason: a machine-readable id and, after a colon, what a person should know.
      payload: the record, cut to a length that can be read.
    """

    stage: str
    key: str
    reason: str
    payload: str
    source: str = ""


class AuditRow(msgspec.Struct):
    """One answer's fate: a row of ``responses.parquet``.

    Attributes:
      field: ``name`` or ``description``: what was asked for. The form field is in ``response_id``.
      text: as given.
      canonical: as it is emitted, in the corpus's convention; ``""`` where nothing is left of it.
      reason: machine-readable; ``""`` for a used answer.
      variant: 1-5, None unless used.
      distance: to the original, by the run's metric; None where the answer was not ranked.
    """

    response_id: str
    element_id: str
    field: Literal["name", "description"]
    text: str
    canonical: str
    disposition: Disposition
    reason: str
    variant: int | None
    distance: float | None
    worker_hash: str
    accept_time: int | None
    submit_time: int | None
    work_seconds: int | None


_TIME = pa.timestamp("ms", tz="UTC")  # Parquet has no seconds

RESPONSES = pa.schema(
    [
        pa.field("response_id", pa.string(), nullable=False),
        pa.field("element_id", pa.string(), nullable=False),
        pa.field("field", pa.string(), nullable=False),
        pa.field("text", pa.string(), nullable=False),
        pa.field("canonical", pa.string(), nullable=False),
        pa.field("disposition", pa.string(), nullable=False),
        pa.field("reason", pa.string(), nullable=False),
        pa.field("variant", pa.int8()),
        pa.field("distance", pa.float64()),
        pa.field("worker_hash", pa.string(), nullable=False),
        pa.field("accept_time", _TIME),
        pa.field("submit_time", _TIME),
        pa.field("work_seconds", pa.int64()),
    ]
)


def audit_table(rows: list[AuditRow]) -> pa.Table:
    """The rows as Arrow, in the columns of ``responses.parquet``."""
    return pa.table({field.name: _column(rows, field) for field in RESPONSES}, RESPONSES)


def _column(rows: list[AuditRow], field: pa.Field) -> pa.Array:
    values = [getattr(row, field.name) for row in rows]
    if field.type == _TIME:
        return pa.array(values, pa.timestamp("s", tz="UTC")).cast(_TIME)
    return pa.array(values, field.type)


# A row for every rating: ``responses.parquet`` of ``evaluate --task ratings`` and ``--task validity``.
RATINGS = pa.schema(
    [
        pa.field("response_id", pa.string(), nullable=False),
        pa.field("dialogue_id", pa.string(), nullable=False),
        pa.field("turn", pa.int32(), nullable=False),
        pa.field("stratum", pa.string(), nullable=False),
        pa.field("question", pa.string(), nullable=False),
        pa.field("text", pa.string(), nullable=False),
        pa.field("disposition", pa.string(), nullable=False),
        pa.field("reason", pa.string(), nullable=False),
        pa.field("worker_hash", pa.string(), nullable=False),
        pa.field("accept_time", _TIME),
        pa.field("submit_time", _TIME),
        pa.field("work_seconds", pa.int64()),
    ]
)
