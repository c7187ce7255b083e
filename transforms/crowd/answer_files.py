"""Parse the files of crowd answers.

Batch results in CSV and JSON of MTurk's API become assignments, sheets become decisions.

A bad row is skipped; the rows after it are still read.
"""

from __future__ import annotations

import codecs
import csv
import hashlib
import hmac
import io
import json
import re
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, NamedTuple, get_args

import msgspec
import orjson
from defusedxml import ElementTree
from defusedxml.common import DefusedXmlException

from parapet.schemas import limits
from parapet.schemas.decisions import Decision, delimiter_of, parse_decisions
from parapet.schemas.errors import DamagedFile, InputError
from parapet.schemas.json_text import compact_json, parse_json_line
from parapet.schemas.layout import as_path, is_there
from parapet.schemas.rows import ANSWER_SOURCES, AnswerSource, Assignment, CrowdTask, DeadLetter
from parapet.schemas.service import FIELD, TASKS
from parapet.transforms.crowd.times import is_exact, read_time
from parapet.transforms.crowd.worker_ids import plain_id, redact, withheld, without_own_id
from parapet.transforms.storage.compressed import check_input, open_input

# A record with more lines than this has a quote that was never closed.
MAX_LINES_OF_A_RECORD = 500

_BLANK = ' \t\r\n\v\f\xa0,;"'  # what a line of empty cells consists of

_BOMS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)


_NOT_DECODED = "\ufffd"
_ENCODING = "encoding: the row is not UTF-8; save the file as UTF-8"


class Line(NamedTuple):
    """A line of a file, numbered from 1. What cannot be decoded is U+FFFD."""

    number: int
    text: str


class Record(msgspec.Struct):
    """A CSV record: its first line number, and its cells, or the problem and the raw text of a broken record."""

    number: int
    cells: list[str] = []
    problem: str = ""
    raw: str = ""


def read_lines(handle: io.BufferedReader, encoding: str = "utf-8") -> Iterator[Line]:
    """Read the lines of a file. A byte order mark overrides ``encoding``."""
    head = handle.peek(4)
    encoding = next((name for bom, name in _BOMS if head.startswith(bom)), encoding)
    text = io.TextIOWrapper(handle, encoding, errors="replace", newline="")
    yield from (Line(number, line) for number, line in enumerate(text, 1))
    text.detach()


def read_records(lines: Iterator[Line], columns: Collection[str] = ()) -> Iterator[Record]:
    """Parse lines to CSV records; the first record sets the number of columns of the others.

    Cells are separated by commas, or by semicolons or tabs if that gives more of ``columns``. A record with an unclosed
    quote or a wrong number of cells is broken. Reading continues at the line after its first line, so that one stray
    quote does not swallow the rest of the file.
    """
    waiting: deque[Line] = deque()  # lines that are parsed again after a broken record
    width, delimiter = None, ""
    while (first := waiting.popleft() if waiting else next(lines, None)) is not None:
        if not first.text.strip():
            continue
        delimiter = delimiter or delimiter_of(first.text, columns)
        record = [first.text]
        while sum(text.count('"') for text in record) % 2 and len(record) < MAX_LINES_OF_A_RECORD:
            if (line := waiting.popleft() if waiting else next(lines, None)) is None:
                break
            record.append(line.text)
        cells, problem = _cells("".join(record), width, delimiter)
        if problem:
            waiting.extendleft(Line(first.number + i, record[i]) for i in range(len(record) - 1, 0, -1))
        else:
            width = width or len(cells)
        yield Record(first.number, cells, problem, first.text if problem else "")


def _cells(text: str, width: int | None, delimiter: str) -> tuple[list[str], str]:
    if text.count('"') % 2:
        return [], "broken_row: a quote is not closed"
    if _NOT_DECODED in text:
        return [], _ENCODING
    try:
        rows = list(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True))
    except csv.Error as error:
        return [], f"broken_row: {error}"
    if len(rows) != 1:
        return [], "broken_row: a line break outside quotes"
    if width is not None and len(rows[0]) != width:
        return [], f"broken_row: the row has {len(rows[0])} cells, but the header has {width}"
    return rows[0], ""


