"""The user of the reminder domain (RADDLE, Peng et al. 2021, section 4), the service, and the wordings of both sides.

The service ``Reminders_1`` has a schema, and a calendar that sets, finds, moves and cancels reminders. Templates
express acts and values in words; days and times have several wordings.

The user has a goal, drawn at random, and an agenda of dialogue acts (Schatzmann et al. 2007). The goal has the calendar
at the start and tasks, each with its values and possible deviations by the user. At the start the agenda, a stack, is
filled from the goal: for each task its intent, the values to inform and the slots to request in the end; at the bottom
thanks and goodbye. The system's acts push acts onto it (the answer to a question, the denial of a wrong value) and
remove acts that are no longer needed. A turn of the user pops one act, and the acts that belong to the same turn.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date, timedelta
from functools import cache
from typing import Any

import msgspec

from parapet.transforms.core import inputs, seeding
from parapet.transforms.perturb.entities.kinds import ordinal
from parapet.transforms.simulators import formats

SERVICE = "Reminders_1"
SET, FIND, MOVE, CANCEL = "SetReminder", "FindReminders", "MoveReminder", "CancelReminder"
NAME, DATE, TIME, REPEATS = "reminder_name", "date", "time", "repeats"
SLOTS = (NAME, DATE, TIME, REPEATS)

REQUIRED = {SET: (NAME, DATE, TIME), FIND: (DATE,), MOVE: (NAME, DATE, TIME), CANCEL: (NAME,)}
# The slots confirmed before the call; finding reminders changes nothing and needs no confirmation.
CONFIRMED = {SET: SLOTS, MOVE: (NAME, DATE, TIME), CANCEL: (NAME,)}
OFTEN = ("once", "daily", "weekly", "monthly")

# Reasons for the failure of a service call.
CLASH, UNKNOWN, NOTHING = "clash", "unknown", "nothing"


class Reminder(msgspec.Struct, frozen=True):
    """A reminder in the calendar, with canonical values; the date of a repeating one is its first day."""

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
        """Returns it as a result of the service; ``day`` replaces the date, for repeating reminders."""
        return {NAME: self.name, DATE: day or self.date, TIME: self.time, REPEATS: self.repeats}


class Answer(msgspec.Struct, frozen=True):
    """The answer of the service: reminders as slots and values, or the reason of a failure."""

    results: tuple[dict[str, str], ...] = ()
    failure: str = ""


class Calendar:
    """The reminders of one user. Names are unique, and no two reminders are due at the same time."""

    def __init__(self, reminders: tuple[Reminder, ...]) -> None:
        self.by_name = {reminder.name: reminder for reminder in reminders}

    def is_free(self, day: str, time: str, but: str = "") -> bool:
        """Whether no reminder other than ``but`` is due at a time."""
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
    return formats.schema_intent(
        name, description, REQUIRED[name], SLOTS, optional=optional, transactional=name in CONFIRMED
    )


SCHEMA = formats.schema_service(
    SERVICE,
    "Keeps reminders, and says when they are due",
    [
        formats.schema_slot(NAME, "What the user is to be reminded to do"),
        formats.schema_slot(DATE, "Day of the reminder, or the first day of one that repeats"),
        formats.schema_slot(TIME, "Time of the day at which the reminder comes"),
        formats.schema_slot(REPEATS, "How often the reminder comes", OFTEN),
    ],
    [
        _intent(SET, "Set a new reminder", **{REPEATS: OFTEN[0]}),
        _intent(FIND, "List the reminders of a day"),
        _intent(MOVE, "Move a reminder to another day and time"),
        _intent(CANCEL, "Cancel a reminder"),
    ],
)


_OPTIONAL = re.compile(r"\[([^\[\]]*)\]")
_OFTEN, _ON, _COUNT = "<often>", "<on>", "<count>"


class Value(msgspec.Struct, frozen=True):
    """A value of a slot.

    Attributes:
      text: the value in utterances and states.
      canonical: the value in the service.
      before: the preposition of a date: ``"on "``, or empty.
      phrase: the words for a value without a span: ``every day`` for ``daily``.
    """

    text: str
    canonical: str
    before: str = ""
    phrase: str = ""


class Pattern(msgspec.Struct, frozen=True):
    """A text with gaps.

    Attributes:
      text: the text in the file.
      always: the slots outside optional parts.
      slots: all its slots.
    """

    text: str
    always: frozenset[str]
    slots: frozenset[str]

    def says(self, slots: Iterable[str]) -> bool:
        """Whether the pattern can express exactly these slots."""
        return self.always <= set(slots) <= self.slots

    def line(self, values: Mapping[str, Value], count: str = "") -> formats.Sentence:
        """Fills in the values, and returns the text with their spans.

        Args:
          values: slot to value.
          count: the number of results in words.
        """
        text = _OPTIONAL.sub(lambda part: part[1] if _slots(part[1]) <= values.keys() else "", self.text)
        text = text.replace(_ON, values[DATE].before if DATE in values else "").replace(_COUNT, count)
        text = text.replace(_OFTEN, values[REPEATS].phrase if REPEATS in values else "")
        return formats.filled(text, {slot: value.text for slot, value in values.items()})


def pattern_of(text: str) -> Pattern:
    """Parses a text of the file as a pattern."""
    return Pattern(text, _slots(_OPTIONAL.sub("", text)), _slots(text))


def _slots(text: str) -> frozenset[str]:
    return frozenset([*formats.slots_of(text), *([REPEATS] if _OFTEN in text else [])])


class Templates(msgspec.Struct, frozen=True):
    """The content of the templates file.

    Attributes:
      texts: ``USER`` or ``SYSTEM`` to acts (``INFORM @SetReminder``) to their patterns.
      often: value of ``repeats`` to its wordings.
      names: the names of reminders.
    """

    texts: dict[str, dict[str, tuple[Pattern, ...]]]
    often: dict[str, tuple[str, ...]]
    names: tuple[str, ...]


@cache
def templates() -> Templates:
    """Reads ``reminders.toml``."""
    content = inputs.read_table(__package__, "reminders.toml")
    names = [
        f"{verb} {alternative}"
        for verbs, every in content["names"].items()
        for verb in verbs.split("|")
        for alternative in every.split("|")
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
DAYS = 40  # from today on; few enough that most days of the year never occur in training
MINUTES = tuple(range(6 * 60, 22 * 60 + 1, 5))


def a_name(rng: seeding.SeededRng) -> Value:
    """Draws the name of a reminder."""
    name = rng.choice(templates().names)
    return Value(name, name)


def a_day(rng: seeding.SeededRng) -> str:
    """Draws a canonical day, near days more often."""
    return (TODAY + timedelta(days=rng.below(14 if rng.chance(0.6) else DAYS))).isoformat()


def a_time(rng: seeding.SeededRng) -> str:
    """Draws a canonical time of the day, mostly at a quarter of an hour."""
    minutes = rng.choice(MINUTES[::3] if rng.chance(0.75) else MINUTES)
    return f"{minutes // 60:02}:{minutes % 60:02}"


def day_value(rng: seeding.SeededRng, canonical: str) -> Value:
    """Draws a wording of a day, relative to today in about half of the possible cases."""
    relative, absolute = ways_of_day(canonical)
    text, before = rng.choice(relative if relative and rng.chance(0.55) else absolute)
    return Value(text, canonical, before)


def time_value(rng: seeding.SeededRng, canonical: str) -> Value:
    """Draws a wording of a time."""
    return Value(rng.choice(ways_of_time(canonical)), canonical)


def repeats_value(rng: seeding.SeededRng, canonical: str) -> Value:
    """Draws a wording of a frequency; the slot is categorical, so its text is its value."""
    return Value(canonical, canonical, phrase=rng.choice(templates().often[canonical]))


@cache
def ways_of_day(canonical: str) -> tuple[tuple[tuple[str, str], ...], tuple[tuple[str, str], ...]]:
    """Returns the wordings of a day, each with its preposition: first the ones relative to today, then the others."""
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
    """Returns the wordings of a time such as ``17:15``."""
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
      name: the name in SGD.
      slot: its slot, if any.
      value: the value of the slot; None if the slot is requested.
      note: distinguishes wordings of acts with the same name: ``deny``, ``again``.
    """

    name: str
    slot: str = ""
    value: Value | None = None
    note: str = ""

    @property
    def key(self) -> str:
        """The key of its patterns in ``reminders.toml``."""
        note = self.note or (self.slot if self.name == "REQUEST" else "")
        return f"{self.name}:{note}" if note else self.name

    def as_action(self) -> dict[str, Any]:
        """Converts it to an action of an SGD frame."""
        if self.value is None:
            return formats.act(self.name, self.slot)
        return formats.act(self.name, self.slot, self.value.text, canonical=[self.value.canonical])


