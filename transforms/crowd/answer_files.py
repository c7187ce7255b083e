"""Read crowd answers from files and from records of other programs.

Every record becomes an assignment or a dead letter in :func:`read_row`, whether it is a row of a batch CSV, an
assignment of MTurk's API or a line of ``parapet collect``. Rows after a bad one are still read.
"""

import codecs
import csv
import hashlib
import hmac
import io
import json
import re
from collections import Counter, deque
from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import datetime, timedelta, timezone, tzinfo
from decimal import Decimal
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Annotated, Any, cast

import msgspec
from dateutil import parser
from defusedxml import ElementTree

from parapet.schemas import layout, limits
from parapet.schemas.decisions import COLUMNS, Decision, Record, delimiter_of, parse_decisions
from parapet.schemas.errors import DamagedFile, InputError
from parapet.schemas.limits import compact_json, parse_json_line
from parapet.schemas.rows import ANSWER_SOURCES, AnswerSource, Assignment, CrowdTask, DeadLetter
from parapet.schemas.service import FIELD, TASKS
from parapet.transforms.core.inputs import check_input, open_input
from parapet.transforms.crowd.worker_ids import plain_id, redact, withheld, without_own_id

_LATEST = 9_223_372_036  # seconds, in 2262; pandas may store times as 64-bit nanoseconds, which end here
# Hours from UTC. Abbreviations that several countries use, such as IST and BST, are not here.
_ZONES = {
    **{"Z": 0, "UTC": 0, "GMT": 0, "WET": 0, "WEST": 1, "CET": 1, "CEST": 2, "EET": 2, "EEST": 3, "MSK": 3},
    **{"EST": -5, "EDT": -4, "CST": -6, "CDT": -5, "MST": -7, "MDT": -6, "PST": -8, "PDT": -7},
    **{"AKST": -9, "AKDT": -8, "HST": -10, "JST": 9, "KST": 9, "AEST": 10, "AEDT": 11, "NZST": 12, "NZDT": 13},
}
_EPOCH = re.compile(r"(\d{10})(\d{3})?(?:[.,]\d+)?")
_SLASHES = re.compile(r"0?(\d{1,2})[/-]0?(\d{1,2})[/-]\d{4}\b")
# States the seconds, of a clock or an epoch. Spreadsheets often cut them off.
EXACT = re.compile(r":\d\d:\d\d|^\d{9,}")
# What a text leaves open is filled in from these; a date that differs was not stated.
_DEFAULTS = (datetime(2000, 1, 1), datetime(2004, 2, 2))


@lru_cache(maxsize=1 << 14)
def read_time(text: str) -> tuple[int | None, str]:
    """Reads a time as seconds since 1970, UTC. A time without a zone is taken to be UTC.

    Returns None and the reason if the text is not a time, is ambiguous, or is before 1970 or after April 2262.
    """
    # Without what a browser writes about the zone: GMT-0700 (Pacific Daylight Time).
    text = " ".join(re.sub(r"\(.*\)|GMT(?=[+-])", "", text).split())
    if epoch := _EPOCH.fullmatch(text):
        seconds = int(epoch[1])
    else:
        is_day_first = re.match(r"\d{1,2}\.\d", text) is not None  # as in 31.10.2017
        if (date := _SLASHES.match(text)) and date[1] != date[2] and max(int(date[1]), int(date[2])) <= 12:
            return None, "is ambiguous: the day or the month may come first (write 2017-10-31 14:05:22)"
        try:
            whens = [parser.parse(text, default=day, tzinfos=_zone, dayfirst=is_day_first) for day in _DEFAULTS]
        except KeyError:
            return None, "has a time zone that is unknown or ambiguous"
        except (ValueError, OverflowError):
            whens = []
        if len(set(whens)) != 1:
            return None, "is not a time"
        seconds = int(whens[0].timestamp())
    return (seconds, "") if 0 <= seconds < _LATEST else (None, "is before 1970 or after 2262")


def _zone(name: str | None, offset: int | None) -> tzinfo:
    """Returns the zone of a time. Raises KeyError if it is unknown."""
    return timezone(timedelta(hours=_ZONES[name or "UTC"]) if offset is None else timedelta(seconds=offset))


