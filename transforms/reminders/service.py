"""The service ``Reminders_1``: its schema, and a calendar that sets, finds, moves and cancels reminders."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, timedelta
from typing import Any

import msgspec

from parapet.transforms.sgd_turns import schema_intent, schema_service, schema_slot

SERVICE = "Reminders_1"
SET, FIND, MOVE, CANCEL = "SetReminder", "FindReminders", "MoveReminder", "CancelReminder"
NAME, DATE, TIME, REPEATS = "reminder_name", "date", "time", "repeats"
SLOTS = (NAME, DATE, TIME, REPEATS)

REQUIRED = {SET: (NAME, DATE, TIME), FIND: (DATE,), MOVE: (NAME, DATE, TIME), CANCEL: (NAME,)}
# What is confirmed before the call; finding reminders changes nothing.
CONFIRMED = {SET: SLOTS, MOVE: (NAME, DATE, TIME), CANCEL: (NAME,)}
OFTEN = ("once", "daily", "weekly", "monthly")

# Why a call of the service fails.
CLASH, UNKNOWN, NOTHING = "clash", "unknown", "nothing"


class Reminder(msgspec.Struct, frozen=True):
    """A reminder in the calendar, with canonical values; the date of one that repeats is its first day."""

    name: str
    date: str
    time: str
    repeats: str

    def is_on(self, day: str) -> bool:
        """Whether it is due on a day."""
        if day < self.date:
            return False
        if self.repeats == "weekly":
            return (date.fromisoformat(day) - date.fromisoformat(self.date)) % timedelta(weeks=1) == timedelta()
        if self.repeats == "monthly":
            return day[-2:] == self.date[-2:]
        return self.repeats == "daily" or day == self.date

    def as_result(self, day: str = "") -> dict[str, str]:
        """As a result of the service; with the requested day where it repeats."""
        return {NAME: self.name, DATE: day or self.date, TIME: self.time, REPEATS: self.repeats}


class Answer(msgspec.Struct, frozen=True):
    """The answer of the service: reminders as slots and values, or why the call failed."""

    results: tuple[dict[str, str], ...] = ()
    failure: str = ""


class Calendar:
    """The reminders of one user. Names are unique, and no two reminders are due at the same time."""

    def __init__(self, reminders: tuple[Reminder, ...]) -> None:
        self.by_name = {reminder.name: reminder for reminder in reminders}

    def is_free(self, day: str, time: str, but: str = "") -> bool:
        """Whether no reminder is due then, other than ``but``."""
        return not any(
            reminder.time == time and reminder.is_on(day) for reminder in self.by_name.values() if reminder.name != but
        )

    def call(self, method: str, parameters: Mapping[str, str]) -> Answer:
        """Calls the service with an intent and canonical values for its slots."""
        if method == FIND:
            day = parameters[DATE]
            due = [reminder for reminder in self.by_name.values() if reminder.is_on(day)]
            due.sort(key=lambda reminder: (reminder.time, reminder.name))
            results = [reminder.as_result(day) for reminder in due]
            return Answer(tuple(results), "" if results else NOTHING)
        name = parameters[NAME]
        if method != SET and name not in self.by_name:
            return Answer(failure=UNKNOWN)
        if method == CANCEL:
            return Answer((self.by_name.pop(name).as_result(),))
        repeats = parameters[REPEATS] if method == SET else self.by_name[name].repeats
        reminder = Reminder(name, parameters[DATE], parameters[TIME], repeats)
        if not self.is_free(reminder.date, reminder.time, but=name):
            return Answer(failure=CLASH)
        self.by_name[name] = reminder
        return Answer((reminder.as_result(),))


def _intent(name: str, description: str, **optional: str) -> dict[str, Any]:
    transactional = name in CONFIRMED
    return schema_intent(name, description, REQUIRED[name], SLOTS, optional=optional, transactional=transactional)


SCHEMA = schema_service(
    SERVICE,
    "Keeps reminders, and says when they are due",
    [
        schema_slot(NAME, "What the user is to be reminded to do"),
        schema_slot(DATE, "Day of the reminder, or the first day of one that repeats"),
        schema_slot(TIME, "Time of the day at which the reminder comes"),
        schema_slot(REPEATS, "How often the reminder comes", OFTEN),
    ],
    [
        _intent(SET, "Set a new reminder", **{REPEATS: OFTEN[0]}),
        _intent(FIND, "List the reminders of a day"),
        _intent(MOVE, "Move a reminder to another day and time"),
        _intent(CANCEL, "Cancel a reminder"),
    ],
)
