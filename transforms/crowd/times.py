"""Read the times of exports: MTurk's own form, ISO, epoch seconds or milliseconds, and what spreadsheets write."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone
from functools import lru_cache

_LATEST = 9_223_372_036  # seconds, in 2262; pandas may store times as 64-bit nanoseconds, which end here
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_WEEKDAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
# Hours from UTC. Abbreviations that several countries use, such as IST and BST, are not here.
_ZONES = {
    **{"Z": 0, "UTC": 0, "GMT": 0, "WET": 0, "WEST": 1, "CET": 1, "CEST": 2, "EET": 2, "EEST": 3, "MSK": 3},
    **{"EST": -5, "EDT": -4, "CST": -6, "CDT": -5, "MST": -7, "MDT": -6, "PST": -8, "PDT": -7},
    **{"AKST": -9, "AKDT": -8, "HST": -10, "JST": 9, "KST": 9, "AEST": 10, "AEDT": 11, "NZST": 12, "NZDT": 13},
}
_NUMBER = re.compile(r"\d+(?:[.,]\d+)?|\d[.,]\d{9,}[eE]\+?\d\d?")  # 1.74896E+09 was rounded to hours
_CLOCK = re.compile(r"(?<![\d:])(\d{1,2}):(\d\d)(?::(\d\d)(?:[.,]\d+)?)?(?: ?([ap])\.?m\b\.?)?", re.IGNORECASE)
_OFFSET = re.compile(r"(?:UTC|GMT)?([+-])(\d{1,2}):?(\d\d)?")
_DATE = re.compile(r"(\d{1,4})([-/.])(\d{1,2})\2(\d{1,4})")
_EXACT = re.compile(r":\d\d:\d\d|^\d{9,}|[.,]\d{5}")  # seconds are known: of a clock, an epoch, or a serial number


@lru_cache(maxsize=1 << 14)
def read_time(text: str) -> int:
    """Read a time as seconds since 1970, UTC. A time without a zone is taken to be UTC.

    Raises:
      ValueError: it is not a time, is ambiguous, or is before 1970 or after April 2262; the message says why.
    """
    text = " ".join(text.split())
    seconds = _of_number(text) if _NUMBER.fullmatch(text) else None
    if seconds is None:
        try:
            when = datetime.fromisoformat(text)
        except ValueError:
            when = _in_words(re.sub(r"\(.*\)", "", text))
        seconds = int((when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp())
    if not 0 <= seconds < _LATEST:
        raise ValueError("is before 1970 or after 2262")
    return seconds


def parse_time(text: str) -> int | None:
    """Read a time as :func:`read_time` does; None if that is not possible."""
    try:
        return read_time(text)
    except (ValueError, OverflowError):
        return None


def is_exact(text: str) -> bool:
    """Whether a time states its seconds. Spreadsheets often cut them off."""
    return _EXACT.search(text.strip()) is not None


def _of_number(text: str) -> int | None:
    """Read seconds or milliseconds since 1970, or a spreadsheet's days since 1900."""
    n = float(text.replace(",", "."))
    if 1e9 <= n < 1e10:
        return int(n)
    if 1e12 <= n < 1e13:
        return int(n / 1000)
    return round((n - 25_569) * 86_400) if 36_526 <= n < 73_051 else None  # the years 2000 to 2099


def _in_words(text: str) -> datetime:
    """Read a date, a clock and a zone in any order."""
    clock = _CLOCK.search(text)
    hour = minute = second = 0
    if clock is not None:
        hour, minute, second = int(clock[1]), int(clock[2]), int(clock[3] or 0)
        if clock[4]:
            if not 1 <= hour <= 12:
                raise ValueError("is not a time")
            hour = hour % 12 + 12 * (clock[4].lower() == "p")
        text = f"{text[: clock.start()].removesuffix('T')} {text[clock.end() :]}"
    zone, date, numbers, month = UTC, None, [], 0
    for token in re.findall(r"[^\s,]+", text):
        words = token.split("-") if re.search("[a-z]{3}", token, re.IGNORECASE) and token[0].isdigit() else [token]
        for word in words:
            key = word.rstrip(".").lower()
            if key[:3] in _MONTHS and key.isalpha() and not month:
                month = _MONTHS.index(key[:3]) + 1
            elif word.upper() in _ZONES:
                zone = timezone(timedelta(hours=_ZONES[word.upper()]))
            elif offset := _OFFSET.fullmatch(word):
                east = timedelta(hours=int(offset[2]), minutes=int(offset[3] or 0))
                zone = timezone(-east if offset[1] == "-" else east)
            elif match := _DATE.fullmatch(word):
                date = _date(int(match[1]), int(match[3]), int(match[4]), match[2], len(match[1]) > 2)
            elif day := re.fullmatch(r"(\d{1,2}|\d{4})(?:st|nd|rd|th)?", key):
                numbers.append(int(day[1]))
            elif key[:3] not in _WEEKDAYS or not key.isalpha():
                is_zone = word.isalpha() and word.isupper() and (month or date)
                raise ValueError("has a time zone that is unknown or ambiguous" if is_zone else "is not a time")
    if month and len(numbers) == 2:
        day_of_month, year = sorted(numbers)
        date = (year, month, day_of_month)
    if date is None or (numbers and not month):
        raise ValueError("is not a time")
    try:
        return datetime(*date, hour, minute, second, tzinfo=zone)
    except ValueError:
        raise ValueError("is not a time") from None


def _date(first: int, second: int, third: int, separator: str, is_year_first: bool) -> tuple[int, int, int]:
    """Order the numbers of a date as year, month and day. With dots, as in 31.10.2017, the day comes first."""
    if is_year_first:
        return first, second, third
    year = third if third > 99 else 2000 + third
    if separator == "." or first > 12:
        return year, second, first
    if second > 12 or first == second:
        return year, first, second
    raise ValueError("is ambiguous: the day or the month may come first (write 2017-10-31 14:05:22)")
