"""Corrupted schemas: names and descriptions with words replaced by others of the corpus, or in another order.

They look like the corpus and mean something else, or nothing: schema augmentation is compared with them. All random
choices are hashes of the seed and a key, so they are the same on any worker and in any order of the services.
"""

from __future__ import annotations

import hashlib
import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, get_args

import msgspec

from parapet.schemas.dialogue import MARKERS
from parapet.schemas.errors import InputError
from parapet.schemas.service import Element, Service, elements_of, parse_service
from parapet.transforms.naming import Convention, Conventions, join_words, name_words
from parapet.transforms.variants.names import compose_variant

_ATTEMPTS = 20

Operation = Literal["replace", "order", "both"]
OPERATIONS: tuple[Operation, ...] = get_args(Operation)

# A word with its apostrophes and hyphens: "driver's", "drop-off".
_WORD = re.compile(r"\w+(?:['\u2019-]\w+)*")


class Rates(msgspec.Struct, frozen=True):
    """How much is corrupted. The defaults are our own (docs/augment.md shows their effect on SGD).

    Attributes:
      replace: the probability with which a word is replaced.
      order: the expected share of the words that change places.
    """

    replace: float = 0.2
    order: float = 0.3

    def check(self) -> None:
        """Raises InputError where one is no share."""
        for what in ("replace", "order"):
            if not 0 <= getattr(self, what) <= 1:
                raise InputError(f"{getattr(self, what)} is not between 0 and 1", f"--{what}_rate")


class Vocabulary(msgspec.Struct, frozen=True):
    """The words of a corpus, by where they occur: each tuple is sorted, without duplicates."""

    slots: tuple[str, ...]
    intents: tuple[str, ...]
    descriptions: tuple[str, ...]


def vocabulary_of(services: Iterable[Service], conventions: Conventions) -> Vocabulary:
    """The words of the names of slots, of the names of intents, and of all descriptions, the services' too."""
    slots, intents, descriptions = set[str](), set[str](), set[str]()
    for service in services:
        descriptions.update(description_words(service.description))
        for slot in service.slots:
            slots.update(split_name(slot.name, conventions.slots)[1])
            descriptions.update(description_words(slot.description))
        for intent in service.intents:
            intents.update(split_name(intent.name, conventions.intents)[1])
            descriptions.update(description_words(intent.description))
    return Vocabulary(*(tuple(sorted(words)) for words in (slots, intents, descriptions)))


def corrupt_words(
    words: Sequence[str], operation: Operation, vocabulary: Sequence[str], rates: Rates, key: Sequence[str]
) -> list[str]:
    """The same number of words: some replaced, some in other places, or first the one and then the other.

    Args:
      words: the words.
      operation: what is done.
      vocabulary: the replacements, sorted, without duplicates.
      rates: how much is done.
      key: of the random choices: seed, element, field, operation.
    """
    words = list(words)
    if operation != "order":
        words = replace_words(words, vocabulary, rates.replace, key)
    return words if operation == "replace" else reorder_words(words, rates.order, key)


def replace_words(words: Sequence[str], vocabulary: Sequence[str], rate: float, key: Sequence[str]) -> list[str]:
    """Each word becomes, with probability ``rate``, another word of the vocabulary, uniformly drawn."""
    return [
        _another(word, vocabulary, (*key, "word", str(i))) if _share(*key, "replaced", str(i)) < rate else word
        for i, word in enumerate(words)
    ]


def _another(word: str, vocabulary: Sequence[str], key: Sequence[str]) -> str:
    at = bisect_left(vocabulary, word)
    known = at < len(vocabulary) and vocabulary[at] == word
    others = len(vocabulary) - known
    if not others:
        return word
    drawn = _number(*key) % others
    return vocabulary[drawn + (known and drawn >= at)]


def reorder_words(words: Sequence[str], rate: float, key: Sequence[str]) -> list[str]:
    """Some words change places, in expectation a share ``rate``; each takes the place of the next one drawn.

    At least two must move, so of two words both do, or none. With rate 1 every word moves (though an equal one may take
    its place). A single word has no order.
    """
    expected = rate * len(words)
    if expected < 2:
        moved = 2 if _share(*key, "moved") < expected / 2 else 0
    else:
        moved = int(expected) + (_share(*key, "moved") < expected % 1)
    if len(words) < 2 or not moved:
        return list(words)
    places = sorted(range(len(words)), key=lambda i: (_number(*key, "place", str(i)), i))[:moved]
    reordered = list(words)
    for source, target in zip(places, places[1:] + places[:1], strict=True):
        reordered[target] = words[source]
    return reordered