def say(speaker: str, acts: Sequence[Act], intent: str, rng: seeding.SeededRng) -> formats.Sentence:
    """Draws a wording for the acts of a turn: they are cut into the longest parts that a pattern expresses.

    Args:
      speaker: ``USER`` or ``SYSTEM``.
      acts: the acts of the turn in order.
      intent: the intent of the turn.
      rng: the random generator.

    Raises:
      LookupError: no pattern expresses an act.
    """
    lines: list[formats.Sentence] = []
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
    return formats.joined(*lines)


@cache
def _patterns(speaker: str, keys: tuple[str, ...], slots: frozenset[str], intent: str) -> list[Pattern]:
    """Returns the patterns that express exactly these acts and slots."""
    texts = templates().texts[speaker]
    # One sentence expresses an intent with its values.
    key = " ".join(act for act in keys if act != "INFORM" or keys[0] != "INFORM_INTENT")
    return [pattern for pattern in texts.get(f"{key} @{intent}", texts.get(key, ())) if pattern.says(slots)]


def values_of(acts: Sequence[Act]) -> dict[str, Value]:
    """Maps slot to value for the values in acts."""
    return {act.slot: act.value for act in acts if act.value is not None and act.slot not in ("intent", "count")}


SLIP, MIND = "slip", "mind"  # a wrong value that is corrected; a value that the user changes on confirmation


