"""How well a predicted value matches: exactly, or fuzzily as the official SGD scoring does."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

from rapidfuzz.distance import Indel

_NOT_ASCII = re.compile("[\x80-\xff]")
_NO_WORD = re.compile(r"\W")


def best_match(references: Sequence[str], predicted: str, fuzzy: bool = True) -> float:
    """The best score of a prediction over the reference's alternatives, 0 to 1; 0 where there are none."""
    if predicted in references:
        return 1.0
    return max((fuzzy_score(one, predicted) for one in references), default=0.0) if fuzzy else 0.0


@lru_cache(maxsize=1 << 17)
def fuzzy_score(first: str, second: str) -> float:
    """fuzzywuzzy's ``token_sort_ratio`` over 100: in whole percent, 1 for equal texts, 0 where one has no letter.

    The similarity is that of the sorted words in small letters, the rest blanked out (characters 128 to 255 go
    altogether), as the release of the official scoring had it.
    """
    if first == second:
        return 1.0
    left, right = _sorted_words(first), _sorted_words(second)
    if not left or not right:
        return 0.0
    return round(100 * Indel.normalized_similarity(left, right)) / 100


@lru_cache(maxsize=1 << 16)
def _sorted_words(text: str) -> str:
    words = _NO_WORD.sub(" ", _NOT_ASCII.sub("", text)).lower().split()
    return " ".join(sorted(words))