_TASK_ANSWERS = Annotated[list[dict[str, Any]], msgspec.Meta(max_length=1)] | dict[str, Any]

# A record with more lines than this has a quote that was never closed.
MAX_LINES_OF_A_RECORD = 500
# A longer answer cannot be an answer to a question about a few words.
MAX_ANSWER = 20_000
# Keystrokes, pastes or seconds of one answer.
_Count = Annotated[int, msgspec.Meta(ge=0, le=1_000_000)]
_Seconds = Annotated[float, msgspec.Meta(ge=0, le=1_000_000)]
# Characters of a record that its dead letter keeps; the file and row lead to the full record.
MAX_PAYLOAD = 2_000

_BOMS = {codecs.BOM_UTF8: "utf-8-sig", codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}
_NOT_DECODED = "\ufffd"
_ENCODING = "encoding: the row is not UTF-8; save the file as UTF-8"
_BLANK = ' \t\r\n\v\f\xa0,;"'  # what a line of empty cells consists of

# Form fields that are not answers.
PLUMBING = frozenset(
    {"doNotRedirect", "assignmentId", "hitId", "workerId", "turkSubmitTo", "submitButton", "csrf_token", "taskAnswers"}
)

_REQUIRED = ("AssignmentId", "WorkerId", "Answer.*")
_IDENTIFYING = re.compile(r"worker|user ?name|e-?mail|participant|prolific_pid", re.IGNORECASE)  # names of columns
_REWARD = re.compile(r"\$?([0-9]{1,6}(?:\.[0-9]{1,2})?)")


Parsed = Assignment | DeadLetter


class Unusable(Exception):
    """A record that must become a dead letter; the message is the reason."""


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


_TASK_ID = re.compile(r"(?P<service>[^;\s]+):(?P<task>names|descriptions)")
SCHEMA_TASKS = TaskKind(TASKS, _TASK_ID, "SERVICE:names or SERVICE:descriptions", FIELD)


class Sources(msgspec.Struct, frozen=True):
    """The input files of a composition.

    Attributes:
      responses: batch CSVs and JSON lines.
      decisions: reviewers' sheets.
      encoding: the encoding of response files without a byte order mark.
    """

    responses: list[str]
    decisions: list[str] = []
    encoding: str = "utf-8"

    def files(self) -> list[tuple[str, str]]:
        """Returns (name of the flag, path) of each file."""
        return [(name, path) for name in ("responses", "decisions") for path in getattr(self, name)]

    def check(self, flag: str) -> None:
        """Raises InputError if a file is missing or the encoding is unknown.

        Args:
          flag: the prefix of flags in messages: ``--``, or an empty string for arguments.
        """
        for name, path in self.files():
            place = f"{flag}{name} {path}"
            if not layout.is_there(path):
                raise InputError("there is no such file", place)
            if layout.as_path(path).is_dir():
                raise InputError("is a folder: give a file", place)
            if "://" not in path:
                check_input(path)
        try:
            "".encode(self.encoding)  # unlike codecs.lookup, this refuses binary codecs such as base64
        except LookupError:
            raise InputError(f"{self.encoding!r} is not a text encoding that Python knows", f"{flag}encoding") from None


def distinct(paths: Iterable[str]) -> list[str]:
    """Removes duplicate files, even if their paths are written differently."""
    return sorted({str(layout.as_path(path).resolve()): path for path in sorted(paths, reverse=True)}.values())


# --- one record ------------------------------------------------------------------------------------------------------


