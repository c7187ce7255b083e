"""The questions of blind forms as plain text, and the check of answers that the form makes, too."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import groupby

import msgspec

from parapet.schemas.errors import InputError
from parapet.schemas.service import TASKS, Service
from parapet.transforms.crowd.hits.page import MAX_LETTERS, MAX_WORDS, PageRecord, read_manifest
from parapet.transforms.crowd.hits.schema_pages import Question, questions_of
from parapet.transforms.reports.text import clean, name_words
from parapet.transforms.storage.toml import read_table

PROMPTS = read_table(__package__, "llm.toml")


class Sheet(msgspec.Struct, frozen=True):
    """The questions of a page about names or descriptions."""

    record: PageRecord
    questions: tuple[Question, ...]

    @property
    def key(self) -> str:
        """Return what identifies the page."""
        return self.record.sha256[:32]

    @property
    def text(self) -> str:
        """Return the page as text. The name of a field comes before its question."""
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
        """Return (reason id, the page's message) if the page would refuse an answer; else empty strings.

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
        if len(key) > MAX_WORDS[task]:
            return "too_long", f"Too long: {len(key):,} words. Please use at most {MAX_WORDS[task]}."
        if len(answer) > MAX_LETTERS[task]:
            return "too_long", f"Too long: {len(answer):,} letters. Please use at most {MAX_LETTERS[task]}."
        if any(name_words(clean(text)) == key for text in (question.prompt, question.meaning) if text):
            return "copied", "This only repeats the text above. Please use your own words."
        if any(name_words(other) == key for other in others):
            return "repeated", f"The same as another answer. Every {noun} must be different."
        return "", ""


def read_sheets(folder: str, services: Mapping[str, Service]) -> list[Sheet]:
    """Read the forms in a folder of ``parapet hits``, with the questions from the schemas.

    Raises:
      InputError: a form does not ask for names or descriptions, or is not about these schemas.
    """
    sheets = []
    for record in read_manifest(folder):
        if record.task not in TASKS:
            reason = f"asks for {record.task}; a language model fills in forms for names and descriptions only"
            raise InputError(reason, record.task_id, "--hits")
        service = services.get(record.service_name)
        questions = questions_of(service, record.task, frozenset(record.ambiguous)) if service else []
        asked = tuple(question for question in questions if question.field in record.fields)
        if [question.element_id for question in asked] != record.element_ids:
            reason = f"has other elements of {record.service_name}: give its own schemas as --schemas"
            raise InputError(reason, folder, "--hits")
        sheets.append(Sheet(record, asked))
    return sheets
