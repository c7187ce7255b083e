"""What in an utterance may be a value: times, dates, numbers, names, other words; each with how it looks.

What looks like a value is found by rules, for none of them says whose value it is: that is learned.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from functools import lru_cache

import msgspec

from evaluation.models.dst.tiny.words import ENDS, NUMBERS, TOKEN, stem


def _words(text: str) -> list[str]:
    return text.split()


LOOKS = ("time", "date", "money", "number", "name", "phrase", "listed")

_SMALL = "|".join(NUMBERS)
_DAYS = "(?:mon|tues|wednes|thurs|fri|satur|sun)day"
_MONTHS = "(?:january|february|march|april|may|june|july|august|september|october|november|december)"
_NTH = r"\d{1,2}(?:st|nd|rd|th)"
_PART = "(?:in the (?:morning|afternoon|evening|night)|at (?:noon|night|midnight))"
_CLOCK = rf"(?:\d{{1,2}}(?::\d\d)?|(?:{_SMALL})\b(?: thirty| fifteen| forty[- ]five)?)"
_HALF = "(?:half past|quarter past|quarter to)"
_RULES = (
    ("time", rf"(?:(?:morning|afternoon|evening) )?{_HALF} {_CLOCK}(?: {_PART}| ?[ap]\.?m\b\.?)?"),
    ("time", rf"(?:morning|afternoon|evening|night) {_CLOCK}(?: o['’\"]clock)?"),
    ("time", rf"{_CLOCK} ?(?:[ap]\.?m\b\.?|o['’\"]clock(?: {_PART})?|{_PART})"),
    ("time", r"\d{1,2}:\d\d|noon|midnight"),
    ("date", rf"{_MONTHS} (?:the )?\d{{1,2}}(?:st|nd|rd|th)?(?:,? (?:19|20)\d\d)?"),
    ("date", rf"(?:the )?{_NTH} (?:of )?(?:{_MONTHS}|(?:this|next) month)"),
    ("date", rf"{_DAYS} the {_NTH}"),
    ("date", rf"(?:(?:next|this|coming) )?{_DAYS}(?: (?:next|this) week)?"),
    ("date", rf"\d{{1,2}}/\d{{1,2}}(?:/\d{{2,4}})?|the {_NTH}"),
    ("date", r"(?:the )?day after tomorrow|later today|today|tonight|tomorrow|(?:this|next) (?:week|weekend|month)"),
    ("money", r"\$ ?\d[\d,.]*\b|\d[\d,.]*\b (?:dollars|euros|pounds)"),
    ("number", rf"\d[\d,.]*\b|(?:{_SMALL})"),
)
_PATTERNS = [(look, re.compile(rf"(?<![\w$])(?:{rule})(?!\w)", re.IGNORECASE)) for look, rule in _RULES]

# A name goes over these where a word with a capital follows.
_JOINTS = frozenset(_words("of the and & de la le del at for on in"))
# What begins a sentence with a capital, and what stands between values: no name, no value.
_IDLE = frozenset(
    _words(
        """a about above actually after again all alright also am an and another any anything are around as at
        be because been before being book but by can check confirm confirming could did do does doing don't
        done else every everything few find fine for from get give go going good great had has have having
        he hello help her hey hi him his how i i'd i'll i'm i've if in into is it it's its just know let
        let's like look looking looks love make maybe me more my need needs no nope not now of off oh ok
        okay on one or other our out over perfect please prefer really reserve right say search see set she
        should show so some something sorry sounds still such sure take tell than thank thanks that that's
        the their them then there there's these they this those to too try under until up us use very want
        was we we're well were what what's when where which who will wish with won't would yeah yep yes you
        you'd your"""
    )
)
LONGEST = 4  # words of a phrase


class Mention(msgspec.Struct, frozen=True):
    """A part of an utterance: its text, its first token and the one behind its last, and how it looks."""

    text: str
    first: int
    behind: int
    look: str


class Said(msgspec.Struct, frozen=True):
    """An utterance.

    Attributes:
      tokens: as they stand there.
      words: their stems.
      sentences: of each token, the number of its sentence.
      asks: of each sentence, whether it is a question.
      mentions: in order.
    """

    tokens: tuple[str, ...]
    words: tuple[str, ...]
    sentences: tuple[int, ...]
    asks: tuple[bool, ...]
    mentions: tuple[Mention, ...]


@lru_cache(maxsize=1 << 14)
def read(utterance: str, phrases: bool) -> Said:
    """Reads an utterance.

    Args:
      utterance: what was said.
      phrases: whether words that look like nothing may be values: users say such, in answers; systems name things.
    """
    words: list[re.Match[str]] = []
    sentences: list[int] = []
    asks = [False]
    for match in TOKEN.finditer(utterance):
        if match[0] not in ENDS:
            words.append(match)
            sentences.append(len(asks) - 1)
            continue
        asks[-1] |= match[0] == "?"
        if sentences and sentences[-1] == len(asks) - 1:  # else nothing has been said since the last end
            asks.append(False)
    tokens = tuple(match[0] for match in words)
    return Said(
        tokens=tokens,
        words=tuple(map(stem, tokens)),
        sentences=tuple(sentences),
        asks=tuple(asks[: sentences[-1] + 1] if sentences else ()),
        mentions=tuple(_mentions(utterance, [match.span() for match in words], sentences, phrases)),
    )


