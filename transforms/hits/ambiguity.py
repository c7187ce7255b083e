"""Which names do not say by themselves what they mean: those are described with their description in view."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

from parapet.schemas.elements import Element, elements_of
from parapet.schemas.errors import InputError
from parapet.schemas.layout import as_path
from parapet.schemas.service import Service
from parapet.transforms.hits.questions import service_title
from parapet.transforms.naming import name_words

AUTO = "auto"
NONE = "none"

# Words that say which sort of thing is meant, and not of what.
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
    try:
        text = as_path(path).read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror or error}", path) from None
    except UnicodeDecodeError as error:
        raise InputError(f"not UTF-8 at byte {error.start}: save the file as UTF-8", path) from None
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
    # A hostile corpus may have "#" in a name: a line that is an id as it stands is taken as such.
    return line.strip() if line.strip() in ids else line.partition("#")[0].strip()


def _words(element: Element) -> tuple[str, ...]:
    return name_words(service_title(element.name) if element.kind == "service" else element.name)
