"""The rules that make a state of what the modules say, turn by turn."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from parapet.evaluation.dst.frames import State
from parapet.evaluation.models.dst.sgp.texts import ANY, DONTCARE, FIRST_VALUE, NO_INTENT, NONE, SAME, needed
from parapet.schemas.service import Service

START = State(NONE, [], {})


class Said(msgspec.Struct, frozen=True):
    """What a module says of a slot.

    Attributes:
      option: the number of the one that it chose.
      value: of a span; empty without one.
      requested: whether the user asks for it.
    """

    option: int
    value: str = ""
    requested: bool = False


def value_of(said: Said, values: list[str], categorical: bool) -> str:
    """The value that a module of slots gives; empty for none."""
    if said.option == ANY:
        return DONTCARE
    if categorical:
        return values[said.option - FIRST_VALUE] if said.option >= FIRST_VALUE else ""
    return said.value


def next_state(
    before: State, service: Service, intent: int, slots: Mapping[str, Said], transfer: Mapping[str, Said]
) -> State:
    """The state after a user turn.

    What a turn does not change stays as it was. Only slots that an intent takes have values. A value that the user
    says goes before one that was said earlier, which is taken for slots that have none. A slot that the user asks for
    has no possible value in the same turn.

    Args:
      before: the state after the user turn before it.
      service: that it is of.
      intent: the option that was chosen.
      slots: what the modules of categorical and of free slots say.
      transfer: what the module of transfers says.
    """
    active = before.active_intent if intent == SAME else NONE
    if intent > NO_INTENT:
        active = service.intents[intent - NO_INTENT - 1].name
    requested = [slot.name for slot in service.slots if slots[slot.name].requested]
    values = dict(before.slot_values)
    wanted = needed(service)
    for slot in service.slots:
        value = value_of(slots[slot.name], slot.possible_values, slot.is_categorical)
        if slot.name in wanted and value and not (slot.is_categorical and slot.name in requested):
            values[slot.name] = [value]
    for name, said in transfer.items():
        if said.value and name not in values:
            values[name] = [said.value]
    return State(active, requested, values)