def _mentions(
    utterance: str, places: Sequence[tuple[int, int]], sentences: Sequence[int], phrases: bool
) -> list[Mention]:
    found = []
    free = [True] * len(places)
    for look, pattern in _PATTERNS:
        for match in pattern.finditer(utterance):
            inside = [i for i, (start, end) in enumerate(places) if start < match.end() and match.start() < end]
            if inside and all(free[i] for i in inside):
                found.append(Mention(_bare(match[0]), inside[0], inside[-1] + 1, look))
                if look != "number":  # it may be part of a name: "54 Mint"
                    free[inside[0] : inside[-1] + 1] = [False] * len(inside)
    spans = {(one.first, one.behind) for one in found}
    for first, behind in _names(utterance, places, sentences, free):
        if (first, behind) not in spans:
            spans.add((first, behind))
            found.append(Mention(utterance[places[first][0] : places[behind - 1][1]], first, behind, "name"))
    names = [(one.first, one.behind) for one in found if one.look == "name"]
    for first, behind in _phrases(utterance, places, sentences, free) if phrases else ():
        within = any(start <= first and behind <= end for start, end in names)
        if not within and (first, behind) not in spans:
            spans.add((first, behind))
            found.append(Mention(utterance[places[first][0] : places[behind - 1][1]], first, behind, "phrase"))
    return sorted(found, key=lambda one: (one.first, one.behind))


def _bare(text: str) -> str:
    """A date or time as it stands in states: "7th of March", but "the 12th"; "11 am", but "11 a.m."."""
    text = text.removeprefix("the ") if " of " in text else text
    return text.removesuffix(".") if text.count(".") == 1 else text


def _names(
    utterance: str, places: Sequence[tuple[int, int]], sentences: Sequence[int], free: Sequence[bool]
) -> Iterable[tuple[int, int]]:
    """Runs of words with capitals, and numbers among them; idle words at a sentence's beginning are none."""
    word = [utterance[start:end] for start, end in places]
    capital = [
        free[i] and (text[0].isupper() or text[0].isdigit()) and not _opens(i, text, sentences)
        for i, text in enumerate(word)
    ]
    i = 0
    while i < len(word):
        if not capital[i]:
            i += 1
            continue
        behind = last = i + 1
        while behind < len(word) and free[behind] and _joined(utterance, places, behind):
            if capital[behind]:
                last = behind = behind + 1
            elif word[behind].lower() in _JOINTS and behind - last < 2:
                behind += 1
            else:
                break
        if any(text[0].isupper() for text in word[i:last]):
            yield i, last
            # "Sino in San Jose" is two names, "Chef in Town" is one: both are offered.
            parts = [k for k in range(i, last) if word[k].lower() in ("in", "at", "for", "on", "and")]
            for start, end in zip([i - 1, *parts], [*parts, last], strict=True) if parts else ():
                yield start + 1, end
        i = last


def _joined(utterance: str, places: Sequence[tuple[int, int]], i: int) -> bool:
    """Whether nothing stands between a word and the one before."""
    return not utterance[places[i - 1][1] : places[i][0]].strip(" &")


def _opens(i: int, text: str, sentences: Sequence[int]) -> bool:
    return text.lower() in _IDLE and (i == 0 or sentences[i - 1] != sentences[i] or text.lower().startswith("i"))


def _phrases(
    utterance: str, places: Sequence[tuple[int, int]], sentences: Sequence[int], free: Sequence[bool]
) -> Iterable[tuple[int, int]]:
    """Parts of the runs of words that are not idle; "and" may stand within."""
    word = [utterance[start:end].lower() for start, end in places]
    full = [free[i] and text not in _IDLE and not text[0].isdigit() for i, text in enumerate(word)]
    for first in range(len(word)):
        for behind in range(first + 1, min(first + LONGEST, len(word)) + 1):
            if not free[behind - 1] or (behind > first + 1 and not _joined(utterance, places, behind - 1)):
                break
            if not full[behind - 1]:
                if word[behind - 1] != "and":
                    break
                continue
            if full[first]:
                yield first, behind


def listed(words: Sequence[str], values: Collection[tuple[str, ...]]) -> list[tuple[int, int]]:
    """Where the values that a schema lists are said.

    Args:
      words: stems of an utterance.
      values: the stems of each value.

    Returns:
      The first word of each and the one behind its last; of two that overlap the longer.
    """
    found: list[tuple[int, int]] = []
    free = [True] * len(words)
    for size in sorted({len(value) for value in values if value}, reverse=True):
        for first in range(len(words) - size + 1):
            if all(free[first : first + size]) and tuple(words[first : first + size]) in values:
                free[first : first + size] = [False] * size
                found.append((first, first + size))
    return sorted(found)
