"""Let a language model fill in blind forms, as annotators who differ in style and temperature.

Each annotator works on either names or descriptions: odd numbers give names, even numbers descriptions. This keeps the
two tasks of a service blind to each other, in this batch and in later ones. Answers that the form would refuse from a
person are refused here, too, and requested again with the form's own message.
"""

import hashlib
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import groupby
from typing import Any

import msgspec

from parapet.schemas import errors, rows
from parapet.schemas.service import TASKS, Service
from parapet.transforms.core import fence, inputs, replies
from parapet.transforms.core.chat import CHARACTERS_OF_TOKEN, Chat, Message
from parapet.transforms.crowd.answer_files import FilledForm, payload
from parapet.transforms.crowd.hits import page, schema_pages
from parapet.transforms.report.text import clean, name_words

PROMPTS = inputs.read_table(__package__, "llm.toml")
TRIES = 3
UNPARSABLE = "unparsable"  # reason of a form without answers; others are those of refused requests

_TOKENS_OF_FIELD = {"names": 16, "descriptions": 28}  # of a typical answer with its key
_MOST_TOKENS = {"names": 40, "descriptions": 80}  # of the longest answer that the form accepts


class Sheet(msgspec.Struct, frozen=True):
    """The questions of a page about names or descriptions."""

    record: page.PageRecord
    questions: tuple[schema_pages.Question, ...]

    @property
    def text(self) -> str:
        """Returns the page as text. The name of a field comes before its question."""
        words = PROMPTS[self.record.task]
        lines = [words["instructions"].strip()]
        if self.record.cue:
            lines.append(f"What the app is: {self.record.cue}")
        for kind, questions in groupby(self.questions, lambda question: question.kind):
            lines.append(words[kind].strip())
            for question in questions:
                lines.append(f"{question.field}: {question.prompt}")
                lines += [f"Possible values: {question.values}"] if question.values else []
                lines += [f"It stands for: {question.meaning}"] if question.meaning else []
        return "\n".join(lines)

    def fault(self, field: str, answer: str, others: Iterable[str] = ()) -> tuple[str, str]:
        """Returns (reason id, the page's message) if the page would refuse an answer; else empty strings.

        Args:
          field: the form field.
          answer: the cleaned text.
          others: accepted answers to other fields.
        """
        key, task = name_words(answer), self.record.task
        (question,) = (question for question in self.questions if question.field == field)
        noun = task.removesuffix("s")
        if not answer:
            return "blank", f"Please write a {noun}."
        if not any(c.isalpha() for word in key for c in word):
            return "no_words", "Please use words."
        if len(key) > page.MAX_WORDS[task]:
            return "too_long", f"Too long: {len(key):,} words. Please use at most {page.MAX_WORDS[task]}."
        if len(answer) > page.MAX_LETTERS[task]:
            return "too_long", f"Too long: {len(answer):,} letters. Please use at most {page.MAX_LETTERS[task]}."
        if any(name_words(clean(text)) == key for text in (question.prompt, question.meaning) if text):
            return "copied", "This only repeats the text above. Please use your own words."
        if any(name_words(other) == key for other in others):
            return "repeated", f"The same as another answer. Every {noun} must be different."
        return "", ""


def read_sheets(folder: str, services: Mapping[str, Service]) -> list[Sheet]:
    """Reads the forms in a folder of ``parapet hits``, with the questions from the schemas.

    Raises:
      InputError: a form does not ask for names or descriptions, or is not about these schemas.
    """
    sheets = []
    for record in page.read_manifest(folder):
        if record.task not in TASKS:
            reason = f"asks for {record.task}; a language model fills in forms for names and descriptions only"
            raise errors.InputError(reason, record.task_id, "--hits")
        service = services.get(record.service_name)
        questions = schema_pages.questions_of(service, record.task, frozenset(record.ambiguous)) if service else []
        asked = tuple(question for question in questions if question.field in record.fields)
        if [question.element_id for question in asked] != record.element_ids:
            reason = f"has other elements of {record.service_name}: give its own schemas as --schemas"
            raise errors.InputError(reason, folder, "--hits")
        sheets.append(Sheet(record, asked))
    return sheets


