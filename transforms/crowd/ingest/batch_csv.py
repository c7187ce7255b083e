"""Assignments from the batch results CSV of MTurk's requester site."""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO

from schemas.errors import InputError
from schemas.responses import Assignment, DeadLetter
from transforms.crowd.ingest import fields
from transforms.crowd.ingest.records import Record, read_lines, read_records

REQUIRED = ("AssignmentId", "WorkerId")


def read_batch(handle: BinaryIO, path: str, key: bytes, encoding: str = "utf-8") -> Iterator[Assignment | DeadLetter]:
    """Every row as an assignment, or as a dead letter that says why not.

    Args:
      handle: the file, bytes.
      path: its name, for messages.
      key: for the workers' hashes.
      encoding: of files without a byte order mark.

    Raises:
      InputError: the file has no usable header.
    """
    records = read_records(read_lines(handle, encoding))
    columns = _header(next(records, None), path)
    for record in records:
        source = f"{path}: row {record.number}"
        if record.problem:
            yield DeadLetter("ingest", source, record.problem, fields.payload(record.raw), source)
            continue
        row = dict(zip(columns, record.cells, strict=True))
        try:
            yield from _assignment(row, source, key)
        except fields.Unusable as reason:
            key_of_row = row.get("AssignmentId", "").strip() or source
            row.pop("WorkerId", None)
            shown = ", ".join(f"{name}={text}" for name, text in row.items() if text)
            yield DeadLetter("ingest", key_of_row, str(reason), fields.payload(shown), source)


def _header(first: Record | None, path: str) -> list[str]:
    if first is None:
        raise InputError("the file is empty", path)
    if first.problem:
        raise InputError(f"the header cannot be read: {first.problem}{_hint(first.raw)}", path, f"row {first.number}")
    columns = [cell.strip() for cell in first.cells]
    missing = [name for name in REQUIRED if name not in columns]
    if not any(name.startswith("Answer.") for name in columns):
        missing.append("Answer.*")
    if missing:
        reason = f"no batch results: the header lacks {', '.join(missing)}{_hint(','.join(columns))}"
        raise InputError(reason, path, f"row {first.number}")
    twice = sorted({name for name in columns if columns.count(name) > 1})
    if twice:
        raise InputError(f"the header has a column twice: {', '.join(twice)}", path, f"row {first.number}")
    return columns


def _hint(header: str) -> str:
    """What may be the matter with a header that is none."""
    if header.startswith("PK"):
        return "; this is a workbook: save it as CSV"
    if "\0" in header:
        return "; the file looks like UTF-16: save it as UTF-8"
    if "," not in header and (";" in header or "\t" in header):
        return "; the cells must be separated by commas"
    return ""


def _assignment(row: dict[str, str], source: str, key: bytes) -> Iterator[Assignment | DeadLetter]:
    assignment_id = row["AssignmentId"].strip()
    if not assignment_id:
        raise fields.Unusable("no_assignment_id: the AssignmentId is empty")
    service, task = fields.find_task(
        row.get("Input.task_id", ""),
        row.get("Input.service_name", ""),
        row.get("Input.task", ""),
        row.get("RequesterAnnotation", ""),
    )
    given = {name.removeprefix("Answer."): text for name, text in row.items() if name.startswith("Answer.")}
    answers, others = fields.split_answers(given)
    asked = row.get("Input.fields", "").split()
    if asked:
        # The columns are those of the whole batch; what this form did not show and nobody filled is no answer.
        answers = {name: text for name, text in answers.items() if text or name in asked}
    accept, submit = fields.parse_time(row.get("AcceptTime", "")), fields.parse_time(row.get("SubmitTime", ""))
    yield from fields_too_large(assignment_id, answers, source)
    for name, text in others.items():
        yield DeadLetter(
            "ingest", f"{assignment_id}:{name}", "unknown_field: not a field of ours", fields.payload(text), source
        )
    yield Assignment(
        assignment_id,
        service,
        task,
        fields.worker_hash(key, row["WorkerId"]),
        answers,
        asked=bool(asked),
        accept_time=accept,
        submit_time=submit,
        work_seconds=fields.work_seconds(accept, submit, row.get("WorkTimeInSeconds", "")),
        rejected=row.get("AssignmentStatus", "").strip() == "Rejected",
        source=source,
    )


def fields_too_large(assignment_id: str, answers: dict[str, str], source: str) -> Iterator[DeadLetter]:
    """Takes answers that are too long to be one out of ``answers``, as dead letters."""
    for name in [name for name, text in answers.items() if len(text) > fields.MAX_ANSWER]:
        reason = f"too_large: over {fields.MAX_ANSWER:,} characters"
        yield DeadLetter("ingest", f"{assignment_id}:{name}", reason, fields.payload(answers.pop(name)), source)
