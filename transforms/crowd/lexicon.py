"""Words: how common they are, whether they are rude, which language a text is in, which answer is spelled better.

All of it is packaged data (wordfreq, better-profanity's list, py3langid's model): nothing is fetched.
"""

from __future__ import annotations

from functools import cache, lru_cache
from importlib import resources


@lru_cache(maxsize=1 << 16)
def word_frequency(word: str) -> float:
    """Zipf frequency of an English word, 0 (not known) to about 8 ("the")."""
    import wordfreq

    return float(wordfreq.zipf_frequency(word, "en"))


def unknown_words(words: tuple[str, ...]) -> list[str]:
    """The words that English texts do not have; numbers and single letters do not count."""
    return [word for word in words if len(word) > 1 and not word.isdigit() and word_frequency(word) == 0.0]


def rude_words(words: tuple[str, ...]) -> list[str]:
    """The words, or runs of up to three words, that are in the profanity list."""
    rude, beginnings = _profanity()
    begins = [i for i, word in enumerate(words) if word in beginnings]
    runs = (" ".join(words[i : i + n]) for n in (1, 2, 3) for i in begins if i + n <= len(words))
    return [run for run in runs if run in rude]


@cache
def _profanity() -> tuple[frozenset[str], frozenset[str]]:
    """What is rude, and the first words of all that is."""
    # The list itself: the package's matcher takes 6 ms a text, and finds "ass" spelled in digits in names.
    lines = (resources.files("better_profanity") / "profanity_wordlist.txt").read_text(encoding="utf-8").splitlines()
    rude = frozenset(line.strip().lower() for line in lines if line.strip())
    return rude, frozenset(phrase.partition(" ")[0] for phrase in rude)


@lru_cache(maxsize=1 << 15)
def language(text: str) -> str:
    """The most likely language (ISO 639-1). Unreliable under six words."""
    import py3langid

    return str(py3langid.classify(text)[0])


def spelling_rank(canonical: str, words: tuple[str, ...], typed: str) -> tuple[int, ...]:
    """Sorts the better-spelled of two answers with the same words first; smaller is better.

    Compares unknown words, all capitals, a missing capital at the beginning, unbalanced brackets or quotes, further
    capitals, punctuation at the end, and whether the text was changed at all from what was typed.
    """
    alphabetic = [c for c in canonical if c.isalpha()]
    shouted = len(alphabetic) > 4 and all(c.isupper() for c in alphabetic)
    capitals = sum(c.isupper() for c in canonical[1:])
    open_pairs = abs(canonical.count("(") - canonical.count(")")) + canonical.count('"') % 2
    return (
        len(unknown_words(words)),
        int(shouted),
        int(not canonical[:1].isupper()),
        open_pairs,
        capitals,
        int(canonical[-1:] in ".,;:"),
        int(typed != canonical),
    )
