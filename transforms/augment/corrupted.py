"""A service as a corruption: its variant in the layout of SGD-X, and a row on each name and description."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Literal

import msgspec

from parapet.schemas.dialogue import MARKERS
from parapet.schemas.elements import Element, elements_of
from parapet.schemas.service import parse_service
from parapet.transforms.augment.corrupt import (
    Operation,
    Rates,
    Vocabulary,
    corrupt_words,
    description_of,
    description_words,
    name_of,
    split_name,
)
from parapet.transforms.naming import Conventions
from parapet.transforms.variants.names import compose_variant

_ATTEMPTS = 20

REASONS = {
    "not_drawn": "no word was drawn, or equal words changed places",
    "one_word": "a single word has no order",
    "no_words": "nothing in it is a word",
    "collision": "whatever was drawn is another name of the service",
}


class Corruption(msgspec.Struct, frozen=True):
    """How schemas are corrupted.

    Attributes:
      operation: what is done; also the variant's name.
      rates: how much of it.
      seed: of the draws.
      vocabulary: what replaces words.
      conventions: how the corpus writes names.
    """

    operation: Operation
    rates: Rates
    seed: str
    vocabulary: Vocabulary
    conventions: Conventions

    def words_of(self, words: tuple[str, ...], element: str, kind: str, field: str, attempt: int = 0) -> list[str]:
        """Words, corrupted; another attempt draws anew."""
        vocabulary = self.vocabulary.descriptions if field == "description" else self.vocabulary.slots
        if field == "name" and kind == "intent":
            vocabulary = self.vocabulary.intents
        # The element's id begins with its service. With the operation in it, "both" is no mere copy of the others.
        key = [self.seed, element, field, self.operation, str(attempt)]
        return corrupt_words(words, self.operation, vocabulary, self.rates, key)


class Change(msgspec.Struct, frozen=True):
    """What became of a name or description.

    Attributes:
      corruption: the operation.
      element_id: whose.
      field: ``name`` or ``description``.
      original: as the schema has it.
      emitted: as the corruption has it.
      reason: why they are the same, one of ``REASONS``; empty where they are not.
    """

    corruption: Operation
    element_id: str
    field: Literal["name", "description"]
    original: str
    emitted: str
    reason: str


def corrupted(raw: Mapping[str, Any], corruption: Corruption) -> tuple[dict[str, Any], list[Change]]:
    """A service as ``SERVICEreplace``, ``SERVICEorder`` or ``SERVICEboth``, elements at their places.

    Args:
      raw: the service as its file has it, checked.
      corruption: how.

    Returns:
      The variant; one row for each name and description, in their order.
    """
    service = parse_service(dict(raw))
    named, described = elements_of(service, "names"), elements_of(service, "descriptions")
    changes: list[Change] = []
    for kind in ("intent", "slot"):
        # No original may be taken, also where it is itself corrupted: a dialogue would mean another element by it.
        taken = {element.name for element in named if element.kind == kind}
        for element in (element for element in named if element.kind == kind):
            changes.append(_corrupt_name(element, corruption, taken))
            taken.add(changes[-1].emitted)
    names = {e.field: change.emitted for e, change in zip(named, changes, strict=True)}
    texts = [_corrupt_description(element, corruption) for element in described]
    descriptions = {e.field: change.emitted for e, change in zip(described, texts, strict=True)}
    return compose_variant(raw, corruption.operation, names, descriptions), changes + texts


def _corrupt_name(element: Element, corruption: Corruption, taken: Iterable[str]) -> Change:
    convention = corruption.conventions.of(element.kind)
    words = split_name(element.name, convention)[1]
    reason = ""
    for attempt in range(_ATTEMPTS):
        drawn = corruption.words_of(words, element.id, element.kind, "name", attempt)
        name = name_of(drawn, element.name, convention)
        if name == element.name and not attempt:
            reason = _why_same(words, corruption)
            break
        if name not in taken and not (element.kind == "slot" and name in MARKERS):
            return Change(corruption.operation, element.id, "name", element.name, name, "")
        reason = "collision"
    return Change(corruption.operation, element.id, "name", element.name, element.name, reason)


def _corrupt_description(element: Element, corruption: Corruption) -> Change:
    words = tuple(description_words(element.description))
    drawn = corruption.words_of(words, element.id, element.kind, "description")
    text = description_of(drawn, element.description)
    reason = "" if text != element.description else _why_same(words, corruption)
    return Change(corruption.operation, element.id, "description", element.description, text, reason)


def _why_same(words: tuple[str, ...], corruption: Corruption) -> str:
    if not words:
        return "no_words"
    return "one_word" if len(words) == 1 and corruption.operation == "order" else "not_drawn"


def counts_of(changes: Iterable[Change]) -> Counter[str]:
    """How many names and descriptions there are of each corruption, how many changed, and why others did not."""
    counts: Counter[str] = Counter()
    for change in changes:
        what = f"corruptions/{change.corruption}/{change.field}s"
        counts[what] += 1
        counts[f"{what}_{change.reason or 'changed'}"] += 1
    return counts
