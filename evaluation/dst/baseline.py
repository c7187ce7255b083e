"""A keyword tracker that reads only the schema and needs no training: a lower bound for models.

    parapet evaluate --task dst --model keywords ...

Values of categorical slots are matched word by word. For free slots, a text that looks like a value (a time, a date, a
number, a name) goes to the slot whose name and description share most words with its context. Rewording the schema
therefore changes the predictions, as it does for trained models.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import msgspec

from parapet.evaluation.dst.model import Example
from parapet.schemas.service import Service, Slot
from parapet.transforms.reports.text import name_words


@lru_cache(maxsize=1 << 14)
def words_of(text: str) -> tuple[str, ...]:
    """Returns the lower-cased words of a text."""
    return tuple(re.findall(r"[^\W_]+", text.lower()))


_MONTHS = "january february march april may june july august september october november december"
_DAYS = "monday tuesday wednesday thursday friday saturday sunday"
_DATE = rf"(?:the )?\d{{1,2}}(?:st|nd|rd|th)(?: of (?:{_MONTHS.replace(' ', '|')}))?"
_LOOKS = {
    "time": re.compile(r"\b(?:\d{1,2}(?::\d\d)? ?(?:am|pm)|\d{1,2}:\d\d|noon|midnight)\b", re.IGNORECASE),
    "date": re.compile(
        rf"\b(?:(?:{_MONTHS.replace(' ', '|')}) \d{{1,2}}(?:st|nd|rd|th)?|{_DATE}|today|tomorrow|"
        rf"(?:(?:next|this) )?(?:{_DAYS.replace(' ', '|')}))\b",
        re.IGNORECASE,
    ),
    "number": re.compile(r"\$?\b\d[\d,.]*\b|\b(?:one|two|three|four|five|six|seven|eight|nine|ten)\b", re.IGNORECASE),
    "name": re.compile(r"(?<![.?!] )(?<!^)\b[A-Z][\w'&]*(?: (?:of|the|and|&) (?=[A-Z])| [A-Z][\w'&]*|)*"),
}
# Words in the names and descriptions of slots with such values.
_TELLING = {
    "time": {"time", "hour", "when", "clock"},
    "date": {"date", "day", "when", "dates"},
    "number": {"number", "count", "how", "many", "amount", "price", "rating", "quantity", "size"},
    "name": {"name", "city", "location", "place", "town", "title", "where", "address", "station", "destination"},
}
_IDLE = frozenset(words_of("a an and at by for from in is it of on or the to whether with i me my you your"))
BEFORE, AFTER = 3, 2  # size of a value's context, in words
LEAST = 2  # least score for a slot to accept a value


class _Found(msgspec.Struct, frozen=True):
    """A text that looks like a value, the words around it, and the kind of value."""

    text: str
    around: frozenset[str]
    look: str


class Keywords:
    """The tracker."""

    def predict(self, batch: Sequence[Example]) -> list[dict[str, Any]]:
        """Predicts a state for each example."""
        return [self._state(example) for example in batch]

    def _state(self, example: Example) -> dict[str, Any]:
        user_texts = [text for speaker, text in example.history if speaker == "USER"]
        return {
            "active_intent": _intent(example.service, frozenset(words_of(" ".join(user_texts)))),
            "requested_slots": _requested(example.service, user_texts[-1]),
            "slot_values": {slot: [value] for slot, value in values_of(example.service, user_texts).items()},
        }


@lru_cache(maxsize=1 << 14)
def about(name: str, description: str) -> frozenset[str]:
    """Returns the words of a schema element's name and description."""
    return frozenset((*map(str.lower, name_words(name)), *words_of(description))) - _IDLE


def _intent(service: Service, said: frozenset[str]) -> str:
    if not service.intents:
        return "NONE"
    return max(service.intents, key=lambda intent: len(said & about(intent.name, intent.description))).name


def _requested(service: Service, said: str) -> list[str]:
    if not said.rstrip().endswith("?"):
        return []
    words = frozenset(words_of(said))
    return sorted(slot.name for slot in service.slots if about(slot.name, "") and about(slot.name, "") <= words)


def values_of(service: Service, said: Sequence[str]) -> dict[str, str]:
    """Finds the values of slots in a user's utterances, turn by turn."""
    values = {}
    for slot in service.slots:
        if slot.is_categorical and (value := _last_said(slot, " ".join(said).lower())):
            values[slot.name] = value
    free = [slot for slot in service.slots if not slot.is_categorical]
    candidates = [candidate for text in said for candidate in _looking_like_values(text)]
    for candidate in candidates:  # later values replace earlier ones
        points = {slot.name: _points(slot, candidate) for slot in free}
        best = max(points, key=lambda name: points[name], default=None)
        if best is not None and points[best] >= LEAST:
            values[best] = candidate.text
    return values


def _last_said(slot: Slot, said: str) -> str:
    places: Mapping[str, int] = {
        value: max((m.start() for m in re.finditer(rf"\b{re.escape(value.lower())}\b", said)), default=-1)
        for value in slot.possible_values
    }
    value = max(places, key=lambda place: places[place], default="")
    return value if value and places[value] >= 0 else ""


def _points(slot: Slot, found: _Found) -> int:
    own = about(slot.name, slot.description)
    return 2 * bool(own & _TELLING[found.look]) + len(own & found.around)


def _looking_like_values(text: str) -> list[_Found]:
    taken: list[tuple[int, int]] = []
    candidates = []
    for look, pattern in _LOOKS.items():
        for match in pattern.finditer(text):
            start, end = match.span()
            if all(end <= first or last <= start for first, last in taken):
                taken.append((start, end))
                around = {*words_of(text[:start])[-BEFORE:], *words_of(text[end:])[:AFTER]} - _IDLE
                candidates.append((start, _Found(match[0], frozenset(around), look)))
    return [candidate for _, candidate in sorted(candidates, key=lambda pair: pair[0])]
