"""Spells values as in the dialogue, since metrics compare texts: models write "17:30" for "half past 5 in the evening".

If the match is certain, a model's value is replaced by the allowed value of a categorical slot with another spelling,
or by the words of the dialogue with the same time, date or letters.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache

from parapet.schemas.service import Slot

DONTCARE = "dontcare"

_NUMBERS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
_TRUTH = {"true": True, "yes": True, "y": True, "false": False, "no": False, "n": False}
_MONTHS = ("january", "february", "march", "april", "may", "june", "july", "august", "september", "october", "november",
           "december")  # fmt: skip
_MONTH = rf"(?P<month>{'|'.join(f'{name[:3]}(?:{name[3:]})?' for name in _MONTHS)})\.?"
_DAY = r"(?P<day>\d{1,2})(?:st|nd|rd|th)?"
_HALF = r"(?P<half>a\.?m\b\.?|p\.?m\b\.?|in the (?:morning|afternoon|evening)|at night)"


def _patterns(*patterns: str) -> tuple[re.Pattern[str], ...]:
    return tuple(re.compile(pattern, re.IGNORECASE) for pattern in patterns)


_TIMES = _patterns(
    rf"\b(?P<hour>\d{{1,2}})[:.](?P<minute>[0-5]\d)(?:[:.][0-5]\d)?(?:\s*{_HALF})?",
    rf"\b(?P<part>half past|(?:a )?quarter past|(?:a )?quarter to)\s+(?P<hour>\d{{1,2}})(?:\s*{_HALF})?",
    rf"\b(?P<hour>\d{{1,2}})(?:\s*(?P<word>thirty|fifteen|forty[- ]five))?\s*{_HALF}",
    r"\b(?P<named>noon|midnight)\b",
)
_DATES = _patterns(
    r"\b(?:\d{4})-(?P<number>\d{1,2})-(?P<day>\d{1,2})\b",
    rf"\b(?:the )?{_DAY}(?: of)? {_MONTH}\b",
    rf"\b{_MONTH} (?:the )?{_DAY}\b",
)
_PARTS = {"half past": 30, "quarter past": 15, "quarter to": -15}
_WORDS = {"thirty": 30, "fifteen": 15}


def as_said(slot: Slot, value: str, history: Sequence[tuple[str, str]]) -> str:
    """Spells a value as in the schema or the dialogue; returns it unchanged if neither is certain.

    Args:
      slot: the slot.
      value: the model's value.
      history: (speaker, utterance) of all turns so far.
    """
    value = " ".join(value.split())
    if value.casefold() in (DONTCARE, "don't care", "dont care", "any"):
        return DONTCARE
    if slot.is_categorical:
        return _allowed(slot.possible_values, value)
    texts = [utterance for _, utterance in reversed(history)]
    return _in_same_letters(value, texts) or _same_moment(value, texts) or value


def _allowed(possible: Iterable[str], value: str) -> str:
    wanted = _key(value)
    return next((allowed for allowed in possible if _key(allowed) == wanted), value)


@lru_cache(maxsize=1 << 12)
def _key(value: str) -> object:
    plain = " ".join(re.findall(r"\w+", value.casefold()))
    if plain in _TRUTH:
        return _TRUTH[plain]
    return _NUMBERS.index(plain) if plain in _NUMBERS else int(plain) if plain.isdecimal() else plain


def _in_same_letters(value: str, texts: Iterable[str]) -> str:
    pattern = re.compile(rf"(?<!\w){re.escape(value)}(?!\w)", re.IGNORECASE)
    return next((match[0] for text in texts if (match := pattern.search(text))), "")


def _same_moment(value: str, texts: Iterable[str]) -> str:
    wanted = {moment for _, moment, whole in moments(value) if whole}
    spans = (span for text in texts for span, moment, _ in moments(text) if moment in wanted)
    return next(spans, "") if wanted else ""


def moments(text: str) -> Iterator[tuple[str, tuple[str, int, int], bool]]:
    """Yields (words, time or date, whether they are the whole text) for each time or date in a text."""
    for patterns, read in ((_TIMES, _time), (_DATES, _date)):
        for pattern in patterns:
            for match in pattern.finditer(text):
                if moment := read({name: text_of_group or "" for name, text_of_group in match.groupdict().items()}):
                    yield match[0].strip(), moment, match[0].strip() == text.strip()


def _time(found: dict[str, str]) -> tuple[str, int, int] | None:
    if named := found.get("named"):
        return "time", 12 if named.lower() == "noon" else 0, 0
    minutes = int(found["hour"]) * 60 + int(found.get("minute") or 0)
    minutes += _PARTS.get(found.get("part", "").lower().removeprefix("a "), 0)
    word = found.get("word", "").lower().replace("-", " ")
    minutes += _WORDS.get(word, 45 if word else 0)
    half = found.get("half", "").lower().replace(".", "")
    if half in ("pm", "in the afternoon", "in the evening", "at night") and minutes < 12 * 60:
        minutes += 12 * 60
    if half in ("am", "in the morning") and minutes >= 12 * 60:
        minutes -= 12 * 60
    return ("time", minutes // 60, minutes % 60) if 0 <= minutes < 24 * 60 else None


def _date(found: dict[str, str]) -> tuple[str, int, int] | None:
    name = found.get("month", "").lower()[:3]
    month = int(found["number"]) if found.get("number") else [month[:3] for month in _MONTHS].index(name) + 1
    day = int(found["day"])
    return ("date", month, day) if 1 <= day <= 31 and 1 <= month <= 12 else None
