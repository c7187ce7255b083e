"""What is translated of a service: names as the phrases they stand for, and descriptions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Literal

import msgspec

from parapet.schemas.elements import elements_of
from parapet.schemas.service import Service
from parapet.transforms.naming import name_words

ENGLISH = "en"


class Asked(msgspec.Struct, frozen=True):
    """One name or description.

    Attributes:
      element_id: whose.
      place: its form field, ``slot_3``: kind and position.
      field: ``name`` or ``description``.
      original: as the schema has it.
      text: what is sent to an engine; empty where there is nothing to send.
    """

    element_id: str
    place: str
    field: Literal["name", "description"]
    original: str
    text: str


def asked_of(service: Service) -> Iterator[Asked]:
    """Yields the names of intents and slots, then the descriptions, the service's too."""
    for element in elements_of(service, "names"):
        yield Asked(element.id, element.field, "name", element.name, phrase_of(element.name))
    for element in elements_of(service, "descriptions"):
        text = " ".join(element.description.split())
        yield Asked(element.id, element.field, "description", element.description, text)


def phrase_of(name: str) -> str:
    """``FindRestaurants`` and ``find_restaurants`` are "find restaurants"."""
    return " ".join(name_words(name))


def texts_of(services: Iterable[Service]) -> list[str]:
    """Every text there is to translate, once, sorted."""
    return sorted({asked.text for service in services for asked in asked_of(service) if asked.text})
