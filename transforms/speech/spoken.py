"""What is said when an utterance is read aloud: lower-case words in plain letters, numbers spelled out.

It is the reference of the word error rate, the text of the recogniser's language model, and what the synthesiser says.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

import msgspec

from parapet.transforms.speech.normalisation import Normalisation, load_normalisation
from parapet.transforms.speech.reading import Reading

__all__ = ["Normalisation", "Word", "load_normalisation", "spoken_words", "unspeakable"]

_LETTERS = {"ß": "ss", "æ": "ae", "œ": "oe", "ø": "o", "ł": "l", "đ": "d", "ð": "d", "þ": "th", "ı": "i", "ħ": "h"}
_APOSTROPHES = frozenset("\u2018\u2019\u201b\u2032\u00b4`\uff07\u02bb\u02bc")
_UNSEEN = frozenset({"Mn", "Me", "Cf"})  # accents, joiners, soft hyphens: neither said nor parting words


class Word(msgspec.Struct, frozen=True):
    """A spoken word and the characters of the utterance, start to end, of which it comes.

    The words of one number have all of its characters, so the ranges of two words are the same or apart.
    """

    text: str
    start: int
    end: int


def spoken_words(utterance: str, rules: Normalisation) -> list[Word]:
    """The words that are said, in order, with the characters that each comes of.

    Never raises, whatever the text; what cannot be said is left out (:func:`unspeakable` tells of it).
    """
    text, starts, ends = _fold(utterance, rules.kept)
    reading = Reading(text, utterance, starts, rules)
    special, found = rules.special, list[Word]()
    for match in rules.tokens.finditer(text):
        said = match.group()
        if match.lastgroup == "word" and said not in special:
            pieces = [(said, match.start(), match.end())]
        else:
            pieces = reading.read(match)
        reading.last = match
        for said, start, end in pieces:
            if starts:
                start, end = starts[start], ends[end - 1]
            found.extend([Word(word, start, end) for word in said.split(" ")])
    return found


def unspeakable(utterance: str, rules: Normalisation, longest: int) -> str | None:
    """Why an utterance is not to be spoken.

    Args:
      utterance: any text.
      rules: how it would be spoken.
      longest: how many characters the utterance may have, and its spoken form.

    Returns:
      ``too_long``; ``script``: it has letters that have no Latin ones to stand for them; ``empty``: it has no letters
      and no digits; or None. Where it is None, there are words.
    """
    if len(utterance) > longest:
        return "too_long"
    if not utterance.isascii() and any(_fold_character(c) == " " and c.isalpha() for c in utterance):
        return "script"
    text, _, _ = _fold(utterance, rules.kept)
    if not re.search("[a-z0-9]", text):
        return "empty"
    words = spoken_words(utterance, rules)
    return "too_long" if sum(len(word.text) for word in words) + len(words) - 1 > longest else None


def _fold(utterance: str, kept: frozenset[str]) -> tuple[str, list[int], list[int]]:
    """(the text in lower-case ASCII, but what is kept; where each of its characters begins in the utterance; and ends).

    The lists are empty where each character is where it was. What is not seen belongs to the character before it.
    """
    if utterance.isascii():
        text, starts, ends = utterance.lower().replace("`", "'"), list[int](), list[int]()
    else:
        folded = []
        starts, ends = [], []
        for i, c in enumerate(utterance):
            new = c if c in kept else _fold_character(c)
            if new:
                folded.append(new)
                starts.extend([i] * len(new))
                ends.extend([i + 1] * len(new))
            elif ends:
                for k in range(len(ends) - len(folded[-1]), len(ends)):
                    ends[k] = i + 1
        text = "".join(folded)
    # Typed with the key beside the apostrophe's, SGD has it ten times.
    return text.replace('o"clock', "o'clock"), starts, ends


@lru_cache(maxsize=1 << 12)
def _fold_character(c: str) -> str:
    """A character in lower-case ASCII; nothing where it is not seen, a blank where it has no such form."""
    if c in _APOSTROPHES:
        return "'"
    category = unicodedata.category(c)
    if category in _UNSEEN:
        return ""
    if category == "Nd":
        return str(unicodedata.digit(c))
    if category == "Pd" or c == "\u2212":
        return "-"
    parts = (d for d in unicodedata.normalize("NFKD", c).lower() if not unicodedata.combining(d))
    plain = "".join(_LETTERS.get(d, d) for d in parts)
    # Several characters must be letters, as "1." in one would be parted in its midst; and no symbol may be several, as
    # a trade mark would be joined to its word.
    fits = (plain.isalpha() or category != "So") and (len(plain) == 1 or (plain.isalpha() and category != "So"))
    return plain if fits and plain.isascii() else " "