def read_rows(path: str, columns: Iterable[str]) -> list[tuple[int, dict[str, str]]]:
    """Read (row number, stripped cells) from a CSV that a person has written, which must have ``columns``.

    Raises:
      InputError: the file cannot be read, lacks a column, or a row has too many or too few cells.
    """
    try:
        reader = csv.DictReader(io.StringIO(limits.read_text(as_path(path)), newline=None), strict=True)
        missing = [name for name in columns if name not in (reader.fieldnames or ())]
        if missing:
            raise InputError(f"the header lacks {', '.join(missing)}", path, "row 1")
        rows: list[tuple[int, dict[Any, Any]]] = [(reader.line_num, row) for row in reader]
    except csv.Error as error:
        raise InputError(f"cannot be read: {error}", path) from None
    for number, row in rows:
        if None in row or None in row.values():
            raise InputError("the row has more or fewer cells than the header", path, f"row {number}")
    return [(number, {name: cell.strip() for name, cell in row.items()}) for number, row in rows]


# A longer answer cannot be an answer to a question about a few words.
MAX_ANSWER = 20_000
MAX_COUNT = 1_000_000  # maximum number of keystrokes, pastes or seconds of one answer
# Characters of a record that its dead letter keeps; the file and row lead to the full record.
MAX_PAYLOAD = 2_000

# Form fields that are not answers.
PLUMBING = frozenset(
    {"doNotRedirect", "assignmentId", "hitId", "workerId", "turkSubmitTo", "submitButton", "csrf_token"}
)

_SECONDS = re.compile(r"([0-9]{1,9})(?:[.,][0-9]*)?", re.ASCII)


class TaskKind(msgspec.Struct, frozen=True):
    """The kind of tasks whose answers a run accepts.

    Attributes:
      tasks: the names of the tasks.
      task_id: the pattern of task ids, with groups ``service`` (what the task is about) and ``task``.
      shape: the pattern in words, for messages.
      field: the pattern of the names of form fields.
    """

    tasks: tuple[CrowdTask, ...]
    task_id: re.Pattern[str]
    shape: str
    field: re.Pattern[str]


SCHEMA_TASKS = TaskKind(
    TASKS,
    re.compile(r"(?P<service>[^;\s]+):(?P<task>names|descriptions)"),
    "SERVICE:names or SERVICE:descriptions",
    FIELD,
)


class Unusable(Exception):
    """A record that must become a dead letter; the message is the reason."""


def payload(text: str, worker_id: str = "") -> str:
    """Format a record for a dead letter, without worker ids.

    A truncated record has its length and hash.
    """
    text = redact(text, worker_id).replace("\0", "")  # NUL bytes come from UTF-16 that was decoded as another encoding
    if len(text) <= MAX_PAYLOAD:
        return text
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    return f"{text[:MAX_PAYLOAD]}… [{len(text):,} characters, sha256 {digest}]"


def worker_hash(key: bytes, worker_id: str) -> str:
    """Hash a worker id (HMAC-SHA256, 16 hex digits), in the form of :func:`plain_id`."""
    worker_id = plain_id(worker_id)
    return hmac.new(key, worker_id.encode(), hashlib.sha256).hexdigest()[:16] if worker_id else ""


def _times(row: Mapping[str, str]) -> tuple[int | None, int | None, int | None, list[str]]:
    """Return the times of acceptance and submission, the seconds between them, and what could not be read.

    The stated number of seconds counts if a time is missing, or was rounded to minutes.
    """
    times: list[int | None] = []
    unread = []
    for name in ("AcceptTime", "SubmitTime"):
        text = row.get(name, "").strip()
        try:
            times.append(read_time(text) if text else None)
        except (ValueError, OverflowError) as error:
            times.append(None)
            unread.append(f"{name} {text[:60]!r} {error}")
    accept, submit = times
    if accept is not None and submit is not None and all(is_exact(row[name]) for name in ("AcceptTime", "SubmitTime")):
        return accept, submit, submit - accept, unread
    stated = _SECONDS.fullmatch(row.get("WorkTimeInSeconds", "").strip())
    return accept, submit, int(stated[1]) if stated else None, unread


