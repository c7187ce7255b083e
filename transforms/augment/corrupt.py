"""Corrupted names and descriptions: words replaced by others of the corpus, words in another order.

They look like the corpus and mean something else, or nothing: what schema augmentation is compared with. Nothing here
is random: each decision is a number hashed from the seed and from what it is about, so it is the same on any worker and
whatever the order of the services.
"""

from __future__ import annotations

import hashlib
import re
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from typing import Literal, get_args

import msgspec

from parapet.schemas.errors import InputError
from parapet.schemas.service import Service
from parapet.transforms.naming import Convention, Conventions, join_words, name_words

Operation = Literal["replace", "order", "both"]
OPERATIONS: tuple[Operation, ...] = get_args(Operation)

# A word with its apostrophes and hyphens: "driver's", "drop-off".
_WORD = re.compile(r"\w+(?:['\u2019-]\w+)*")


class Rates(msgspec.Struct, frozen=True):
    """How much is corrupted. The defaults are this project's own (docs/augment.md says what they do to names).

    Attributes:
      replace: the probability with which a word is replaced.
      order: the expected share of the words that leave their place.
    """

    replace: float = 0.2
    order: float = 0.3

    def check(self) -> None:
        """Raises InputError where one is no share."""
        for what in ("replace", "order"):
            if not 0 <= getattr(self, what) <= 1:
                raise InputError(f"{getattr(self, what)} is not between 0 and 1", f"--{what}_rate")


class Vocabulary(msgspec.Struct, frozen=True):
    """The words of a corpus by where they stand: each list sorted, each word once."""

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
    """As many words: some replaced, some in another place, or both, one after the other.

    Args:
      words: the words.
      operation: what is done.
      vocabulary: what replaces words, sorted, each once.
      rates: how much of it.
      key: what the draws are hashed from: seed, service, element, field, operation.
    """
    words = list(words)
    if operation != "order":
        words = replace_words(words, vocabulary, rates.replace, key)
    return words if operation == "replace" else reorder_words(words, rates.order, key)


def replace_words(words: Sequence[str], vocabulary: Sequence[str], rate: float, key: Sequence[str]) -> list[str]:
    """Each word, with probability ``rate``, becomes another word of the vocabulary, all of them alike likely."""
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
    """Some words leave their places, in expectation ``rate`` of them; each takes the place of the next one drawn.

    Two at least must move, so of two words both do or none does. With rate 1 no word stays where it was (though an
    equal one may come there). A single word has no order.
    """
    expected = rate * len(words)
    if expected < 2:
        moved = 2 if _share(*key, "moved") < expected / 2 else 0
    else:
        moved = int(expected) + (_share(*key, "moved") < expected % 1)
    if len(words) < 2 or not moved:
        return list(words)
    places = sorted(range(len(words)), key=lambda i: (_number(*key, "place", str(i)), i))[:moved]
    found = list(words)
    for source, target in zip(places, places[1:] + places[:1], strict=True):
        found[target] = words[source]
    return found


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
    """Words as a name in the corpus' convention; the original as it stands where they are its own."""
    domain, own = split_name(original, convention)
    return original if tuple(words) == own else join_words([*domain, *words], convention, original)


def description_words(text: str) -> list[str]:
    """The words of a description as they are written; but the first without the capital that its place gives it."""
    words = _WORD.findall(text)
    if words and words[0][1:] == words[0][1:].lower():  # "ATM" keeps its capitals
        words[0] = words[0].lower()
    return words


def description_of(words: Sequence[str], original: str) -> str:
    """The original with other words in the places of its own: punctuation stays, and a capital at the beginning."""
    own = description_words(original)
    if list(words) == own:
        return original
    first = _WORD.findall(original)[0]
    new = iter([_capitalised(words[0]) if first[0].isupper() else words[0], *words[1:]])
    return _WORD.sub(lambda _: next(new), original)


def _capitalised(word: str) -> str:
    return word[:1].upper() + word[1:]
