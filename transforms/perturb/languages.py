"""The languages of dialogues: a perturbation leaves those in a language that it does not know unchanged.

A language is recognised from all user turns of a dialogue together, since a single turn may be a name or a short
answer; a turn counts as well if its own language is clear. English needs no model: most texts have enough of its
frequent words. Others are left to py3langid. It takes names for other languages, so its answer only counts if the
words, other than names, are more frequent there than in English, or hardly exist in English. No dialogue or user turn
of SGD is taken for another language.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import cache, lru_cache

from parapet.schemas.dialogue import Dialogue
from parapet.schemas.errors import InputError
from parapet.transforms.report.text import counted

ENGLISH = "en"
UNKNOWN = "und"
OTHER_LANGUAGES = "other_languages"  # the count of dialogues that are kept for their language, by language

# Frequent words of English that are rare in other languages.
_FREQUENT = """
the and that you it with this not but from your they if one about what when there which would how some could should
where here good great please thanks thank yes know looking find book need them their our its these those who because
very much only then now other another does did been being sounds help search today tomorrow next right sure nothing
something anything everything tell
"""
_ENGLISH = frozenset(_FREQUENT.split())
_ENOUGH, _SOME = 0.2, 0.05  # share of these words that shows English, and that shows it if no other is clear
_WORD = re.compile(r"[^\W\d_]+")
_OTHER_SCRIPT = re.compile(r"[^\W\d_\u0000-\u024f\u1e00-\u1eff]")
_ENDS = ".!?…¿¡"
# Least words, how much more frequent they must be than in English, as the mean difference of their logarithms to base
# 10, and the logarithm below which they are too rare for English.
_BOUNDS = ((8, 0.5, 3.5), (4, 1.0, 2.0), (2, 2.5, 0.0))
_COMMON = 4.2  # words that are so frequent in English on average are English: no other list of words is read
_CODES = {"no": "nb", "nn": "nb", "tl": "fil", "yue": "zh", "wuu": "zh"}  # of py3langid and of wordfreq
_SPACELESS = ("ja", "ko", "zh")  # wordfreq needs other packages for their words


class OtherLanguage(InputError):
    """A dialogue is in a language that the perturbation does not know. It is kept unchanged, and is no bad record."""


@lru_cache(10_000)
def language_of(text: str) -> str:
    """Return the language of a text (ISO 639), ``und`` if it is another than English, or empty if that is unclear."""
    others = len(_OTHER_SCRIPT.findall(text)) if not text.isascii() else 0
    words = _WORD.findall(text.lower())
    if 2 * others > sum(map(len, words)) - others:
        return next(_guesses(text), UNKNOWN)
    share = sum(map(_ENGLISH.__contains__, words)) / max(1, len(words))
    if share >= _ENOUGH:
        return ENGLISH
    unclear = ENGLISH if share >= _SOME else ""
    words = _words_without_names(text)
    bounds = next((bounds for bounds in _BOUNDS if len(words) >= bounds[0]), None)
    if bounds is None:
        return unclear
    _, least_lead, least_english = bounds
    english = _frequency(words, ENGLISH)
    if english >= _COMMON:
        return unclear
    guess = next((language for language in _guesses(text) if language in _listed()), UNKNOWN)
    if guess != UNKNOWN and _frequency(words, guess) - english >= least_lead:
        return guess
    return next(_guesses(text), UNKNOWN) if english < least_english else unclear


def _frequency(words: list[str], language: str) -> float:
    """Return the mean logarithm of the frequencies of words."""
    from wordfreq import zipf_frequency

    return sum(zipf_frequency(word, language, "small") for word in words) / len(words)


@cache
def _listed() -> frozenset[str]:
    """Return the languages whose words wordfreq knows."""
    from wordfreq import available_languages

    return frozenset(available_languages("small").keys() - {*_SPACELESS})


def _guesses(text: str) -> Iterator[str]:
    """Yield the languages other than English, the most likely first."""
    import py3langid

    for language, _ in py3langid.rank(text):
        if language != ENGLISH:
            yield _CODES.get(language, language)


def _words_without_names(text: str) -> list[str]:
    """Return the words that are not capitalised inside a sentence."""
    if text.isupper():
        return _WORD.findall(text.lower())
    words = []
    for match in _WORD.finditer(text):
        before = text[max(0, match.start() - 3) : match.start()].rstrip()
        if not match[0][0].isupper() or not before or before[-1] in _ENDS:
            words.append(match[0].lower())
    return words


def other_language(dialogue: Dialogue, languages: Collection[str]) -> str:
    """Return the language of what the user says, or an empty string if it is one of ``languages`` or unclear.

    Args:
      dialogue: the dialogue.
      languages: the known languages; if empty, all are known.
    """
    if not languages:
        return ""
    language = language_of(" ".join(turn.utterance for turn in dialogue.turns if turn.speaker == "USER"))
    return "" if language in languages else language


def check_language(dialogue: Dialogue, languages: Collection[str]) -> Dialogue:
    """Return the dialogue. Raises OtherLanguage if it is not in one of the languages."""
    if language := other_language(dialogue, languages):
        raise OtherLanguage(f"other_language: {language}")
    return dialogue


def check_most(
    name: str, languages: Iterable[str], texts: int, others: Mapping[str, int], where: str = "", kind: str = "dialogue"
) -> None:
    """Raise InputError if most texts are in other languages.

    Args:
      name: the name of the perturbation.
      languages: the languages that it knows.
      texts: the number of texts or dialogues.
      others: the number of those in each other language.
      where: the flag that names them.
      kind: what is counted.
    """
    n = sum(others.values())
    if 2 * n <= texts:
        return
    frequent = ", ".join(language for language, _ in Counter(others).most_common(3))
    raise InputError(
        f"{name} only knows texts in {', '.join(languages)}, but {n:,} of {counted(texts, kind)} "
        f"{'is' if n == 1 else 'are'} in another language ({frequent}) and would stay unchanged: give texts in a "
        "language that it knows",
        where,
    )