def find_task(
    task_id: str, service: str, task: str, annotation: str, kind: TaskKind = SCHEMA_TASKS
) -> tuple[str, CrowdTask]:
    """Return the service and task that a record answers. Raises Unusable if none is named or two differ."""
    named = []
    for text in (task_id, annotation):
        if match := kind.task_id.fullmatch(text.strip()):
            named.append((match["service"], match["task"]))
    if service.strip() and task.strip():
        named.append((service.strip(), task.strip()))
    if not named and task_id.strip():
        raise Unusable(f"unknown_task: Input.task_id {task_id.strip()!r} is not of the form {kind.shape}")
    if not named:
        raise Unusable(
            f"no_task: add the column RequesterAnnotation with {kind.shape}, or the columns "
            "Input.service_name and Input.task; in JSON, RequesterAnnotation, or what 'aws mturk list-hits' prints, in "
            "the same file before the assignments"
        )
    if len(set(named)) > 1:
        raise Unusable(
            f"contradicting_task: the record names {' and '.join(f'{s}:{t}' for s, t in sorted(set(named)))}"
        )
    found_service, found_task = named[0]
    for known in kind.tasks:
        if found_task == known:
            return found_service, known
    neither = "neither " if len(kind.tasks) > 1 else "not "
    raise Unusable(f"unknown_task: {found_task!r} is {neither}{' nor '.join(map(repr, kind.tasks))}")


def split_answers(given: Mapping[str, str], field: re.Pattern[str] = FIELD) -> tuple[dict[str, str], dict[str, str]]:
    """Separate form fields into answers (``intent_0``, ``slot_3``, ``service``) and other non-blank fields.

    Raises Unusable if ``taskAnswers`` is not the JSON list of one object that crowd-form pages submit.
    """
    pages: dict[str, str] = {}
    if "taskAnswers" in given:
        pages = _task_answers(given["taskAnswers"])
        if twice := next((name for name in pages if given.get(name, "") not in ("", pages[name])), None):
            raise Unusable(f"task_answers: field {twice!r} is answered twice, differently")
    answers, others = {}, {}
    for name, text in ({**given, **pages}).items():
        if name == "taskAnswers":
            continue
        text = text.replace("\r\n", "\n").replace("\r", "\n")
        if field.fullmatch(name):
            answers[name] = text
        elif text.strip() and name not in PLUMBING:
            others[name] = text
    return answers, others


def _task_answers(text: str) -> dict[str, str]:
    if not text.strip():
        return {}
    if len(text) > 100 * MAX_ANSWER:
        raise Unusable("too_large: taskAnswers is too long to contain answers")
    pages = _parsed(text, "task_answers")
    pages = [pages] if isinstance(pages, dict) else pages
    if not (isinstance(pages, list) and all(isinstance(page, dict) for page in pages)):
        raise Unusable("task_answers: expected a JSON list of one object")
    task_answers: dict[str, str] = {}
    for page in pages:
        for name, value in page.items():
            answer = value if isinstance(value, str) else compact_json(value)
            if task_answers.setdefault(name, answer) != answer:
                raise Unusable(f"task_answers: field {name!r} is answered twice, differently")
    return task_answers


def _parsed(text: str, reason: str) -> Any:
    """Parse JSON. Raises Unusable if it is not JSON, or has a key twice in an object: an answer would be lost."""
    try:
        value = parse_json_line(text)
        json.loads(text, object_pairs_hook=_check_keys)
        return value
    except (ValueError, RecursionError) as error:
        hint = "; it is written as by Python's print: use json.dumps(..., default=str)" if text[:2] == "{'" else ""
        raise Unusable(f"{reason}: not JSON: {error}{hint}") from None


def _check_keys(pairs: list[tuple[str, Any]]) -> None:
    keys = [key for key, _ in pairs]
    for key in keys:
        if keys.count(key) > 1:
            raise ValueError(f"the key {key!r} appears twice")


class Collected(msgspec.Struct, frozen=True):
    """The fields that a line of ``parapet collect`` adds to those of an assignment in MTurk's API.

    Attributes:
      answers: form field to text.
      source: the source of the answers. ``keystrokes``, ``pastes`` and ``seconds`` say how each was typed.
    """

    answers: dict[str, str] = msgspec.field(name="Answers")
    source: AnswerSource = msgspec.field(name="Source")
    keystrokes: dict[str, int] = msgspec.field(name="Keystrokes", default_factory=dict)
    pastes: dict[str, int] = msgspec.field(name="Pastes", default_factory=dict)
    seconds: dict[str, float] = msgspec.field(name="Seconds", default_factory=dict)