class Call(msgspec.Struct, frozen=True):
    """A service call: its intent, the canonical values of its slots, and whether it succeeds."""

    method: str
    parameters: dict[str, str]
    succeeds: bool


class Task(msgspec.Struct, frozen=True):
    """A task of the user.

    Attributes:
      intent: the intent.
      values: the values that the user wants in the end; without the name if the reminder was looked up.
      looked_up: whether it is about the reminder found in the previous task.
      deviation: the user's deviation, ``slip`` or ``mind``; empty without a deviation.
      initial: slot to the value that the user informs at first, in a deviation.
      retry: the second time to try if the first one is taken; None if the user gives up.
      target: the position of the wanted reminder among the results.
      requests: the slots that the user requests in the end.
    """

    intent: str
    values: dict[str, Value]
    looked_up: bool = False
    deviation: str = ""
    initial: dict[str, Value] = {}
    retry: Value | None = None
    target: int = 0
    requests: tuple[str, ...] = ()


class Goal(msgspec.Struct, frozen=True):
    """The goal of a user in a dialogue.

    Attributes:
      reminders: the calendar at the start.
      tasks: the tasks in order.
      calls: the calls of the service that the tasks require.
    """

    reminders: tuple[Reminder, ...]
    tasks: tuple[Task, ...]
    calls: tuple[Call, ...]