class Work(msgspec.Struct, frozen=True):
    """A form for one simulated annotator.

    Attributes:
      annotator: the annotator's number: odd for names, even for descriptions.
      style: the part of the prompt that distinguishes annotators of the same model.
      temperature: the temperature of the model's answers; None: not sent. ``seed`` is the seed of the first attempt.
    """

    sheet: Sheet
    annotator: int
    style: str
    temperature: float | None
    seed: int

    def worker_id(self, model: str) -> str:
        """Returns ``llm:MODEL:3``, without commas.

        A comma would end the id in :func:`parapet.transforms.crowd.answer_files.worker_hash`.
        """
        name = re.sub(r"[\s,]+", "_", model)
        return f"llm:{name}:{self.annotator}"

    def assignment_id(self, model: str) -> str:
        """Returns an id that depends only on the form, the annotator and the seed."""
        name = f"{self.sheet.record.sha256[:32]} {self.worker_id(model)} {self.seed}"
        return f"llm-{hashlib.sha256(name.encode()).hexdigest()[:32]}"

    def messages(self) -> list[Message]:
        """Returns the conversation that asks for the form: the instructions, and the form as people see it."""
        fields = PROMPTS["fields"].format(fields=", ".join(self.sheet.record.fields))
        return [
            {"role": "system", "content": f"{PROMPTS['system'].strip()} {self.style}"},
            {"role": "user", "content": f"{self.sheet.text}\n\n{fields}"},
        ]

    def parameters(self, fields: Sequence[str], attempt: int = 0) -> dict[str, Any]:
        """Returns the parameters of a request for these fields, as a JSON object of strings."""
        properties = {field: {"type": "string"} for field in fields}
        schema = {"type": "object", "properties": properties, "required": list(fields), "additionalProperties": False}
        answers = {"name": "answers", "strict": True, "schema": schema}
        return {
            "temperature": self.temperature,
            "seed": self.seed + attempt,
            "max_tokens": _MOST_TOKENS[self.sheet.record.task] * (len(fields) + 1),
            "response_format": {"type": "json_schema", "json_schema": answers},
        }


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
    sheets: Iterable[Sheet], annotators: int | None, temperatures: Sequence[float | None], seed: int = 0, first: int = 1
) -> list[Work]:
    """Plans which annotators fill in which forms, in the order of forms.

    Args:
      sheets: the forms.
      annotators: number of annotators per form; None for the number of people that the form wants.
      temperatures: assigned to the annotators of a task in turn, repeating.
      seed: the seed of all answers.
      first: the number of the first annotator of each task, from 1; lower ones answered in an earlier batch.
    """
    styles, work = PROMPTS["styles"], []
    for sheet in sheets:
        for k in range(first - 1, first - 1 + (annotators or sheet.record.assignments)):
            number = 2 * k + 1 + (sheet.record.task == "descriptions")
            style, temperature = styles[k % len(styles)], temperatures[k % len(temperatures)]
            work.append(Work(sheet, number, style, temperature, seed * 1_000_000 + number * TRIES))
    return work


def fill_in(chat: Chat, work: Work) -> Filled:
    """Fills in a form in up to three attempts; the later ones ask again for refused answers.

    Raises:
      Stopped: further requests would fail, too.
    """
    result, wanted = Filled(), work.sheet.record.fields
    begin = conversation = work.messages()
    for i in range(TRIES):
        try:
            reply = chat.ask(conversation, **work.parameters(wanted, i))
            result.raw = reply.text
            calls = {"calls": 1, "sent": reply.tokens[0], "answered": reply.tokens[1]}
            result.used.update({"kept": 1} if reply.kept else calls)
            answers = parse(reply.text, wanted)
        except replies.Unreadable as error:
            result.failed = f"{UNPARSABLE}: {error}"
            continue
        except fence.Refused as error:
            result.failed = error.reason
            break
        result.refused = {}
        for field in wanted:
            text = clean(answers.get(field, ""))
            reason, message = work.sheet.fault(field, text, result.answers.values())
            if reason:
                result.refused[field] = (reason, message, text)
            else:
                result.answers[field] = text
        if not (wanted := list(result.refused)):
            break
        faults = "\n".join(f"{field}: {message}" for field, (_, message, _) in result.refused.items())
        again = PROMPTS["again"].strip().format(faults=faults, fields=", ".join(wanted))
        conversation = [*begin, {"role": "assistant", "content": reply.text}, {"role": "user", "content": again}]
    if result.answers or result.refused:
        result.failed = ""
    return result


