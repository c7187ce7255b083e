"""Split utterances, values and training into words in the same way, and index the words of training."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import pairwise
from typing import Any

import msgspec

from parapet.transforms.perturbations.entities.names import GENERIC

# A number is one word with its points, colons and dashes (7:17, 2019-03-05, 408-971-8523), and so is an ordinal (5th).
# A possessive 's is a separate word, so that "Milpitas's" contains Milpitas.
WORD = re.compile(
    r"\d+(?:[.,:/-]\d+)*(?:(?:st|nd|rd|th)(?![^\W\d_]))?|[^\W\d_]+(?:['’](?!s\b)[^\W\d_]+)*", re.IGNORECASE
)


_ORDINAL = re.compile(r"\d+(?:st|nd|rd|th)")


def plain(word: str) -> str:
    """Normalise a word: case-fold it and remove apostrophes and thousands separators."""
    word = word.casefold()
    return word if word.isalnum() else word.replace(",", "").replace("'", "").replace("’", "")


def words(text: str) -> list[str]:
    """Split a text into case-folded words without punctuation."""
    if text.isascii():  # for ASCII, lower() equals casefold() and is faster
        tokens: list[str] = WORD.findall(text.lower())
        return tokens if "'" not in text and "," not in text else [plain(word) for word in tokens]
    return [plain(word) for word in WORD.findall(text)]


def located_words(text: str) -> list[tuple[str, int, int]]:
    """Return the words of a text, each with its start and end."""
    if text.isascii() and "'" not in text and "," not in text:
        return [(match[0], *match.span()) for match in WORD.finditer(text.lower())]
    return [(plain(match[0]), *match.span()) for match in WORD.finditer(text)]


@lru_cache(1 << 16)
def words_of(text: str) -> tuple[str, ...]:
    """Return the words of a value, cached because most values recur."""
    return tuple(words(text))


def folded(text: str) -> str:
    """Normalise case and spaces, in which spellings of the same value may differ."""
    return " ".join(text.casefold().split())


def is_number(word: str) -> bool:
    """Whether a word is a bare number: ``7`` may count anything; ``7:17`` and ``5th`` are not bare numbers.

    Numbers of six digits or more are not bare, either: they are references or phone numbers.
    """
    digits = word.replace(".", "", 1)
    return digits.isdecimal() and len(digits) < 6


class Training(msgspec.Struct, frozen=True):
    """The words and pairs of adjacent words in training.

    A longer sequence cannot occur if none of its pairs does.
    """

    grams: frozenset[str]

    def leaks(self, text: str) -> bool:
        """Whether a text of one word, or any two adjacent words of a longer text, occur in training.

        Pairs of generic words ("international airport") are ignored unless the text has no others.
        """
        return not self.grams.isdisjoint(telling_grams(words(text)))

    def leaks_form(self, text: str) -> bool:
        """Whether a reference or postcode occurs in training.

        Unlike in ``leaks``, ``cb1`` and ``3ef`` each count as a word.
        """
        chunks = [chunk_words for chunk in text.split() if (chunk_words := words(chunk))]
        pairs = [first + other for first, other in pairwise(chunks)] or chunks
        return any(self.grams.issuperset(grams_of(pair)) for pair in pairs)


def grams_of(found: list[str]) -> list[str]:
    """Return a single word, or each pair of adjacent words."""
    return found if len(found) < 2 else [f"{first} {two}" for first, two in pairwise(found)]


def telling_grams(found: list[str]) -> list[str]:
    """Return the pairs without those of generic words or numbers; all pairs if there are no others."""
    pairs = [f"{first} {two}" for first, two in pairwise(found) if not (_is_generic(first) and _is_generic(two))]
    return pairs or grams_of(found)


def _is_generic(word: str) -> bool:
    return word in GENERIC or is_number(word) or _ORDINAL.fullmatch(word) is not None


def grams_in(texts: Iterable[str]) -> set[str]:
    """Return all words and pairs of adjacent words in texts."""
    grams: set[str] = set()
    for text in texts:
        text_words = words(text)
        grams.update(text_words)
        grams.update(grams_of(text_words))
    return grams


def strings_of(value: Any) -> Iterator[str]:
    """Yield every string in nested lists and in the values of objects, in no particular order."""
    left = [value]
    while left:
        value = left.pop()
        if isinstance(value, str):
            yield value
        elif isinstance(value, dict):
            left.extend(value.values())
        elif isinstance(value, list):
            left.extend(value)