def draw_goal(rng: seeding.SeededRng) -> Goal:
    """Draws a goal. It can be reached, except for calls that are meant to fail."""
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
    """Draws tasks one by one and executes them in its own calendar, so that the next task is consistent."""

    def __init__(self, rng: seeding.SeededRng) -> None:
        self.rng = rng
        self.calendar = Calendar(())
        self.tasks: list[Task] = []
        self.calls: list[Call] = []
        days = [a_day(rng), a_day(rng), a_day(rng)]
        for _ in range(2 + rng.below(4)):
            often = OFTEN[0] if rng.chance(0.75) else rng.choice(OFTEN[1:])
            day, time = self._free(days)
            reminder = Reminder(self._new_name().canonical, day, time, often)
            self.calendar.by_name[reminder.name] = reminder

    def set(self) -> None:
        """Sets a new reminder."""
        day, time = self._free([a_day(self.rng)])
        values = {NAME: self._new_name(), DATE: day_value(self.rng, day), TIME: time_value(self.rng, time)}
        if self.rng.chance(0.35):
            values[REPEATS] = repeats_value(self.rng, self.rng.choice(OFTEN))
        self._add(self._deviating(Task(SET, values)))

    def find(self) -> None:
        """Looks up the reminders of a day, in a few cases an empty one; then perhaps move or cancel one of them."""
        rng = self.rng
        days = sorted({reminder.date for reminder in self.calendar.by_name.values()})
        day = a_day(rng) if rng.chance(0.15) or not days else rng.choice(days)
        results = self.calendar.call(FIND, {DATE: day}).results
        target = rng.below(len(results)) if results else 0
        self._add(Task(FIND, {DATE: day_value(rng, day)}, target=target, requests=self._some(TIME, REPEATS)))
        if results and rng.chance(0.55):
            name = results[target][NAME]
            if rng.chance(0.5):
                self.move(name)
            else:
                self.cancel(name)

    def move(self, looked_up: str = "") -> None:
        """Moves a reminder, the looked-up one if there is one, to another day and time."""
        day, time = self._free([a_day(self.rng)])
        name = Value(looked_up, looked_up) if looked_up else self._old_name()
        values = {NAME: name, DATE: day_value(self.rng, day), TIME: time_value(self.rng, time)}
        self._add(self._deviating(Task(MOVE, values, bool(looked_up), requests=self._some(REPEATS))))

    def cancel(self, looked_up: str = "") -> None:
        """Cancels a reminder, the looked-up one if there is one."""
        name = Value(looked_up, looked_up) if looked_up else self._old_name()
        self._add(Task(CANCEL, {NAME: name}, bool(looked_up), requests=() if looked_up else self._some(DATE, TIME)))

    def _deviating(self, task: Task) -> Task:
        """Returns the task, in some cases with a deviation: another day, time or name at first."""
        rng = self.rng
        kind = rng.below(100)
        if kind >= 22:
            return task
        deviation = SLIP if kind < 12 else MIND
        slot = rng.choice((DATE, TIME, NAME) if deviation == SLIP and task.intent == SET else (DATE, TIME))
        value = task.values[slot]
        while value.canonical == task.values[slot].canonical:
            value = another(rng, slot)
        return msgspec.structs.replace(task, deviation=deviation, initial={slot: value})

    def _add(self, task: Task) -> None:
        """Adds a task, and the calls that it requires."""
        if task.intent in (SET, MOVE) and not task.deviation and self.rng.chance(0.12):
            task = self._clashing(task)
        done = self._call(task.intent, task.values)
        if task.retry is not None:
            done = self._call(task.intent, {**task.values, TIME: task.retry})
        self.tasks.append(task if done else msgspec.structs.replace(task, requests=()))

    def _clashing(self, task: Task) -> Task:
        """Moves the task to a time taken by another reminder."""
        name = task.values[NAME].canonical
        others = [reminder for reminder in self.calendar.by_name.values() if reminder.name != name]
        if not others or (task.intent == MOVE and name not in self.calendar.by_name):
            return task
        other = self.rng.choice(others)
        day, time = self._free([other.date])
        values = {**task.values, DATE: day_value(self.rng, day), TIME: time_value(self.rng, other.time)}
        retry = time_value(self.rng, time) if self.rng.chance(0.7) else None
        return msgspec.structs.replace(task, values=values, retry=retry)

    def _call(self, intent: str, values: dict[str, Value]) -> bool:
        parameters = {slot: value.canonical for slot, value in values.items()}
        if intent == SET:
            parameters.setdefault(REPEATS, OFTEN[0])
        self.calls.append(Call(intent, parameters, not self.calendar.call(intent, parameters).failure))
        return self.calls[-1].succeeds

    def _some(self, *slots: str) -> tuple[str, ...]:
        """Returns a random selection of the slots, often empty."""
        return tuple(slot for slot in slots if self.rng.chance(0.3))

    def _new_name(self) -> Value:
        while (name := a_name(self.rng)).canonical in self.calendar.by_name:
            pass
        return name

    def _old_name(self) -> Value:
        """Returns the name of a reminder in the calendar; in a few cases, or if the calendar is empty, another name."""
        if not self.calendar.by_name or self.rng.chance(0.1):
            return self._new_name()
        name = self.rng.choice(sorted(self.calendar.by_name))
        return Value(name, name)

    def _free(self, days: Sequence[str]) -> tuple[str, str]:
        """Draws one of the days, and a free time."""
        while True:
            day, time = self.rng.choice(days), a_time(self.rng)
            if self.calendar.is_free(day, time):
                return day, time