def _number(*key: str) -> int:
    # Lengths go in as well, so that no two keys run together to the same text.
    text = "".join(f"{len(part)}:{part}" for part in key)
    return int.from_bytes(hashlib.sha256(text.encode(errors="surrogatepass")).digest()[:8], "big")


def _share(*key: str) -> float:
    return (_number(*key) >> 11) / 2**53  # 53 bits: below 1 for certain


def split_name(name: str, convention: Convention) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """(the words of a ``domain-slot`` name's domain, which stays; the words that can be corrupted)."""
    domain, hyphen, rest = name.partition("-")
    if convention is Convention.DOMAIN_SLOT and hyphen:
        return name_words(domain), name_words(rest)
    return (), name_words(name)


def name_of(words: Sequence[str], original: str, convention: Convention) -> str:
    """Words as a name in the convention of the corpus; the original, unchanged, if they are its own words."""
    domain, own = split_name(original, convention)
    return original if tuple(words) == own else join_words([*domain, *words], convention, original)


def description_words(text: str) -> list[str]:
    """The words of a description as written, but the first without the capital letter of a sentence."""
    words = _WORD.findall(text)
    if words and words[0][1:] == words[0][1:].lower():  # "ATM" keeps its capitals
        words[0] = words[0].lower()
    return words


def description_of(words: Sequence[str], original: str) -> str:
    """The original with other words in the places of its own. Punctuation is kept, and a capital at the beginning."""
    own = description_words(original)
    if list(words) == own:
        return original
    first = _WORD.findall(original)[0]
    new = iter([_capitalised(words[0]) if first[0].isupper() else words[0], *words[1:]])
    return _WORD.sub(lambda _: next(new), original)


def _capitalised(word: str) -> str:
    return word[:1].upper() + word[1:]


REASONS = {
    "not_drawn": "no word was drawn, or equal words changed places",
    "one_word": "a single word has no order",
    "no_words": "nothing in it is a word",
    "collision": "every name that was drawn is another name of the service",
}


class Corruption(msgspec.Struct, frozen=True):
    """How schemas are corrupted.

    Attributes:
      operation: what is done; also the name of the variant.
      rates: how much is done.
      seed: the random seed.
      vocabulary: the replacements.
      conventions: how the corpus writes names.
    """

    operation: Operation
    rates: Rates
    seed: str
    vocabulary: Vocabulary
    conventions: Conventions

    def words_of(self, words: tuple[str, ...], element: str, kind: str, field: str, attempt: int = 0) -> list[str]:
        """Words, corrupted; each attempt draws others."""
        vocabulary = self.vocabulary.descriptions if field == "description" else self.vocabulary.slots
        if field == "name" and kind == "intent":
            vocabulary = self.vocabulary.intents
        # The id of an element begins with its service. The operation makes "both" differ from the other two.
        key = [self.seed, element, field, self.operation, str(attempt)]
        return corrupt_words(words, self.operation, vocabulary, self.rates, key)


class Change(msgspec.Struct, frozen=True):
    """A name or description, before and after.

    Attributes:
      corruption: the operation.
      element_id: whose.
      field: ``name`` or ``description``.
      original: as the schema has it.
      emitted: as the corruption has it.
      reason: why it is unchanged, one of ``REASONS``; empty if it changed.
    """

    corruption: Operation
    element_id: str
    field: Literal["name", "description"]
    original: str
    emitted: str
    reason: str


def corrupted(raw: Mapping[str, Any], corruption: Corruption) -> tuple[dict[str, Any], list[Change]]:
    """A service as ``SERVICEreplace``, ``SERVICEorder`` or ``SERVICEboth``, its elements in the same order.

    Args:
      raw: the service as its file has it, checked.
      corruption: how.

    Returns:
      The variant; and a Change for each name and description, in their order.
    """
    service = parse_service(dict(raw))
    named, described = elements_of(service, "names"), elements_of(service, "descriptions")
    changes: list[Change] = []
    for kind in ("intent", "slot"):
        # No original name may be used, even if it is corrupted itself: in a dialogue it would mean another element.
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


def counts_of(changes: Iterable[Change]) -> dict[str, dict[str, dict[str, int]]]:
    """Of each operation, of ``names`` and of ``descriptions``: how many there are, how many changed, and why not."""
    counts: dict[str, dict[str, Counter[str]]] = {}
    for change in changes:
        of = counts.setdefault(change.corruption, {}).setdefault(f"{change.field}s", Counter(total=0, changed=0))
        of["total"] += 1
        of[change.reason or "changed"] += 1
    return {operation: {field: dict(of) for field, of in fields.items()} for operation, fields in counts.items()}
