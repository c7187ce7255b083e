"""What CSV rows and API assignments share: times, worker hashes, task ids, which fields are answers; and the assignment
that a submission makes.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from functools import lru_cache

import msgspec

from parapet.schemas.json_text import compact_json, parse_json_line
from parapet.schemas.rows import Assignment, CrowdTask, DeadLetter
from parapet.schemas.service import FIELD, TASKS
from parapet.transforms.crowd.worker_ids import redact

# An answer over this many characters is no answer to a question about a few words.
MAX_ANSWER = 20_000
# So much of a record is kept in its dead letter; the file and row lead to the whole.
MAX_PAYLOAD = 2_000

# What forms post besides answers.
PLUMBING = frozenset(
    {"doNotRedirect", "assignmentId", "hitId", "workerId", "turkSubmitTo", "submitButton", "csrf_token"}
)

_BATCH_TIME = re.compile(r"\w{3} (\w{3} \d{1,2} \d\d:\d\d:\d\d) ([A-Z]{3,4}) (\d{4})")
_YEAR_2262 = 9_223_372_036  # seconds: the last that 64 bits of nanoseconds can count, as pandas may
_ZONES = {"PDT": "-0700", "PST": "-0800", "UTC": "+0000", "GMT": "+0000"}


class TaskKind(msgspec.Struct, frozen=True):
    """A kind of tasks, whose answers a run takes.

    Attributes:
      tasks: their names.
      task_id: the form of their ids, in groups ``service`` (what the task is about) and ``task``.
      shape: the same in words, for messages.
      field: the form of their form fields.
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
    """A record that must become a dead letter; its message is the reason."""


def payload(text: str, worker_id: str = "") -> str:
    """A record for the dead letters: no worker ids, cut to a readable length, what was cut said and hashed."""
    text = redact(text, worker_id).replace("\0", "")  # of UTF-16 that was taken for another encoding
    if len(text) <= MAX_PAYLOAD:
        return text
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    return f"{text[:MAX_PAYLOAD]}… [{len(text):,} characters, sha256 {digest}]"


def worker_hash(key: bytes, worker_id: str) -> str:
    """A keyed hash (HMAC-SHA256, 16 hex digits) of a worker id; ids that a tool has doubled (``W,W``) are one."""
    worker_id = worker_id.split(",")[0].strip()
    return hmac.new(key, worker_id.encode(), hashlib.sha256).hexdigest()[:16] if worker_id else ""


