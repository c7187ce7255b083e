"""Pages that ask for names and descriptions of a service's elements: questions, cues, and rendering.

Hidden texts never leave this module, so that no page can reveal them. Names that do not explain themselves are shown
with their description.

A page also describes the app, so that a worker knows the domain (SGD-X, Lee et al. 2022, Figures 7 and 8). A
``descriptions`` page shows names, so it shows the service's name. A ``names`` page hides them: it shows a cue written
by a person ("a service like GooglePay or Venmo"), or else the service's description, just as it shows the descriptions
of elements.

The cue depends only on what the page may show: two services that differ only in hidden text get the same bytes. Cues
written by a person are checked against the hidden text before any page is made.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from itertools import groupby
from pathlib import Path

import msgspec

from parapet.schemas.errors import InputError
from parapet.schemas.service import TASKS, Kind, Service, Task, elements_of, task_id
from parapet.transforms.crowd.answer_files import read_rows
from parapet.transforms.crowd.hits.page import NONE, Hits, NotAsked, Part, Settings, add_pages, render_part, shown
from parapet.transforms.report.text import name_words
from parapet.transforms.variants.distance import lemma

# More values than this do not help to understand a slot.
MAX_VALUES = 60

_NUMBERED = re.compile(r"_\d+$")

# Words for a kind of thing that do not say what it belongs to.
GENERIC = frozenset((
    "a", "active", "amount", "app", "area", "at", "balance", "by", "category", "class", "code", "count",
    "data", "date", "day", "description", "detail", "details", "duration", "end", "field", "for", "from",
    "get", "id", "in", "info", "information", "intent", "item", "items", "kind", "label", "length", "level",
    "list", "location", "message", "mode", "name", "no", "number", "of", "on", "option", "options", "place",
    "position", "problem", "quantity", "rate", "rating", "reason", "result", "results", "search", "service",
    "services", "size", "start", "state", "status", "subcategory", "subject", "text", "time", "title", "to",
    "total", "type", "unit", "user", "value", "when", "where", "which", "with",
))  # fmt: skip

# Shorter words, such as "to", "no" and "pct", are mostly abbreviations or prepositions.
_MIN_LETTERS = 4


class Question(msgspec.Struct, frozen=True):
    """A form field and what is shown beside it, without the text that workers must find.

    Attributes:
      element_id: the element that it is about, which the page does not name.
      field: the form field, such as ``slot_3``.
      prompt: the text to name or describe.
      values: the possible values of a categorical slot, joined, in ``descriptions`` tasks; else ``""``.
      meaning: the original description of an ambiguous element, in ``descriptions`` tasks; else ``""``.
    """

    element_id: str
    field: str
    kind: Kind
    prompt: str
    values: str = ""
    meaning: str = ""


def questions_of(service: Service, task: Task, ambiguous: Set[str]) -> Iterator[Question]:
    """Yields the questions of a task in the schema's order.

    Args:
      service: the service.
      task: ``names`` or ``descriptions``.
      ambiguous: the ids of elements whose description is shown beside their name.
    """
    for element in elements_of(service, task):
        prompt = shown(service_title(element.name) if element.kind == "service" else element.prompt(task))
        values = meaning = ""
        if task == "descriptions":
            values, meaning = _listed(element.values), shown(element.description) if element.id in ambiguous else ""
        yield Question(element.id, element.field, element.kind, prompt, values, meaning)


def service_title(service_name: str) -> str:
    """Returns ``Hotels`` for ``Hotels_1``; the number only distinguishes services."""
    return _NUMBERED.sub("", service_name) or service_name


def _listed(values: tuple[str, ...]) -> str:
    listed = ", ".join(text for value in values[:MAX_VALUES] if (text := shown(value)))
    return f"{listed} and {len(values) - MAX_VALUES:,} more" if len(values) > MAX_VALUES else listed


def ambiguous_elements(service: Service) -> set[str]:
    """Returns the ids of elements with vague names, and of slots whose words are some of another slot's.

    A name is vague if it is a single word under four letters, or consists of generic words: ``type``, ``end_time``.
    ``alarm_time`` is ambiguous beside ``new_alarm_time``.
    """
    elements = elements_of(service, "descriptions")
    # The number of a service is no word; names of intents and slots keep theirs.
    words = {
        each.id: name_words(service_title(each.name) if each.kind == "service" else each.name) for each in elements
    }
    of_slots = {element.id: frozenset(words[element.id]) for element in elements if element.kind == "slot"}
    contained = {name for name, own in of_slots.items() if any(own < other for other in of_slots.values())}
    short = {name for name, own in words.items() if len(own) == 1 and len(own[0]) < _MIN_LETTERS}
    return contained | short | {name for name, own in words.items() if _is_generic(own)}


def _is_generic(words: Iterable[str]) -> bool:
    return all(word in GENERIC or word.isdigit() for word in words)


MAX_LETTERS = 200

# Looks like the name of a schema element: get_alarms, GetAlarms, Alarm_1. Rarely also matches names like "iPhone".
_IDENTIFIER = re.compile(r"[^\W_]_[^\W_]|[a-z0-9][A-Z]")


def choose_cue(service: Service, task: Task, cues: str | Mapping[str, str]) -> str:
    """Returns the description of the app on the page of a task; may be empty.

    Args:
      service: the service.
      task: ``names`` or ``descriptions``.
      cues: cues from :func:`read_cues`, by service; ``none`` for no cue on ``names`` pages. Without one, it is the
        service's description, unless that contains something like the name of an element; then there is no cue.
    """
    if task == "descriptions":
        return shown(service_title(service.service_name))
    if cues == NONE:
        return ""
    if isinstance(cues, Mapping) and service.service_name in cues:
        return cues[service.service_name]
    text = shown(service.description)
    if len(text) > MAX_LETTERS:
        whole_words = text[:MAX_LETTERS].rpartition(" ")[0]
        text = whole_words and f"{whole_words} …"
    return "" if _IDENTIFIER.search(text) else text


def read_cues(path: str | Path, services: Mapping[str, Service]) -> dict[str, str]:
    """Reads ``service_name,cue`` from CSV; with an empty cue, a service is shown without one.

    Raises:
      InputError: the file cannot be read, or a row has an unknown or repeated service, a cue that is too long or
        contains the name of an element or of the service; names file and row.
    """
    cues: dict[str, str] = {}
    for number, row in read_rows(str(path), ("service_name", "cue")):
        name, cue, reason = row["service_name"], shown(row["cue"]), ""
        if name not in services:
            reason = f"there is no service {name[:200]!r} in the schemas"
        elif name in cues:
            reason = f"there is a second cue for {name}: give one for each service"
        elif len(cue) > MAX_LETTERS:
            reason = f"the cue has {len(cue)} letters, over the limit of {MAX_LETTERS}"
        elif revealed := revealed_by(cue, [*_names(services[name]), *name_words(service_title(name))]):
            reason = f"the cue of {name} contains {revealed!r}, a name that workers must not see"
        if reason:
            raise InputError(reason, path, f"row {number}")
        cues[name] = cue
    return cues


def revealed_by(text: str, names: Iterable[str]) -> str:
    """Returns the first name whose words occur in a text side by side; empty if there is none.

    Words are compared by their lemmas. Names that consist of generic words (``to``, ``date``) are ignored, since any
    sentence may contain them.
    """
    words = f" {' '.join(map(lemma, name_words(text)))} "
    for name in names:
        own = name_words(name)
        if not _is_generic(own) and f" {' '.join(map(lemma, own))} " in words:
            return name
    return ""


def _names(service: Service) -> list[str]:
    return [element.name for element in elements_of(service, "names")]


NOTHING_TO_SHOW = "nothing_to_show: the text to be shown on the page is blank"


def render_service(service: Service, settings: Settings) -> Hits:
    """Renders both tasks of a service; every element is on exactly one page of a task, or in ``not_asked``."""
    ambiguous = ambiguous_elements(service)
    hits = Hits({"services": 1})
    for task in TASKS:
        _add_pages(hits, service, task, questions_of(service, task, ambiguous), settings)
    hits.counts["fields"] = sum(len(page.record.fields) for page in hits.pages)
    return hits


def _add_pages(hits: Hits, service: Service, task: Task, questions: Iterable[Question], settings: Settings) -> None:
    name, cue = service.service_name, choose_cue(service, task, settings.cues)

    def body(parts: Sequence[Part]) -> str:
        groups = groupby(parts, lambda part: part.source.kind)
        sections = [{"kind": kind, "items": [part.html for part in group]} for kind, group in groups]
        return render_part("hit_body.html.jinja", task=task, sections=sections, cue=cue)

    def about(parts: Sequence[Part]) -> dict[str, object]:
        ambiguous = [part.id for part in parts if part.source.meaning]
        return {"service_name": name, "element_ids": [part.id for part in parts], "ambiguous": ambiguous, "cue": cue}

    parts = []
    for question in questions:
        if settings.only is not None and (task_id(name, task), question.field) not in settings.only:
            continue
        if question.prompt:
            html = render_part("hit_item.html.jinja", task=task, q=question)
            parts.append(Part(html, question.element_id, [question.field], question))
        else:
            hits.not_asked.append(NotAsked(task_id(name, task), question.element_id, NOTHING_TO_SHOW))
    add_pages(hits, task, task_id(name, task), name, parts, body, about, settings)
