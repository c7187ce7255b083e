"""Texts as numbers: hashed words and character n-grams, or the pieces of a checkpoint's tokenizer."""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, Protocol

_WORDS = re.compile(r"\w+|[^\w\s]")
_DIGIT = re.compile(r"\d")
GRAMS = (3, 4, 5)  # characters


class Encoder(Protocol):
    """What makes numbers of texts; ``pad`` is the number that fills a row up."""

    pad: int

    def encode(self, texts: Sequence[str]) -> tuple[list[list[int]], int]:
        """The numbers of each text, and how many texts were too long: their beginnings are left out."""


class Hashed:
    """Words, pairs of words and character n-grams, each hashed to a bucket (Joulin et al. 2017, section 2.1).

    Args:
      buckets: how many; 0 is no bucket, and fills rows up.
      length: words of a text at most.
    """

    pad = 0

    def __init__(self, buckets: int, length: int) -> None:
        self.buckets, self.length = buckets, length

    def encode(self, texts: Sequence[str]) -> tuple[list[list[int]], int]:
        """As :class:`Encoder`."""
        rows, long = [], 0
        for text in texts:
            words = words_of(text)
            long += len(words) > self.length
            found = dict.fromkeys(grams_of(words[-self.length :]))
            rows.append([1 + zlib.crc32(one.encode("utf-8", "surrogatepass")) % self.buckets for one in found])
        return rows, long


def words_of(text: str) -> list[str]:
    """Words and marks, in small letters; all digits are alike."""
    return _WORDS.findall(_DIGIT.sub("0", text.casefold()))


def grams_of(words: Sequence[str]) -> Iterator[str]:
    """The words, pairs of neighbours, and the character n-grams of each word with its ends."""
    yield from words
    yield from (f"{one} {other}" for one, other in pairwise(words))
    for word in words:
        marked = f"<{word}>"
        for n in GRAMS:
            yield from (marked[at : at + n] for at in range(len(marked) - n + 1))


class Pieces:
    """The pieces of a checkpoint's tokenizer.

    Args:
      tokenizer: of transformers.
      length: pieces at most, the special ones among them.
    """

    def __init__(self, tokenizer: Any, length: int) -> None:
        self.tokenizer, self.length = tokenizer, length
        self.pad = int(tokenizer.pad_token_id or 0)
        tokenizer.truncation_side = "left"

    def encode(self, texts: Sequence[str]) -> tuple[list[list[int]], int]:
        """As :class:`Encoder`."""
        if not texts:
            return [], 0
        # A lone surrogate is no text to a tokenizer.
        clean = [text.encode("utf-8", "replace").decode() for text in texts]
        whole = self.tokenizer(clean, return_attention_mask=False, verbose=False)["input_ids"]
        long = sum(len(row) > self.length for row in whole)
        if long:
            whole = self.tokenizer(clean, return_attention_mask=False, truncation=True, max_length=self.length)
            whole = whole["input_ids"]
        return [list(row) for row in whole], long
