"""The knowledge base: restaurants, gathered from what the system says or read from a file; searches and ratings."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from parapet.schemas.errors import InputError
from parapet.schemas.layout import as_path, parse_json
from parapet.schemas.limits import read_whole
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

Statement = tuple[str, str, str]  # restaurant, slot, value: the system says it of a restaurant that it offers


class Restaurant(msgspec.Struct, frozen=True):
    """A restaurant: its name, and its values by slot in the order of ``RELATIONS``."""

    name: str
    values: Slots


class Rated(msgspec.Struct, frozen=True):
    """A result of an API call, with a rating that holds for this call only."""

    restaurant: Restaurant
    rating: int


class Knowledge(msgspec.Struct, frozen=True):
    """Restaurants, in the order in which they are listed."""

    restaurants: tuple[Restaurant, ...]

    def search(self, query: Slots) -> list[Restaurant]:
        """The restaurants that are known to have all the values. Where one of them is not known, it is no result."""
        requested = set(query)
        return [restaurant for restaurant in self.restaurants if requested <= set(restaurant.values)]


def token(value: str) -> str:
    """A value as one word, as dialog bAbI has it: ``asian_oriental``."""
    return "_".join(value.lower().split())


def from_token(word: str) -> str:
    """The value or name that one word of dialog bAbI stands for: ``asian oriental``."""
    return word.replace("_", " ").lower()


def statements_of(call: Call) -> Iterator[Statement]:
    """What the system says about the restaurants that it offers."""
    for turn in call.turns:
        names = set(offered(turn.system_acts))
        if len(names) == 1:
            (name,) = names
            for act in turn.system_acts:
                if act.act == "inform":
                    for slot, value in act.slots:
                        if slot in RELATIONS and value and value != DONTCARE:
                            yield name, slot, value.lower() if slot in QUERY else value
            yield name, "", ""  # a restaurant, even if nothing else is known about it


def offered(acts: Iterable[Act]) -> list[str]:
    """The restaurants that acts offer."""
    return [
        value.lower() for act in acts if act.act == "offer" for slot, value in act.slots if slot == "name" and value
    ]


def gathered(counts: Iterable[tuple[Statement, int]]) -> Knowledge:
    """The knowledge base gathered from statements: of each slot the value that was stated most often.

    Args:
      counts: statements, with how often each was made.
    """
    stated: dict[str, dict[str, tuple[int, str]]] = {}
    for (name, slot, value), n in sorted(counts):
        best = stated.setdefault(name, {})
        if slot and (slot not in best or n > best[slot][0]):
            best[slot] = (n, value)
    return Knowledge(
        tuple(
            Restaurant(name, tuple((slot, best[slot][1]) for slot in RELATIONS if slot in best))
            for name, best in sorted(stated.items(), key=lambda item: (token(item[0]), item[0]))
        )
    )


def ratings(results: Sequence[Restaurant], offers: Sequence[str], *key: str) -> list[Rated]:
    """Makes up ratings, which DSTC2 does not have: what is offered next has the highest, so that it can be predicted.

    Args:
      results: the results of the API call.
      offers: names that the system offers until the next call, in order.
      key: of the random ratings.

    Returns:
      The restaurants, in the same order: those that are offered have ratings from 10 downwards, the others 0 to 4.
    """
    names = {restaurant.name for restaurant in results}
    order = [name for name in dict.fromkeys(offers) if name in names]
    top = max(10, 4 + len(order))
    placed = {name: top - i for i, name in enumerate(order)}

    def rating(name: str) -> int:
        return placed[name] if name in placed else stable_hash(*key, name) % 5

    return [Rated(restaurant, rating(restaurant.name)) for restaurant in results]


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
    data = read_whole(place, where="--kb").removeprefix(b"\xef\xbb\xbf")
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
