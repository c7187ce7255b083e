"""How acts and values are put into words: templates, days and times, turns."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from datetime import date, timedelta
from functools import cache
from importlib import resources
from typing import Any

import msgspec

from parapet.transforms.entities.kinds import ordinal
from parapet.transforms.reminders.service import DATE, REPEATS
from parapet.transforms.seeding import SeededRng
from parapet.transforms.sgd_turns import Line, act, filled, joined, slots_of

_OPTIONAL = re.compile(r"\[([^\[\]]*)\]")
_OFTEN, _ON, _COUNT = "<often>", "<on>", "<count>"


class Value(msgspec.Struct, frozen=True):
    """A value of a slot.

    Attributes:
      text: as in utterances and states.
      canonical: as the service has it.
      before: the preposition of a date: ``"on "`` or nothing.
      phrase: the words for a value without a span: ``every day`` for ``daily``.
    """

    text: str
    canonical: str
    before: str = ""
    phrase: str = ""


class Pattern(msgspec.Struct, frozen=True):
    """A text with gaps.

    Attributes:
      text: as the file has it.
      always: the slots that are not optional.
      slots: all its slots.
    """

    text: str
    always: frozenset[str]
    slots: frozenset[str]

    def says(self, slots: Iterable[str]) -> bool:
        """Whether it can express exactly these slots."""
        return self.always <= set(slots) <= self.slots

    def line(self, values: Mapping[str, Value], count: str = "") -> Line:
        """The text with these values, and their spans.

        Args:
          values: slot to value.
          count: how many there are, in words.
        """
        text = _OPTIONAL.sub(lambda part: part[1] if _slots(part[1]) <= values.keys() else "", self.text)
        text = text.replace(_ON, values[DATE].before if DATE in values else "").replace(_COUNT, count)
        text = text.replace(_OFTEN, values[REPEATS].phrase if REPEATS in values else "")
        return filled(text, {slot: value.text for slot, value in values.items()})


def pattern_of(text: str) -> Pattern:
    """The pattern of a text in the file."""
    return Pattern(text, _slots(_OPTIONAL.sub("", text)), _slots(text))


def _slots(text: str) -> frozenset[str]:
    return frozenset([*slots_of(text), *([REPEATS] if _OFTEN in text else [])])


class Templates(msgspec.Struct, frozen=True):
    """The file.

    Attributes:
      texts: ``USER`` or ``SYSTEM`` to acts (``INFORM @SetReminder``) to their patterns.
      often: value of ``repeats`` to words for it.
      names: what reminders are about.
    """

    texts: dict[str, dict[str, tuple[Pattern, ...]]]
    often: dict[str, tuple[str, ...]]
    names: tuple[str, ...]


@cache
def templates() -> Templates:
    """The content of ``templates.toml``."""
    content = tomllib.loads((resources.files(__package__) / "templates.toml").read_text(encoding="utf-8"))
    names = [
        f"{verb} {what}"
        for verbs, every in content["names"].items()
        for verb in verbs.split("|")
        for what in every.split("|")
    ]
    return Templates(
        {
            speaker.upper(): {key: tuple(map(pattern_of, texts)) for key, texts in content[speaker].items()}
            for speaker in ("user", "system")
        },
        {value: tuple(phrases) for value, phrases in content["often"].items()},
        tuple(names),
    )


TODAY = date(2019, 3, 1)
DAYS = 40  # from today on; short enough that most of the year is left for what training does not have
MINUTES = tuple(range(6 * 60, 22 * 60 + 1, 5))


def a_name(rng: SeededRng) -> Value:
    """The name of a reminder: what it is about."""
    name = rng.choice(templates().names)
    return Value(name, name)


def a_day(rng: SeededRng) -> str:
    """A canonical day, more often soon than late."""
    return (TODAY + timedelta(days=rng.below(14 if rng.chance(0.6) else DAYS))).isoformat()


def a_time(rng: SeededRng) -> str:
    """A canonical time of the day, mostly on the quarter of an hour."""
    minutes = rng.choice(MINUTES[::3] if rng.chance(0.75) else MINUTES)
    return f"{minutes // 60:02}:{minutes % 60:02}"


def day_value(rng: SeededRng, canonical: str) -> Value:
    """A day in one of its wordings; relative to today in about half of the cases, where possible."""
    relative, absolute = ways_of_day(canonical)
    text, before = rng.choice(relative if relative and rng.chance(0.55) else absolute)
    return Value(text, canonical, before)


def time_value(rng: SeededRng, canonical: str) -> Value:
    """A time in one of its wordings."""
    return Value(rng.choice(ways_of_time(canonical)), canonical)


def repeats_value(rng: SeededRng, canonical: str) -> Value:
    """How often; the slot is categorical, so its text is its value."""
    return Value(canonical, canonical, phrase=rng.choice(templates().often[canonical]))


@cache
def ways_of_day(canonical: str) -> tuple[tuple[tuple[str, str], ...], tuple[tuple[str, str], ...]]:
    """The wordings of a day, each with its preposition: those relative to today, and the others."""
    day = date.fromisoformat(canonical)
    ahead = (day - TODAY).days
    month, weekday, nth = f"{day:%B}", f"{day:%A}", ordinal(day.day)
    relative = [(text, "") for text in _BY_DISTANCE.get(ahead, ())]
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
    """The wordings of a time such as ``17:15``."""
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


USER, SYSTEM = "USER", "SYSTEM"
COUNTED = ("none", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")


class Act(msgspec.Struct, frozen=True):
    """A dialogue act.

    Attributes:
      name: as in SGD.
      slot: its slot, if any.
      value: of the slot; None where it is requested.
      note: distinguishes wordings of acts with the same name: ``deny``, ``again``.
    """

    name: str
    slot: str = ""
    value: Value | None = None
    note: str = ""

    @property
    def key(self) -> str:
        """Its key in ``templates.toml``."""
        note = self.note or (self.slot if self.name == "REQUEST" else "")
        return f"{self.name}:{note}" if note else self.name

    def as_action(self) -> dict[str, Any]:
        """The action of a frame in SGD."""
        if self.value is None:
            return act(self.name, self.slot)
        return act(self.name, self.slot, self.value.text, canonical=[self.value.canonical])


def say(speaker: str, acts: Sequence[Act], intent: str, rng: SeededRng) -> Line:
    """One of the wordings of the acts of a turn: they are cut into the longest parts that a pattern expresses.

    Args:
      speaker: ``USER`` or ``SYSTEM``.
      acts: of the turn, in order.
      intent: of the turn.
      rng: of the choice.

    Raises:
      LookupError: no pattern expresses an act.
    """
    lines: list[Line] = []
    rest = acts
    while rest:
        for end in range(len(rest), 0, -1):
            part, values = rest[:end], values_of(rest[:end])
            if patterns := _patterns(speaker, tuple(dict.fromkeys(act.key for act in part)), frozenset(values), intent):
                count = next((act.value.canonical for act in part if act.slot == "count" and act.value), "")
                lines.append(rng.choice(patterns).line(values, COUNTED[int(count)] if count else ""))
                rest = rest[end:]
                break
        else:
            raise LookupError(f"no pattern of {speaker} expresses {rest} of {intent}")
    return joined(*lines)


@cache
def _patterns(speaker: str, keys: tuple[str, ...], slots: frozenset[str], intent: str) -> list[Pattern]:
    """The patterns that express exactly these acts and slots."""
    texts = templates().texts[speaker]
    # One sentence expresses an intent with its values.
    key = " ".join(act for act in keys if act != "INFORM" or keys[0] != "INFORM_INTENT")
    return [pattern for pattern in texts.get(f"{key} @{intent}", texts.get(key, ())) if pattern.says(slots)]


def values_of(acts: Sequence[Act]) -> dict[str, Value]:
    """Slot to value, of acts."""
    return {act.slot: act.value for act in acts if act.value is not None and act.slot not in ("intent", "count")}
