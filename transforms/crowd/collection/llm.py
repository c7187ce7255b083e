"""Let a language model fill in blind forms, as annotators who differ in style and temperature.

Each annotator works on either names or descriptions: odd numbers give names, even numbers descriptions. This keeps the
two tasks of a service blind to each other, in this batch and in later ones. Answers that the form would refuse from a
person are refused here, too, and requested again with the form's own message.
"""

from __future__ import annotations

import hashlib
import re
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any

import msgspec

from parapet.schemas.rows import DeadLetter
from parapet.transforms.crowd.answer_files import payload
from parapet.transforms.crowd.collection.sheet import Sheet
from parapet.transforms.reports.text import clean
from parapet.transforms.running.chat import CHARACTERS_OF_TOKEN, Chat, Message
from parapet.transforms.running.fence import Refused, Stopped
from parapet.transforms.running.replies import Reply, Unreadable, object_in
from parapet.transforms.storage.toml import read_table

TRIES = 3
UNPARSABLE = "unparsable"  # reason of a form without answers; others are those of refused requests
STAGE = "collect"  # of dead letters

_TOKENS_OF_FIELD = {"names": 16, "descriptions": 28}  # of a typical answer with its key
_MOST_TOKENS = {"names": 40, "descriptions": 80}  # of the longest answer that the form accepts
_NOT_IN_IDS = re.compile(r"[\s,]+")


class Annotator(msgspec.Struct, frozen=True):
    """A simulated annotator.

    Attributes:
      number: odd for names, even for descriptions.
      style: the part of the prompt that distinguishes annotators of the same model.
      temperature: the temperature of the model's answers; None: not sent. ``seed`` is the seed of the first attempt.
    """

    number: int
    style: str
    temperature: float | None
    seed: int

    def worker_id(self, model: str) -> str:
        """Return ``llm:MODEL:3``, without commas.

        A comma would end the id in :func:`parapet.transforms.crowd.answer_files.worker_hash`.
        """
        return f"llm:{_NOT_IN_IDS.sub('_', model)}:{self.number}"


class Work(msgspec.Struct, frozen=True):
    """A form for one annotator."""

    sheet: Sheet
    annotator: Annotator


class Filled(msgspec.Struct):
    """The result of filling in a form.

    Attributes:
      answers: form field to text.
      refused: form field to (reason id, message, text) of answers that the form does not accept.
      failed: why there is no answer at all: a reason id, a colon and an explanation.
      raw: the model's last reply.
      used: ``calls``, ``kept`` (answered from the cache), and ``sent`` and ``answered`` tokens of the calls.
    """

    answers: dict[str, str] = {}
    refused: dict[str, tuple[str, str, str]] = {}
    failed: str = ""
    raw: str = ""
    used: Counter[str] = msgspec.field(default_factory=Counter)


def plan(
    sheets: Sequence[Sheet],
    annotators: int | None,
    temperatures: Sequence[float | None],
    seed: int = 0,
    first: int = 1,
) -> list[Work]:
    """Plan which annotators fill in which forms, in the order of forms.

    Args:
      sheets: the forms.
      annotators: number of annotators per form; None for the number of people that the form wants.
      temperatures: assigned to the annotators of a task in turn, repeating.
      seed: the seed of all answers.
      first: the number of the first annotator of each task, from 1; lower ones answered in an earlier batch.
    """
    styles = _prompts()["styles"]
    work = []
    for sheet in sheets:
        n = sheet.record.assignments if annotators is None else annotators
        for k in range(first - 1, first - 1 + n):
            number = 2 * k + 1 + (sheet.record.task == "descriptions")
            style, temperature = styles[k % len(styles)], temperatures[k % len(temperatures)]
            work.append(Work(sheet, Annotator(number, style, temperature, seed * 1_000_000 + number * TRIES)))
    return work


def messages(sheet: Sheet, style: str) -> list[Message]:
    """Return the conversation that asks for a form: the instructions, and the form as people see it."""
    prompts = _prompts()
    fields = prompts["fields"].format(fields=", ".join(sheet.record.fields))
    return [
        {"role": "system", "content": f"{prompts['system'].strip()} {style}"},
        {"role": "user", "content": f"{sheet.text}\n\n{fields}"},
    ]


def fill_in(chat: Chat, work: Work) -> Filled:
    """Fill in a form in up to three attempts; the later ones ask again for refused answers.

    Raises:
      Stopped: further requests would fail, too.
    """
    sheet, result = work.sheet, Filled()
    begin = messages(sheet, work.annotator.style)
    conversation, wanted = begin, list(sheet.record.fields)
    for i in range(TRIES):
        try:
            reply = chat.ask(conversation, **_parameters(work, wanted, i))
        except Unreadable as error:
            result.failed = f"{UNPARSABLE}: {error}"
            continue
        except Refused as error:
            result.failed = error.reason
            break
        result.raw = reply.text
        result.used.update(_used(reply))
        try:
            answers = parse(reply.text, wanted)
        except ValueError as error:
            result.failed = f"{UNPARSABLE}: {error}"
            continue
        result.failed, result.refused = "", {}
        for field in wanted:
            text = clean(answers.get(field, ""))
            reason, message = sheet.fault(field, text, result.answers.values())
            if reason:
                result.refused[field] = (reason, message, text)
            else:
                result.answers[field] = text
        wanted = list(result.refused)
        if not wanted:
            break
        conversation = [*begin, {"role": "assistant", "content": reply.text}, _again(result)]
    if not result.answers and not result.refused:
        return result
    return msgspec.structs.replace(result, failed="")