def read_row(row: Mapping[str, Any], key: bytes, source: str, kind: TaskKind = SCHEMA_TASKS) -> Iterator[Parsed]:
    """Parses one worker's submission to an assignment, and to dead letters for fields that are not answers.

    A submission that cannot be used becomes a dead letter.

    Args:
      row: a row of a batch CSV by column (``Answer.slot_0``), an assignment of MTurk's API with the answers as XML
        (``Answer``), or a line of ``parapet collect`` (``Answers``). Values may be numbers, times or None.
      key: the key for hashing worker ids.
      source: where the row is from, such as ``file: row N``.
      kind: the kind of tasks whose answers are accepted.
    """
    if not isinstance(row, Mapping):
        reason = f"broken_row: expected an object, found {type(row).__name__}"
        yield DeadLetter("ingest", source, reason, withheld(key, str(row)), source)
        return
    texts = {_text(name): _text(value) for name, value in row.items()}
    worker_id = plain_id(texts.get("WorkerId", ""))
    try:
        service_name, task = find_task(texts, kind)
        form, is_complete = _form(row, texts)
        answers, others = split_answers(form.answers, kind.field)
        assignment_id, platform = _assignment_id(texts, worker_id), _platform(texts)
    except Unusable as error:
        shown = ", ".join(f"{name}={text}" for name, text in texts.items() if text and not _IDENTIFYING.search(name))
        place = redact(texts.get("AssignmentId", "").strip() or source, worker_id)
        yield DeadLetter("ingest", place, redact(str(error), worker_id), payload(shown, worker_id), source)
        return
    digest = worker_hash(key, worker_id)
    assignment_id = without_own_id(assignment_id, worker_id, digest)
    for name, text in others.items():
        reason = "unknown_field: the form has no such field"
        if kind.field.fullmatch(name):
            reason = f"too_large: the answer has more than {MAX_ANSWER:,} characters"
        place = f"{assignment_id}:{redact(name, worker_id)}"
        yield DeadLetter("ingest", place, reason, payload(text, worker_id), source)
    reward = _REWARD.fullmatch(texts.get("Reward", "").strip())
    is_rejected = texts.get("AssignmentStatus", "").strip().lower() == "rejected" or texts.get("Reject", "").strip()
    yield Assignment(
        assignment_id,
        service_name,
        task,
        digest,
        {name: redact(text, worker_id, is_answer=True) for name, text in answers.items()},
        asked=is_complete,
        rejected=bool(is_rejected),
        source=source,
        platform=platform,
        keystrokes=form.keystrokes,
        pastes=form.pastes,
        seconds=form.seconds,
        reward=Decimal(reward[1]) if reward else None,
        **_times(texts, worker_id),
    )


def _text(value: Any) -> str:
    """Returns a value as text that can be written as UTF-8."""
    return "" if value is None else str(value).encode("utf-8", "replace").decode()


def payload(text: str, worker_id: str = "") -> str:
    """Formats a record for a dead letter, without worker ids.

    A truncated record has its length and hash.
    """
    text = redact(text, worker_id).replace("\0", "")  # NUL bytes come from UTF-16 that was decoded as another encoding
    if len(text) <= MAX_PAYLOAD:
        return text
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    return f"{text[:MAX_PAYLOAD]}… [{len(text):,} characters, sha256 {digest}]"


def worker_hash(key: bytes, worker_id: str) -> str:
    """Hashes a worker id (HMAC-SHA256, 16 hex digits), in the form of :func:`plain_id`."""
    worker_id = plain_id(worker_id)
    return hmac.new(key, worker_id.encode(), hashlib.sha256).hexdigest()[:16] if worker_id else ""


class FilledForm(msgspec.Struct, rename="pascal"):
    """A form that a person or a model has filled in: a line of the answers of ``parapet collect``.

    Attributes:
      answers: form field to text.
      keystrokes: form field to how often a key changed its text; ``pastes``: how often text was pasted or dropped;
        ``seconds``: how long the field had the focus.
    """

    assignment_id: str = ""
    worker_id: str = ""
    assignment_status: str = "Submitted"
    requester_annotation: str = ""
    accept_time: str = ""
    submit_time: str = ""
    source: str = ""
    answers: dict[str, str] = {}
    keystrokes: dict[str, _Count] = {}
    pastes: dict[str, _Count] = {}
    seconds: dict[str, _Seconds] = {}