def take(
    row: Mapping[str, str],
    asked: list[str] | None,
    source: str,
    key: bytes,
    kind: TaskKind = SCHEMA_TASKS,
    collected: Collected | None = None,
) -> Iterator[Assignment | DeadLetter]:
    """Parse one worker's submission to an assignment, and to dead letters for fields that are not answers.

    Args:
      row: the row of a batch CSV by column; or an assignment of the API, with the answers as XML.
      asked: the fields that the form showed, if the CSV lists them; None for the API, which returns exactly those.
      source: ``file: row N``.
      key: the key for hashing worker ids.
      kind: the kind of tasks whose answers are accepted.
      collected: the answers of a line of ``parapet collect``, instead of the XML.

    Raises:
      Unusable: the whole row cannot be used.
    """
    task_id, service, name = (row.get(f"Input.{column}", "") for column in ("task_id", "service_name", "task"))
    task = find_task(task_id, service, name, row.get("RequesterAnnotation", ""), kind)
    if collected is not None:
        answers_here = collected.answers
    elif asked is None:
        answers_here = parse_answer_xml(row["Answer"])
    else:
        answers_here = {name.removeprefix("Answer."): text for name, text in row.items() if name.startswith("Answer.")}
    assignment_id, own = row["AssignmentId"].strip(), plain_id(row.get("WorkerId", ""))
    if not assignment_id:
        raise Unusable("no_assignment_id: the AssignmentId is missing")
    # Turkle numbers assignments and workers alike, so that these may be equal by chance.
    if own and own == plain_id(assignment_id) and not _COUNTED_UP.fullmatch(own):
        raise Unusable("no_assignment_id: the AssignmentId is the WorkerId")
    if len(own) == 30 and own.startswith("3") and assignment_id.startswith("A"):
        raise Unusable("no_assignment_id: the columns AssignmentId and WorkerId seem to be swapped")

    digest = worker_hash(key, own)
    assignment_id = without_own_id(assignment_id, own, digest)

    def dead(field: str, reason: str, text: str) -> DeadLetter:
        return DeadLetter("ingest", f"{assignment_id}:{redact(field, own)}", reason, payload(text, own), source)

    answers, others = split_answers(answers_here, kind.field)
    if asked:
        # The CSV has the columns of the whole batch; blank fields that this form did not show are not answers.
        answers = {name: text for name, text in answers.items() if text or name in asked}
    for name in [name for name, text in answers.items() if len(text) > MAX_ANSWER]:
        yield dead(name, f"too_large: the answer has more than {MAX_ANSWER:,} characters", answers.pop(name))
    answers = {name: redact(text, own, is_answer=True) if text else text for name, text in answers.items()}
    for name, text in others.items():
        yield dead(name, "unknown_field: the form has no such field", text)
    accept, submit, seconds, unread = _times(row)
    platform = _source(row.get("Source", "")) if collected is None else collected.source
    is_rejected = row.get("AssignmentStatus", "").strip().lower() == "rejected" or bool(row.get("Reject", "").strip())
    yield Assignment(
        assignment_id,
        *task,
        digest,
        answers,
        asked=asked is None or bool(asked),
        accept_time=accept,
        submit_time=submit,
        work_seconds=seconds,
        rejected=is_rejected,
        source=source,
        platform=platform,
        unread=tuple(redact(text, own) for text in unread),
        **({} if collected is None else _typing(collected, answers)),
    )


def _source(text: str) -> AnswerSource:
    """Return the source that a record names, ``mturk`` by default. Raises Unusable if it is unknown."""
    text = text.strip().lower() or "mturk"
    for source in ANSWER_SOURCES:
        if text == source:
            return source
    raise Unusable(f"broken_row: Source {text[:40]!r} must be one of {', '.join(ANSWER_SOURCES)}")


def _typing(collected: Collected, answers: Collection[str]) -> dict[str, Any]:
    """Return the recorded typing data of the answers; numbers out of range are left out."""
    columns: dict[str, dict[str, Any]] = {"keystrokes": {}, "pastes": {}, "seconds": {}}
    for name, values in columns.items():
        stated = getattr(collected, name)
        values.update({field: n for field, n in stated.items() if field in answers and 0 <= n <= MAX_COUNT})
    return columns


REQUIRED = ("AssignmentId", "WorkerId")
_MEANING = {
    "AssignmentId": "one form filled in by one person: a different text in each row",
    "WorkerId": "who",
    "Answer.*": "a column for each form field, such as Answer.slot_0",
}
API_MEMBERS = (
    *("AssignmentId", "WorkerId", "RequesterAnnotation", "Answer", "AcceptTime", "SubmitTime", "AssignmentStatus"),
    "Source",
)
_COUNTED_UP = re.compile(r"[0-9]{1,9}")
_IDENTIFYING = re.compile(r"worker|user ?name|e-?mail|participant|prolific_pid", re.IGNORECASE)  # names of columns