def _again(result: Filled) -> Message:
    faults = "\n".join(f"{field}: {message}" for field, (_, message, _) in result.refused.items())
    content = _prompts()["again"].strip().format(faults=faults, fields=", ".join(result.refused))
    return {"role": "user", "content": content}


def _parameters(work: Work, fields: Sequence[str], i: int = 0) -> dict[str, Any]:
    return {
        "temperature": work.annotator.temperature,
        "seed": work.annotator.seed + i,
        "max_tokens": _MOST_TOKENS[work.sheet.record.task] * (len(fields) + 1),
        "response_format": response_format(fields),
    }


def response_format(fields: Sequence[str]) -> dict[str, Any]:
    """Return the parameter of the chat completions API that requests a JSON object with these fields as strings."""
    schema = {
        "type": "object",
        "properties": {field: {"type": "string"} for field in fields},
        "required": list(fields),
        "additionalProperties": False,
    }
    return {"type": "json_schema", "json_schema": {"name": "answers", "strict": True, "schema": schema}}


def _used(reply: Reply) -> dict[str, int]:
    if reply.kept:
        return {"kept": 1}
    return {"calls": 1, "sent": reply.tokens[0], "answered": reply.tokens[1]}


def parse(text: str, fields: Sequence[str]) -> dict[str, str]:
    """Extract the answers from a model's reply: a JSON object, possibly in a code fence or between other text.

    Args:
      text: the model's reply.
      fields: the fields to extract; others are ignored.

    Raises:
      ValueError: there is no JSON object with any of the fields.
    """
    try:
        value = object_in(text, fields)
    except Unreadable:
        raise ValueError("contains no JSON object") from None
    if answers := {field: value[field] for field in fields if isinstance(value.get(field), str)}:
        return answers
    raise ValueError("contains no JSON object with a field of the form")


def fill_in_all(
    chat: Chat, work: Sequence[Work], told: Callable[[int, int], None] = lambda *_: None
) -> tuple[list[Filled | None], str]:
    """Fill in all forms, several at a time.

    Args:
      chat: an open chat.
      work: the forms.
      told: called with the number of forms done and the total.

    Returns:
      The result for each form, None if it was not attempted; and why further requests would fail, or an empty string.
    """
    reasons: list[str] = []
    stopped, lock, done = threading.Event(), threading.Lock(), 0

    def attempt(item: Work) -> Filled | None:
        nonlocal done
        if stopped.is_set():
            return None
        try:
            filled = fill_in(chat, item)
        except Stopped as error:
            reasons.append(error.reason)
            stopped.set()
            return None
        with lock:
            done += 1
            told(done, len(work))
        return filled

    with ThreadPoolExecutor(chat.endpoint.parallel) as pool:
        try:
            return list(pool.map(attempt, work)), reasons[0] if reasons else ""
        finally:
            stopped.set()  # after Ctrl-C, waiting forms are not attempted


def assignment_id(work: Work, model: str) -> str:
    """Return an id that depends only on the form, the annotator and the seed."""
    annotator = work.annotator
    name = f"{work.sheet.key} {annotator.worker_id(model)} {annotator.seed}"
    return f"llm-{hashlib.sha256(name.encode()).hexdigest()[:32]}"


def lines(done: Sequence[tuple[Work, Filled]], model: str) -> Iterator[bytes]:
    """Yield the answers in the format of ``--responses``, without working times, which a model does not have."""
    for work, filled in done:
        if filled.answers:
            fields = work.sheet.record.fields
            line = {
                "AssignmentId": assignment_id(work, model),
                "WorkerId": work.annotator.worker_id(model),
                "AssignmentStatus": "Submitted",
                "RequesterAnnotation": work.sheet.record.requester_annotation,
                "AcceptTime": "",
                "SubmitTime": "",
                "Source": "llm",
                "Answers": {field: filled.answers[field] for field in fields if field in filled.answers},
                "Keystrokes": {},
                "Pastes": {},
                "Seconds": {},
            }
            yield msgspec.json.encode(line) + b"\n"


def dead_letters(done: Sequence[tuple[Work, Filled]], model: str) -> list[DeadLetter]:
    """Return a dead letter for every missing answer, in the order of keys."""
    letters = []
    for work, filled in done:
        key = assignment_id(work, model)
        where = f"{work.annotator.worker_id(model)}, {work.sheet.record.requester_annotation}"
        if filled.failed:
            letters.append(DeadLetter(STAGE, key, filled.failed, payload(filled.raw), where))
        for field, (reason, message, text) in filled.refused.items():
            letters.append(DeadLetter(STAGE, f"{key}:{field}", f"{reason}: {message}", payload(text), where))
    return sorted(letters, key=lambda letter: letter.key)


def estimate(chat: Chat, work: Sequence[Work]) -> Counter[str]:
    """Estimate, without sending requests, ``calls``, ``kept``, and the tokens ``sent`` and ``answered``."""
    used: Counter[str] = Counter()
    for item in work:
        fields, conversation = item.sheet.record.fields, messages(item.sheet, item.annotator.style)
        if _is_kept(chat, item):
            used["kept"] += 1
            continue
        used["calls"] += 1
        used["sent"] += sum(len(message["content"]) for message in conversation) // CHARACTERS_OF_TOKEN
        used["answered"] += _TOKENS_OF_FIELD[item.sheet.record.task] * len(fields)
    return used


def _is_kept(chat: Chat, work: Work) -> bool:
    """Whether the cache has the first attempt."""
    fields, conversation = work.sheet.record.fields, messages(work.sheet, work.annotator.style)
    return chat.knows(conversation, **_parameters(work, fields))


@cache
def _prompts() -> Mapping[str, Any]:
    return read_table(__package__, "llm.toml")