def find_task(texts: Mapping[str, str], kind: TaskKind = SCHEMA_TASKS) -> tuple[str, CrowdTask]:
    """Returns the service and task that a record answers. Raises Unusable if none is named or two differ."""
    names = ("Input.task_id", "RequesterAnnotation", "Input.service_name", "Input.task")
    task_id, annotation, service, task = (texts.get(name, "").strip() for name in names)
    named = {(m["service"], m["task"]) for text in (task_id, annotation) if (m := kind.task_id.fullmatch(text))}
    if service and task:
        named.add((service, task))
    if not named and task_id:
        raise Unusable(f"unknown_task: Input.task_id {task_id!r} is not of the form {kind.shape}")
    if not named:
        raise Unusable(
            f"no_task: add the column RequesterAnnotation with {kind.shape}, or Input.service_name and Input.task; in "
            "JSON, RequesterAnnotation, or what 'aws mturk list-hits' prints, in the same file before the assignments"
        )
    if len(named) > 1:
        raise Unusable(f"contradicting_task: the record names {' and '.join(f'{s}:{t}' for s, t in sorted(named))}")
    ((service, task),) = named
    if task not in kind.tasks:
        raise Unusable(f"unknown_task: {task!r} must be one of {', '.join(kind.tasks)}")
    return service, cast(CrowdTask, task)


def _form(row: Mapping[str, Any], texts: Mapping[str, str]) -> tuple[FilledForm, bool]:
    """Returns the form of a record, and whether its answers are known to have every field that was shown."""
    if columns := {name.removeprefix("Answer."): text for name, text in texts.items() if name.startswith("Answer.")}:
        # The CSV has the columns of the whole batch; blank fields that this form did not show are not answers.
        shown = texts.get("Input.fields", "").split()
        answers = {name: text for name, text in columns.items() if text or not shown or name in shown}
        return FilledForm(answers=answers), bool(shown)
    if row.get("Answers") is None:
        return FilledForm(answers=parse_answer_xml(texts.get("Answer", ""))), True
    names = ("Answers", "Keystrokes", "Pastes", "Seconds")
    try:
        return msgspec.convert({name: row[name] for name in names if row.get(name) is not None}, FilledForm), True
    except msgspec.ValidationError as error:
        raise Unusable(f"broken_row: {error}") from None


def _assignment_id(texts: Mapping[str, str], worker_id: str) -> str:
    if not (assignment_id := texts.get("AssignmentId", "").strip()):
        raise Unusable("no_assignment_id: the AssignmentId is missing")
    # Turkle numbers assignments and workers alike, so that these may be equal by chance.
    if worker_id and worker_id == plain_id(assignment_id) and not (worker_id.isdigit() and len(worker_id) < 10):
        raise Unusable("no_assignment_id: the AssignmentId is the WorkerId")
    if len(worker_id) == 30 and worker_id.startswith("3") and assignment_id.startswith("A"):
        raise Unusable("no_assignment_id: the columns AssignmentId and WorkerId seem to be swapped")
    return assignment_id


def split_answers(fields: Mapping[str, str], field: re.Pattern[str] = FIELD) -> tuple[dict[str, str], dict[str, str]]:
    """Separates form fields into answers (``intent_0``, ``slot_3``, ``service``) and other non-blank or too long ones.

    Raises Unusable if ``taskAnswers`` is not the JSON list of one object that crowd-form pages submit.
    """
    page = _task_answers(fields.get("taskAnswers", ""))
    if twice := next((name for name in page if fields.get(name, "") not in ("", page[name])), None):
        raise Unusable(f"task_answers: field {twice!r} is answered twice, differently")
    answers, others = {}, {}
    for name, text in ({**fields, **page}).items():
        text = _text(text).replace("\r\n", "\n").replace("\r", "\n")
        if field.fullmatch(name) and len(text) <= MAX_ANSWER:
            answers[name] = text
        elif text.strip() and name not in PLUMBING:
            others[_text(name)] = text
    return answers, others


def _task_answers(text: str) -> dict[str, str]:
    try:
        pages = msgspec.json.decode(text.strip() or "[]", type=_TASK_ANSWERS)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise Unusable(f"task_answers: expected a JSON list of one object: {error}") from None
    page = pages if isinstance(pages, dict) else dict(*pages)
    return {name: value if isinstance(value, str) else compact_json(value) for name, value in page.items()}


