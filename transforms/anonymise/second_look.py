"""A second look at anonymised texts, by other means than the first: whatever may have been missed.

It asks nothing of the rules that replace, so that what they do not know does not escape it as well.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterator

import msgspec

from parapet.transforms.anonymise.given_names import GIVEN_NAMES
from parapet.transforms.crowd.lexicon import word_frequency

DIGITS, AT, LINK, CAPITAL, GIVEN, CARRIED = "digits", "at", "link", "capital", "given_name", "carried"
KINDS = {
    DIGITS: "five digits or more, with whatever stands between them",
    AT: "an at sign",
    LINK: "http, www or a domain",
    CAPITAL: "a capital inside a sentence, of a word that English texts seldom have",
    GIVEN: "a common given name",
    CARRIED: "a word of what was replaced in the chat, or a name that was replaced in another",
}

_PLACEHOLDER = re.compile(r"<[A-Z]{2,20}_[0-9]{1,6}>")
_MONEY = re.compile(r"[$€£] ?\d{1,3}(?:,?\d{3}){0,2}(?:\.\d\d)?(?![\d])")
_DIGITS = re.compile(r"\d(?:[^\w<>]{0,2}\d){4,}")
_AT = re.compile(r"(?<!\S)(?=\S{2})[^\s@]*@\S*")
_LINK = re.compile(r"https?:|www\.|\w\.(?:com|org|net|info|co)\b", re.IGNORECASE)
_WORD = re.compile(r"[^\W\d_]+")
_ENDS = re.compile(r"(?:[.!?:;\n\"“(*-]|^)\s*$")  # after which a capital begins a sentence
_SELDOM = 4.0  # Zipf frequency: once in a hundred thousand words
_COMMON = 4.5


class Suspect(msgspec.Struct, frozen=True, order=True):
    """Something that may identify: its turn from 0, why, its first character and its length; never the text."""

    turn: int
    kind: str
    first: str
    length: int


def suspects_in(turn: int, text: str, parts: Container[str], names: Container[str]) -> Iterator[Suspect]:
    """What may have been missed in a turn.

    Args:
      turn: its number.
      text: anonymised.
      parts: words of what was replaced in the chat, in lower case.
      names: words of names that were replaced anywhere, in lower case.
    """
    # A placeholder leaves nothing that could be seen, and keeps what is beside it apart.
    text = _PLACEHOLDER.sub("<>", text)
    for found in _DIGITS.finditer(_MONEY.sub("$", text)):
        yield _suspect(turn, DIGITS, found[0])
    for found in _AT.finditer(text):
        yield _suspect(turn, AT, found[0])
    for found in _LINK.finditer(text):
        yield _suspect(turn, LINK, found[0])
    shouted = sum(map(str.isupper, text)) > 0.6 * sum(map(str.isalpha, text))
    for found in _WORD.finditer(text):
        kind = _kind_of(
            found[0], not _ENDS.search(text[max(0, found.start() - 8) : found.start()]), shouted, parts, names
        )
        if kind:
            yield _suspect(turn, kind, found[0])


def _kind_of(word: str, inside: bool, shouted: bool, parts: Container[str], names: Container[str]) -> str:
    lower = word.casefold()
    capital = word[0].isupper() and inside and not shouted
    frequency = word_frequency(lower) if len(word) > 2 else 9.0
    if len(word) > 2 and (frequency < _COMMON or capital) and (lower in parts or lower in names):
        return CARRIED
    if lower in GIVEN_NAMES:
        return GIVEN
    return CAPITAL if capital and frequency < _SELDOM else ""


def _suspect(turn: int, kind: str, text: str) -> Suspect:
    return Suspect(turn, kind, text[0], len(text))
