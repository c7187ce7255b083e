"""Assignments from the batch results CSV of MTurk's requester site."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import BinaryIO

from parapet.schemas.errors import InputError
from parapet.schemas.responses import Assignment, DeadLetter
from parapet.transforms.crowd.ingest import fields
from parapet.transforms.crowd.ingest.fields import Form, take
from parapet.transforms.crowd.ingest.records import Record, read_lines, read_records
from parapet.transforms.crowd.redaction import redact, withheld
from parapet.transforms.fence import bad_record

REQUIRED = ("AssignmentId", "WorkerId")


def read_batch(
    handle: BinaryIO, path: str, key: bytes, encoding: str = "utf-8", kind: fields.TaskKind = fields.SCHEMA_TASKS
) -> Iterator[Assignment | DeadLetter]:
    """Every row as an assignment, or as a dead letter that says why not.

    Args:
      handle: the file, bytes.
      path: its name, for messages.
      key: for the workers' hashes.
      encoding: of files without a byte order mark.
      kind: of the tasks whose answers are taken.

    Raises:
      InputError: the file has no usable header.
    """
    records = read_records(read_lines(handle, encoding))
    yield from assignments_of(records, header_of(records, path), path, key, kind)


def assignments_of(
    records: Iterable[Record], columns: Sequence[str], path: str, key: bytes, kind: fields.TaskKind
) -> Iterator[Assignment | DeadLetter]:
    """The records below a header; the other arguments are those of :func:`read_batch`."""
    for record in records:
        source = f"{path}: row {record.number}"
        if record.problem:
            yield DeadLetter("ingest", source, record.problem, withheld(key, record.raw), source)
            continue
        row = dict(zip(columns, record.cells, strict=True))
        try:
            yield from list(take(_form(row, source, kind), key, kind))
        except fields.Unusable as reason:
            key_of_row = row.get("AssignmentId", "").strip() or source
            own = row.pop("WorkerId", "")
            shown = ", ".join(f"{name}={text}" for name, text in row.items() if text)
            why = redact(str(reason), own)
            yield DeadLetter("ingest", redact(key_of_row, own), why, fields.payload(shown, own), source)
        except Exception as error:
            yield DeadLetter("ingest", source, bad_record(error, is_private=True).reason, "", source)


def header_of(records: Iterator[Record], path: str) -> list[str]:
    """The columns, by the first record. Raises InputError where it is no header of batch results."""
    first = next(records, None)
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


def _form(row: dict[str, str], source: str, kind: fields.TaskKind) -> Form:
    given = {name.removeprefix("Answer."): text for name, text in row.items() if name.startswith("Answer.")}
    task = fields.find_task(
        row.get("Input.task_id", ""),
        row.get("Input.service_name", ""),
        row.get("Input.task", ""),
        row.get("RequesterAnnotation", ""),
        kind,
    )
    return Form(
        row["AssignmentId"].strip(),
        task,
        row["WorkerId"],
        given,
        row.get("Input.fields", "").split(),
        row.get("AcceptTime", ""),
        row.get("SubmitTime", ""),
        row.get("WorkTimeInSeconds", ""),
        row.get("AssignmentStatus", ""),
        source,
    )
