"""What a worker sees: one question per element. The hidden text stays behind here, so that no page can reveal it.

Names that do not say by themselves what they mean are shown with their description.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

import msgspec

from parapet.schemas.elements import Element, Kind, Task, elements_of, task_id
from parapet.schemas.errors import InputError
from parapet.schemas.layout import as_path
from parapet.schemas.limits import read_text
from parapet.schemas.service import Service
from parapet.transforms.hits.markup import shown
from parapet.transforms.naming import name_words

# Beyond these, further values do not help to understand a slot.
MAX_VALUES = 60

_NUMBERED = re.compile(r"_\d+$")

AUTO = "auto"
NONE = "none"

# Words that name a sort of thing and not what it belongs to.
# fmt: off
GENERIC = frozenset((
    "a", "active", "amount", "app", "area", "at", "balance", "by", "category", "class", "code", "count", "data",
    "date", "day", "description", "detail", "details", "duration", "end", "field", "for", "from", "get", "id", "in",
    "info", "information", "intent", "item", "items", "kind", "label", "length", "level", "list", "location",
    "message", "mode", "name", "no", "number", "of", "on", "option", "options", "place", "position", "problem",
    "quantity", "rate", "rating", "reason", "result", "results", "search", "service", "services", "size", "start",
    "state", "status", "subcategory", "subject", "text", "time", "title", "to", "total", "type", "unit", "user",
    "value", "when", "where", "which", "with",
))
# fmt: on

# "to", "no", "pct": too short to be more than an abbreviation or a preposition.
_MIN_LETTERS = 4


class Question(msgspec.Struct, frozen=True):
    """One form field and what is shown beside it, without the text that workers are to find.

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


class ElementQuestion(msgspec.Struct, frozen=True):
    """A question with the element that it is about; the element stays with the requester."""

    element_id: str
    question: Question


class NotAsked(msgspec.Struct, frozen=True):
    """An element or turn that cannot be asked about, and why."""

    task_id: str
    element_id: str
    reason: str


def questions_of(
    service: Service, task: Task, ambiguous: frozenset[str], only: frozenset[tuple[str, str]] | None = None
) -> tuple[list[ElementQuestion], list[str]]:
    """The questions of a task in the schema's order, and the ids of elements that have nothing to show.

    Args:
      service: the service.
      task: ``names`` or ``descriptions``.
      ambiguous: the ids of the elements whose description is shown beside their name.
      only: the fields of a top-up, as (task id, form field); None for everything.
    """
    questions, blank = [], []
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
        questions.append(ElementQuestion(element.id, Question(element.field, element.kind, prompt, values, meaning)))
    return questions, blank


def service_title(service_name: str) -> str:
    """``Hotels`` for ``Hotels_1``: the number distinguishes services and means nothing."""
    return _NUMBERED.sub("", service_name) or service_name


def _listed(values: tuple[str, ...]) -> str:
    listed = ", ".join(text for value in values[:MAX_VALUES] if (text := shown(value)))
    return f"{listed} and {len(values) - MAX_VALUES:,} more" if len(values) > MAX_VALUES else listed


def ambiguous_elements(service: Service, setting: str, listed: frozenset[str] = frozenset()) -> frozenset[str]:
    """The ids of a service's ambiguous elements.

    Args:
      service: the service.
      setting: ``auto`` finds those that are vague, and slots whose words another slot has too, with more;
        ``none`` marks none; anything else takes ``listed``.
      listed: ids as a person has listed them, of any services.
    """
    elements = elements_of(service, "descriptions")
    if setting == NONE:
        return frozenset()
    if setting != AUTO:
        return listed & {element.id for element in elements}
    contained = _contained_slots(elements)
    return frozenset(element.id for element in elements if is_vague(element) or element.id in contained)


def is_vague(element: Element) -> bool:
    """Whether the name is one word of under four letters, or all of its words are generic: ``type``, ``end_time``."""
    own = _words(element)
    return all(word in GENERIC or word.isdigit() for word in own) or (len(own) == 1 and len(own[0]) < _MIN_LETTERS)


def _contained_slots(elements: Iterable[Element]) -> frozenset[str]:
    """The ids of slots beside another that has all of their words and more: ``alarm_time``, ``new_alarm_time``."""
    words = {element.id: frozenset(_words(element)) for element in elements if element.kind == "slot"}
    having = defaultdict[str, set[str]](set)
    for element_id, own in words.items():
        for word in own:
            having[word].add(element_id)
    found = set()
    for element_id, own in words.items():
        # The rarest word first: the cost stays small where thousands of slots share one.
        rarest = min((having[word] for word in own), key=len, default=set[str]())
        if any(own < words[other] for other in rarest):
            found.add(element_id)
    return frozenset(found)


def read_ambiguous(path: str | Path, known: Iterable[str]) -> frozenset[str]:
    """Reads a list of element ids: one a line, ``#`` begins a comment.

    Raises:
      InputError: the file cannot be read, or a line is no element of the schemas; names file and line.
    """
    text = read_text(as_path(path))
    ids, found = frozenset(known), set()
    for number, line in enumerate(text.splitlines(), 1):
        element_id = _uncommented(line, ids)
        if not element_id:
            continue
        if element_id not in ids:
            raise InputError(
                f"no element {element_id[:200]!r} in the schemas (ids look like SERVICE/slot/NAME, SERVICE/intent/NAME "
                "or SERVICE/service, with the original names)",
                path,
                f"line {number}",
            )
        found.add(element_id)
    return frozenset(found)


def _uncommented(line: str, ids: frozenset[str]) -> str:
    # A hostile corpus may have "#" in a name: a line that is itself an id is taken as one.
    return line.strip() if line.strip() in ids else line.partition("#")[0].strip()


def _words(element: Element) -> tuple[str, ...]:
    return name_words(service_title(element.name) if element.kind == "service" else element.name)