# The declaration may say ASCII although the text is not, and parsers refuse a str with an encoding declaration.
_DECLARATION = re.compile(r"^\s*<\?xml[^>]*\?>")


class Sources(msgspec.Struct, frozen=True):
    """The input files of a composition.

    Attributes:
      responses: batch CSVs and JSON lines.
      decisions: reviewers' sheets.
      encoding: the encoding of response files without a byte order mark.
      kind: the kind of tasks whose answers are accepted.
    """

    responses: list[str]
    decisions: list[str] = []
    encoding: str = "utf-8"
    kind: TaskKind = SCHEMA_TASKS

    def files(self) -> list[tuple[str, str]]:
        """Return (name of the flag, path) of each file."""
        return [(name, path) for name in ("responses", "decisions") for path in getattr(self, name)]

    def check(self, flag: str) -> None:
        """Raise InputError if a file is missing or the encoding is unknown.

        Args:
          flag: the prefix of flags in messages: ``--``, or an empty string for arguments.
        """
        for name, path in self.files():
            check_file(path, f"{flag}{name}")
        check_encoding(self.encoding, f"{flag}encoding")


def distinct(paths: Iterable[str]) -> list[str]:
    """Remove duplicate files, even if their paths are written differently."""
    return sorted({str(as_path(path).resolve()): path for path in sorted(paths, reverse=True)}.values())


def check_file(path: str, place: str) -> None:
    """Raise InputError if a file does not exist or cannot be read.

    Args:
      path: the file.
      place: the flag or argument that names the file.
    """
    if not is_there(path):
        raise InputError("there is no such file", f"{place} {path}")
    if as_path(path).is_dir():
        raise InputError("is a folder: give a file", f"{place} {path}")
    if "://" not in path:
        check_input(path)


def check_encoding(encoding: str, place: str) -> None:
    """Raise InputError if ``encoding`` is not a text encoding; ``place`` is the flag or argument that names it."""
    try:
        "".encode(encoding)  # unlike codecs.lookup, this refuses binary codecs such as base64
    except LookupError:
        raise InputError(f"{encoding!r} is not a text encoding that Python knows", place) from None


def read_responses(
    path: str, key: bytes, encoding: str, kind: TaskKind = SCHEMA_TASKS
) -> Iterator[Assignment | DeadLetter]:
    """Read the assignments of a CSV or JSON file, detected by its first character.

    A file of neither format becomes one dead letter.

    Raises:
      DamagedFile: a compressed file is truncated or damaged.
      InputError: so many rows cannot be used that this is no file of answers; raised before the end of the file.
    """
    good, bad, first = 0, 0, ""
    for record in _read_any(path, key, encoding, kind):
        yield record
        if isinstance(record, Assignment):
            good += 1
        elif not record.reason.startswith("unknown_field"):  # a field of a row that is used
            bad, first = bad + 1, first or f"{record.source}: {record.reason}"
            if bad > max(limits.MAX_BAD_ROWS, good):
                raise InputError(f"{bad:,} of the first {bad + good:,} rows cannot be used (first {first})", path)


def _read_any(path: str, key: bytes, encoding: str, kind: TaskKind) -> Iterator[Assignment | DeadLetter]:
    try:
        with open_input(path) as handle:
            # Apart from byte order marks and the zeros of UTF-16, JSON begins with a bracket.
            begins = handle.peek(256)[:256].replace(b"\0", b"").lstrip(b"\xef\xbb\xbf\xff\xfe \t\r\n")[:1]
            read = read_assignments if begins in (b"{", b"[") else read_batch
            yield from read(handle, path, key, encoding, kind)
    except DamagedFile:
        raise
    except InputError as error:
        yield DeadLetter("ingest", path, f"unusable_file: {error}", "", path)


def read_sheet(path: str) -> tuple[list[Decision], list[DeadLetter]]:
    """Read the decisions and bad rows of a sheet. Raises InputError if the file is not a decisions sheet."""
    with open_input(path) as handle:
        data = handle.read(limits.MAX_FILE + 1)
    limits.check_size(len(data), limits.MAX_FILE, path)
    decisions, bad = parse_decisions(data, path)
    return decisions, [
        DeadLetter("decisions", where, f"bad_decision: {reason}", payload(orjson.dumps(cells).decode()), where)
        for row, reason, cells in bad
        for where in (f"{path}: row {row}",)
    ]


