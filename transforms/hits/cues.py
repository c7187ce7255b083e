"""What a page says of the app as a whole, so that a worker knows the domain (SGD-X, Lee et al. 2022, Figures 7 and 8).

A ``descriptions`` page shows names, so it says the service's. A ``names`` page hides them: it shows a cue that a person
has written ("a service like GooglePay or Venmo"), or else the service's description, as it shows those of its elements.
The cue is made from what the page may show and never looks at what it hides: two services that differ only in hidden
text get the same bytes. What a person has written is checked against the hidden text before any page is made.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from parapet.schemas.elements import Task, elements_of
from parapet.schemas.errors import InputError
from parapet.schemas.layout import as_path
from parapet.schemas.limits import read_text
from parapet.schemas.service import Service
from parapet.transforms.hits.markup import shown
from parapet.transforms.hits.questions import AUTO, GENERIC, NONE, service_title
from parapet.transforms.naming import name_words

COLUMNS = ("service_name", "cue")
MAX_LETTERS = 200

# What reads as a name of a schema: get_alarms, GetAlarms, Alarm_1. "iPhone" does too, and is a rare loss.
_IDENTIFIER = re.compile(r"[^\W_]_[^\W_]|[a-z0-9][A-Z]")

_IES = re.compile("(?<=..)ies$")
_S = re.compile("(?<=..[^s])s$")


def cue_of(service: Service, task: Task, setting: str, written: Mapping[str, str]) -> str:
    """What the page of a task says the app is; empty for nothing.

    Args:
      service: the service.
      task: ``names`` or ``descriptions``.
      setting: ``none`` shows no cue on ``names`` pages.
      written: cues of :func:`read_cues`, by service. The service's description stands in for a missing one, unless
        it has what reads as the name of an element: then there is no cue.
    """
    if task == "descriptions":
        return shown(service_title(service.service_name))
    if setting == NONE:
        return ""
    if service.service_name in written:
        return written[service.service_name]
    text = _cut(shown(service.description))
    return "" if _IDENTIFIER.search(text) else text


def _cut(text: str) -> str:
    if len(text) <= MAX_LETTERS:
        return text
    return text[:MAX_LETTERS].rpartition(" ")[0] + " …" if " " in text[:MAX_LETTERS] else ""


def read_cues(path: str | Path, services: Mapping[str, Service]) -> dict[str, str]:
    """Reads ``service_name,cue`` from CSV; an empty cue shows none for its service.

    Raises:
      InputError: the file cannot be read, or a row has an unknown service, one a second time, a cue that is too long,
        more columns than the first row, or a cue that has the name of an element or of the service; names file and row.
    """
    try:
        with io.StringIO(read_text(as_path(path)), newline="") as handle:
            reader = csv.DictReader(handle, strict=True)
            if missing := [column for column in COLUMNS if column not in (reader.fieldnames or ())]:
                raise InputError(f"lacks the column {' and '.join(missing)}: expected service_name,cue", path, "row 1")
            rows = []
            for row in reader:
                if None in row:  # where DictReader puts what is too much
                    reason = "has more columns than the first: put quotes around a cue with a comma"
                    raise InputError(reason, path, f"row {reader.line_num}")
                rows.append((reader.line_num, row["service_name"] or "", row["cue"] or ""))
    except csv.Error as error:
        raise InputError(f"cannot be read: {error}", path) from None
    cues: dict[str, str] = {}
    for number, name, text in rows:
        place = f"row {number}"
        if name not in services:
            raise InputError(f"no service {name[:200]!r} in the schemas", path, place)
        if name in cues:
            raise InputError(f"a second cue for {name}", path, place)
        cue = shown(text)
        if len(cue) > MAX_LETTERS:
            raise InputError(f"the cue has {len(cue)} letters; at most {MAX_LETTERS} are shown", path, place)
        title = name_words(service_title(name))
        if revealed := revealed_by(cue, [*_names(services[name]), *title]):
            reason = f"the cue of {name} has {revealed!r}, the name of an element or of the service, which is not shown"
            raise InputError(reason, path, place)
        cues[name] = cue
    return cues


def revealing(services: Iterable[Service]) -> Iterator[tuple[str, str]]:
    """Services whose description, as their cue, has an element's name that no other text of the page has, and the name.

    A person should write another cue for these. Nothing of the page depends on it.
    """
    for service in services:
        prompts = [element.prompt("names") for element in elements_of(service, "names")]
        names = [name for name in _names(service) if not any(revealed_by(prompt, [name]) for prompt in prompts)]
        if name := revealed_by(cue_of(service, "names", AUTO, {}), names):
            yield service.service_name, name


def revealed_by(text: str, names: Iterable[str]) -> str:
    """The first of the names whose words stand in a text side by side; empty for none.

    Words are compared in any spelling, and a plural is its singular. Names of generic words alone (``to``, ``date``)
    tell nothing, and any sentence may have them.
    """
    words = _singular(name_words(text))
    for name in names:
        own = _singular(name_words(name))
        generic = all(word in _GENERIC or word.isdigit() for word in own)
        if not generic and any(words[i : i + len(own)] == own for i in range(len(words) - len(own) + 1)):
            return name
    return ""


def _names(service: Service) -> list[str]:
    return [element.name for element in elements_of(service, "names")]


def _singular(words: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(_IES.sub("y", word) if _IES.search(word) else _S.sub("", word) for word in words)


_GENERIC = frozenset(_singular(tuple(GENERIC)))
