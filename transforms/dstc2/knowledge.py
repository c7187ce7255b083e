"""The knowledge base: restaurants with what the system said of them, or as a file has them; searches and ratings."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from parapet.schemas.errors import InputError
from parapet.schemas.layout import as_path, parse_json
from parapet.transforms import babi_format as babi
from parapet.transforms.dstc2.calls import DONTCARE, Act, Call, Slots, one_line
from parapet.transforms.seeding import stable_hash

QUERY = ("food", "area", "pricerange")  # what an API call is made of, in its order
# Slot of DSTC2 to relation of dialog bAbI, in the order of the published facts.
RELATIONS = {
    "postcode": "R_post_code",
    "food": "R_cuisine",
    "area": "R_location",
    "phone": "R_phone",
    "addr": "R_address",
    "pricerange": "R_price",
}
# The published facts have, of these, a token made of the restaurant's name.
TOKENS = {"postcode": "post_code", "phone": "phone", "addr": "address"}
_SLOTS = {relation: slot for slot, relation in RELATIONS.items()}

Said = tuple[str, str, str]  # restaurant, slot, value


class Restaurant(msgspec.Struct, frozen=True):
    """A restaurant: its name, and its values by slot in the order of ``RELATIONS``."""

    name: str
    values: Slots


class Rated(msgspec.Struct, frozen=True):
    """A restaurant that an API call gives, with a rating that is this call's own."""

    restaurant: Restaurant
    rating: int


class Knowledge(msgspec.Struct, frozen=True):
    """Restaurants, in the order in which they are listed."""

    restaurants: tuple[Restaurant, ...]

    def search(self, query: Slots) -> list[Restaurant]:
        """Those that are known to have all the values. One of which a value is not known is not found by it."""
        asked = set(query)
        return [one for one in self.restaurants if asked <= set(one.values)]


def token(value: str) -> str:
    """A value as one word, as dialog bAbI has it: ``asian_oriental``."""
    return "_".join(value.lower().split())


def from_token(word: str) -> str:
    """The value or name that one word of dialog bAbI stands for: ``asian oriental``."""
    return word.replace("_", " ").lower()


def facts_of(call: Call) -> Iterator[Said]:
    """What the system says of the restaurants it offers."""
    for turn in call.turns:
        names = set(offered(turn.system_acts))
        if len(names) == 1:
            (name,) = names
            for act in turn.system_acts:
                if act.act == "inform":
                    for slot, value in act.slots:
                        if slot in RELATIONS and value and value != DONTCARE:
                            yield name, slot, value.lower() if slot in QUERY else value
            yield name, "", ""  # it is there, whatever is known of it


def offered(acts: Iterable[Act]) -> list[str]:
    """The restaurants that acts offer."""
    return [
        value.lower() for act in acts if act.act == "offer" for slot, value in act.slots if slot == "name" and value
    ]


def gathered(counts: Iterable[tuple[Said, int]]) -> Knowledge:
    """The knowledge base of all that was said: of each slot the value that was said most often.

    Args:
      counts: how often each fact was said.
    """
    said: dict[str, dict[str, tuple[int, str]]] = {}
    for (name, slot, value), n in sorted(counts):
        best = said.setdefault(name, {})
        if slot and (slot not in best or n > best[slot][0]):
            best[slot] = (n, value)
    return Knowledge(
        tuple(
            Restaurant(name, tuple((slot, best[slot][1]) for slot in RELATIONS if slot in best))
            for name, best in sorted(said.items(), key=lambda one: (token(one[0]), one[0]))
        )
    )


def ratings(found: Sequence[Restaurant], offers: Sequence[str], *key: str) -> list[Rated]:
    """DSTC2 has no ratings: what is offered next gets the highest, so that an offer can be predicted by it.

    Args:
      found: by the API call.
      offers: names that the system offers until the next call, in order.
      key: from which the ratings are drawn.

    Returns:
      The restaurants, in their order: those that are offered from 10 downwards, the others with 0 to 4.
    """
    known = {one.name for one in found}
    order = [name for name in dict.fromkeys(offers) if name in known]
    top = max(10, 4 + len(order))
    placed = {name: top - i for i, name in enumerate(order)}
    return [Rated(one, placed[one.name] if one.name in placed else stable_hash(*key, one.name) % 5) for one in found]


def facts_about(restaurant: Restaurant, rating: int | None = None) -> list[babi.Fact]:
    """A restaurant's facts, as dialog bAbI has them: ``ask R_phone ask_phone``."""
    name = token(restaurant.name)
    facts = [
        babi.Fact(name, RELATIONS[slot], f"{name}_{TOKENS[slot]}" if slot in TOKENS else token(value))
        for slot, value in restaurant.values
    ]
    return facts if rating is None else [*facts, babi.Fact(name, "R_rating", str(rating))]


def read_knowledge(path: str) -> Knowledge:
    """A knowledge base as dialog bAbI has it (``1 ask R_cuisine italian``), or a JSON list of restaurants.

    Raises:
      InputError: it cannot be read, or is none, with the line.
    """
    place = as_path(path)
    try:
        data = place.read_bytes().removeprefix(b"\xef\xbb\xbf")
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", path, "--kb") from None
    rows = _of_json(data, place) if data.lstrip().startswith(b"[") else _of_lines(data, place)
    if not rows:
        raise InputError("no restaurants here", path, "--kb")
    return Knowledge(
        tuple(
            Restaurant(name, tuple((s, values[s]) for s in RELATIONS if s in values)) for name, values in rows.items()
        )
    )


def _of_lines(data: bytes, path: Path) -> dict[str, dict[str, str]]:
    rows: dict[str, dict[str, str]] = {}
    for fact in babi.parse_facts(data, path):
        values = rows.setdefault(from_token(fact.entity), {})
        if fact.relation in _SLOTS:  # not a rating, which is drawn anew for each call
            values.setdefault(_SLOTS[fact.relation], from_token(fact.value))
    return rows


def _of_json(data: bytes, path: Path) -> dict[str, dict[str, str]]:
    rows: dict[str, dict[str, str]] = {}
    items: Any = parse_json(data, path)
    for i, item in enumerate(items):
        name = item.get("name") if isinstance(item, Mapping) else None
        if not isinstance(name, str) or not name.strip():
            raise InputError("has no name", path, f"[{i}]")
        item = {"addr": item.get("address"), **item}
        found = {slot: item.get(slot) for slot in RELATIONS}
        given = {slot: one_line(value).lower() for slot, value in found.items() if isinstance(value, str)}
        rows.setdefault(one_line(name).lower(), {slot: value for slot, value in given.items() if value})
    return rows
