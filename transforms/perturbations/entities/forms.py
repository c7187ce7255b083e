"""Forms of dates, times, prices, phone numbers and references: read them, and write others in the same form."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from datetime import date, timedelta
from functools import lru_cache

ISO_DATE = re.compile(r"\d{4}-\d\d-\d\d")
_MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
    "December",
)  # fmt: skip
MONTH_NAMES = "|".join([*_MONTHS, "Sept", *(month[:3] for month in _MONTHS)])
_MONTH = re.compile(rf"\b(?:{MONTH_NAMES})\b", re.IGNORECASE)
_DAY = re.compile(r"(?<![\d-])(\d\d?)(st|nd|rd|th)?(?![\d-])", re.IGNORECASE)
_YEAR = re.compile(r"(?<!\d)(?:19|20)\d\d(?!\d)")
TIME_OF_DAY = re.compile(r"(\d?\d):(\d\d)")
_HALF_DAY = re.compile(
    r"(?P<hour>\d?\d)(?::(?P<minute>\d\d))?(?P<blank>\s*)(?P<half>[ap])(?P<dot>\.?)m(?P<last>\.?)", re.IGNORECASE
)
_HOUR = re.compile(r"\d?\d(?::\d\d)?")
_DAYPART = "(?:morning|afternoon|evening|night)"
_DAYTIME = re.compile(rf"{_DAYPART},? {_HOUR.pattern}|{_HOUR.pattern} in the {_DAYPART}", re.IGNORECASE)
_TELLING = 8  # number of distinct values from which a step can be inferred
_LETTERS_FIRST = re.compile(r"([a-z]+)\d+")
_LETTERS = "abcdefghjkmnpqrstuvwxyz"  # without letters that look like digits
_POSTAL = "abdefghjlnpqrstuwxyz"  # allowed in an inward code
_LONGEST_AMOUNT = 15  # characters; longer numbers are not prices, and their cents exceed the precision of floats
_AMOUNT = re.compile(r"\d[\d,]*(?:\.\d+)?")
_DIGIT = re.compile(r"\d")


def day_of(canonical: str) -> date | None:
    """Parse ``2019-03-05``; None if it is not a date."""
    if not ISO_DATE.fullmatch(canonical):
        return None
    try:
        return date.fromisoformat(canonical)
    except ValueError:
        return None


def later(day: date, weeks: int) -> date | None:
    """Return the date some weeks later; None if it is out of range."""
    try:
        return day + timedelta(weeks=weeks)
    except OverflowError:
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


def has_digit(text: str) -> bool:
    """Whether a text has a digit."""
    return _DIGIT.search(text) is not None


def ordinal(n: int) -> str:
    """Format an ordinal number: ``1st``, ``12th``, ``22nd``."""
    return f"{n}{'th' if n // 10 % 10 == 1 else {1: 'st', 2: 'nd', 3: 'rd'}.get(n % 10, 'th')}"


def minutes_of(canonical: str) -> int | None:
    """Parse ``17:15`` to minutes since midnight; None if it is not a time of day."""
    match = TIME_OF_DAY.fullmatch(canonical)
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
    match = TIME_OF_DAY.fullmatch(like)
    if match and (len(match[1]) == 2 or hour == int(match[1])):
        return f"{hour:02}:{minute:02}" if len(match[1]) == 2 else f"{hour}:{minute:02}"
    short = f"{(hour + 11) % 12 + 1}:{minute:02}"
    if match:
        return short
    half = "am" if hour < 12 else "pm"
    styled = _HALF_DAY.fullmatch(like)
    if styled:
        suffix = styled["blank"] + half[0] + styled["dot"] + "m" + styled["last"]
        return short + (suffix.upper() if styled["half"].isupper() else suffix)
    # "evening 6", "6:30 in the evening"
    return _HOUR.sub(short, like) if _DAYTIME.fullmatch(like) else f"{short} {half}"


def step_of(kind: str, values: Iterable[str]) -> int:
    """Return the step of nearly all values of a slot: minutes for times, cents for prices; else 1.

    People book tables at a quarter past and transfer round sums, so a value between steps would look odd. For few
    distinct values, the step is at most a quarter of an hour, or a whole unit.
    """
    if kind == "time":
        sizes = {minutes for value in values if (minutes := minutes_said(value)) is not None}
        steps: tuple[int, ...] = (60, 30, 15, 10, 5) if len(sizes) >= _TELLING else (15, 5)
    elif kind == "price":
        sizes = {round(100 * float(amount)) for value in values if (amount := amount_of(value)) is not None}
        steps = (10000, 5000, 1000, 500, 100, 50, 10, 5) if len(sizes) >= _TELLING else (100, 50, 10, 5)
    else:
        return 1
    if not sizes:
        return 1
    return next((step for step in steps if 20 * sum(size % step == 0 for size in sizes) >= 19 * len(sizes)), 1)


def amount_of(text: str) -> str | None:
    """Return the only number in a price without thousands separators.

    Returns None if there is none, several, or a longer one.
    """
    amounts = _AMOUNT.findall(text)
    amount: str = amounts[0].replace(",", "") if len(amounts) == 1 else ""
    return amount if 0 < len(amount) <= _LONGEST_AMOUNT else None


@lru_cache(10_000)
def _around_amount(like: str) -> tuple[str, str, bool]:
    """Return the text before and after the only number in a price, and whether it has thousands separators."""
    match = _AMOUNT.search(like)
    assert match is not None
    return like[: match.start()], like[match.end() :], "," in match[0]


def said_price(amount: str, like: str) -> str:
    """Format an amount with the currency and separators of another price, which must have one number."""
    before, behind, commas = _around_amount(like)
    if commas:
        whole, point, cents = amount.partition(".")
        amount = f"{int(whole):,}{point}{cents}"
    return before + amount + behind


def other_amounts(amount: str, step: int) -> Iterator[str]:
    """Yield the other amounts with as many digits and cents, from half to twice the amount; at most about 200.

    Args:
      amount: the amount.
      step: cents that they are multiples of, unless the amount itself is not.
    """
    whole, point, cents = amount.partition(".")
    size, unit = 10 ** max(2, len(cents)), 10 ** (2 - min(2, len(cents)))  # in cents: a whole unit, and the last digit
    old = int(whole) * size + int(cents or 0) * unit
    if size > 100 or step % unit or old % step:
        step = unit
    low, high = (10 ** (len(whole) - 1) if len(whole) > 1 else 0) * size, 10 ** len(whole) * size - 1
    first, last = -(-max(low, old // 2, step) // step), min(high, 2 * old) // step
    sparse = 1 + max(0, last - first) // 200
    for count in range(first, last + 1, sparse):
        units, rest = divmod(count * step, size)
        yield f"{units}{point}{rest // unit:0{len(cents)}}" if point else str(units)


def digits_of(text: str) -> str:
    """Return the digits of a phone number."""
    return "".join(_DIGIT.findall(text))


def said_phone(digits: str, like: str) -> str:
    """Format digits in the pattern of another phone number with as many digits."""
    rest = iter(digits)
    return _DIGIT.sub(lambda _: next(rest), like)


def other_digits(like: str, number: int) -> str:
    """Return the digits of a phone number with the same country and area, and another subscriber number.

    Args:
      like: a phone number: ``+1 312-791-1121``, ``(408) 971-8523``, ``01223353888``.
      number: a 64-bit hash.
    """
    digits = digits_of(like)
    kept = area_of(like)
    new = str(number)[::-1].ljust(len(digits) - kept, "0")[: len(digits) - kept]
    if new and new[0] in "01" and digits[kept] not in "01":
        new = str(2 + number // 7919 % 8) + new[1:]  # subscriber numbers do not begin with these
    return digits[:kept] + new


@lru_cache(10_000)
def area_of(like: str) -> int:
    """Return the number of digits for country and area. At least four digits, or all but one, are left for the rest."""
    groups = [len(group) for group in re.findall(r"\d+", like)]
    total = sum(groups)
    if len(groups) == 1:
        kept = total - (6 if like.startswith("0") else 7)
    else:
        country = like.lstrip().startswith("+") or (groups[0] == 1 and total == 11)
        kept = sum(groups[: 2 if country and len(groups) > 2 else 1])
    return max(0, min(kept, total - 4)) if total > 4 else min(1, total - 1)


def code_of(text: str) -> str:
    """Return the letters and digits of a reference or postcode, case-folded, without spaces and punctuation."""
    return "".join(char for char in text if char.isalnum()).casefold()


def other_code(kind: str, code: str, number: int) -> str:
    """Return another reference or postcode of the same form: digits for digits, letters for letters.

    A postcode keeps its area (``cb1`` in ``cb13ef``, ``94`` in ``94301``). Letters before digits (``TR7075``) are kept.
    """
    if kind == "postcode":
        kept = max(2, len(code) - 3) if any(char.isalpha() for char in code) else 2
    else:
        kept = len(match[1]) if (match := _LETTERS_FIRST.fullmatch(code)) else 0
    new = []
    for place, char in enumerate(code):
        number = (number * 6364136223846793005 + 1442695040888963407) % 2**64  # Knuth's generator
        drawn = number >> 33
        if place < kept or not (char.isdecimal() or char.isalpha()):
            new.append(char)
        elif char.isdecimal():
            new.append(str(1 + drawn % 9 if char != "0" and place == kept else drawn % 10))
        else:
            letters = _POSTAL if kind == "postcode" else _LETTERS
            new.append(letters[drawn % len(letters)])
    return "".join(new)


def said_code(code: str, like: str) -> str:
    """Format letters and digits in the pattern and case of another reference with as many of them."""
    rest = iter(code)
    new = "".join(next(rest) if char.isalnum() else char for char in like)
    return new.upper() if like == like.upper() else new
