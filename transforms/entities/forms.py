"""Values that keep their form: dates, times, prices, phone numbers and codes, as annotated and as people say them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from datetime import date, timedelta
from functools import lru_cache

from parapet.transforms.entities.kinds import ISO_DATE

_MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
    "December",
)  # fmt: skip
_MONTH = re.compile(rf"\b(?:{'|'.join(month[:3] for month in _MONTHS)})", re.IGNORECASE)
_MONTH_DAY = re.compile(r"\d(?!st|nd|rd|th|\d)", re.IGNORECASE)
_CLOCK = re.compile(r"(\d?\d):(\d\d)")
_HALF_DAY = re.compile(
    r"(?P<hour>\d?\d)(?::(?P<minute>\d\d))?(?P<blank>\s*)(?P<half>[ap])(?P<dot>\.?)m(?P<last>\.?)", re.IGNORECASE
)
_TELLING = 8  # different values from which a step can be told
_LETTERS_FIRST = re.compile(r"([a-z]+)\d+")
_LETTERS = "abcdefghjkmnpqrstuvwxyz"  # without those that are read as digits
_POSTAL = "abdefghjlnpqrstuwxyz"  # that an inward code may have
_LONGEST_AMOUNT = 15  # characters: more are no sum of money, and cents of it no float holds
_AMOUNT = re.compile(r"\d[\d,]*(?:\.\d+)?")
_DIGIT = re.compile(r"\d")


def day_of(canonical: str) -> date | None:
    """The day that ``2019-03-05`` means, or None where it is no day."""
    if not ISO_DATE.fullmatch(canonical):
        return None
    try:
        return date.fromisoformat(canonical)
    except ValueError:
        return None


def later(day: date, weeks: int) -> date | None:
    """The same weekday some weeks on, or None where no calendar goes that far."""
    try:
        return day + timedelta(weeks=weeks)
    except OverflowError:
        return None


def said_date(day: date, like: str) -> str:
    """A day in the style of another.

    ``2019-07-09``, ``July 9`` or ``July 9th``; a weekday ("next Tuesday") or a day alone ("the 4th")
    means nothing without a calendar, and "9th of July" has words that every training set has.
    """
    if ISO_DATE.fullmatch(like):
        return day.isoformat()
    month = _MONTHS[day.month - 1]
    text = f"{month} {day.day}" if _MONTH.search(like) and _MONTH_DAY.search(like) else f"{month} {ordinal(day.day)}"
    if not _MONTH.search(like):
        return text
    return text.lower() if like == like.lower() else text.upper() if like == like.upper() else text


def is_relative(like: str) -> bool:
    """Whether a date has no month: "today", "next Tuesday", "the 4th"."""
    return not ISO_DATE.fullmatch(like) and _MONTH.search(like) is None


def ordinal(n: int) -> str:
    """``1st``, ``12th``, ``22nd``."""
    return f"{n}{'th' if n // 10 % 10 == 1 else {1: 'st', 2: 'nd', 3: 'rd'}.get(n % 10, 'th')}"


def minutes_of(canonical: str) -> int | None:
    """Minutes since midnight of ``17:15``, or None where it is no time of the day."""
    found = _CLOCK.fullmatch(canonical)
    if not found or int(found[1]) > 23 or int(found[2]) > 59:
        return None
    return 60 * int(found[1]) + int(found[2])


def minutes_said(text: str) -> int | None:
    """Minutes since midnight of ``17:15``, ``5:15 pm`` or ``5 p.m.``; None for a time in words."""
    found = _HALF_DAY.fullmatch(text.strip())
    if not found:
        return minutes_of(text)
    hour, minute = int(found["hour"]), int(found["minute"] or 0)
    if not 1 <= hour <= 12 or minute > 59:
        return None
    return 60 * (hour % 12 + 12 * (found["half"].lower() == "p")) + minute


def said_time(minutes: int, like: str) -> str:
    """A time in the style of another: ``17:30``, ``5:30``, ``5:30 PM`` or ``5:30pm``.

    A time in words becomes ``5:30 pm``: words such as "half past 11" have all been seen.
    """
    hour, minute = divmod(minutes, 60)
    found = _CLOCK.fullmatch(like)
    if found and (len(found[1]) == 2 or hour == int(found[1])):
        return f"{hour:02}:{minute:02}" if len(found[1]) == 2 else f"{hour}:{minute:02}"
    short = f"{(hour + 11) % 12 + 1}:{minute:02}"
    if found:
        return short
    half = "am" if hour < 12 else "pm"
    styled = _HALF_DAY.fullmatch(like)
    if not styled:
        return f"{short} {half}"
    suffix = styled["blank"] + half[0] + styled["dot"] + "m" + styled["last"]
    return short + (suffix.upper() if styled["half"].isupper() else suffix)


def step_of(kind: str, values: Iterable[str]) -> int:
    """What nearly all values of a slot are multiples of: times in minutes, prices in cents; else 1.

    People book tables at a quarter past, and transfer round sums: a new value that does not would be found by its
    oddity. Of few different values little can be told, so they count as quarters of an hour, or whole units, at most.
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
    """The one number of a price, without the commas of thousands; None where there is none, more, or a longer one."""
    found = _AMOUNT.findall(text)
    amount: str = found[0].replace(",", "") if len(found) == 1 else ""
    return amount if 0 < len(amount) <= _LONGEST_AMOUNT else None


