"""What a user wants: a calendar to begin with, and tasks, each with its values and where the user goes astray."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from parapet.transforms.reminders.service import (
    CANCEL,
    DATE,
    FIND,
    MOVE,
    NAME,
    OFTEN,
    REPEATS,
    SET,
    TIME,
    Calendar,
    Reminder,
)
from parapet.transforms.reminders.wording import Value, a_day, a_name, a_time, said_day, said_often, said_time
from parapet.transforms.seeding import SeededRng

SLIP, MIND = "slip", "mind"  # told wrongly and corrected; told, and another wish when it is to be confirmed


class Call(msgspec.Struct, frozen=True):
    """A call of the service: intent, canonical values of its slots, and whether it does anything."""

    method: str
    parameters: dict[str, str]
    succeeds: bool


class Task(msgspec.Struct, frozen=True):
    """One thing that a user wants done.

    Attributes:
      intent: which.
      values: what is wanted in the end; of a task about the reminder that was found without its name.
      found: it is about the reminder that the task before has found.
      astray: how the user goes astray, ``slip`` or ``mind``; nothing where not.
      told: slot to the value that is told then.
      retry: the time to be tried where another reminder comes at the first; none where the user gives up.
      wanted: of those that are found the one that is looked for, by its place.
      requests: slots that the user asks for when it is done.
    """

    intent: str
    values: dict[str, Value]
    found: bool = False
    astray: str = ""
    told: dict[str, Value] = {}
    retry: Value | None = None
    wanted: int = 0
    requests: tuple[str, ...] = ()


class Goal(msgspec.Struct, frozen=True):
    """All that a user wants in a dialogue.

    Attributes:
      reminders: of the calendar as the dialogue begins.
      tasks: in order.
      calls: of the service, as they must be for the tasks.
    """

    reminders: tuple[Reminder, ...]
    tasks: tuple[Task, ...]
    calls: tuple[Call, ...]


def draw_goal(rng: SeededRng) -> Goal:
    """A goal that can be reached, or fails where that is meant."""
    draw = _Drawing(rng)
    reminders = tuple(draw.calendar.by_name.values())
    for _ in range(1 + rng.chance(0.4) + rng.chance(0.15)):
        kind = rng.below(100)
        if kind < 45:
            draw.set()
        elif kind < 70:
            draw.find()
        elif kind < 85:
            draw.move()
        else:
            draw.cancel()
    return Goal(reminders, tuple(draw.tasks), tuple(draw.calls))


class _Drawing:
    """Draws tasks one by one, and does them in a calendar of its own, so that the next one fits."""

    def __init__(self, rng: SeededRng) -> None:
        self.rng = rng
        self.calendar = Calendar(())
        self.tasks: list[Task] = []
        self.calls: list[Call] = []
        days = [a_day(rng), a_day(rng), a_day(rng)]
        for _ in range(2 + rng.below(4)):
            often = OFTEN[0] if rng.chance(0.75) else rng.choice(OFTEN[1:])
            day, time = self._free(days)
            one = Reminder(self._new_name().canonical, day, time, often)
            self.calendar.by_name[one.name] = one

    def set(self) -> None:
        """A new reminder."""
        day, time = self._free([a_day(self.rng)])
        values = {NAME: self._new_name(), DATE: said_day(self.rng, day), TIME: said_time(self.rng, time)}
        if self.rng.chance(0.35):
            values[REPEATS] = said_often(self.rng, self.rng.choice(OFTEN))
        self._add(self._astray(Task(SET, values)))

    def find(self) -> None:
        """The reminders of a day, none in a few cases; then perhaps what is to be done with one of them."""
        rng = self.rng
        days = sorted({one.date for one in self.calendar.by_name.values()})
        day = a_day(rng) if rng.chance(0.15) or not days else rng.choice(days)
        found = self.calendar.call(FIND, {DATE: day}).results
        wanted = rng.below(len(found)) if found else 0
        self._add(Task(FIND, {DATE: said_day(rng, day)}, wanted=wanted, requests=self._some(TIME, REPEATS)))
        if found and rng.chance(0.55):
            name = found[wanted][NAME]
            if rng.chance(0.5):
                self.move(name)
            else:
                self.cancel(name)

    def move(self, found: str = "") -> None:
        """A reminder to another day and time; the one that was found, if there is one."""
        day, time = self._free([a_day(self.rng)])
        name = Value(found, found) if found else self._old_name()
        values = {NAME: name, DATE: said_day(self.rng, day), TIME: said_time(self.rng, time)}
        self._add(self._astray(Task(MOVE, values, bool(found), requests=self._some(REPEATS))))

    def cancel(self, found: str = "") -> None:
        """A reminder that is not needed any more; the one that was found, if there is one."""
        name = Value(found, found) if found else self._old_name()
        self._add(Task(CANCEL, {NAME: name}, bool(found), requests=() if found else self._some(DATE, TIME)))

    def _astray(self, task: Task) -> Task:
        """The same task, of a user who in some cases tells another day or time first, or another name."""
        rng = self.rng
        kind = rng.below(100)
        if kind >= 22:
            return task
        astray = SLIP if kind < 12 else MIND
        slot = rng.choice((DATE, TIME, NAME) if astray == SLIP and task.intent == SET else (DATE, TIME))
        value = task.values[slot]
        while value.canonical == task.values[slot].canonical:
            value = another(rng, slot)
        return msgspec.structs.replace(task, astray=astray, told={slot: value})

    def _add(self, task: Task) -> None:
        """Notes a task, and the calls that it must lead to."""
        if task.intent in (SET, MOVE) and not task.astray and self.rng.chance(0.12):
            task = self._clashing(task)
        done = self._call(task.intent, task.values)
        if task.retry is not None:
            done = self._call(task.intent, {**task.values, TIME: task.retry})
        self.tasks.append(task if done else msgspec.structs.replace(task, requests=()))

    def _clashing(self, task: Task) -> Task:
        """The same task at a time at which another reminder comes."""
        name = task.values[NAME].canonical
        others = [one for one in self.calendar.by_name.values() if one.name != name]
        if not others or (task.intent == MOVE and name not in self.calendar.by_name):
            return task
        other = self.rng.choice(others)
        day, time = self._free([other.date])
        values = {**task.values, DATE: said_day(self.rng, day), TIME: said_time(self.rng, other.time)}
        retry = said_time(self.rng, time) if self.rng.chance(0.7) else None
        return msgspec.structs.replace(task, values=values, retry=retry)

    def _call(self, intent: str, values: dict[str, Value]) -> bool:
        parameters = {slot: value.canonical for slot, value in values.items()}
        if intent == SET:
            parameters.setdefault(REPEATS, OFTEN[0])
        self.calls.append(Call(intent, parameters, not self.calendar.call(intent, parameters).failure))
        return self.calls[-1].succeeds

    def _some(self, *slots: str) -> tuple[str, ...]:
        """Some of the slots, often none."""
        return tuple(slot for slot in slots if self.rng.chance(0.3))

    def _new_name(self) -> Value:
        while (name := a_name(self.rng)).canonical in self.calendar.by_name:
            pass
        return name

    def _old_name(self) -> Value:
        """A name of the calendar; in a few cases, or where it is empty, another one."""
        if not self.calendar.by_name or self.rng.chance(0.1):
            return self._new_name()
        name = self.rng.choice(sorted(self.calendar.by_name))
        return Value(name, name)

    def _free(self, days: Sequence[str]) -> tuple[str, str]:
        """One of these days, and a time of it at which no reminder comes."""
        while True:
            day, time = self.rng.choice(days), a_time(self.rng)
            if self.calendar.is_free(day, time):
                return day, time


def another(rng: SeededRng, slot: str) -> Value:
    """Any value of a slot."""
    if slot == NAME:
        return a_name(rng)
    return said_day(rng, a_day(rng)) if slot == DATE else said_time(rng, a_time(rng))
