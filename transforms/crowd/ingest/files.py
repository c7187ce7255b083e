"""The files that people give: batch results CSV and JSON lines of MTurk's API to assignments, sheets to decisions."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, BinaryIO

import msgspec
import orjson
from defusedxml import ElementTree
from defusedxml.common import DefusedXmlException

from parapet.schemas.decisions import Decision, parse_decisions
from parapet.schemas.errors import DamagedFile, InputError
from parapet.schemas.json_text import compact_json, parse_json_line
from parapet.schemas.layout import as_path, is_there
from parapet.schemas.rows import Assignment, DeadLetter
from parapet.transforms.compressed import check_input, open_input
from parapet.transforms.crowd.ingest.fields import (
    SCHEMA_TASKS,
    Form,
    TaskKind,
    Unusable,
    find_task,
    payload,
    take,
)
from parapet.transforms.crowd.ingest.records import Line, Record, read_lines, read_records
from parapet.transforms.crowd.worker_ids import redact, withheld
from parapet.transforms.perturbation.fence import bad_record

REQUIRED = ("AssignmentId", "WorkerId")

# The declaration may say ASCII where the text is not, and a str with a declaration is refused by parsers.
_DECLARATION = re.compile(r"^\s*<\?xml[^>]*\?>")


class Sources(msgspec.Struct, frozen=True):
    """What is read.

    Attributes:
      responses: batch CSVs and JSON lines.
      decisions: reviewers' sheets.
      reviewers: two sheets to be merged, or none.
      encoding: of response files without a byte order mark.
      kind: of the tasks whose answers are taken.
    """

    responses: list[str]
    decisions: list[str] = []
    reviewers: list[str] = []
    encoding: str = "utf-8"
    kind: TaskKind = SCHEMA_TASKS


def distinct(paths: Iterable[str]) -> list[str]:
    """Each file once, however its path is written."""
    return sorted({str(as_path(path).resolve()): path for path in sorted(paths, reverse=True)}.values())


def check_file(path: str, place: str) -> None:
    """Raises InputError where there is no such file, or none that can be read.

    Args:
      path: of the file.
      place: the flag or argument that names it.
    """
    if not is_there(path):
        raise InputError("there is no such file", f"{place} {path}")
    if as_path(path).is_dir():
        raise InputError("is a folder; give a file", f"{place} {path}")
    if "://" not in path:
        check_input(path)


def check_encoding(encoding: str, place: str) -> None:
    """Raises InputError for what is no text encoding; ``place`` is the flag or argument that names it."""
    try:
        "".encode(encoding)  # unlike codecs.lookup, refuses base64 and its like
    except LookupError:
        raise InputError(f"Python knows no text encoding {encoding!r}", place) from None


def read_responses(
    path: str, key: bytes, encoding: str, kind: TaskKind = SCHEMA_TASKS
) -> Iterator[Assignment | DeadLetter]:
    """The assignments of one file, CSV or JSON lines by what it begins with; a file of neither is one dead letter.

    Raises:
      DamagedFile: a compressed file that is cut off or damaged.
    """
    try:
        with open_input(path) as handle:
            # Byte order marks and the zeros of UTF-16 aside, JSON begins with a bracket.
            begins = handle.peek(256)[:256].replace(b"\0", b"").lstrip(b"\xef\xbb\xbf\xff\xfe \t\r\n")[:1]
            read = read_assignments if begins in (b"{", b"[") else read_batch
            yield from read(handle, path, key, encoding, kind)
    except DamagedFile:
        raise
    except InputError as error:
        yield DeadLetter("ingest", path, f"unusable_file: {error}", "", path)


def read_sheet(path: str) -> tuple[list[Decision], list[DeadLetter]]:
    """The decisions of one sheet, and its bad rows. Raises InputError for a file that is no sheet."""
    with open_input(path) as handle:
        decisions, bad = parse_decisions(handle.read(), path)
    return decisions, [
        DeadLetter("decisions", where, f"bad_decision: {reason}", payload(orjson.dumps(cells).decode()), where)
        for row, reason, cells in bad
        for where in (f"{path}: row {row}",)
    ]


def read_batch(
    handle: BinaryIO, path: str, key: bytes, encoding: str = "utf-8", kind: TaskKind = SCHEMA_TASKS
) -> Iterator[Assignment | DeadLetter]:
    """Every row of a batch results CSV as an assignment, or as a dead letter that says why not.

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
    columns = _header(records, path)
    for record in records:
        source = f"{path}: row {record.number}"
        if record.problem:
            yield DeadLetter("ingest", source, record.problem, withheld(key, record.raw), source)
            continue
        row = dict(zip(columns, record.cells, strict=True))
        try:
            yield from list(take(_form_of_row(row, source, kind), key, kind))
        except Exception as error:
            shown = ", ".join(f"{name}={text}" for name, text in row.items() if text and name != "WorkerId")
            yield _unusable(error, row, shown, source)