def another(rng: seeding.SeededRng, slot: str) -> Value:
    """Draws any value of a slot."""
    if slot == NAME:
        return a_name(rng)
    return day_value(rng, a_day(rng)) if slot == DATE else time_value(rng, a_time(rng))


AGAIN, DENY = "again", "deny"  # notes: a slip corrected in passing, a value that the system misheard


class User:
    """A user with a goal.

    Args:
      goal: the goal.
      rng: the random generator of the user's choices.

    Attributes:
      agenda: the future acts, the next one last.
      task: the current task.
    """

    def __init__(self, goal: Goal, rng: seeding.SeededRng) -> None:
        self.goal, self.rng = goal, rng
        self.agenda = [Act("GOODBYE"), Act("THANK_YOU")]
        for task in reversed(goal.tasks):
            self.agenda += [Act("REQUEST", slot) for slot in reversed(task.requests)]
            values = self._given_in(task)
            self.agenda += [Act("INFORM", slot, values[slot]) for slot in reversed(SLOTS) if slot in values]
            if task.looked_up:
                self.agenda.append(Act("SELECT"))
            self.agenda.append(Act("INFORM_INTENT", "intent", Value(task.intent, task.intent)))
        self._coming = iter(goal.tasks)
        self.task = goal.tasks[0]
        self._values: dict[str, Value] = {}  # the current wishes
        self._wrong: set[str] = set()  # slots with a wrong value so far
        self._seen = 0  # the number of results offered

    def _given_in(self, task: Task) -> dict[str, Value]:
        values = {**task.values, **task.initial}
        return {slot: value for slot, value in values.items() if not (task.looked_up and slot == NAME)}

    def speak(self, heard: Sequence[Act]) -> list[Act]:
        """Returns the next turn of the user after the acts of the system."""
        rules: dict[str, Callable[[Sequence[Act]], None]] = {
            "REQUEST": self._answer,
            "CONFIRM": self._confirm,
            "OFFER": self._look,
            "NOTIFY_FAILURE": self._fail,
            "REQ_MORE": self._go_on,
        }
        for name in dict.fromkeys(act.name for act in heard):
            if name in rules:
                rules[name]([act for act in heard if act.name == name])
        return self._pop()

    # Effects of the system's acts on the agenda.

    def _answer(self, requested: Sequence[Act]) -> None:
        """Answers a request; a slip may be corrected in passing."""
        slots = [act.slot for act in requested]
        if self.task.deviation == SLIP and self._wrong and self.rng.chance(0.6):
            for slot in sorted(self._wrong):
                self.agenda.append(Act("INFORM", slot, self._values[slot], AGAIN))
            self._wrong.clear()
        for slot in reversed(slots):
            # The topmost act belongs to this task; there may be another of a later task below.
            place = max(i for i, act in enumerate(self.agenda) if (act.name, act.slot) == ("INFORM", slot))
            self.agenda.append(self.agenda.pop(place))

    def _confirm(self, confirmed: Sequence[Act]) -> None:
        """Affirms right values and deny wrong ones, including values that the user has changed."""
        values = values_of(confirmed)
        wrong = [slot for slot in values if values[slot].canonical != self._wanted(slot)]
        while self.agenda[-1].name == "INFORM":  # the confirmation covers values that were not informed yet
            self.agenda.pop()
        if not wrong:
            self.agenda.append(Act("AFFIRM"))
            return
        note = SLIP if self._wrong.intersection(wrong) else DENY
        if self.task.deviation == MIND and self._wrong == set(wrong):
            note = MIND
        for slot in reversed(wrong):
            self.agenda.append(Act("INFORM", slot, self._values[slot], note))
        self._wrong.clear()
        self.agenda.append(Act("NEGATE", note=note))

    def _wanted(self, slot: str) -> str:
        return self._values[slot].canonical if slot in self._values else OFTEN[0]

    def _look(self, offered: Sequence[Act]) -> None:
        """Requests the next reminder until the target is offered."""
        if self._seen < self.task.target:
            self.agenda.append(Act("REQUEST_ALTS"))
            self._seen += 1
        else:
            while self.agenda[-1].name == "REQUEST" and self.agenda[-1].slot in values_of(offered):
                self.agenda.pop()  # answered by the offer

    def _fail(self, _: Sequence[Act]) -> None:
        if self.task.retry is not None and self._values.get(TIME) != self.task.retry:
            self._values[TIME] = self.task.retry
            self.agenda.append(Act("INFORM", TIME, self.task.retry, "retry"))

    def _go_on(self, _: Sequence[Act]) -> None:
        """Declines further help if nothing is left to do."""
        if self.agenda[-1].name in ("THANK_YOU", "GOODBYE"):
            self.agenda.append(Act("NEGATE", note="more"))

    # Popping acts off the agenda.

    def _pop(self) -> list[Act]:
        first = self.agenda.pop()
        acts = [first]
        if first.name == "INFORM_INTENT":
            self._begin(next(self._coming))
            self._pop_while(acts, lambda act: act.name == "SELECT")
            eager = self.rng.choice((0.0, 0.6, 0.6, 0.8, 1.0))
            self._pop_while(acts, lambda act: act.name == "INFORM" and self.rng.chance(eager))
        elif first.name == "INFORM":
            self._pop_while(acts, lambda act: act.name == "INFORM" and (act.note == AGAIN or self._volunteers(act)))
        elif first.name == "NEGATE":
            self._pop_while(acts, lambda act: act.name == "INFORM" and act.note == first.note)
            if first.note == "more":
                self._pop_while(acts, lambda act: act.name in ("THANK_YOU", "GOODBYE") and self.rng.chance(0.6))
        elif first.name == "THANK_YOU":
            self._pop_while(acts, lambda act: act.name == "GOODBYE" and self.rng.chance(0.55))
        elif first.name == "REQUEST":
            self._pop_while(acts, lambda act: act.name == "REQUEST" and self.rng.chance(0.4))
        initial = self.task.initial
        self._wrong |= {act.slot for act in acts if act.slot in initial and initial[act.slot] == act.value}
        return acts

    def _volunteers(self, act: Act) -> bool:
        return not act.note and self.rng.chance(0.3)

    def _begin(self, task: Task) -> None:
        self.task, self._values, self._seen = task, dict(task.values), 0
        self._wrong.clear()

    def _pop_while(self, acts: list[Act], goes_along: Callable[[Act], bool]) -> None:
        while self.agenda and goes_along(self.agenda[-1]):
            acts.append(self.agenda.pop())
