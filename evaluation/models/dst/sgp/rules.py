"""What the modules read and choose from, and the rules that make a state of their choices."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal

import msgspec

from parapet.evaluation.dst.frames import State
from parapet.schemas.service import Service, Slot
from parapet.transforms.naming import name_words

# The authors' names. "combine" predicts values of categorical and free slots and requested slots; "copy_slot" whether
# the user accepts a value that the system gave; "cross_copy" whether a slot takes the value of another service's slot.
Kind = Literal["intents", "combine", "copy_slot", "cross_copy"]
KINDS: tuple[Kind, ...] = ("intents", "combine", "copy_slot", "cross_copy")

DONTCARE = "dontcare"
NONE = "NONE"
START = State(NONE, [], {})

# Options of "combine"; a categorical slot's possible values follow.
NULL, ANY, FIRST_VALUE = 0, 1, 2

# The context feature of a module (SGD-X, Figure 2) is a sum of these; that of "intents" marks the previous intent.
GIVEN, REQUESTED = 1, 2  # of "combine": the system gave a value earlier; it has just asked for one
REQUIRED, OPTIONAL, HAD_VALUE, SUCCEEDED = 1, 2, 4, 8  # of the two that copy
FEATURES: dict[Kind, int] = {"intents": 2, "combine": 4, "copy_slot": 4, "cross_copy": 16}

# A prediction counts where its probability is higher; of a span where those of its two ends sum up to more.
CONFIDENT: dict[str, float] = {"option": 0.8, "span": 1.0, "requested": 0.9, "copy_slot": 0.85, "cross_copy": 0.9}


class Schema(msgspec.Struct, frozen=True):
    """The second part of an input.

    Attributes:
      head: texts that say what is asked.
      options: what the answer may be.
      context: what precedes the utterances.
      mark: what follows them.
    """

    head: tuple[str, ...]
    options: tuple[str, ...] = ()
    context: str = ""
    mark: str = ""


def intents_of(service: Service, same_services: bool) -> Schema:
    """For "intents": all of them, and none.

    Args:
      service: whose intents.
      same_services: whether the user turn is about the same services as the one before.
    """
    named = tuple(f"{intent.description} # {_words(intent.name)}" for intent in service.intents)
    return Schema((), (*named, "none"), "keep" if same_services else "jump")


def slot_of(slot: Slot) -> Schema:
    """For "combine"."""
    lead = "sort" if slot.is_categorical else "tag"
    values = slot.possible_values if slot.is_categorical else ()
    return Schema((f"{lead} # {_described(slot)}",), ("null", "do not care", *values), mark="null")


def copy_of(service: Service, slot: Slot) -> Schema:
    """For "copy_slot"."""
    return Schema((slot.description,), context=f"api : {service.description}")


def cross_of(slot: Slot, other: Slot) -> Schema:
    """For "cross_copy": whether ``slot`` takes the value of ``other``."""
    return Schema((_described(slot), _described(other)))


def _described(slot: Slot) -> str:
    return f"{_words(slot.name)} # {slot.description}"


def _words(name: str) -> str:
    return " ".join(name_words(name))


def needed(service: Service) -> set[str]:
    """The slots that an intent takes, which alone have values; all of them where no intent takes any."""
    taken = {name for intent in service.intents for name in (*intent.required_slots, *intent.optional_slots)}
    return taken or {slot.name for slot in service.slots}


def role_of(slot: str, intent: str, service: Service) -> int:
    """The part of the context feature that says whether an intent takes a slot."""
    found = next((one for one in service.intents if one.name == intent), None)
    return REQUIRED * (slot in found.required_slots) + OPTIONAL * (slot in found.optional_slots) if found else 0


class Decision(msgspec.Struct, frozen=True):
    """What a module says of a row.

    Attributes:
      option: the number of the best one, of "combine" ``NULL`` where it is not confident.
      span: the first and the last token of the user's utterance; None for none.
      yes: whether the slot is requested, or a value copied.
      score: the logit of that.
    """

    option: int = NULL
    span: tuple[int, int] | None = None
    yes: bool = False
    score: float = 0.0


def intent_name(service: Service, option: int) -> str:
    """The intent of an option of "intents"."""
    return service.intents[option].name if option < len(service.intents) else NONE


def value_of(slot: Slot, said: Decision, span: str) -> str:
    """The value that "combine" gives a slot; empty for none. A requested slot has no possible value in the same turn.

    Args:
      slot: the slot.
      said: what the module says.
      span: the text of its span.
    """
    if slot.is_categorical and said.yes:
        return ""
    if said.option == ANY:
        return DONTCARE
    if slot.is_categorical:
        return slot.possible_values[said.option - FIRST_VALUE] if said.option >= FIRST_VALUE else ""
    return span


def next_state(
    before: State,
    service: Service,
    intent: str,
    requested: Iterable[str],
    *values: Mapping[str, str],
) -> State:
    """The state after a user turn: what it does not change stays, and only slots that an intent takes have values.

    Args:
      before: the state after the turn before it.
      service: of the state.
      intent: the active one.
      requested: slots.
      values: of slots: what the user says in this turn; then others, for slots that have no value yet.
    """
    said, *copied = values
    wanted = needed(service)
    merged = {name: list(held) for name, held in before.slot_values.items()}
    merged |= {name: [value] for name, value in said.items()}
    for source in copied:
        merged |= {name: [value] for name, value in source.items() if name not in merged}
    return State(intent, list(requested), {name: held for name, held in merged.items() if name in wanted})
