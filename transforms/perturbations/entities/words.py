"""Words of a text, the same in utterances, in values and in training; and what words training has."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator
from functools import lru_cache
from hashlib import blake2b
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from parapet.transforms.perturbations.entities.names import GENERIC

Hashes = npt.NDArray[np.uint64]

# A number is one word with its points, colons and dashes (7:17, 2019-03-05, 408-971-8523), an ordinal too (5th). A
# possessive 's is a word of its own, so that "Milpitas's" holds Milpitas.
WORD = re.compile(
    r"\d+(?:[.,:/-]\d+)*(?:(?:st|nd|rd|th)(?![^\W\d_]))?|[^\W\d_]+(?:['’](?!s\b)[^\W\d_]+)*", re.IGNORECASE
)


def plain(word: str) -> str:
    """A word without case, apostrophes, and the commas of thousands."""
    word = word.casefold()
    return word if word.isalnum() else word.replace(",", "").replace("'", "").replace("’", "")


def words(text: str) -> list[str]:
    """The words of a text: case folded, punctuation off."""
    if text.isascii():  # then a text in lower case has the same words
        found: list[str] = WORD.findall(text.lower())
        return found if "'" not in text and "," not in text else [plain(word) for word in found]
    return [plain(word) for word in WORD.findall(text)]


@lru_cache(1 << 16)
def words_of(text: str) -> tuple[str, ...]:
    """The same of a value: most are met again and again."""
    return tuple(words(text))


def folded(text: str) -> str:
    """A text without case, and with single blanks: what one value may be written in two ways by."""
    return " ".join(text.casefold().split())


def is_number(word: str) -> bool:
    """Whether a word is a bare number: ``7`` may count anything; ``7:17`` and ``5th`` are no bare numbers.

    Nor are six digits and more: nothing but a reference or a telephone has so many.
    """
    digits = word.replace(".", "", 1)
    return digits.isdecimal() and len(digits) < 6


class Training:
    """Words and pairs of words that occur in training.

    A sequence of two words or more occurs nowhere if none of its pairs does: so pairs are all that need be kept. They
    are kept as sorted 64-bit hashes: 5 MB for all of SGD's training split, which each worker can have.

    Args:
      grams: the hashes, sorted.
      texts: how many different texts they are of.
    """

    def __init__(self, grams: Hashes, texts: int) -> None:
        self.grams, self.texts = grams, texts
        self._sorted = grams.data
        self._known: dict[str, bool] = {}
        self._known_forms: dict[str, bool] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        return Training, (self.grams, self.texts)

    def leaks(self, text: str) -> bool:
        """Whether training has the text, if it is one word, or two words that follow each other in it.

        Two words that only say what a name is do not count ("international airport"), unless the text has no others.
        """
        found = self._known.get(text)
        if found is None:
            if len(self._known) > 100_000:
                self._known.clear()
            found = self._known[text] = any(self._has(gram) for gram in telling_grams(words(text)))
        return found

    def leaks_form(self, text: str) -> bool:
        """As ``leaks``, of a reference or postcode: what is between spaces is one word, ``cb1`` or ``3ef``."""
        known = self._known_forms.get(text)
        if known is not None:
            return known
        if len(self._known_forms) > 100_000:
            self._known_forms.clear()
        chunks = [found for chunk in text.split() if (found := words(chunk))]
        pairs = [one + other for one, other in pairwise(chunks)] or chunks
        known = any(all(self._has(gram) for gram in grams_of(pair)) for pair in pairs)
        self._known_forms[text] = known
        return known

    def _has(self, gram: str) -> bool:
        wanted = _hashed(gram)
        place = bisect_left(self._sorted, wanted)
        return place < len(self._sorted) and self._sorted[place] == wanted


def grams_of(found: list[str]) -> list[str]:
    """What must not occur in training: a single word, or each pair of adjacent words."""
    return found if len(found) < 2 else [f"{one} {two}" for one, two in pairwise(found)]


def telling_grams(found: list[str]) -> list[str]:
    """Those without the pairs of words, or numbers, that only say what a name is; all where these are all."""
    pairs = [f"{one} {two}" for one, two in pairwise(found) if not (_is_generic(one) and _is_generic(two))]
    return pairs or grams_of(found)


def _is_generic(word: str) -> bool:
    return word in GENERIC or is_number(word)


def grams_in(texts: Iterable[str]) -> Hashes:
    """The words of texts, and the pairs of words that follow each other: their hashes, sorted."""
    grams: set[str] = set()
    for text in texts:
        found = words(text)
        grams.update(found)
        grams.update(grams_of(found))
    return hashes_of(grams)


def hashes_of(texts: Collection[str]) -> Hashes:
    """The hashes of different texts, sorted."""
    return np.sort(np.fromiter(map(_hashed, texts), np.uint64, len(texts)))


def _hashed(gram: str) -> int:
    return int.from_bytes(blake2b(gram.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "little")


def strings_of(value: Any) -> Iterator[str]:
    """Every string in a value, of lists and of the values of objects, in no order."""
    left = [value]
    while left:
        value = left.pop()
        if isinstance(value, str):
            yield value
        elif isinstance(value, dict):
            left.extend(value.values())
        elif isinstance(value, list):
            left.extend(value)
