"""Split utterances, values and training into words in the same way, and index the words of training."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import pairwise
from typing import Any

from parapet.transforms.perturb.entities.names import GENERIC

# A number is one word with its points, colons and dashes (7:17, 2019-03-05, 408-971-8523), and so is an ordinal (5th).
# A possessive 's is a separate word, so that "Milpitas's" contains Milpitas.
WORD = re.compile(
    r"\d+(?:[.,:/-]\d+)*(?:(?:st|nd|rd|th)(?![^\W\d_]))?|[^\W\d_]+(?:['’](?!s\b)[^\W\d_]+)*", re.IGNORECASE
)


def _plain(word: str) -> str:
    """Normalise a word: case-fold it and remove apostrophes and thousands separators."""
    return word.casefold().replace(",", "").replace("'", "").replace("’", "")


def words(text: str) -> list[str]:
    """Split a text into case-folded words without punctuation."""
    if text.isascii() and "'" not in text and "," not in text:
        return WORD.findall(text.lower())
    return [_plain(word) for word in WORD.findall(text)]


def located_words(text: str) -> list[tuple[str, int, int]]:
    """Return the words of a text, each with its start and end."""
    return [(word, *match.span()) for word, match in zip(words(text), WORD.finditer(text), strict=True)]


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


@lru_cache(1 << 16)
def leaks(training: frozenset[str], kind: str, text: str) -> bool:
    """Whether a new value of one word, or any two adjacent words of a longer one, occur in training.

    Pairs of generic words ("international airport") are ignored unless the value has no others; in times, pairs without
    digits ("the evening"). Phone numbers, references and postcodes keep a part of the old, so all pairs count.

    Args:
      training: the words and pairs of adjacent words in training. A longer sequence cannot occur if no pair of it does.
      kind: the kind of the value.
      text: the value.
    """
    text_words = words_of(text)
    pairs = grams_of(text_words)
    if kind in ("phone", "postcode", "code"):
        return training.issuperset(pairs)
    if kind == "time":
        return any(pair in training for pair in pairs if not pair.replace(" ", "").isalpha())
    telling = [f"{first} {other}" for first, other in pairwise(text_words) if not _are_generic(first, other)]
    return not training.isdisjoint(telling or pairs)


def _are_generic(*text_words: str) -> bool:
    return all(word in GENERIC or word[0].isdecimal() for word in text_words)


def grams_of(text_words: Iterable[str]) -> list[str]:
    """Return a single word, or each pair of adjacent words."""
    text_words = list(text_words)
    return text_words if len(text_words) < 2 else [f"{first} {other}" for first, other in pairwise(text_words)]


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
