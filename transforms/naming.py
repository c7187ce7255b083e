"""Names of intents and slots: their words, and the convention in which a corpus writes them."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable
from enum import Enum
from functools import lru_cache

import msgspec

from parapet.schemas.service import Kind, Service

# Both boundaries, so that BookAHotel gives book, a, hotel.
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_PART = re.compile(r"[^A-Za-z0-9]+")


class Convention(Enum):
    """How the words of a name are put together."""

    SNAKE = "snake_case"
    CAMEL = "CamelCase"
    LOWER_CAMEL = "lowerCamelCase"
    KEBAB = "kebab-case"
    DOMAIN_SLOT = "domain-slot"  # MultiWOZ 2.2: "hotel-pricerange", the part before the hyphen is the domain's


class Conventions(msgspec.Struct, frozen=True):
    """How one corpus writes the names of its slots and of its intents."""

    slots: Convention = Convention.SNAKE
    intents: Convention = Convention.CAMEL

    def of(self, kind: Kind) -> Convention:
        """The convention of one kind of element."""
        return self.intents if kind == "intent" else self.slots


_FORM = {
    Convention.SNAKE: re.compile(r"[a-z0-9]+(_[a-z0-9]+)*"),
    Convention.CAMEL: re.compile(r"[A-Z][A-Za-z0-9]*"),
    Convention.LOWER_CAMEL: re.compile(r"[a-z0-9]+[A-Z][A-Za-z0-9]*"),
    Convention.KEBAB: re.compile(r"[a-z0-9]+(-[a-z0-9]+)*"),
    Convention.DOMAIN_SLOT: re.compile(r"[a-z0-9]+-[a-z0-9]+(_[a-z0-9]+)*"),
}


@lru_cache(maxsize=1 << 15)
def name_words(name: str) -> tuple[str, ...]:
    """The words of a name in any convention or typed freely, lower-cased, ASCII letters and digits only.

    Letters lose their accents; apostrophes vanish ("driver's" is one word); what has no ASCII form is dropped.
    A text written in capitals throughout has no camel boundaries.
    """
    ascii_name = name.replace("'", "").replace("\u2019", "")
    if not ascii_name.isascii():
        ascii_name = "".join(c for c in unicodedata.normalize("NFKD", ascii_name) if ord(c) < 128)
    found = []
    for part in _PART.split(ascii_name):
        if part:
            found += _CAMEL.split(part)
    return tuple(word.lower() for word in found)


def find_convention(names: Iterable[str]) -> Convention:
    """The convention that most of the names follow; SNAKE where a corpus has none to tell by.

    Single lower-case words follow several: they count for each, and ties go to the earlier one of the enumeration,
    except that ``domain-slot`` goes before ``kebab-case`` where every hyphenated name has exactly one hyphen and the
    parts before it repeat.
    """
    names = [name for name in names if name]
    votes: Counter[Convention] = Counter()
    for name in names:
        votes.update(convention for convention, form in _FORM.items() if form.fullmatch(name))
    if not votes:
        return Convention.SNAKE
    prefixes = Counter(name.split("-")[0] for name in names if "-" in name)
    if votes[Convention.DOMAIN_SLOT] * 2 > len(names) and len(prefixes) * 2 <= sum(prefixes.values()):
        return Convention.DOMAIN_SLOT
    order = [Convention.SNAKE, Convention.CAMEL, Convention.LOWER_CAMEL, Convention.KEBAB]
    return max(order, key=lambda convention: (votes[convention], -order.index(convention)))


def conventions_of(services: Iterable[Service]) -> Conventions:
    """How a corpus writes its names, given all of its services."""
    services = list(services)
    return Conventions(
        slots=find_convention(slot.name for service in services for slot in service.slots),
        intents=find_convention(intent.name for service in services for intent in service.intents),
    )


def join_words(parts: Iterable[str], convention: Convention, original: str = "") -> str:
    """Writes words as a name; ``""`` where there are none.

    Args:
      parts: lower-case ASCII words.
      convention: how.
      original: the name that is paraphrased; ``domain-slot`` names keep its domain.
    """
    parts = list(parts)
    if not parts:
        return ""
    match convention:
        case Convention.CAMEL:
            name = "".join(part[:1].upper() + part[1:] for part in parts)
            return name if name[0].isalpha() else f"The{name}"  # an intent such as "24HourRental" is no identifier
        case Convention.LOWER_CAMEL:
            return parts[0] + "".join(part[:1].upper() + part[1:] for part in parts[1:])
        case Convention.KEBAB:
            return "-".join(parts)
        case Convention.DOMAIN_SLOT:
            domain = original.partition("-")[0] if "-" in original else ""
            head = list(name_words(domain))
            if parts[: len(head)] == head and len(parts) > len(head):
                parts = parts[len(head) :]
            return f"{domain}-{'_'.join(parts)}" if domain else "_".join(parts)
        case _:
            return "_".join(parts)
