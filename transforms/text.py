"""Text: cleaning what people typed, its words, and numbers as text."""

from __future__ import annotations

import math
import re
import unicodedata
from functools import lru_cache

from parapet.schemas.errors import InputError

_SPACES = re.compile(r"\s+")
_WORD = re.compile(r"[^\W_]+")
_OTHER_KIND = re.compile(rb'<[A-Za-z!?]|\{ ?"')

# Categories with nothing to see: controls, formats (zero-width, bidi marks), private use, surrogates, unassigned.
_INVISIBLE = frozenset({"Cc", "Cf", "Co", "Cs", "Cn"})
# And those of other categories: joiners, fillers, variation selectors, the empty braille cell.
_IGNORABLE = re.compile("[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\ufe00-\ufe0f\U000e0100-\U000e01ef]")


def clean(text: str) -> str:
    """NFKC, no invisible characters, single spaces, none at the ends.

    Idempotent: what one pass uncovers (a compatibility character that becomes a space) the same pass cleans.
    """
    if text.isascii() and text.isprintable():
        return _SPACES.sub(" ", text).strip()
    text = unicodedata.normalize("NFKC", _SPACES.sub(" ", text))
    text = _IGNORABLE.sub("", text)
    text = "".join(c for c in text if c.isspace() or unicodedata.category(c) not in _INVISIBLE)
    # Taking a format character out can bring a letter and its accent together.
    return _SPACES.sub(" ", unicodedata.normalize("NFKC", text)).strip()


def words(text: str) -> tuple[str, ...]:
    """The words of a text, lower-cased; apostrophes inside a word are dropped, other punctuation parts words."""
    return tuple(_WORD.findall(text.casefold().replace("'", "").replace("\u2019", "")))


def as_description(text: str, original: str) -> str:
    """A cleaned text as descriptions are written: with a capital, not shouted, no full stop that its original lacks.

    Only letters' case and a final full stop change, never a word.
    """
    letters = [c for c in text if c.isalpha()]
    if len(letters) > 4 and " " in text and all(c.isupper() for c in letters):
        text = text.lower()
    capital = text[:1].upper() + text[1:]
    # "iPhone repair" begins as it should; an accent that would join its new capital makes another letter of it.
    if text[:2].islower() and unicodedata.is_normalized("NFC", capital):
        text = capital
    if text.endswith(".") and not text.endswith("..") and not original.endswith("."):
        text = text[:-1].rstrip()
    return text


@lru_cache(maxsize=1 << 15)
def cached_words(text: str) -> tuple[str, ...]:
    """:func:`words`, remembered: prompts and originals are asked for again and again."""
    return words(text)


def percent(value: float | None, digits: int = 1, signed: bool = False) -> str:
    """A share in percent: 0.646 is ``64.6%``; a dash where it is not defined."""
    return "–" if value is None or not math.isfinite(value) else f"{100 * value:{'+' if signed else ''}.{digits}f}%"


def number(value: float | None, digits: int = 0, signed: bool = False) -> str:
    """A number with its decimal places, thousands separated by commas: ``1,234.5``; a dash where it is not defined."""
    return "–" if value is None or not math.isfinite(value) else f"{value:{'+' if signed else ''},.{digits}f}"


def counted(n: int, noun: str, plural: str = "") -> str:
    """``1 service``, ``2 services``; ``plural`` where it takes more than an s."""
    return f"{n:,} {noun if n == 1 else plural or f'{noun}s'}"


def check_plain_text(beginning: bytes, path: object, flag: str = "") -> None:
    """Raises InputError where a file that is to have a text a line is of another kind: HTML, XML or JSON."""
    first = beginning.removeprefix(b"\xef\xbb\xbf").lstrip()
    if found := _OTHER_KIND.match(first):
        kind = "HTML or XML" if found[0][:1] == b"<" else "JSON"
        raise InputError(f"is {kind}, and not plain text, one a line", path, flag)
