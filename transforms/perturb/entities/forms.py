"""Forms of dates, times, prices, phone numbers and references: read them, and write others in the same form."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import date

from parapet.transforms.core.seeding import NumberRng

ISO_DATE = re.compile(r"\d{4}-\d\d-\d\d")
_MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
    "December",
)  # fmt: skip
_MONTH = re.compile(rf"\b(?:{'|'.join([*_MONTHS, 'Sept', *(month[:3] for month in _MONTHS)])})\b", re.IGNORECASE)
_DAY = re.compile(r"(?<![\d-])(\d\d?)(st|nd|rd|th)?(?![\d-])", re.IGNORECASE)
_YEAR = re.compile(r"(?<!\d)(?:19|20)\d\d(?!\d)")
_TIME_OF_DAY = re.compile(r"(\d?\d):(\d\d)")
_HALF_DAY = re.compile(
    r"(?P<hour>\d?\d)(?::(?P<minute>\d\d))?(?P<blank>\s*)(?P<half>[ap])(?P<dot>\.?)m(?P<last>\.?)", re.IGNORECASE
)
_HOUR = re.compile(r"\d?\d(?::\d\d)?")
_DAYPART = "(?:morning|afternoon|evening|night)"
_DAYTIME = re.compile(rf"{_DAYPART},? {_HOUR.pattern}|{_HOUR.pattern} in the {_DAYPART}", re.IGNORECASE)
_LETTERS_FIRST = re.compile(r"([a-z]+)\d+")
_LETTERS = "abdefghjlnpqrstuwxyz"  # of postcodes, and none that looks like a digit
_LONGEST_AMOUNT = 15  # characters; longer numbers are not prices, and their cents exceed the precision of floats
_AMOUNT = re.compile(r"\d[\d,]*(?:\.\d+)?")
_UNITS = (10000, 1000, 100, 10)  # that round prices are multiples of


def day_of(canonical: str) -> date | None:
    """Parse ``2019-03-05``; None if it is not a date, or one of the last year, which cannot move."""
    if not ISO_DATE.fullmatch(canonical) or canonical.startswith("9999"):
        return None
    try:
        return date.fromisoformat(canonical)
    except ValueError:
        return None


def said_date(day: date, like: str) -> str:
    """Format a date in the form of another: ``2019-07-09``, ``July 9``, ``9th of July``, ``the 9th of this month``.

    Only digits and names of months change, so "next Tuesday" stays: dates move by whole weeks.
    """
    if ISO_DATE.fullmatch(like):
        return day.isoformat()
    text = _DAY.sub(lambda match: ordinal(day.day) if match[2] else str(day.day), like, count=1)
    text = _YEAR.sub(str(day.year), text)
    month = _MONTHS[day.month - 1]

    def in_style(match: re.Match[str]) -> str:
        name = month if len(match[0]) > 4 or match[0].casefold() == "may" else month[:3]
        return name.lower() if match[0].islower() else name.upper() if match[0].isupper() else name

    return _MONTH.sub(in_style, text)


def is_relative(like: str) -> bool:
    """Whether a date has no month: "today", "next Tuesday", "the 4th"."""
    return not ISO_DATE.fullmatch(like) and _MONTH.search(like) is None


def ordinal(n: int) -> str:
    """Format an ordinal number: ``1st``, ``12th``, ``22nd``."""
    return f"{n}{'th' if n // 10 % 10 == 1 else {1: 'st', 2: 'nd', 3: 'rd'}.get(n % 10, 'th')}"


def minutes_of(canonical: str) -> int | None:
    """Parse ``17:15`` to minutes since midnight; None if it is not a time of day."""
    match = _TIME_OF_DAY.fullmatch(canonical)
    if not match or int(match[1]) > 23 or int(match[2]) > 59:
        return None
    return 60 * int(match[1]) + int(match[2])


def minutes_said(text: str) -> int | None:
    """Parse ``17:15``, ``5:15 pm`` or ``5 p.m.`` to minutes since midnight; None for a time in words."""
    match = _HALF_DAY.fullmatch(text.strip())
    if not match:
        return minutes_of(text)
    hour, minute = int(match["hour"]), int(match["minute"] or 0)
    if not 1 <= hour <= 12 or minute > 59:
        return None
    return 60 * (hour % 12 + 12 * (match["half"].lower() == "p")) + minute


def said_time(minutes: int, like: str) -> str:
    """Format a time in the style of another: ``17:30``, ``5:30``, ``5:30 PM``, ``5:30pm`` or ``evening 5:30``.

    Another time in words becomes ``5:30 pm``, since phrases such as "half past 11" occur in training.
    """
    hour, minute = divmod(minutes, 60)
    short = f"{(hour + 11) % 12 + 1}:{minute:02}"
    if match := _TIME_OF_DAY.fullmatch(like):
        if len(match[1]) == 2:
            return f"{hour:02}:{minute:02}"
        return f"{hour}:{minute:02}" if hour == int(match[1]) else short
    half = "am" if hour < 12 else "pm"
    if styled := _HALF_DAY.fullmatch(like):
        suffix = styled["blank"] + half[0] + styled["dot"] + "m" + styled["last"]
        return short + (suffix.upper() if styled["half"].isupper() else suffix)
    # "evening 6", "6:30 in the evening"
    return _HOUR.sub(short, like) if _DAYTIME.fullmatch(like) else f"{short} {half}"


def amount_of(text: str) -> str | None:
    """Return the only number in a price without thousands separators.

    Returns None if there is none, several, or a longer one.
    """
    amounts = _AMOUNT.findall(text)
    amount: str = amounts[0].replace(",", "") if len(amounts) == 1 else ""
    return amount if 0 < len(amount) <= _LONGEST_AMOUNT else None


def said_price(amount: str, like: str) -> str:
    """Format an amount with the currency and separators of another price."""
    whole, point, cents = amount.partition(".")
    grouped = f"{int(whole):,}{point}{cents}"
    return _AMOUNT.sub(lambda match: grouped if "," in match[0] else amount, like)


def other_amounts(amount: str, number: int) -> Iterator[str]:
    """Yield up to 200 other amounts, from half to twice the amount, with as many digits and as round.

    Args:
      amount: the amount.
      number: a 64-bit hash.
    """
    whole, _, cents = amount.partition(".")
    size, old = len(whole + cents), int(whole + cents)
    unit = next((unit for unit in _UNITS if old % unit == 0 and old >= 8 * unit), 1)
    first, last = max(10 ** (size - 1), old // 2) // unit + 1, min(10**size - 1, 2 * old) // unit
    count = max(0, last + 1 - first)
    for i in range(min(count, 200)):
        new = str((first + (number + i) % count) * unit)
        yield f"{new[: len(whole)]}.{new[len(whole) :]}" if cents else new


def code_of(text: str) -> str:
    """Return the letters and digits of a phone number, reference or postcode, case-folded."""
    return "".join(char for char in text if char.isalnum()).casefold()


def other_code(kind: str, code: str, number: int) -> str:
    """Return another phone number, reference or postcode of the same form: digits for digits, letters for letters.

    Country and area are kept: ``408`` in ``4089718523``, ``cb1`` in ``cb13ef``, ``94`` in ``94301``; so are letters
    before digits (``TR7075``).

    Args:
      kind: the kind of the value.
      code: its letters and digits.
      number: a 64-bit hash.
    """
    if kind == "phone":
        kept = max(0, len(code) - (6 if code.startswith("0") else 7))
    elif kind == "postcode":
        kept = max(2, len(code) - 3) if any(map(str.isalpha, code)) else 2
    else:
        kept = len(match[1]) if (match := _LETTERS_FIRST.fullmatch(code)) else 0
    rng = NumberRng(number)
    new = code[:kept]
    for char in code[kept:]:
        if char.isdecimal():
            new += str(rng.below(10) if len(new) > kept else 2 + rng.below(8))
        else:
            new += rng.choice(_LETTERS)
    return new


def said_code(code: str, like: str) -> str:
    """Format letters and digits in the pattern and case of another reference with as many of them."""
    rest = iter(code)
    new = "".join(next(rest) if char.isalnum() else char for char in like)
    return new.upper() if like == like.upper() else new