def parse_answer_xml(xml: str) -> dict[str, str]:
    """Parses a QuestionFormAnswers document to form field → text. Raises Unusable, also for entities and DTDs."""
    if not xml.strip():
        raise Unusable("no_answer: the Answer is empty")
    try:
        root = ElementTree.fromstring(xml.strip(), forbid_dtd=True)
    except (ElementTree.ParseError, ValueError) as error:  # for a DTD, too
        raise Unusable(f"broken_xml: {error}") from None
    answers: dict[str, str] = {}
    for answer in root.iterfind(".//{*}Answer"):
        name = answer.findtext("{*}QuestionIdentifier", "").strip()
        if name in answers:
            raise Unusable(f"broken_xml: field {name!r} is answered twice")
        answers[name] = answer.findtext("{*}FreeText", "")
    return answers


def _platform(texts: Mapping[str, str]) -> AnswerSource:
    """Returns the source that a record names, by default ``mturk``, whose exports name none."""
    source = texts.get("Source", "").strip().lower() or "mturk"
    if source not in ANSWER_SOURCES:
        raise Unusable(f"broken_row: Source {source[:40]!r} must be one of {', '.join(ANSWER_SOURCES)}")
    return source


def _times(texts: Mapping[str, str], worker_id: str) -> dict[str, Any]:
    """Returns the times of an assignment, the seconds between them, and what could not be read.

    The stated number of seconds counts if a time is missing, or was rounded to minutes.
    """
    stated = {name: texts.get(name, "").strip() for name in ("AcceptTime", "SubmitTime")}
    accept, submit = (read_time(text)[0] for text in stated.values())
    whole = re.fullmatch(r"([0-9]{1,9})(?:[.,][0-9]*)?", texts.get("WorkTimeInSeconds", "").strip())
    seconds = int(whole[1]) if whole else None
    if accept is not None and submit is not None and all(map(EXACT.search, stated.values())):
        seconds = submit - accept
    unread = tuple(
        redact(f"{name} {text[:60]!r} {problem}", worker_id)
        for name, text in stated.items()
        if text and (problem := read_time(text)[1])
    )
    return {"accept_time": accept, "submit_time": submit, "work_seconds": seconds, "unread": unread}


# --- files -----------------------------------------------------------------------------------------------------------


def read_responses(path: str, key: bytes, encoding: str, kind: TaskKind = SCHEMA_TASKS) -> Iterator[Parsed]:
    """Reads the assignments of a CSV or JSON file, detected by its first character.

    A record that cannot be used becomes a dead letter, as does a file of neither format. A record that cannot be split
    into columns is not shown, since a worker id may be anywhere in it.

    Raises DamagedFile if a compressed file is truncated or damaged.
    """
    try:
        with open_input(path) as handle:
            # Apart from byte order marks and the zeros of UTF-16, JSON begins with a bracket.
            begins = handle.peek(256)[:256].replace(b"\0", b"").lstrip(b"\xef\xbb\xbf\xff\xfe \t\r\n")[:1]
            read = _read_assignments if begins in (b"{", b"[") else _read_batch
            for place, row, problem in read(read_lines(handle, encoding), path):
                source = f"{path}: row {place}"
                if problem:
                    yield DeadLetter("ingest", source, redact(problem), withheld(key, row), source)
                else:
                    yield from read_row(row, key, source, kind)
    except DamagedFile:
        raise
    except (InputError, UnicodeError) as error:
        yield DeadLetter("ingest", path, f"unusable_file: {error}", "", path)


def read_sheet(path: str) -> tuple[list[Decision], list[DeadLetter]]:
    """Reads the decisions and bad rows of a sheet. Raises InputError if the file is not a decisions sheet."""
    with open_input(path) as handle:
        records = list(read_records(read_lines(handle), COLUMNS, is_ragged=True))  # whole, or the file is damaged
    decisions, bad = parse_decisions(records, path)
    return decisions, [
        DeadLetter("decisions", place, f"bad_decision: {reason}", payload(compact_json(cells)), place)
        for place, reason, cells in bad
    ]


