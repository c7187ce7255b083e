"""Read the times of exports: MTurk's own form, ISO, epoch seconds or milliseconds, and the dates of spreadsheets."""

from __future__ import annotations

import re
from datetime import datetime, timedelta, timezone, tzinfo
from functools import lru_cache

from dateutil import parser

_LATEST = 9_223_372_036  # seconds, in 2262; pandas may store times as 64-bit nanoseconds, which end here
# Hours from UTC. Abbreviations that several countries use, such as IST and BST, are not here.
_ZONES = {
    **{"Z": 0, "UTC": 0, "GMT": 0, "WET": 0, "WEST": 1, "CET": 1, "CEST": 2, "EET": 2, "EEST": 3, "MSK": 3},
    **{"EST": -5, "EDT": -4, "CST": -6, "CDT": -5, "MST": -7, "MDT": -6, "PST": -8, "PDT": -7},
    **{"AKST": -9, "AKDT": -8, "HST": -10, "JST": 9, "KST": 9, "AEST": 10, "AEDT": 11, "NZST": 12, "NZDT": 13},
}
_EPOCH = re.compile(r"(\d{10})(\d{3})?(?:[.,]\d+)?")
_SLASHES = re.compile(r"0?(\d{1,2})[/-]0?(\d{1,2})[/-]\d{4}\b")
# States the seconds, of a clock or an epoch. Spreadsheets often cut them off.
EXACT = re.compile(r":\d\d:\d\d|^\d{9,}")
# What a text leaves open is filled in from these; a date that differs was not stated.
_DEFAULTS = (datetime(2000, 1, 1), datetime(2004, 2, 2))


@lru_cache(maxsize=1 << 14)
def read_time(text: str) -> tuple[int | None, str]:
    """Read a time as seconds since 1970, UTC. A time without a zone is taken to be UTC.

    Returns None and the reason if the text is not a time, is ambiguous, or is before 1970 or after April 2262.
    """
    # Without what a browser writes about the zone: GMT-0700 (Pacific Daylight Time).
    text = " ".join(re.sub(r"\(.*\)|GMT(?=[+-])", "", text).split())
    if epoch := _EPOCH.fullmatch(text):
        seconds = int(epoch[1])
    else:
        is_day_first = re.match(r"\d{1,2}\.\d", text) is not None  # as in 31.10.2017
        if (date := _SLASHES.match(text)) and date[1] != date[2] and max(int(date[1]), int(date[2])) <= 12:
            return None, "is ambiguous: the day or the month may come first (write 2017-10-31 14:05:22)"
        try:
            whens = [parser.parse(text, default=day, tzinfos=_zone, dayfirst=is_day_first) for day in _DEFAULTS]
        except KeyError:
            return None, "has a time zone that is unknown or ambiguous"
        except (ValueError, OverflowError):
            whens = []
        if len(set(whens)) != 1:
            return None, "is not a time"
        seconds = int(whens[0].timestamp())
    return (seconds, "") if 0 <= seconds < _LATEST else (None, "is before 1970 or after 2262")


def _zone(name: str | None, offset: int | None) -> tzinfo:
    """Return the zone of a time. Raises KeyError if it is unknown."""
    return timezone(timedelta(hours=_ZONES[name or "UTC"]) if offset is None else timedelta(seconds=offset))
