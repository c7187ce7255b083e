"""Values of reminders: names, days and times, each in one of the ways in which people say it.

The clock stands where that of SGD does: today is March 1st, 2019, so that the two corpora can be mixed.
"""

from __future__ import annotations

from datetime import date, timedelta
from functools import cache

from parapet.transforms.entities.forms import ordinal
from parapet.transforms.reminders.phrases import Value, templates
from parapet.transforms.seeding import SeededRng

TODAY = date(2019, 3, 1)
DAYS = 40  # from today on; short enough that most of the year is left for what training does not have
MINUTES = tuple(range(6 * 60, 22 * 60 + 1, 5))


def a_name(rng: SeededRng) -> Value:
    """What a reminder is about."""
    name = rng.choice(templates().names)
    return Value(name, name)


def a_day(rng: SeededRng) -> str:
    """A day, soon more often than late, as the service has it."""
    return (TODAY + timedelta(days=rng.below(14 if rng.chance(0.6) else DAYS))).isoformat()


def a_time(rng: SeededRng) -> str:
    """A time of the day, on the quarter of an hour more often than not, as the service has it."""
    minutes = rng.choice(MINUTES[::3] if rng.chance(0.75) else MINUTES)
    return f"{minutes // 60:02}:{minutes % 60:02}"


def said_day(rng: SeededRng, canonical: str) -> Value:
    """A day in one of the ways in which it can be said; half of the time by the month, if there are others."""
    relative, absolute = ways_of_day(canonical)
    said, before = rng.choice(relative if relative and rng.chance(0.55) else absolute)
    return Value(said, canonical, before)


def said_time(rng: SeededRng, canonical: str) -> Value:
    """A time in one of the ways in which it can be said."""
    return Value(rng.choice(ways_of_time(canonical)), canonical)


def said_often(rng: SeededRng, canonical: str) -> Value:
    """How often; the slot is categorical, so what it is called is its value."""
    return Value(canonical, canonical, phrase=rng.choice(templates().often[canonical]))


@cache
def ways_of_day(canonical: str) -> tuple[tuple[tuple[str, str], ...], tuple[tuple[str, str], ...]]:
    """(what is said, its preposition) of a day: the ways that hang on today, and those that do not."""
    day = date.fromisoformat(canonical)
    ahead = (day - TODAY).days
    month, weekday, nth = f"{day:%B}", f"{day:%A}", ordinal(day.day)
    relative = [(said, "") for said in _BY_DISTANCE.get(ahead, ())]
    if 1 < ahead < 7:
        relative += [(weekday, "on "), (f"this {weekday}", ""), (f"this coming {weekday}", "")]
    if 3 <= ahead <= 9:  # today is a Friday: next week begins on the third day from now
        relative.append((f"{weekday} next week", "on "))
    if 8 < ahead < 14:
        relative.append((f"a week from {weekday}", ""))
    if ahead < 28:
        relative.append((f"the {nth}", "on "))
    absolute = [(f"{month} {nth}", "on "), (f"{month} {day.day}", "on "), (f"the {nth} of {month}", "on ")]
    return tuple(relative), tuple(absolute)


_BY_DISTANCE = {
    0: ("today",),
    1: ("tomorrow",),
    2: ("the day after tomorrow",),
    7: ("a week from today",),
    8: ("a week from tomorrow",),
    14: ("two weeks from today",),
}


@cache
def ways_of_time(canonical: str) -> tuple[str, ...]:
    """What is said for a time such as ``17:15``."""
    hour, minute = int(canonical[:2]), int(canonical[3:])
    clock, half = (hour + 11) % 12 + 1, "am" if hour < 12 else "pm"
    ways = [f"{clock}:{minute:02} {half}"]
    part = "in the morning" if hour < 12 else "in the afternoon" if hour < 18 else "in the evening"
    following = clock % 12 + 1
    if minute == 0:
        ways += [f"{clock} {half}", f"{clock} {half}", f"{clock} o'clock {part}", f"{clock} {part}"]
        ways = ["noon", "12 pm", "12 o'clock noon"] if hour == 12 else ways
    elif minute == 15:
        ways += [f"a quarter past {clock} {part}", f"quarter past {clock} {part}"]
    elif minute == 30:
        ways += [f"half past {clock} {part}", f"{clock} thirty {half}"]
    elif minute == 45 and hour != 11:
        ways += [f"a quarter to {following} {part}", f"quarter to {following} {part}"]
    return tuple(ways)