def read_lines(handle: io.BufferedReader, encoding: str = "utf-8") -> Iterator[str]:
    """Reads the lines of a file; what cannot be decoded is U+FFFD. A byte order mark overrides ``encoding``."""
    head = handle.peek(4)
    encoding = next((name for mark, name in _BOMS.items() if head.startswith(mark)), encoding)
    return io.TextIOWrapper(handle, encoding, errors="replace", newline="")


def read_records(lines: Iterator[str], columns: Collection[str] = (), is_ragged: bool = False) -> Iterator[Record]:
    """Parses lines to CSV records.

    Cells are separated by commas, or by semicolons or tabs if that gives more of ``columns``. A record with an unclosed
    quote is broken, as is one with another number of cells than the first, unless ``is_ragged``. Reading continues at
    the line after its first line, so that one stray quote does not swallow the rest of the file.
    """
    waiting: deque[str] = deque()  # lines that are parsed again after a broken record
    number, width, delimiter = 0, 0, ""
    while first := waiting.popleft() if waiting else next(lines, ""):
        number += 1
        if not first.strip():
            continue
        delimiter = delimiter or delimiter_of(first, columns)
        record, quotes = [first], first.count('"')
        while quotes % 2 and len(record) < MAX_LINES_OF_A_RECORD:
            record.append(waiting.popleft() if waiting else next(lines, ""))
            quotes += record[-1].count('"')
        cells, problem = _cells("".join(record), width, delimiter)
        if problem:
            waiting.extendleft(line for line in reversed(record[1:]) if line)
        width = 0 if is_ragged else width or len(cells)
        yield Record(number, first, cells, problem)


def _cells(text: str, width: int, delimiter: str) -> tuple[list[str], str]:
    """Parses a record to its cells, or the problem."""
    if text.count('"') % 2:
        return [], "broken_row: a quote is not closed"
    if _NOT_DECODED in text:
        return [], _ENCODING
    try:
        (cells,) = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    except (csv.Error, ValueError):
        return [], "broken_row: text follows a closing quote, or a line break is outside quotes"
    if width and len(cells) != width:
        return [], f"broken_row: the row has {len(cells)} cells, but the header has {width}"
    return cells, ""


def _read_batch(lines: Iterator[str], path: str) -> Iterator[tuple[str, Any, str]]:
    """Yields the rows of a batch results CSV: (place, row, ""), or (place, text, problem).

    Raises InputError if the file has no usable header.
    """
    records = read_records(lines, _REQUIRED)
    if (first := next(records, None)) is None:
        raise InputError("the file is empty", path)
    place, hint = f"row {first.number}", "; the file looks like UTF-16: save it as UTF-8" if "\0" in first.raw else ""
    if first.problem:
        raise InputError(f"the header cannot be read: {first.problem}{hint}", path, place)
    columns = [cell.strip() for cell in first.cells]
    missing = [name for name in _REQUIRED if not any(fnmatchcase(column, name) for column in columns)]
    if missing and missing != ["WorkerId"]:
        hint = hint or ": a row is one form that one person filled in, with a column for each field (Answer.slot_0)"
        raise InputError(f"not a file of batch results: the header lacks {', '.join(missing)}{hint}", path, place)
    if twice := sorted({name for name in columns if name and columns.count(name) > 1}):
        raise InputError(f"these columns appear twice in the header: {', '.join(twice)}", path, place)
    for record in records:
        if "".join(record.cells or [record.raw]).strip(_BLANK):  # spreadsheets have blank rows
            row = record.raw if record.problem else dict(zip(columns, record.cells, strict=True))
            yield str(record.number), row, record.problem


