"""Properties of a text's surface: gibberish, markup, profanity, language, word frequency and spelling.

Also what embeddings do not see: negations and opposites, boilerplate of language models, and names of data types.
The data come with installed packages (wordfreq, better-profanity's list, py3langid's model); nothing is downloaded.
"""

import re
from collections.abc import Iterator
from functools import cache, lru_cache
from importlib import resources

from parapet.transforms.core.inputs import read_table
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
    """Returns the Zipf frequency of an English word, from 0 (unknown) to about 8 ("the")."""
    import wordfreq

    return float(wordfreq.zipf_frequency(word, "en"))


def unknown_words(words: tuple[str, ...]) -> list[str]:
    """Returns the words that do not occur in English texts, except numbers and single letters."""
    return [word for word in words if len(word) > 1 and not word.isdigit() and word_frequency(word) == 0.0]


def rude_words(words: tuple[str, ...]) -> list[str]:
    """Returns the words, and runs of up to three words, that are in the profanity list."""
    runs = (" ".join(words[i : i + n]) for n in (1, 2, 3) for i in range(len(words) - n + 1))
    return [run for run in runs if run in _profanity()]


@cache
def _profanity() -> frozenset[str]:
    """Loads the profanity list."""
    # Only the list is used: the package's matcher takes 6 ms per text, and reads digits in names as letters of "ass".
    lines = (resources.files("better_profanity") / "profanity_wordlist.txt").read_text(encoding="utf-8").splitlines()
    return frozenset(line.strip().lower() for line in lines if line.strip())


@lru_cache(maxsize=1 << 12)
def language(text: str) -> str:
    """Detects the most likely language (ISO 639-1). Unreliable below six words."""
    import py3langid

    return str(py3langid.classify(text)[0])


def spelling_rank(canonical: str, words: tuple[str, ...], typed: str) -> tuple[int, ...]:
    """Returns a sort key that puts the better spelled of two answers with the same words first; smaller is better.

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


# What language models add to an answer: openers, Markdown, lists, excuses.
BOILERPLATE = re.compile(
    r"^\W*(?:sure|certainly|of course|absolutely|great question)\s*[!,.:]"
    r"|\bas an? (?:ai|artificial intelligence|(?:large )?language model|assistant)\b"
    r"|\bhere(?:['’]s| is| are)\b.{0,40}\b(?:paraphras|rephras|rewor|rewrit|version|alternativ|option|suggest)"
    r"|^\W*(?:paraphras\w*|rephras\w*|reworded|rewritten|answer|output|response|suggestion)\b[^:]{0,20}:"
    r"|\b(?:option|paraphrase|version|alternative) ?\d\b"
    r"|\bi(?:['’]m| am) sorry\b|\bi (?:cannot|can['’]t|can not) (?:provide|help|assist|paraphrase|generate)"
    r"|\blet me know if\b|\bhope this helps\b|\b(?:provided|given) (?:prompt|context|description)\b"
    r"|\*\*[^*]+\*\*|`[^`]+`|^\s*#{1,4} |^\s*[-*•] "
    r"|(?:^|\s)1[.)] .*\s2[.)] ",
    re.IGNORECASE | re.DOTALL,
)
_TABLE = read_table(__package__, "contrast.toml")
_NEGATION = re.compile(r"\b(?:no|not|never|none|neither|nor|without|lacks?|lacking|cannot|non|(?:fail|refuse)s? to)\b")
_OR_NOT = re.compile(r"\bor (?:not|none?|without)\b|\byes (?:or |and )?no\b|\bnon? of\b|(?<=\w )nos?$|\bnon ?stop")
_PREFIX = re.compile(r"(?:un|non|in|im|dis)(?=[a-z]{4})")


def is_type(words: tuple[str, ...]) -> bool:
    """Whether a text only names a data type."""
    types, others = _TABLE["types"], _TABLE["besides"]
    return any(word in types for word in words) and all(word in types or word in others for word in words)


def denies_alone(words: tuple[str, ...], own: tuple[str, ...]) -> bool:
    """Whether an answer negates something that its element does not negate.

    Args:
      words: the words of the answer.
      own: the words of the element's name and of all its description.
    """
    for some, others in ((words, own), (own, words)):
        if any(word not in others and _PREFIX.sub("", word, count=1) in others for word in some):
            return True
    text, of_element = " ".join(words), " ".join(own)
    denies = _denies(text) and not _denies(of_element) and "none" not in own
    # "without a return" is a direction, not a negation
    return denies and not any(other for _, other in _sides(text, of_element, False))


def _denies(text: str) -> bool:
    return _NEGATION.search(_OR_NOT.sub(" ", text)) is not None


def says_the_opposite(text: str, own: str, of_name: bool) -> bool:
    """Whether an answer has words of only one side of a pair of opposites, and its element only of the other side.

    Args:
      text: the words of the answer, separated by single spaces.
      own: the name and description of the element, in the same form.
      of_name: whether the answer is a name.
    """
    return _denies(text) == _denies(own) and (False, True) in _sides(text, own, of_name)


def _sides(text: str, own: str, of_name: bool) -> Iterator[tuple[bool, bool]]:
    """For each pair of opposites with only one side in the element, yield whether the text has this and the other."""
    for pair in _opposites(of_name):
        for side, other in (pair, pair[::-1]):
            if side.search(own) and not other.search(own):
                yield side.search(text) is not None, other.search(text) is not None


@cache
def _opposites(of_name: bool) -> list[tuple[re.Pattern[str], ...]]:
    pairs = [*_TABLE["pairs"], *(_TABLE["of_names"] if of_name else ())]
    words = [["|".join(map(re.escape, side)).replace(r"\*", r"\w*") for side in pair] for pair in pairs]
    return [tuple(re.compile(rf"\b(?:{side})\b") for side in pair) for pair in words]
