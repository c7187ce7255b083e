"""What the modules read: turns, and what a schema says, with the options to choose from."""

from __future__ import annotations

from typing import Literal

import msgspec

from parapet.schemas.service import Service, Slot
from parapet.transforms.naming import name_words

Kind = Literal["intent", "categorical", "free", "transfer"]
KINDS: tuple[Kind, ...] = ("intent", "categorical", "free", "transfer")

DONTCARE = "dontcare"
NONE = "NONE"

# The first options of each module. Intents follow those of "intent", possible values those of "categorical".
SAME, NO_INTENT = 0, 1
NULL, ANY, SAID = 0, 1, 2  # of "transfer" what SAID stands for comes second
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
    """What stands before an utterance."""
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
