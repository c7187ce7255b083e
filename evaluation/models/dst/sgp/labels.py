"""What the modules should say, as the states of a corpus have it: what a turn changes, and where that comes from."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

import msgspec

from parapet.evaluation.dst.frames import State
from parapet.evaluation.models.dst.sgp.memory import Memory
from parapet.evaluation.models.dst.sgp.rules import ANY, DONTCARE, FIRST_VALUE, NULL
from parapet.schemas.service import Service, Slot


class Label(msgspec.Struct, frozen=True):
    """What "combine" should say of a slot.

    Attributes:
      option: the number of the right one.
      place: the characters of the value in the user's utterance; None where there are none.
      requested: whether the user asks for the slot.
      origin: ``user`` for a value that the user says, ``system`` for one that the system gave, which "combine" is not
        asked about, ``other`` for one that another service may have; empty where the turn does not change the value.
    """

    option: int = NULL
    place: tuple[int, int] | None = None
    requested: bool = False
    origin: str = ""

    @property
    def empty(self) -> bool:
        """Whether nothing is said."""
        return self.option == NULL and not self.place and not self.requested


NOTHING = (Label(), Label(requested=True))  # no value, by whether the slot is requested: of most questions


def intent_label(service: Service, state: State) -> int:
    """The option of the active intent."""
    names = [intent.name for intent in service.intents]
    return names.index(state.active_intent) if state.active_intent in names else len(names)


def slot_label(service: Service, slot: Slot, memory: Memory, state: State, utterance: str) -> Label:
    """For "combine".

    Args:
      service: of the slot.
      slot: the slot.
      memory: what was said before the user turn.
      state: the one after it.
      utterance: the user's.
    """
    requested = slot.name in state.requested_slots
    values = state.slot_values.get(slot.name, [])
    if not values or set(values) & set(memory.state(service).slot_values.get(slot.name, [])):
        return NOTHING[requested]
    if values[0] == DONTCARE:
        return Label(ANY, None, requested, "user")
    place = None if slot.is_categorical else found_last(values, utterance)
    if place:
        return Label(NULL, place, requested, "user")
    given = memory.given(service, slot)
    if given and given.value in values and not (slot.is_categorical and given.act == "REQUEST"):
        return Label(requested=requested, origin="system")
    if slot.is_categorical and values[0] in slot.possible_values:
        return Label(FIRST_VALUE + slot.possible_values.index(values[0]), None, requested, "user")
    return Label(requested=requested, origin="other")


def found_last(values: Sequence[str], utterance: str) -> tuple[int, int] | None:
    """Where one of several values that are the same stands in an utterance: the last place, and there the longest."""
    found = [
        (match.end(), match.end() - match.start(), match.start())
        for value in values
        if value
        for match in _pattern(value).finditer(utterance)
    ]
    if not found:
        return None
    end, _, begin = max(found)
    return begin, end


@lru_cache(maxsize=1 << 14)
def _pattern(value: str) -> re.Pattern[str]:
    """The value as words of their own, in whatever case."""
    return re.compile(rf"(?<!\w){re.escape(value)}(?!\w)", re.IGNORECASE)
