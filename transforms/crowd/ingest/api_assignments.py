"""Assignments from JSON lines of boto3's ``list_assignments_for_hit``, each with its HIT's RequesterAnnotation."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any, BinaryIO

from defusedxml import ElementTree
from defusedxml.common import DefusedXmlException

from parapet.schemas.json_text import compact_json, parse_json_line
from parapet.schemas.responses import Assignment, DeadLetter
from parapet.transforms.crowd.ingest import fields
from parapet.transforms.crowd.ingest.fields import Form, take
from parapet.transforms.crowd.ingest.records import Line, read_lines
from parapet.transforms.crowd.redaction import redact, withheld
from parapet.transforms.fence import bad_record

# The declaration may say ASCII where the text is not, and a str with a declaration is refused by parsers.
_DECLARATION = re.compile(r"^\s*<\?xml[^>]*\?>")


def read_assignments(
    handle: BinaryIO, path: str, key: bytes, encoding: str = "utf-8", kind: fields.TaskKind = fields.SCHEMA_TASKS
) -> Iterator[Assignment | DeadLetter]:
    """Every line as an assignment, or as a dead letter that says why not. Arguments as in ``read_batch``."""
    yield from assignments_of(read_lines(handle, encoding), path, key, kind)


def assignments_of(
    lines: Iterable[Line], path: str, key: bytes, kind: fields.TaskKind
) -> Iterator[Assignment | DeadLetter]:
    """The same of lines."""
    for line in lines:
        if line.text is not None and not line.text.strip():
            continue
        source = f"{path}: row {line.number}"
        assignment_id = source
        item: dict[str, Any] = {}
        try:
            item = _object(line)
            assignment_id = _text(item, "AssignmentId").strip() or source
            yield from list(take(_form(item, source, kind), key, kind))
        except fields.Unusable as reason:
            own = str(item.pop("WorkerId", ""))
            shown = fields.payload(compact_json(item), own) if item else withheld(key, line.shown)
            yield DeadLetter("ingest", redact(assignment_id, own), redact(str(reason), own), shown, source)
        except Exception as error:
            yield DeadLetter("ingest", source, bad_record(error, is_private=True).reason, "", source)


def _object(line: Line) -> dict[str, Any]:
    if line.text is None:
        raise fields.Unusable("encoding: the row is not UTF-8; save the file as UTF-8")
    try:
        item = parse_json_line(line.text)
    except ValueError as error:
        raise fields.Unusable(f"broken_row: not JSON: {error}") from None
    if not isinstance(item, dict):
        raise fields.Unusable(f"broken_row: expected an object, found {type(item).__name__}")
    return item


def _form(item: dict[str, Any], source: str, kind: fields.TaskKind) -> Form:
    return Form(
        _text(item, "AssignmentId").strip(),
        fields.find_task("", "", "", _text(item, "RequesterAnnotation"), kind),
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
        raise fields.Unusable("no_answer: the Answer is empty")
    try:
        root = ElementTree.fromstring(_DECLARATION.sub("", xml, count=1), forbid_dtd=True)
    except DefusedXmlException:
        raise fields.Unusable("unsafe_xml: the answer's XML has a DTD or entities, which are refused") from None
    except (ElementTree.ParseError, ValueError) as error:
        raise fields.Unusable(f"broken_xml: {error}") from None
    found: dict[str, str] = {}
    for answer in root.iter():
        if _local(answer.tag) != "Answer":
            continue
        parts = {_local(child.tag): child.text or "" for child in answer}
        name = parts.get("QuestionIdentifier", "").strip()
        if name in found:
            raise fields.Unusable(f"broken_xml: field {name!r} is answered twice")
        found[name] = parts.get("FreeText", "")
    return found


def _local(tag: Any) -> str:
    return tag.rpartition("}")[2] if isinstance(tag, str) else ""


def _text(item: dict[str, Any], name: str) -> str:
    value = item.get(name, "")
    return value if isinstance(value, str) else str(value if value is not None else "")
