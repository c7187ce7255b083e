"""A translator for tests: the same answers each time; back in English, some words are others."""

import hashlib
import re
import string

ALPHABET = string.ascii_letters + string.digits

# The first of the letters that stand for the alphabet, by language; a language without one is not known.
FIRST = {"ko": "가", "ja": "ァ", "zh": "一", "zh-CN": "一", "ru": "А", "fr": "Ā"}

SYNONYMS = {
    **{"account": "bank", "amount": "sum", "city": "town", "date": "day", "destination": "target", "find": "search"},
    **{"get": "receive", "location": "place", "name": "title", "number": "count", "price": "cost"},
    **{"restaurant": "diner", "time": "hour", "type": "kind", "whether": "if"},
}


def knows(language: str) -> bool:
    """Whether it translates from and into it."""
    return language == "en" or language in FIRST


def translate(text: str, source: str, target: str) -> str:
    """Letters and digits in another script, everything else as it is; into English, back with other words."""
    plain = text if source == "en" else text.translate(_letters(source, back=True))
    if target != "en":
        return plain.translate(_letters(target))
    return re.sub(r"[A-Za-z]+", lambda word: _reworded(word[0], source), plain)


def _letters(language: str, back: bool = False) -> dict[int, int]:
    first = ord(FIRST[language])
    there = {ord(letter): first + i for i, letter in enumerate(ALPHABET)}
    return {other: letter for letter, other in there.items()} if back else there


def _reworded(word: str, pivot: str) -> str:
    """Another word for about a third of them, not the same third for each language."""
    low = word.lower()
    if len(word) < 3 or hashlib.sha256(f"{pivot}:{low}".encode()).digest()[0] % 3:
        return word
    other = SYNONYMS.get(low) or (low[:-1] if low.endswith("s") else f"{low}s")
    return other.capitalize() if word[0].isupper() else other
