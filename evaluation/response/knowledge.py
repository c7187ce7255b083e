"""The entities that a system can offer, and how responses mention them: by their values, or by placeholders."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

Entity = Mapping[str, str]
# Slot to the values that will do.
Constraints = Mapping[str, Sequence[str]]

_ANY = frozenset({"", "dontcare", "dont care", "do n't care", "don't care", "do not care"})
_NO_LATER, _NO_EARLIER = ("arriveby", "arrive_by"), ("leaveat", "leave_at")


class Knowledge:
    """The entities of services.

    Args:
      entities: service to its rows, slot to value.
      said: (service, slot, value, a way it is said) as dialogues have them.
    """

    def __init__(
        self, entities: Mapping[str, Iterable[Entity]], said: Iterable[tuple[str, str, str, str]] = ()
    ) -> None:
        # Each once, whatever the order in which they were found.
        self.entities = {
            service: [dict(one) for one in sorted({tuple(sorted(row.items())) for row in rows})]
            for service, rows in entities.items()
        }
        self._said: dict[tuple[str, str, str], set[str]] = {}
        self._meant: dict[tuple[str, str, str], set[str]] = {}
        for service, slot, value, way in said:
            self._said.setdefault((service, slot, value.casefold()), set()).add(way.casefold())
            self._meant.setdefault((service, slot, way.casefold()), set()).add(value)
        self._found: dict[tuple[str, tuple[tuple[str, tuple[str, ...]], ...]], list[Entity]] = {}

    def find(self, service: str, constraints: Constraints) -> list[Entity]:
        """The entities that satisfy constraints, in a fixed order."""
        key = service, tuple(sorted((slot, tuple(values)) for slot, values in constraints.items()))
        if key not in self._found:
            of = self.entities.get(service, [])
            self._found[key] = [entity for entity in of if satisfies(entity, constraints)]
        return self._found[key]

    def ways(self, service: str, slot: str, value: str) -> list[str]:
        """How a value may be said, in small letters: as it is, and as dialogues have it."""
        return [value.casefold(), *sorted(self._said.get((service, slot, value.casefold()), ()))]

    def meant(self, service: str, slot: str, values: Iterable[str]) -> tuple[str, ...]:
        """Values as they were said, and all values that dialogues say like them."""
        found = dict.fromkeys(values)
        for value in list(found):
            found |= dict.fromkeys(sorted(self._meant.get((service, slot, value.casefold()), ())))
        return tuple(found)


def satisfies(entity: Entity, constraints: Constraints) -> bool:
    """Whether an entity has one of the values that will do for each slot; one that it lacks does not bind it.

    ``arriveBy`` and ``leaveAt`` are bounds, as in MultiWOZ: no later, no earlier.
    """
    for slot, values in constraints.items():
        have = entity.get(slot)
        if have is None or any(value.casefold() in _ANY for value in values):
            continue
        if not any(_fits(plain_name(slot), have.casefold(), value.casefold()) for value in values):
            return False
    return True


def _fits(slot: str, have: str, wanted: str) -> bool:
    if slot in _NO_LATER:
        return have.zfill(5) <= wanted.zfill(5)
    if slot in _NO_EARLIER:
        return have.zfill(5) >= wanted.zfill(5)
    return have == wanted


_PLACEHOLDER = re.compile(r"\[([^\[\]]{1,100})\]")
_NO_NAME = re.compile(r"[^a-z0-9]+")
_NUMBER = re.compile(r"_[0-9]+$")
_SHORT = {"post": "postcode", "ref": "reference", "id": "trainid", "addr": "address"}  # MultiWOZ has both


def plain_name(name: str) -> str:
    """A name in small letters, its words separated by underscores: ``restaurant_name`` of ``Restaurant-name``."""
    return _NO_NAME.sub("_", name.lower()).strip("_")


def placeholders(response: str) -> frozenset[str]:
    """The names in square brackets of a delexicalised response, plain."""
    return frozenset(_long(plain_name(name)) for name in _PLACEHOLDER.findall(response))


def placeholders_of(service: str, slot: str) -> tuple[frozenset[str], frozenset[str]]:
    """A slot's placeholders: with the service or its domain (``restaurant_phone``), without (``phone``)."""
    owners = {service, _NUMBER.sub("", service)}
    own = frozenset(_long(plain_name(f"{owner}_{slot}")) for owner in owners)
    return own, frozenset(_long(plain_name(name)) for name in (slot, f"value_{slot}"))


def _long(name: str) -> str:
    start, _, last = name.rpartition("_")
    return f"{start}_{_SHORT.get(last, last)}".strip("_")


def is_said(value: str, text: str) -> bool:
    """Whether a value stands in a text as words of its own; both in small letters."""
    at = text.find(value) if value else -1
    while at >= 0:
        end = at + len(value)
        before = at == 0 or not (text[at - 1].isalnum() and value[0].isalnum())
        after = end == len(text) or not (text[end].isalnum() and value[-1].isalnum())
        if before and after:
            return True
        at = text.find(value, at + 1)
    return False
