"""What in an utterance may be a value: times, dates, numbers, names, other words; each with how it looks.

What looks like a value is found by rules, for none of them says whose value it is: that is learned.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterator, Sequence
from functools import lru_cache
from itertools import accumulate

import msgspec

from parapet.evaluation.models.dst.tiny.words import ENDS, NUMBERS, TOKEN, stem


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
    ("money", r"\$ ?\d[\d,.]*\b|(?<!\d[.,])\d[\d,.]*\b (?:dollars|euros|pounds)"),
    ("number", rf"\d[\d,.]*\b|(?:{_SMALL})"),
)
_PATTERNS = [(look, re.compile(rf"(?<![\w$])(?:{rule})(?!\w)", re.IGNORECASE)) for look, rule in _RULES]

# A name goes over these where a word with a capital follows.
_JOINTS = frozenset(_words("of the and & de la le del at for on in"))
_CUTS = frozenset(_words("in at for on and"))
# What begins a sentence with a capital, and what is between values: neither names nor values.
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
      tokens: as written.
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
        mentions=_Finder(utterance, [match.span() for match in words], sentences).mentions(phrases),
    )


class _Finder:
    """Finds the mentions of an utterance: by rules first, then names, then phrases.

    Args:
      utterance: what was said.
      places: of its words, first character and the one behind the last.
      sentences: of its words.
    """

    def __init__(self, utterance: str, places: Sequence[tuple[int, int]], sentences: Sequence[int]) -> None:
        self.utterance, self.places, self.sentences = utterance, places, sentences
        self.starts, self.ends = [start for start, _ in places], [end for _, end in places]
        self.texts = [utterance[start:end] for start, end in places]
        self.free = [True] * len(places)  # of what looks like something a phrase is no part
        self.found: dict[tuple[int, int], Mention] = {}

    def mentions(self, phrases: bool) -> tuple[Mention, ...]:
        """All of them, in order."""
        for look, pattern in _PATTERNS:
            self._ruled(look, pattern)
        for span in self._names():
            self._add(span, "name")
        reach = self._reach_of_names()
        for first, behind in self._phrases() if phrases else ():
            if reach[first] < behind:
                self._add((first, behind), "phrase")
        return tuple(self.found[span] for span in sorted(self.found))

    def _add(self, span: tuple[int, int], look: str, text: str = "") -> None:
        first, behind = span
        text = text or self.utterance[self.places[first][0] : self.places[behind - 1][1]]
        self.found.setdefault(span, Mention(text, first, behind, look))

    def _ruled(self, look: str, pattern: re.Pattern[str]) -> None:
        for match in pattern.finditer(self.utterance):
            first = bisect_right(self.ends, match.start())  # the words that it has a part of
            behind = bisect_left(self.starts, match.end())
            if first < behind and all(self.free[first:behind]):
                self._add((first, behind), look, _bare(match[0]))
                if look != "number":  # it may be part of a name: "54 Mint"
                    self.free[first:behind] = [False] * (behind - first)

    def _names(self) -> Iterator[tuple[int, int]]:
        """Runs of words with capitals, and numbers among them; idle words at a sentence's beginning are none."""
        capital = [self.free[i] and self._may_name(i) for i in range(len(self.texts))]
        i = 0
        while i < len(capital):
            last = behind = i + 1
            while capital[i] and behind < len(capital) and self.free[behind] and self._joined(behind):
                if capital[behind]:
                    last = behind = behind + 1
                elif self.texts[behind].lower() in _JOINTS and behind - last < 2:
                    behind += 1
                else:
                    break
            if capital[i] and any(text[0].isupper() for text in self.texts[i:last]):
                yield from self._parts_of(i, last)
            i = last

    def _parts_of(self, first: int, last: int) -> Iterator[tuple[int, int]]:
        """A run, and its parts: "Sino in San Jose" is two names, "Chef in Town" is one."""
        yield first, last
        cuts = [i for i in range(first + 1, last - 1) if self.texts[i].lower() in _CUTS]
        for start, end in zip([first - 1, *cuts], [*cuts, last], strict=True) if cuts else ():
            if start + 1 < end:
                yield start + 1, end

    def _reach_of_names(self) -> list[int]:
        """For each word, how far the names go that begin at it or before."""
        reach = [0] * len(self.texts)
        for (first, behind), one in self.found.items():
            if one.look == "name":
                reach[first] = max(reach[first], behind)
        return list(accumulate(reach, max))

    def _phrases(self) -> Iterator[tuple[int, int]]:
        """Parts of the runs of words that are not idle; "and" may be within."""
        words = [text.lower() for text in self.texts]
        full = [self.free[i] and text not in _IDLE and not text[0].isdigit() for i, text in enumerate(words)]
        for first in range(len(words)):
            for last in range(first, min(first + LONGEST, len(words))):
                if not full[first] or not self.free[last] or (last > first and not self._joined(last)):
                    break
                if full[last]:
                    yield first, last + 1
                elif words[last] != "and":
                    break

    def _may_name(self, i: int) -> bool:
        text = self.texts[i]
        opens = i == 0 or self.sentences[i - 1] != self.sentences[i] or text[0] == "I"
        return (text[0].isupper() or text[0].isdigit()) and not (opens and text.lower() in _IDLE)

    def _joined(self, i: int) -> bool:
        """Whether nothing is between a word and the one before."""
        return not self.utterance[self.places[i - 1][1] : self.places[i][0]].strip(" &")


def _bare(text: str) -> str:
    """A date or time as states have it: "7th of March", but "the 12th"; "11 am", but "11 a.m."."""
    text = text.removeprefix("the ") if " of " in text else text
    return text.removesuffix(".") if text.count(".") == 1 else text


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