def read_batch(
    handle: io.BufferedReader, path: str, key: bytes, encoding: str = "utf-8", kind: TaskKind = SCHEMA_TASKS
) -> Iterator[Assignment | DeadLetter]:
    """Parse each row of a batch results CSV to an assignment or a dead letter.

    Args:
      handle: the file, opened in binary mode.
      path: the file's name for messages.
      key: the key for hashing worker ids.
      encoding: used if the file has no byte order mark.
      kind: the kind of tasks whose answers are accepted.

    Raises:
      InputError: the file has no usable header.
    """
    records = read_records(read_lines(handle, encoding), REQUIRED)
    columns = _header(records, path)
    for record in records:
        if not (record.raw.strip(_BLANK) if record.problem else "".join(record.cells).strip()):
            continue  # a blank row of a spreadsheet
        source = f"{path}: row {record.number}"
        if record.problem:
            yield DeadLetter("ingest", source, record.problem, withheld(key, record.raw), source)
            continue
        row = dict(zip(columns, record.cells, strict=True))
        try:
            yield from list(take(row, row.get("Input.fields", "").split(), source, key, kind))
        except Unusable as error:
            shown = ", ".join(f"{name}={text}" for name, text in row.items() if text and not _IDENTIFYING.search(name))
            yield _unusable(error, row, shown, source)


def read_assignments(
    handle: io.BufferedReader, path: str, key: bytes, encoding: str = "utf-8", kind: TaskKind = SCHEMA_TASKS
) -> Iterator[Assignment | DeadLetter]:
    """Parse the JSON of MTurk's API or of ``parapet collect``: lines, or documents of several lines, one after another.

    A document is an assignment, a list of them, or what the AWS CLI prints: a page of ``list-assignments-for-hit``, or
    ``get-assignment``. Assignments without RequesterAnnotation have that of their HIT, if ``get-hit`` or ``list-hits``
    stands before them.

    The arguments are those of :func:`read_batch`.
    """
    annotations: dict[str, str] = {}
    for line, value in read_json("".join(line.text for line in read_lines(handle, encoding))):
        for place, item in _items(value, annotations):
            source = f"{path}: row {line.number}{place}"
            try:
                if isinstance(item, Unusable):
                    raise item
                if not isinstance(item, dict):
                    raise Unusable(f"broken_row: expected an object, found {type(item).__name__}")
                row = {name: _text(item, name) for name in API_MEMBERS}
                row["RequesterAnnotation"] = row["RequesterAnnotation"] or annotations.get(_text(item, "HITId"), "")
                yield from list(take(row, None, source, key, kind, _collected(item)))
            except Unusable as error:
                record = item if isinstance(item, dict) else {}
                shown = compact_json({name: text for name, text in record.items() if not _IDENTIFYING.search(name)})
                if not record:
                    shown = withheld(key, line.text if isinstance(item, Unusable) else compact_json(item))
                yield _unusable(error, record, shown, source)


_BETWEEN = re.compile(r"[\s,]*")
_DECODER = json.JSONDecoder()


def read_json(text: str) -> Iterator[tuple[Line, Any]]:
    """Yield the JSON values of a text with their first lines: one on each line, or on several, or joined.

    A line that begins no value is paired with an Unusable; reading goes on at the next line.
    """
    at, number, counted = 0, 1, 0
    while (at := _BETWEEN.match(text, at).end()) < len(text):  # type: ignore[union-attr]  # it matches anywhere
        number, counted = number + text.count("\n", counted, at), at
        end_of_line = text.find("\n", at) + 1 or len(text)
        line = Line(number, text[at:end_of_line])
        try:
            end = _DECODER.raw_decode(text, at)[1]
        except (ValueError, RecursionError):
            end = end_of_line
        try:
            if _NOT_DECODED in text[at:end]:
                raise Unusable(_ENCODING)
            yield line, _parsed(text[at:end].strip(), "broken_row")
        except Unusable as error:
            yield line, error
        at = end


