"""Words as the small tracker reads them: stems and pieces, hashed, so that no word is unknown."""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable, Sequence
from functools import lru_cache

from parapet.transforms.naming import name_words

# Numbers with their points, words with what joins them: "7:30", "$12.50", "McDonald's", "take-out", "p.m.", "A16".
TOKEN = re.compile(
    r"\$?\d+(?:[:.,/]\d+)+|\$\d+|[^\W_](?:[^\W_]|['’&-](?=[^\W_])|(?<=\b\w)\.(?=\w)|(?<=\w\.\w)\.)*|[?!.;]"
)


def _said(text: str) -> list[str]:
    return text.split()


# Small ones, as people say how many they are.
NUMBERS = {
    word: str(i) for i, word in enumerate(_said("one two three four five six seven eight nine ten eleven twelve"), 1)
}
# They say nothing of a slot.
IDLE = frozenset(_said("a an and any are be been has have if is it its of or that the their there this which whether"))
SIZES = (3, 4, 5)  # letters of a piece
ENDS = "?!.;"
_ENDINGS = re.compile("(?<=[a-z]{3})(?:ies|ing|ed|ly|es|s|e|y)$")


@lru_cache(maxsize=1 << 16)
def stem(word: str) -> str:
    """A word without its endings, small; a number in words as a figure."""
    small = word.lower().replace("’", "'").removesuffix("'s")
    # Twice: "moderately" is "moderate" is "moderat". What else words have in common, their pieces say.
    return NUMBERS.get(small) or _ENDINGS.sub("", _ENDINGS.sub("", small))


@lru_cache(maxsize=1 << 14)
def normal(text: str) -> str:
    """What two values have in common that are the same in other spelling: their stems."""
    words = [stem(match[0]) for match in TOKEN.finditer(text) if match[0] not in ENDS]
    return " ".join(words[words[:1] == ["the"] :]) or text.lower()


@lru_cache(maxsize=1 << 12)
def words_of_name(name: str) -> tuple[str, ...]:
    """The stems of a slot's or an intent's name."""
    return _telling([stem(word) for word in name_words(name)])


@lru_cache(maxsize=1 << 12)
def words_of_text(text: str) -> tuple[str, ...]:
    """The stems of a description."""
    return _telling([stem(match[0]) for match in TOKEN.finditer(text) if match[0] not in ENDS])


def _telling(words: Sequence[str]) -> tuple[str, ...]:
    return tuple(word for word in words if word not in IDLE) or tuple(words)


def pieces(word: str) -> set[str]:
    """The pieces of a word with its two ends marked."""
    marked = f"<{word}>"
    return {marked[i : i + size] for size in SIZES for i in range(len(marked) - size + 1)}


def bucket(text: str, buckets: int) -> int:
    """The row of a text in a table: the same on every machine."""
    return zlib.crc32(text.encode()) % buckets


class Lexicon:
    """Numbers words as they come; number 0 is no word.

    Args:
      buckets: of the table of embeddings, which whole words and pieces share.
    """

    def __init__(self, buckets: int) -> None:
        self.buckets = buckets
        self.numbers: dict[str, int] = {}
        self.rows: list[list[int]] = [[]]

    def copy(self) -> Lexicon:
        """One with the same words."""
        found = Lexicon(self.buckets)
        found.numbers, found.rows = dict(self.numbers), list(self.rows)
        return found

    def number(self, word: str) -> int:
        """Of a stem."""
        found = self.numbers.get(word)
        if found is None:
            found = self.numbers[word] = len(self.rows)
            # A figure is one of its length: which one it is, is no meaning.
            shape = re.sub(r"\d", "0", word)
            rows = {bucket(piece, self.buckets) for piece in pieces(shape)}
            self.rows.append([bucket(f"={shape}", self.buckets), *sorted(rows)])
        return found

    def all(self, words: Iterable[str]) -> list[int]:
        """Of some stems."""
        return [self.number(word) for word in words]
