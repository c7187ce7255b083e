"""A rewriting as it is emitted: its words as typed, without what only keyboards and forms have put in."""

from __future__ import annotations

import unicodedata
from functools import lru_cache

from parapet.transforms.hits.kept_values import speakable
from parapet.transforms.text import clean, words

_CURLY = "\u2018\u2019\u201c\u201d"
_STRAIGHT = str.maketrans(_CURLY, "''\"\"")


def canonical_text(text: str, original: str) -> str:
    """Single spaces, nothing invisible, straight quotes, accents composed; unless the original itself has those.

    Never a letter, never its case: values must stay as they are, and typos are wanted.

    Args:
      text: as given.
      original: the sentence that was to be rewritten, as the page shows it.
    """
    text = speakable(text)
    if text.isascii():
        return text
    if not any(quote in original for quote in _CURLY):
        text = text.translate(_STRAIGHT)
    kept = set(original)
    text = "".join(c for c in text if c.isascii() or c in kept or c.isspace() or clean(c))
    if unicodedata.is_normalized("NFC", original):
        text = unicodedata.normalize("NFC", text)
    return " ".join(text.split())


@lru_cache(maxsize=1 << 14)
def words_of(text: str) -> tuple[str, ...]:
    """The words by which texts are the same, as the page counts them."""
    return words(text if text.isascii() else unicodedata.normalize("NFKC", text))