@lru_cache(maxsize=1 << 14)
def parse_time(text: str) -> int | None:
    """Seconds since 1970 of ``Tue Oct 31 14:05:22 PDT 2017`` or of an ISO time with an offset; None for others.

    None, too, where that is before 1970 or after April 2262 in UTC: not every reader of a table has such times.
    """
    text = text.strip()
    try:
        if match := _BATCH_TIME.fullmatch(text):
            zone = _ZONES.get(match[2], "")  # strptime's %Z refuses PDT; without one it refuses, too
            when = datetime.strptime(f"{match[1]} {match[3]} {zone}", "%b %d %H:%M:%S %Y %z")
        else:
            when = datetime.fromisoformat(text)
        seconds = int((when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp())
    except (ValueError, OverflowError):
        return None
    return seconds if 0 <= seconds < _YEAR_2262 else None


def work_seconds(accept: int | None, submit: int | None, stated: str = "") -> int | None:
    """The time between the two; the stated number where one of them is missing."""
    if accept is not None and submit is not None:
        return submit - accept
    return int(stated) if stated.isascii() and stated.isdigit() and len(stated) < 10 else None


def find_task(
    task_id: str, service: str, task: str, annotation: str, kind: TaskKind = SCHEMA_TASKS
) -> tuple[str, CrowdTask]:
    """The service and task that a record answers. Raises Unusable where nothing names them, or two things differ."""
    named = []
    for text in (task_id, annotation):
        if match := kind.task_id.fullmatch(text.strip()):
            named.append((match["service"], match["task"]))
    if service.strip() and task.strip():
        named.append((service.strip(), task.strip()))
    if not named and task_id.strip():
        raise Unusable(f"unknown_task: Input.task_id {task_id.strip()!r} is not {kind.shape}")
    if not named:
        raise Unusable(
            "no_task: neither Input.task_id, Input.service_name and Input.task, nor RequesterAnnotation says which task"
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
    """Parts form fields into answers (``intent_0``, ``slot_3``, ``service``) and others that hold something.

    Raises Unusable for a ``taskAnswers`` that is not the JSON list of one object that crowd-form pages give.
    """
    if "taskAnswers" in given:
        given = {**{k: v for k, v in given.items() if k != "taskAnswers"}, **_task_answers(given["taskAnswers"])}
    answers, others = {}, {}
    for name, text in given.items():
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
        raise Unusable("too_large: taskAnswers is too long to be answers")
    try:
        pages = parse_json_line(text)
    except ValueError as error:
        raise Unusable(f"task_answers: not JSON: {error}") from None
    pages = [pages] if isinstance(pages, dict) else pages
    if not (isinstance(pages, list) and all(isinstance(page, dict) for page in pages)):
        raise Unusable("task_answers: expected a JSON list of one object")
    found: dict[str, str] = {}
    for page in pages:
        for name, value in page.items():
            found[name] = value if isinstance(value, str) else compact_json(value)
    return found


class Form(msgspec.Struct):
    """One worker's submission.

    Attributes:
      task: of which service, and which one.
      given: form field to text, others than answers included.
      asked: the fields that the form showed, where the export says so; ``None`` where it gives those and no others.
      seconds: the work time as the export states it.
      source: ``file: row N``.
    """

    assignment_id: str
    task: tuple[str, CrowdTask]
    worker_id: str
    given: dict[str, str]
    asked: list[str] | None
    accept_time: str
    submit_time: str
    seconds: str
    status: str
    source: str


def take(form: Form, key: bytes, kind: TaskKind = SCHEMA_TASKS) -> Iterator[Assignment | DeadLetter]:
    """The assignment, and dead letters for what in it is no answer.

    Args:
      form: the submission.
      key: for the worker's hash.
      kind: of the tasks whose answers are taken.

    Raises:
      Unusable: nothing of it can be used.
    """
    if not form.assignment_id:
        raise Unusable("no_assignment_id: the AssignmentId is missing")
    own = form.worker_id.strip()
    if own and own.split(",")[0].strip() == form.assignment_id:
        raise Unusable("no_assignment_id: the AssignmentId is the WorkerId")
    if len(own) == 30 and own.startswith("3") and form.assignment_id.startswith("A"):
        raise Unusable("no_assignment_id: the columns AssignmentId and WorkerId seem to be interchanged")
    answers, others = split_answers(form.given, kind.field)
    if form.asked:
        # The columns are those of the whole batch; what this form did not show and nobody filled is no answer.
        answers = {name: text for name, text in answers.items() if text or name in form.asked}
    for name in [name for name, text in answers.items() if len(text) > MAX_ANSWER]:
        yield _dead(form, name, f"too_large: over {MAX_ANSWER:,} characters", answers.pop(name))
    answers = {name: redact(text, own, is_answer=True) if text else text for name, text in answers.items()}
    for name, text in others.items():
        yield _dead(form, name, "unknown_field: not a field of ours", text)
    accept, submit = parse_time(form.accept_time), parse_time(form.submit_time)
    yield Assignment(
        form.assignment_id,
        *form.task,
        worker_hash(key, form.worker_id),
        answers,
        asked=form.asked is None or bool(form.asked),
        accept_time=accept,
        submit_time=submit,
        work_seconds=work_seconds(accept, submit, form.seconds),
        rejected=form.status.strip() == "Rejected",
        source=form.source,
    )


def _dead(form: Form, field: str, reason: str, text: str) -> DeadLetter:
    key = f"{form.assignment_id}:{redact(field, form.worker_id)}"
    return DeadLetter("ingest", key, reason, payload(text, form.worker_id), form.source)
