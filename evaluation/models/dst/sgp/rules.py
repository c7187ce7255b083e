"""What the modules read and choose from, and the rules that make a state of their choices, turn by turn."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec

from parapet.evaluation.dst.frames import State
from parapet.schemas.service import Service, Slot
from parapet.transforms.naming import name_words

Kind = Literal["intent", "categorical", "free", "transfer"]
KINDS: tuple[Kind, ...] = ("intent", "categorical", "free", "transfer")

DONTCARE = "dontcare"
NONE = "NONE"

# The first options of each module. Intents follow those of "intent", possible values those of "categorical".
SAME, NO_INTENT = 0, 1
NULL, ANY, SAID = 0, 1, 2  # of "transfer" the second option is what SAID is for others
BEFORE = 1
FIRST_VALUE = 2
OPTIONS: dict[Kind, tuple[str, ...]] = {
    "intent": ("the same", "none"),
    "categorical": ("null", "do not care"),
    "free": ("null", "do not care", "said"),
    "transfer": ("null", "said before"),
}
_LEADS: dict[Kind, str] = {"intent": "do", "categorical": "sort", "free": "tag", "transfer": "copy"}


class Schema(msgspec.Struct, frozen=True):
    """The second half of an input: ``head`` says what is asked for, ``options`` what it may be."""

    head: str
    options: tuple[str, ...]


def speaker_text(speaker: str) -> str:
    """What precedes an utterance."""
    return f"{speaker.lower()} :"


def intents_of(service: Service) -> Schema:
    """For the module of intents."""
    named = tuple(f"{intent.description} # {_words(intent.name)}" for intent in service.intents)
    return Schema(f"{_LEADS['intent']} # {service.description}", (*OPTIONS["intent"], *named))


def slot_of(service: Service, slot: Slot, kind: Kind) -> Schema:
    """For the modules of slots."""
    head = f"{_LEADS[kind]} # {service.description} # {_words(slot.name)} # {slot.description}"
    return Schema(head, (*OPTIONS[kind], *(slot.possible_values if kind == "categorical" else ())))


def _words(name: str) -> str:
    return " ".join(name_words(name))


def needed(service: Service) -> set[str]:
    """The slots that an intent takes, which alone have values; all of them where no intent takes any."""
    taken = {name for intent in service.intents for name in (*intent.required_slots, *intent.optional_slots)}
    return taken or {slot.name for slot in service.slots}


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

    What a turn does not change stays. Only slots that an intent takes have values. A value that the user
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
