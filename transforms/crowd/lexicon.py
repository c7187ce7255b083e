"""Properties of a text's surface: gibberish, markup, profanity, language, word frequency and spelling.

The data come with installed packages (wordfreq, better-profanity's list, py3langid's model); nothing is downloaded.
"""

from __future__ import annotations

import re
from functools import cache, lru_cache
from importlib import resources

from parapet.transforms.report.text import name_words

# HTML, a web or e-mail address, or a spreadsheet formula.
# No part can match what the part before it may end with, so the time is linear in the length of the text.
MARKUP = re.compile(
    r"</?[a-z!][^<>]*>"  # a tag
    r"|&(?:#\d+|#x[0-9a-f]+|[a-z]{2,8});"  # an entity
    r"|https?:|www\.|[^\s@]@[^\s@]+\.\w|\w\.(?:com|net|org|info|io|ru|cn)\b"  # an address
    r"|^\s*=|^\s*[@+-]\s*\w+[(!]|^\s*[@+-][^|\n]*\|.*!",  # a formula
    re.IGNORECASE,
)
_ROWS = ("qwertyuiop", "asdfghjkl", "zxcvbnm", "1234567890")
_REPEATED = re.compile(r"(.)\1{3,}")
_VOWEL = re.compile(r"[aeiouy]")
_CONSONANTS = re.compile(r"[^aeiouy0-9]{5}")


@lru_cache(maxsize=1 << 14)
def word_frequency(word: str) -> float:
    """Return the Zipf frequency of an English word, from 0 (unknown) to about 8 ("the")."""
    import wordfreq

    return float(wordfreq.zipf_frequency(word, "en"))


def unknown_words(words: tuple[str, ...]) -> list[str]:
    """Return the words that do not occur in English texts, except numbers and single letters."""
    return [word for word in words if len(word) > 1 and not word.isdigit() and word_frequency(word) == 0.0]


def rude_words(words: tuple[str, ...]) -> list[str]:
    """Return the words, and runs of up to three words, that are in the profanity list."""
    runs = (" ".join(words[i : i + n]) for n in (1, 2, 3) for i in range(len(words) - n + 1))
    return [run for run in runs if run in _profanity()]


@cache
def _profanity() -> frozenset[str]:
    """Load the profanity list."""
    # Only the list is used: the package's matcher takes 6 ms per text, and reads digits in names as letters of "ass".
    lines = (resources.files("better_profanity") / "profanity_wordlist.txt").read_text(encoding="utf-8").splitlines()
    return frozenset(line.strip().lower() for line in lines if line.strip())


@lru_cache(maxsize=1 << 12)
def language(text: str) -> str:
    """Detect the most likely language (ISO 639-1). Unreliable below six words."""
    import py3langid

    return str(py3langid.classify(text)[0])


def spelling_rank(canonical: str, words: tuple[str, ...], typed: str) -> tuple[int, ...]:
    """Return a sort key that puts the better spelled of two answers with the same words first; smaller is better.

    It compares unknown words, all capitals, a missing initial capital, unbalanced brackets or quotes, other capitals,
    final punctuation, and whether the text differs from what was typed.
    """
    letters = "".join(filter(str.isalpha, canonical))
    return (
        len(unknown_words(words)),
        len(letters) > 4 and all(map(str.isupper, letters)),
        not canonical[:1].isupper(),
        abs(canonical.count("(") - canonical.count(")")) + canonical.count('"') % 2,
        sum(map(str.isupper, canonical[1:])),
        canonical[-1:] in ".,;:",
        typed != canonical,
    )


def is_gibberish(text: str) -> bool:
    """Whether at least half of the words are keyboard runs, repeated letters or letters without a vowel."""
    # Descriptions may contain names, too: "EventSchedule" must be split in two before its consonants are counted.
    parts = name_words(text)
    odd = sum(map(_is_run, parts))
    # One odd word among several may be an abbreviation; with half of the words odd, the text is meaningless.
    return odd > 0 and odd * 2 >= len(parts)


def is_single_character(text: str) -> bool:
    """Whether all letters and digits of a cleaned text are the same character: "x", "A.", "_x_", "\u00e9", "xx"."""
    return len(set(filter(str.isalnum, text.casefold()))) == 1


@lru_cache(maxsize=1 << 14)
def _is_run(word: str) -> bool:
    if not word.isascii() or word.isdigit() or len(word) < 4:
        return False
    if _REPEATED.search(word):
        return True
    known = word_frequency(word)
    if any(word in row + row[::-1] or (len(word) >= 5 and word[:5] in row) for row in _ROWS):
        return known < 3.0  # common words such as "pout" and "tree" are also runs
    if known == 0.0 and len(word) >= 6 and _CONSONANTS.search(word):
        return True
    return not _VOWEL.search(word) and known < 2.0 and len(word) >= 5
