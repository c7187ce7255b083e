"""Values of a knowledge base in texts, and what kind of value each relation has."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from parapet.schemas.errors import InputError
from parapet.transforms.babi_format import Fact

RATING = "R_rating"

_PIECE = re.compile(r"[^\W_]+(?:[-'_][^\W_]+)*|[^\W_]+")
_DISTINCT = 0.9  # share of the entities with a value of their own, from which a relation is about the entity itself


class Found(NamedTuple):
    """A text with a gap for each value in it, and the values by gap."""

    pattern: str
    values: dict[str, str]


class ValueFinder:
    """Finds values in texts.

    Args:
      slots: slot to its values; a value is one word.
    """

    def __init__(self, slots: Mapping[str, Iterable[str]]) -> None:
        self._slots: dict[str, list[str]] = {}
        for slot, values in slots.items():
            for value in values:
                self._slots.setdefault(value, []).append(slot)

    def has(self, slot: str, value: str) -> bool:
        """Whether this is a value of the slot."""
        return slot in self._slots.get(value, ())

    def find(self, text: str, likely: Mapping[str, str] | None = None) -> Found:
        """The values in a text.

        Args:
          text: words separated by spaces; values may have punctuation around them.
          likely: the values by slot as the dialogue goes on: others of these slots are mere words.
        """
        values: dict[str, str] = {}

        def gap(word: str) -> str:
            slots = [
                slot
                for slot in self._slots.get(word, ())
                if slot not in values and (likely is None or likely.get(slot, word) == word)
            ]
            if not slots:
                return word
            best = next((slot for slot in slots if likely and likely.get(slot) == word), slots[0])
            values[best] = word
            return f"{{{best}}}"

        words = [
            gap(word) if word in self._slots else _PIECE.sub(lambda piece: gap(piece[0]), word) for word in text.split()
        ]
        return Found(" ".join(words), values)


class Relations(NamedTuple):
    """What the relations of a knowledge base are; names are without ``R_``.

    Attributes:
      fields: of API calls, in order.
      extras: what users may ask about an entity: nearly each one has a value of its own.
    """

    fields: tuple[str, ...]
    extras: tuple[str, ...]


def relations_of(
    facts: Sequence[Fact], calls: Iterable[Sequence[str]], order: Sequence[str], path: object
) -> Relations:
    """Which relations are fields and which are extras.

    Args:
      facts: the knowledge base.
      calls: the values of each API call.
      order: relations in the order in which dialogues have them; decides the order of fields where there is no call.
      path: of the knowledge base, for messages.

    Raises:
      InputError: the values of the calls are not those of relations.
    """
    values: dict[str, set[str]] = {}
    entities: dict[str, set[str]] = {}
    for fact in facts:
        values.setdefault(fact.relation, set()).add(fact.value)
        entities.setdefault(fact.relation, set()).add(fact.entity)
    names = [relation for relation in dict.fromkeys((*order, *values)) if relation in values and relation != RATING]
    own = [name for name in names if len(entities[name]) > 1 and len(values[name]) > _DISTINCT * len(entities[name])]
    columns = [set(column) for column in zip(*calls, strict=False)]
    if columns:
        fields = _fields_of(columns, {name: values[name] for name in names}, path)
    else:
        fields = [name for name in names if name not in own]
    extras = [name for name in own if name not in fields]
    return Relations(tuple(map(bare, fields)), tuple(map(bare, extras)))


def bare(relation: str) -> str:
    """``cuisine`` for ``R_cuisine``."""
    return relation.removeprefix("R_")


def _fields_of(columns: Sequence[set[str]], values: Mapping[str, set[str]], path: object) -> list[str]:
    """A relation for each place of the calls: the one that has most of its values, of these the smallest."""
    fields: list[str] = []
    for place, column in enumerate(columns, 1):
        fits = [(-len(column & known), len(known), name) for name, known in values.items() if name not in fields]
        shared, _, best = min(fits, default=(0, 0, ""))
        if not shared:
            example = min(column)
            reason = f"has none of the values in place {place} of api_call, such as {example!r}: is it of this domain?"
            raise InputError(reason, path)
        fields.append(best)
    return fields
