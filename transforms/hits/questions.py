"""What a worker sees: one question per element. The hidden text is left behind here, so that no page can tell it."""

from __future__ import annotations

import re

import msgspec

from parapet.schemas.elements import Kind, Task, elements_of, task_id
from parapet.schemas.service import Service
from parapet.transforms.hits.markup import shown

# Where people have nothing left to read, more values do not help them.
MAX_VALUES = 60

_NUMBERED = re.compile(r"_\d+$")


class Question(msgspec.Struct, frozen=True):
    """One form field and what is shown beside it. Holds nothing of what is asked for.

    Attributes:
      field: the form field, ``slot_3``.
      prompt: the text to be named or described.
      values: the possible values of a categorical slot, joined, in ``descriptions`` tasks; else ``""``.
      meaning: the original description of an ambiguous element, in ``descriptions`` tasks; else ``""``.
    """

    field: str
    kind: Kind
    prompt: str
    values: str = ""
    meaning: str = ""

    def texts(self) -> list[str]:
        """Every text of the schema that the page shows for this question, as the page shows it."""
        return [text for text in (self.prompt, self.values, self.meaning) if text]


class Asked(msgspec.Struct, frozen=True):
    """A question with the element that it is about; the element stays with the requester."""

    element_id: str
    question: Question


class NotAsked(msgspec.Struct, frozen=True):
    """An element that cannot be asked about, and why."""

    task_id: str
    element_id: str
    reason: str


def ask(
    service: Service, task: Task, ambiguous: frozenset[str], only: frozenset[tuple[str, str]] | None = None
) -> tuple[list[Asked], list[str]]:
    """The questions of a task in the schema's order, and the ids of elements that have nothing to show.

    Args:
      service: the service.
      task: ``names`` or ``descriptions``.
      ambiguous: the ids of the elements whose description is shown beside their name.
      only: what may be asked for, as (task id, form field); None for everything.
    """
    asked, blank = [], []
    for element in elements_of(service, task):
        if only is not None and (task_id(service.service_name, task), element.field) not in only:
            continue
        prompt = shown(element.prompt(task))
        if element.kind == "service":
            prompt = shown(service_title(element.name))
        if not prompt:
            blank.append(element.id)
            continue
        values = meaning = ""
        if task == "descriptions":
            values = _listed(element.values)
            meaning = shown(element.description) if element.id in ambiguous else ""
        asked.append(Asked(element.id, Question(element.field, element.kind, prompt, values, meaning)))
    return asked, blank


def service_title(service_name: str) -> str:
    """``Hotels`` for ``Hotels_1``: the number tells services apart, it says nothing about them."""
    return _NUMBERED.sub("", service_name) or service_name


def _listed(values: tuple[str, ...]) -> str:
    listed = ", ".join(text for value in values[:MAX_VALUES] if (text := shown(value)))
    return f"{listed} and {len(values) - MAX_VALUES:,} more" if len(values) > MAX_VALUES else listed
