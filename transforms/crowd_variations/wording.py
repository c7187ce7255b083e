"""The words of a rewriting: as they are emitted, and whether they are signs of another meaning.

Yes and no, negation, numbers: a rewriting must not change them.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from functools import lru_cache

from parapet.transforms.hits.kept_values import speakable
from parapet.transforms.text import clean, words

_CURLY = "\u2018\u2019\u201c\u201d"
_STRAIGHT = str.maketrans(_CURLY, "''\"\"")

_YES_WORDS = "yes yeah yea yep yup"

# Other words that agree: they may replace a yes, and be replaced by one.
_AGREEING_WORDS = """
sure ok okay alright right correct exactly absolutely definitely certainly indeed agreed fine good great perfect
wonderful excellent sounds works please deal nice awesome cool confirm confirmed course true
"""

_NO_WORDS = """
no nope nah not never none nothing nobody neither nor without cannot cant dont doesnt didnt wont isnt arent wasnt
werent wouldnt couldnt shouldnt havent hasnt hadnt aint neednt mustnt
"""

_FROM_TWO = """
two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen
"""

_TENS = "twenty thirty forty fifty sixty seventy eighty ninety hundred"

_YES = frozenset(_YES_WORDS.split())

_AGREEING = _YES | frozenset(_AGREEING_WORDS.split())

_NO = frozenset(_NO_WORDS.split())

_ECHOES = {("i", "do"), ("we", "do"), ("it", "does"), ("that", "does")}

_NUMBERS = {
    **{word: str(n) for n, word in enumerate(_FROM_TWO.split(), 2)},
    **{word: str(10 * n) for n, word in enumerate(_TENS.split(), 2)},
    "couple": "2",
    "pair": "2",
    "thousand": "1000",
}


def canonical_text(text: str, original: str) -> str:
    """Single spaces, nothing invisible, straight quotes, accents composed; unless the original itself has those.

    Letters and their case stay unchanged: values must be kept, and typos are intended.

    Args:
      text: as typed.
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


def turns_around(original: Sequence[str], answer: Sequence[str], shorter: bool = False) -> bool:
    """Whether a negation, or a yes, came or went.

    Args:
      original: the words of the sentence.
      answer: the words of its rewriting.
      shorter: whether the rewriting was to be shorter: then a yes may go without a word for it.
    """
    before, after = set(original), set(answer)
    if bool(before & _NO) != bool(after & _NO):
        return True
    came = bool(after & _YES) and not _agrees(original)
    went = bool(before & _YES) and not _agrees(answer) and not shorter
    return came or went


def _agrees(text: Sequence[str]) -> bool:
    return not _AGREEING.isdisjoint(text) or tuple(text[:2]) in _ECHOES


def turns_on(original: Sequence[str], answer: Sequence[str]) -> bool:
    """Whether a yes or a negation came that was not there: in a mistyped sentence one may go, not come."""
    before, after = set(original), set(answer)
    return any(after & signs and not before & signs for signs in (_YES, _NO))


def other_numbers(original: str, answer: str) -> bool:
    """Whether the two say different numbers; "one" is none, for "the cheaper one" counts nothing."""
    return _numbers(original) != _numbers(answer)


def _numbers(text: str) -> set[str]:
    found = (_NUMBERS.get(word, word) for word in words(text))
    return {word for word in found if word.isdigit()} - {"1"}
