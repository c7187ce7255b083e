"""What both kinds of export say of one submission, still as text, and the assignment that it makes."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from parapet.schemas.responses import Assignment, CrowdTask, DeadLetter
from parapet.transforms.crowd.ingest import fields


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


def take(form: Form, key: bytes, asked: fields.Asked = fields.SCHEMAS) -> Iterator[Assignment | DeadLetter]:
    """The assignment, and dead letters for what in it is no answer.

    Args:
      form: the submission.
      key: for the worker's hash.
      asked: the kind of tasks that answers are taken to.

    Raises:
      Unusable: nothing of it can be used.
    """
    if not form.assignment_id:
        raise fields.Unusable("no_assignment_id: the AssignmentId is missing")
    answers, others = fields.split_answers(form.given, asked.field)
    if form.asked:
        # The columns are those of the whole batch; what this form did not show and nobody filled is no answer.
        answers = {name: text for name, text in answers.items() if text or name in form.asked}
    for name in [name for name, text in answers.items() if len(text) > fields.MAX_ANSWER]:
        yield _dead(form, name, f"too_large: over {fields.MAX_ANSWER:,} characters", answers.pop(name))
    for name, text in others.items():
        yield _dead(form, name, "unknown_field: not a field of ours", text)
    accept, submit = fields.parse_time(form.accept_time), fields.parse_time(form.submit_time)
    yield Assignment(
        form.assignment_id,
        *form.task,
        fields.worker_hash(key, form.worker_id),
        answers,
        asked=form.asked is None or bool(form.asked),
        accept_time=accept,
        submit_time=submit,
        work_seconds=fields.work_seconds(accept, submit, form.seconds),
        rejected=form.status.strip() == "Rejected",
        source=form.source,
    )


def _dead(form: Form, field: str, reason: str, text: str) -> DeadLetter:
    return DeadLetter("ingest", f"{form.assignment_id}:{field}", reason, fields.payload(text), form.source)