def read_assignments(
    handle: BinaryIO, path: str, key: bytes, encoding: str = "utf-8", kind: TaskKind = SCHEMA_TASKS
) -> Iterator[Assignment | DeadLetter]:
    """Every line of boto3's ``list_assignments_for_hit``, with its HIT's RequesterAnnotation, as :func:`read_batch`."""
    for line in read_lines(handle, encoding):
        if line.text is not None and not line.text.strip():
            continue
        source = f"{path}: row {line.number}"
        item: dict[str, Any] = {}
        try:
            item = _object(line)
            yield from list(take(_form_of_item(item, source, kind), key, kind))
        except Exception as error:
            shown = compact_json({name: value for name, value in item.items() if name != "WorkerId"})
            yield _unusable(error, item, shown if item else withheld(key, line.shown), source)


def _unusable(error: Exception, record: Mapping[str, Any], shown: str, source: str) -> DeadLetter:
    """The dead letter of a record that cannot be taken."""
    if not isinstance(error, Unusable):
        return DeadLetter("ingest", source, bad_record(error, is_private=True).reason, "", source)
    own, assignment_id = str(record.get("WorkerId", "")), _text(record, "AssignmentId").strip() or source
    why = redact(str(error), own)
    return DeadLetter("ingest", redact(assignment_id, own), why, payload(shown, own) if record else shown, source)


def _header(records: Iterator[Record], path: str) -> list[str]:
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


def _form_of_row(row: dict[str, str], source: str, kind: TaskKind) -> Form:
    given = {name.removeprefix("Answer."): text for name, text in row.items() if name.startswith("Answer.")}
    task = find_task(
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


def _object(line: Line) -> dict[str, Any]:
    if line.text is None:
        raise Unusable("encoding: the row is not UTF-8; save the file as UTF-8")
    try:
        item = parse_json_line(line.text)
    except ValueError as error:
        raise Unusable(f"broken_row: not JSON: {error}") from None
    if not isinstance(item, dict):
        raise Unusable(f"broken_row: expected an object, found {type(item).__name__}")
    return item


def _form_of_item(item: dict[str, Any], source: str, kind: TaskKind) -> Form:
    return Form(
        _text(item, "AssignmentId").strip(),
        find_task("", "", "", _text(item, "RequesterAnnotation"), kind),
        _text(item, "WorkerId"),
        parse_answer_xml(_text(item, "Answer")),
        None,
        _text(item, "AcceptTime"),
        _text(item, "SubmitTime"),
        "",
        _text(item, "AssignmentStatus"),
        source,
    )


def parse_answer_xml(xml: str) -> dict[str, str]:
    """Form field to text of a QuestionFormAnswers document. Raises Unusable; entities and DTDs are refused."""
    if not xml.strip():
        raise Unusable("no_answer: the Answer is empty")
    try:
        root = ElementTree.fromstring(_DECLARATION.sub("", xml, count=1), forbid_dtd=True)
    except DefusedXmlException:
        raise Unusable("unsafe_xml: the answer's XML has a DTD or entities, which are refused") from None
    except (ElementTree.ParseError, ValueError) as error:
        raise Unusable(f"broken_xml: {error}") from None
    found: dict[str, str] = {}
    for answer in root.iter():
        if _local(answer.tag) != "Answer":
            continue
        parts = {_local(child.tag): child.text or "" for child in answer}
        name = parts.get("QuestionIdentifier", "").strip()
        if name in found:
            raise Unusable(f"broken_xml: field {name!r} is answered twice")
        found[name] = parts.get("FreeText", "")
    return found


def _local(tag: Any) -> str:
    return tag.rpartition("}")[2] if isinstance(tag, str) else ""


def _text(item: Mapping[str, Any], name: str) -> str:
    value = item.get(name, "")
    return value if isinstance(value, str) else str(value if value is not None else "")
