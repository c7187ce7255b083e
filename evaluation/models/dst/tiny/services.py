"""A service as the small tracker reads it: numbers of words."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from parapet.evaluation.models.dst.tiny.words import Lexicon, normal, words_of_name, words_of_text
from parapet.schemas.service import Service

Ints = NDArray[np.int32]
Flags = NDArray[np.bool_]

_TRUTHS = {"true": 1, "false": 2}


class ServiceWords(msgspec.Struct, frozen=True):
    """A service as numbers of words; 0 fills up.

    Attributes:
      slots, intents: (slot or intent, name or description, word).
      values: (slot, value that it lists, word).
      truth: (slot, value): 1 for "True", 2 for "False", else 0.
      normal: slot by slot, the values that it lists as their stems.
      listed: all of them.
      categorical: of each slot.
    """

    service: Service
    slots: Ints
    intents: Ints
    values: Ints
    truth: Ints
    normal: list[list[str]]
    listed: frozenset[tuple[str, ...]]
    categorical: Flags


def read_service(service: Service, lexicon: Lexicon) -> ServiceWords:
    """Reads a service; new words get their numbers."""
    stems = [[normal(text) for text in slot.possible_values] for slot in service.slots]
    truth = [[_TRUTHS.get(text.lower(), 0) for text in slot.possible_values] for slot in service.slots]
    return ServiceWords(
        service=service,
        slots=_named(((slot.name, slot.description) for slot in service.slots), lexicon),
        intents=_named(((intent.name, intent.description) for intent in service.intents), lexicon),
        values=filled([[lexicon.all(text.split()) for text in of] for of in stems], 3),
        truth=filled(truth, 2),
        normal=stems,
        listed=frozenset(tuple(text.split()) for of in stems for text in of),
        categorical=np.array([slot.is_categorical for slot in service.slots], dtype=bool),
    )


def _named(elements: Iterable[tuple[str, str]], lexicon: Lexicon) -> Ints:
    rows = [[lexicon.all(words_of_name(name)), lexicon.all(words_of_text(text))] for name, text in elements]
    return filled(rows, 3, (0, 2, 1))


def filled(nested: Sequence[Any], depth: int, least: Sequence[int] = (), fill: int = 0) -> Ints:
    """Nested lists of numbers as an array.

    Args:
      nested: lists that differ in length.
      depth: how deep they are.
      least: the least size of each dimension.
      fill: what fills up.
    """
    shape = list(least) or [0] * depth
    leaves: list[tuple[tuple[int, ...], int]] = []

    def visit(of: Any, place: tuple[int, ...]) -> None:
        if len(place) == depth:
            leaves.append((place, of))
            return
        shape[len(place)] = max(shape[len(place)], len(of))
        for i, one in enumerate(of):
            visit(one, (*place, i))

    visit(nested, ())
    array = np.full(shape, fill, dtype=np.int32)
    for place, number in leaves:
        array[place] = number
    return array