def _read_assignments(lines: Iterator[str], path: str) -> Iterator[tuple[str, Any, str]]:
    """Yields the assignments of JSON as :func:`_read_batch` yields rows.

    The JSON of MTurk's API or of ``parapet collect`` has lines, or documents of several lines, one after another. A
    document is an assignment, a list of them, or what the AWS CLI prints: a page of ``list-assignments-for-hit``, or
    ``get-assignment``. Assignments without RequesterAnnotation have that of their HIT, if ``get-hit`` or ``list-hits``
    stands before them.
    """
    annotations: dict[str, str] = {}
    for number, value, problem in read_json(lines):
        items = [value] if problem else list(_assignments(value, annotations))
        for n, item in enumerate(items, 1):
            yield f"{number}, item {n}" if len(items) > 1 else str(number), item, problem


def _assignments(value: Any, annotations: dict[str, str]) -> Iterator[Any]:
    """Yields the assignments in a JSON value, and remember the annotations of HITs."""
    if isinstance(value, list):
        for item in value:
            yield from _assignments(item, annotations)
    elif not isinstance(value, dict):
        yield value
    elif not value.keys().isdisjoint(("AssignmentId", "WorkerId", "Answer", "Answers")):
        annotation = value.get("RequesterAnnotation") or annotations.get(str(value.get("HITId")))
        yield {**value, "RequesterAnnotation": annotation}
    elif "HITId" in value:
        annotations[str(value["HITId"])] = _text(value.get("RequesterAnnotation"))
    else:
        parts = [value[name] for name in ("HIT", "HITs", "Assignment", "Assignments") if name in value]
        if not parts and all(isinstance(part, list) for part in value.values()):  # the assignments of each HIT
            parts = list(value.values())
        yield from _assignments(parts, annotations) if parts else [value]


def _check_keys(pairs: list[tuple[str, Any]]) -> None:
    if twice := [key for key, n in Counter(key for key, _ in pairs).items() if n > 1]:
        raise ValueError(f"the key {twice[0]!r} appears twice")  # an answer would be lost


class _Text(str):
    """A text in which an error of JSON does not count the lines before it: for many errors that takes too long."""

    def count(self, *_: Any) -> int:
        return 0


_PRINTED = "; it is written as by Python's print: use json.dumps(..., default=str)"
_BETWEEN = re.compile(r"[\s,]*")
_DECODER = json.JSONDecoder(object_pairs_hook=_check_keys)


def read_json(lines: Iterable[str]) -> Iterator[tuple[int, Any, str]]:
    """Yields the JSON values of a file with the numbers of their first lines: on one line each, on several, or joined.

    A line that begins no value is yielded as text, with the problem; reading goes on at the next line.
    """
    text = _Text("".join(lines))
    at, number, counted = 0, 1, 0
    while (at := _BETWEEN.match(text, at).end()) < len(text):  # type: ignore[union-attr]  # it matches anywhere
        number, counted = number + str.count(text, "\n", counted, at), at
        end_of_line = text.find("\n", at) + 1 or len(text)
        try:
            end = _DECODER.raw_decode(text, at)[1]
            value, problem = parse_json_line(text[at:end]), _ENCODING if _NOT_DECODED in text[at:end] else ""
        except (ValueError, RecursionError) as error:
            reason = error.msg if isinstance(error, json.JSONDecodeError) else error
            hint = _PRINTED if text.startswith("{'", at) else ""
            end, problem = end_of_line, f"broken_row: not JSON: {reason}{hint}"
        yield number, text[at:end_of_line] if problem else value, problem
        at = end


def read_rows(path: str, columns: Collection[str]) -> list[tuple[int, dict[str, str]]]:
    """Reads (row number, stripped cells) from a CSV that a person has written, which must have ``columns``.

    Raises:
      InputError: the file cannot be read, lacks a column, or a row has too many or too few cells.
    """
    records = list(read_records(io.StringIO(limits.read_text(layout.as_path(path)), newline=None), columns))
    for record in records:
        if record.problem:
            raise InputError(record.problem.partition(": ")[2], path, f"row {record.number}")
    header = [cell.strip() for cell in records[0].cells] if records else []
    if missing := [name for name in columns if name not in header]:
        raise InputError(f"the header lacks {', '.join(missing)}", path, "row 1")
    return [(row.number, dict(zip(header, map(str.strip, row.cells), strict=True))) for row in records[1:]]
