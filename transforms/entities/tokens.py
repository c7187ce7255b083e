"""Words of a text, as values are looked for: the same in utterances, in values, and in training."""

from __future__ import annotations

import re

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
    return [plain(word) for word in WORD.findall(text)]


def folded(text: str) -> str:
    """A text without case, and with single blanks: what one value may be written in two ways by."""
    return " ".join(text.casefold().split())


def is_number(word: str) -> bool:
    """Whether a word is a bare number: of ``7`` nobody can say what it counts; ``7:17`` and ``5th`` are none.

    Nor are six digits and more: nothing but a reference or a telephone has so many.
    """
    digits = word.replace(".", "", 1)
    return digits.isdecimal() and len(digits) < 6
