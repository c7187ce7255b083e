"""Values that keep their form: dates, times, prices and phone numbers, as they are annotated and as people say them."""

from __future__ import annotations

import re
from datetime import date, timedelta

from transforms.entities.kinds import ISO_DATE

_MONTHS = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
]
_MONTH = re.compile(rf"\b(?:{'|'.join(month[:3] for month in _MONTHS)})", re.IGNORECASE)
_MONTH_DAY = re.compile(r"\d(?!st|nd|rd|th|\d)", re.IGNORECASE)
_CLOCK = re.compile(r"(\d?\d):(\d\d)")
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

    ``2019-07-09``, ``July 9`` or ``July 9th``; what is said by the weekday ("next Tuesday") or by the day alone ("the
    4th") says nothing without its calendar, and "9th of July" has words that every training set has.
    """
    if ISO_DATE.fullmatch(like):
        return day.isoformat()
    month = _MONTHS[day.month - 1]
    text = f"{month} {day.day}" if _MONTH.search(like) and _MONTH_DAY.search(like) else f"{month} {ordinal(day.day)}"
    return text.lower() if _MONTH.search(like) and like == like.lower() else text


def is_relative(like: str) -> bool:
    """Whether a date is said without a month: "today", "next Tuesday", "the 4th"."""
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


def said_time(minutes: int, like: str) -> str:
    """A time in the style of another: ``17:22``, ``5:22`` or ``5:22 pm``, which stands for all said in words."""
    hour, minute = divmod(minutes, 60)
    found = _CLOCK.fullmatch(like)
    if found and (len(found[1]) == 2 or hour == int(found[1])):
        return f"{hour:02}:{minute:02}" if len(found[1]) == 2 else f"{hour}:{minute:02}"
    short = f"{(hour + 11) % 12 + 1}:{minute:02}"
    if found:
        return short
    return f"{short} {'am' if hour < 12 else 'pm'}"


def amount_of(text: str) -> str | None:
    """The one number of a price, without the commas of thousands; None where there is none, or more."""
    found = _AMOUNT.findall(text)
    return found[0].replace(",", "") if len(found) == 1 else None


def said_price(amount: str, like: str) -> str:
    """An amount with the currency, and the commas, of another price."""

    def written(found: re.Match[str]) -> str:
        whole, point, cents = amount.partition(".")
        return (f"{int(whole):,}" if "," in found[0] else whole) + point + cents

    return _AMOUNT.sub(written, like)


def other_amount(amount: str, number: int, attempt: int) -> str:
    """Another amount, near the first: of as many digits; later with cents; at last of more digits.

    Args:
      amount: the amount.
      number: 64 bits that look drawn.
      attempt: how many have been of no use.
    """
    whole, point, cents = amount.partition(".")
    low = 10 ** (len(whole) - 1)
    if attempt < 12:
        drawn = str(low + number % (9 * low))
    elif attempt < 40:
        drawn = str(max(1, int(whole)))  # the same price, and some cents
        point, cents = ".", cents or "00"
    else:
        low *= 10 ** (1 + attempt // 100)
        drawn = str(low + number % (9 * low))
    if point:
        size = 10 ** len(cents)
        cents = f"{1 + number // 7919 % (size - 1):0{len(cents)}}"
    return f"{drawn}{point}{cents}"


def digits_of(text: str) -> str:
    """The digits of a phone number."""
    return "".join(_DIGIT.findall(text))


def said_phone(digits: str, like: str) -> str:
    """Digits in the pattern of another phone number of as many."""
    rest = iter(digits)
    return _DIGIT.sub(lambda _: next(rest), like)


def other_digits(digits: str, number: int) -> str:
    """As many digits; what is a zero at the start, or none, stays so."""
    made = [str(number // 10**i % 10) for i in range(len(digits))]
    if digits[0] != "0" and made[0] in "01":
        made[0] = digits[0] if digits[0] != "1" else "1"
    elif digits[0] == "0":
        made[0] = "0"
    return "".join(made)