def parse(text: str, fields: Sequence[str]) -> dict[str, str]:
    """Extracts the answers from a model's reply: a JSON object, possibly in a code fence or between other text.

    Args:
      text: the model's reply.
      fields: the fields to extract; others are ignored.

    Raises:
      Unreadable: there is no JSON object with any of the fields.
    """
    with suppress(replies.Unreadable):
        value = replies.object_in(text, fields)
        if answers := {field: value[field] for field in fields if isinstance(value.get(field), str)}:
            return answers
    raise replies.Unreadable("contains no JSON object with a field of the form")


def fill_in_all(
    chat: Chat, work: Sequence[Work], report: Callable[[int, int], None]
) -> tuple[list[tuple[Work, Filled]], str]:
    """Fills in all forms, several at a time.

    Args:
      chat: an open chat.
      work: the forms.
      report: called with the number of forms done and the total.

    Returns:
      The forms that were attempted, with their results; and why further requests would fail, or an empty string.
    """
    done, reasons = list[tuple[Work, Filled]](), list[str]()

    def attempt(item: Work) -> Filled | None:
        try:
            return None if reasons else fill_in(chat, item)
        except fence.Stopped as error:
            reasons.append(error.reason)
            return None

    with ThreadPoolExecutor(chat.endpoint.parallel) as pool:
        for item, filled in zip(work, pool.map(attempt, work), strict=True):  # Ctrl-C cancels the rest
            if filled is not None:
                done.append((item, filled))
                report(len(done), len(work))
    return done, "".join(reasons[:1])


def lines(done: Iterable[tuple[Work, Filled]], model: str) -> Iterator[bytes]:
    """Yields the answers in the format of ``--responses``, without working times, which a model does not have."""
    for work, filled in done:
        if filled.answers:
            record = work.sheet.record
            line = FilledForm(
                work.assignment_id(model),
                work.worker_id(model),
                requester_annotation=record.requester_annotation,
                source="llm",
                answers={field: filled.answers[field] for field in record.fields if field in filled.answers},
            )
            yield msgspec.json.encode(line) + b"\n"


def dead_letters(done: Iterable[tuple[Work, Filled]], model: str) -> list[rows.DeadLetter]:
    """Returns a dead letter for every missing answer, in the order of keys."""
    letters = []
    for work, filled in done:
        key = work.assignment_id(model)
        where = f"{work.worker_id(model)}, {work.sheet.record.requester_annotation}"
        if filled.failed:
            letters.append(rows.DeadLetter("collect", key, filled.failed, payload(filled.raw), where))
        for field, (reason, message, text) in filled.refused.items():
            letters.append(rows.DeadLetter("collect", f"{key}:{field}", f"{reason}: {message}", payload(text), where))
    return sorted(letters, key=lambda letter: letter.key)


def estimate(chat: Chat, work: Iterable[Work]) -> Counter[str]:
    """Estimates, without sending requests, ``calls``, ``kept``, and the tokens ``sent`` and ``answered``."""
    used: Counter[str] = Counter()
    for item in work:
        fields, conversation = item.sheet.record.fields, item.messages()
        if chat.knows(conversation, **item.parameters(fields)):
            used["kept"] += 1
        else:
            used["calls"] += 1
            used["sent"] += sum(len(message["content"]) for message in conversation) // CHARACTERS_OF_TOKEN
            used["answered"] += _TOKENS_OF_FIELD[item.sheet.record.task] * len(fields)
    return used
