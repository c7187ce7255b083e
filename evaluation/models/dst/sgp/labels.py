"""What the modules should say, as the states of a corpus tell it: what a turn changes, and where that was said."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

import msgspec

from parapet.evaluation.dst.frames import State
from parapet.evaluation.models.dst.pairs import History
from parapet.evaluation.models.dst.sgp.rules import ANY, BEFORE, DONTCARE, FIRST_VALUE, NO_INTENT, NULL, SAID, SAME
from parapet.schemas.service import Service, Slot


class Place(msgspec.Struct, frozen=True):
    """Characters of an utterance; ``turn`` is its position in the dialogue."""

    turn: int
    begin: int
    end: int


class Label(msgspec.Struct, frozen=True):
    """What a module should say.

    Attributes:
      option: the number of the right one.
      place: of the value, if the module must find it.
      requested: whether the user asks for the slot.
    """

    option: int
    place: Place | None = None
    requested: bool = False

    @property
    def empty(self) -> bool:
        """Whether nothing is said."""
        return self.option == NULL and not self.requested


class SlotLabels(msgspec.Struct, frozen=True):
    """Of a slot: for its own module and for that of transfers; ``lost`` where the value is found nowhere."""

    own: Label
    transfer: Label
    lost: bool = False


def intent_label(service: Service, before: State, state: State | None) -> Label:
    """For the module of intents; ``state`` is None where the turn is not about the service."""
    if state is None or state.active_intent == before.active_intent:
        return Label(SAME)
    names = [intent.name for intent in service.intents]
    return Label(names.index(state.active_intent) + NO_INTENT + 1 if state.active_intent in names else NO_INTENT)


def slot_labels(slot: Slot, before: State, state: State | None, history: History) -> SlotLabels:
    """For the modules of a slot.

    Args:
      slot: the slot.
      before: the state after the user turn before.
      state: the one after this turn; None where the turn is not about the service.
      history: all until this turn, with it.
    """
    if state is None:
        return SlotLabels(Label(NULL), Label(NULL))
    requested = slot.name in state.requested_slots
    nothing = Label(NULL, None, requested)
    values = state.slot_values.get(slot.name, [])
    if not values or set(values) & set(before.slot_values.get(slot.name, [])):
        return SlotLabels(nothing, Label(NULL))
    if values[0] == DONTCARE:
        return SlotLabels(Label(ANY, None, requested), Label(NULL))
    if slot.is_categorical:
        if values[0] not in slot.possible_values:
            return SlotLabels(nothing, Label(NULL), lost=True)
        return SlotLabels(Label(FIRST_VALUE + slot.possible_values.index(values[0]), None, requested), Label(NULL))
    place = found_last(values, history)
    if place is None:
        return SlotLabels(nothing, Label(NULL), lost=True)
    if place.turn == len(history) - 1:
        return SlotLabels(Label(SAID, place, requested), Label(NULL))
    return SlotLabels(nothing, Label(BEFORE, place))


def found_last(values: Sequence[str], history: History) -> Place | None:
    """Where one of several values that are the same was said last; of those in one utterance the last, the longest."""
    for turn in range(len(history) - 1, -1, -1):
        found = [
            (match.end(), match.end() - match.start(), match.start())
            for value in values
            if value
            for match in _pattern(value).finditer(history[turn][1])
        ]
        if found:
            end, _, begin = max(found)
            return Place(turn, begin, end)
    return None


@lru_cache(maxsize=1 << 14)
def _pattern(value: str) -> re.Pattern[str]:
    """The value as words of their own, in whatever case."""
    return re.compile(rf"(?<!\w){re.escape(value)}(?!\w)", re.IGNORECASE)
