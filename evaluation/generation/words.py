"""What references are built from: the names and descriptions of a service's slots and intents, in one schema."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Literal

import msgspec

from parapet.schemas.errors import InputError
from parapet.schemas.layout import SINGLE, SplitSchemas
from parapet.schemas.service import Intent, Service, Slot
from parapet.transforms.table1 import name_suffix
from parapet.transforms.variants.names import by_position

Kind = Literal["boolean", "categorical", "free", "marker", "none"]
BOOLEANS = ("true", "false")

_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|_+")


class Words(msgspec.Struct, frozen=True):
    """How a schema calls a slot or an intent: its name in words, and its description without a mark at the end."""

    name: str
    description: str


class ServiceWords(msgspec.Struct, frozen=True):
    """The words of a service, by the *original's* names of slots and intents, which are those of the acts."""

    slots: dict[str, Words]
    intents: dict[str, Words]

    def slot(self, name: str) -> Words:
        """Of a slot; one that the schema lacks (``intent``, ``count``) is called by its name."""
        return self.slots.get(name) or Words(in_words(name), in_words(name))

    def intent(self, name: str) -> Words:
        """Of an intent, likewise."""
        return self.intents.get(name) or Words(in_words(name), in_words(name))


def in_words(name: str) -> str:
    """``has_live_music`` is ``has live music``, ``BuyBusTicket`` is ``buy bus ticket``."""
    return " ".join(word if word.isupper() else word.lower() for word in _CAMEL.split(name) if word)


def kind_of(slot: Slot) -> Kind:
    """Boolean slots are categorical ones whose values are True and False."""
    if not slot.is_categorical:
        return "free"
    return "boolean" if sorted(one.lower() for one in slot.possible_values) == sorted(BOOLEANS) else "categorical"


def words_of(service: Service) -> ServiceWords:
    """The words of a service as its own schema has them."""
    return ServiceWords(
        {slot.name: _words(slot) for slot in service.slots}, {intent.name: _words(intent) for intent in service.intents}
    )


def _words(element: Slot | Intent) -> Words:
    name = in_words(element.name)
    return Words(name, " ".join(element.description.split()).rstrip(" .?!:;") or name)


def varied_words(services: Iterable[Service], splits: Iterable[SplitSchemas], variant: str) -> dict[str, ServiceWords]:
    """The words of the variant of each service, by the original's names; the n-th slot is the n-th of the original.

    Args:
      services: of the original.
      splits: the schemas of the variant.
      variant: its name, for messages.

    Raises:
      InputError: the variant lacks a service, or has it with another number of slots or intents.
    """
    by_name = {service.service_name: service for split in splits for service in split.services}
    services = list(services)
    suffix = name_suffix([service.service_name for service in services], by_name)
    found = {}
    for service in services:
        other = by_name.get(service.service_name + suffix)
        if other is None:
            raise InputError(f"{variant} has no variant of service {service.service_name!r}", "--variants")
        try:
            names = by_position(service, other)
        except InputError as error:
            raise InputError(f"{variant}: service {other.service_name!r} {error.reason}", "--variants") from None
        varied = words_of(other)
        found[service.service_name] = ServiceWords(
            {old: varied.slots[new] for old, new in names.slots.items()},
            {old: varied.intents[new] for old, new in names.intents.items()},
        )
    return found


def services_of(splits: Mapping[str, SplitSchemas], split: str) -> list[Service]:
    """The services of a split, or of a corpus that is one."""
    return (splits[split] if split in splits else splits[SINGLE]).services
