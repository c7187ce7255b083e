"""The languages of dialogues: a perturbation leaves those in a language that it does not know unchanged.

A language is recognised from all user turns of a dialogue together, since a single turn may be a name or a short
answer. English needs no model: at least 10 % of the user's words in each of 3,352 dialogues of SGD are frequent words
of English, and none in our dialogues in fifteen other languages. Other texts are left to py3langid. It takes names for
other languages, so its answer only counts if the words are clearly more frequent there than in English.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping

from parapet.schemas.dialogue import Dialogue
from parapet.schemas.errors import InputError
from parapet.transforms.reports.text import counted

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
_LEAST_ENGLISH = 0.05  # share of these words that is enough
_WORD = re.compile(r"[^\W\d_]+")
_OTHER_SCRIPT = re.compile(r"[^\W\d_\u0000-\u024f\u1e00-\u1eff]")
# How much more frequent words must be than in English, as the mean difference of their logarithms to base 10.
_LEAD, _LEAD_OF_FEW = 1.5, 2.5
_FEW = 4  # words


class OtherLanguage(InputError):
    """A dialogue is in a language that the perturbation does not know. It is kept unchanged, and is no bad record."""


def language_of(text: str) -> str:
    """Return the language of a text (ISO 639-1), ``und`` if it is another than English, or empty if that is unclear."""
    others = len(_OTHER_SCRIPT.findall(text)) if not text.isascii() else 0
    words = _WORD.findall(text.lower())
    if 2 * others > sum(map(len, words)) - others:
        guess = _guess(text)
        return UNKNOWN if guess == ENGLISH else guess
    if not words:
        return ""
    if sum(map(_ENGLISH.__contains__, words)) >= _LEAST_ENGLISH * len(words):
        return ENGLISH
    if len(words) == 1:
        return ""
    guess = _guess(text)
    if guess == ENGLISH:
        return ENGLISH
    from wordfreq import zipf_frequency

    lead = sum(zipf_frequency(word, guess) - zipf_frequency(word, ENGLISH) for word in words) / len(words)
    return guess if lead >= (_LEAD if len(words) >= _FEW else _LEAD_OF_FEW) else ""


def _guess(text: str) -> str:
    """Return the most likely of the languages whose word frequencies are known."""
    import py3langid
    from wordfreq import available_languages

    known = available_languages("small")
    return next((str(language) for language, _ in py3langid.rank(text) if language in known), UNKNOWN)


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


def check_most(name: str, languages: Iterable[str], dialogues: int, others: Mapping[str, int], where: str = "") -> None:
    """Raise InputError if most dialogues are in other languages.

    Args:
      name: the name of the perturbation.
      languages: the languages that it knows.
      dialogues: the number of dialogues.
      others: the number of those in each other language.
      where: the flag that names them.
    """
    n = sum(others.values())
    if 2 * n <= dialogues:
        return
    frequent = ", ".join(language for language, _ in Counter(others).most_common(3))
    raise InputError(
        f"{name} only knows texts in {', '.join(languages)}, but {n:,} of {counted(dialogues, 'dialogue')} "
        f"{'is' if n == 1 else 'are'} in another language ({frequent}) and would stay unchanged: give texts in a "
        "language that it knows",
        where,
    )