@lru_cache(10_000)
def _around_amount(like: str) -> tuple[str, str, bool]:
    """What is before the one number of a price, and behind it; and whether thousands have commas."""
    found = _AMOUNT.search(like)
    assert found is not None
    return like[: found.start()], like[found.end() :], "," in found[0]


def said_price(amount: str, like: str) -> str:
    """An amount with the currency, and the commas, of another price, which has one number."""
    before, behind, commas = _around_amount(like)
    if commas:
        whole, point, cents = amount.partition(".")
        amount = f"{int(whole):,}{point}{cents}"
    return before + amount + behind


def other_amounts(amount: str, number: int, step: int) -> Iterator[str]:
    """Other amounts, each once: of as many digits and cents, from half to twice as much.

    Args:
      amount: the amount.
      number: where they begin: 64 bits that look drawn.
      step: cents that they are multiples of, unless the amount itself is none.
    """
    whole, point, cents = amount.partition(".")
    size, unit = 10 ** max(2, len(cents)), 10 ** (2 - min(2, len(cents)))  # of a whole, and of the last digit
    old = int(whole) * size + int(cents or 0) * unit
    if size > 100 or step % unit or old % step:
        step = unit
    low, high = (10 ** (len(whole) - 1) if len(whole) > 1 else 0) * size, 10 ** len(whole) * size - 1
    first, last = -(-max(low, old // 2, step) // step), min(high, 2 * old) // step
    for i in range(last - first + 1):
        units, rest = divmod((first + (number + i * 7919) % (last - first + 1)) * step, size)
        yield f"{units}{point}{rest // unit:0{len(cents)}}" if point else str(units)


def digits_of(text: str) -> str:
    """The digits of a phone number."""
    return "".join(_DIGIT.findall(text))


def said_phone(digits: str, like: str) -> str:
    """Digits in the pattern of another phone number of as many."""
    rest = iter(digits)
    return _DIGIT.sub(lambda _: next(rest), like)


def other_digits(like: str, number: int) -> str:
    """The digits of another phone number of the same country and area: what a subscriber has is new.

    Args:
      like: a phone number: ``+1 312-791-1121``, ``(408) 971-8523``, ``01223353888``.
      number: 64 bits that look drawn.
    """
    digits = digits_of(like)
    kept = area_of(like)
    new = str(number)[::-1].ljust(len(digits) - kept, "0")[: len(digits) - kept]
    if new and new[0] in "01" and digits[kept] not in "01":
        new = str(2 + number // 7919 % 8) + new[1:]  # no subscriber's number begins with these
    return digits[:kept] + new


@lru_cache(10_000)
def area_of(like: str) -> int:
    """How many digits stand for country and area. Four are changed at least, or all but one."""
    groups = [len(group) for group in re.findall(r"\d+", like)]
    total = sum(groups)
    if len(groups) == 1:
        kept = total - (6 if like.startswith("0") else 7)
    else:
        country = like.lstrip().startswith("+") or (groups[0] == 1 and total == 11)
        kept = sum(groups[: 2 if country and len(groups) > 2 else 1])
    return max(0, min(kept, total - 4)) if total > 4 else min(1, total - 1)


def code_of(text: str) -> str:
    """The letters and digits of a reference or postcode, case folded: its spacing and punctuation are ignored."""
    return "".join(char for char in text if char.isalnum()).casefold()


def other_code(kind: str, code: str, number: int) -> str:
    """Another reference or postcode of the same form: digits for digits, letters for letters.

    A postcode keeps its area (``cb1`` of ``cb13ef``, ``94`` of ``94301``), and what has letters before digits alone
    (``TR7075``) keeps its letters.
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
    """Letters and digits in the pattern, and the case, of another reference of as many."""
    rest = iter(code)
    new = "".join(next(rest) if char.isalnum() else char for char in like)
    return new.upper() if like == like.upper() else new