def _items(value: Any, annotations: dict[str, str]) -> Iterator[tuple[str, Any]]:
    """Yield the assignments in a JSON value with their places, and remember the annotations of HITs."""
    if isinstance(value, list):
        for n, item in enumerate(value, 1):
            own = f", item {n}" if len(value) > 1 else ""
            yield from ((own + place, inner) for place, inner in _items(item, annotations))
        return
    if not isinstance(value, dict) or "AssignmentId" in value:
        yield "", value
        return
    hits = value.get("HITs", value.get("HIT"))
    for hit in hits if isinstance(hits, list) else [hits]:
        if isinstance(hit, dict) and (annotation := _text(hit, "RequesterAnnotation")):
            annotations[_text(hit, "HITId")] = annotation
    assignments = value.get("Assignments", value.get("Assignment"))
    if isinstance(assignments, dict | list):
        yield from _items(assignments, annotations)
    elif hits is None and value and all(isinstance(items, list) for items in value.values()):  # by HIT
        yield from _items(list(value.values()), annotations)
    elif hits is None:
        yield "", value


def _collected(item: Mapping[str, Any]) -> Collected | None:
    """Parse the fields that ``parapet collect`` adds; None for a line of MTurk's API.

    Raises Unusable if they are invalid.
    """
    if "Answers" not in item:
        return None
    try:
        return msgspec.convert(item, Collected)
    except msgspec.ValidationError as error:
        advice = f'add "Source": {" or ".join(get_args(AnswerSource))}' if "Source" not in item else str(error)
        raise Unusable(f"broken_row: {advice}") from None


def _unusable(error: Unusable, record: Mapping[str, Any], shown: str, source: str) -> DeadLetter:
    """Return the dead letter of a record that cannot be used."""
    own, assignment_id = str(record.get("WorkerId", "")), _text(record, "AssignmentId").strip() or source
    why = redact(str(error), own)
    return DeadLetter("ingest", redact(assignment_id, own), why, payload(shown, own) if record else shown, source)


def _header(records: Iterator[Record], path: str) -> list[str]:
    """Read the columns from the first record. Raises InputError if it is not a header of batch results."""
    first = next(records, None)
    if first is None:
        raise InputError("the file is empty", path)
    if first.problem:
        raise InputError(f"the header cannot be read: {first.problem}{_hint(first.raw)}", path, f"row {first.number}")
    columns = [cell.strip() for cell in first.cells]
    missing = [name for name in REQUIRED if name not in columns]
    if not any(name.startswith("Answer.") for name in columns):
        missing.append("Answer.*")
    if missing and missing != ["WorkerId"]:
        add = ": add " + "; ".join(f"{name} ({_MEANING[name]})" for name in missing)
        reason = f"not a file of batch results: the header lacks {', '.join(missing)}{_hint(','.join(columns)) or add}"
        raise InputError(reason, path, f"row {first.number}")
    twice = sorted({name for name in columns if name and columns.count(name) > 1})
    if twice:
        raise InputError(f"these columns appear twice in the header: {', '.join(twice)}", path, f"row {first.number}")
    return columns


def _hint(header: str) -> str:
    """Suggest what may be wrong with a header that cannot be used."""
    if header.startswith("PK"):
        return "; this is a workbook: save it as CSV"
    if "\0" in header:
        return "; the file looks like UTF-16: save it as UTF-8"
    return ""


def parse_answer_xml(xml: str) -> dict[str, str]:
    """Parse a QuestionFormAnswers document to form field → text. Raises Unusable, also for entities and DTDs."""
    if not xml.strip():
        raise Unusable("no_answer: the Answer is empty")
    try:
        root = ElementTree.fromstring(_DECLARATION.sub("", xml, count=1), forbid_dtd=True)
    except DefusedXmlException:
        raise Unusable("unsafe_xml: the answer's XML contains a DTD or entities, which are not allowed") from None
    except (ElementTree.ParseError, ValueError) as error:
        raise Unusable(f"broken_xml: {error}") from None
    answers: dict[str, str] = {}
    for answer in root.iter():
        if _local(answer.tag) != "Answer":
            continue
        parts = {_local(child.tag): child.text or "" for child in answer}
        name = parts.get("QuestionIdentifier", "").strip()
        if name in answers:
            raise Unusable(f"broken_xml: field {name!r} is answered twice")
        answers[name] = parts.get("FreeText", "")
    return answers


def _local(tag: Any) -> str:
    return tag.rpartition("}")[2] if isinstance(tag, str) else ""


def _text(item: Mapping[str, Any], name: str) -> str:
    return str(value) if (value := item.get(name)) is not None else ""
