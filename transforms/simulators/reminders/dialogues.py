"""The user: a goal, drawn at random, and an agenda of dialogue acts (Schatzmann et al. 2007).

The goal has the calendar at the start and tasks, each with its values and how the user deviates from it. At the start
the agenda, a stack, is filled from the goal: for each task its intent, the values to give and the slots to ask for in
the end; at the bottom thanks and goodbye. The system's acts push acts onto it (the answer to a question, the denial of
a wrong value) and remove what is settled. A turn of the user is popped off it: one act, and those that go with it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from hashlib import blake2b
from typing import Any

import msgspec

from parapet.schemas.dialogue import Dialogue, problems_of
from parapet.schemas.service import Service, parse_service
from parapet.transforms.seeding import SeededRng
from parapet.transforms.simulators.common import state, system_turn, user_turn
from parapet.transforms.simulators.reminders.service import (
    CANCEL,
    CONFIRMED,
    DATE,
    FIND,
    MOVE,
    NAME,
    OFTEN,
    REPEATS,
    REQUIRED,
    SCHEMA,
    SERVICE,
    SET,
    SLOTS,
    SYSTEM,
    TIME,
    USER,
    Act,
    Calendar,
    Reminder,
    Value,
    a_day,
    a_name,
    a_time,
    day_value,
    repeats_value,
    say,
    time_value,
    values_of,
)

SLIP, MIND = "slip", "mind"  # a wrong value that is corrected; a value that the user changes on confirmation


class Call(msgspec.Struct, frozen=True):
    """A call of the service: intent, canonical values of its slots, and whether it succeeds."""

    method: str
    parameters: dict[str, str]
    succeeds: bool


class Task(msgspec.Struct, frozen=True):
    """A task of the user.

    Attributes:
      intent: the intent.
      values: the values that the user wants in the end; without the name where the reminder was looked up.
      looked_up: whether it is about the reminder that the previous task has looked up.
      deviation: how the user deviates, ``slip`` or ``mind``; empty where not at all.
      initial: slot to the value that the user gives at first, where there is a deviation.
      retry: the time to try where the first one is taken; None where the user gives up.
      target: the position of the reminder that the user looks for among the results.
      requests: slots that the user asks for in the end.
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
      tasks: in order.
      calls: the calls of the service that the tasks require.
    """

    reminders: tuple[Reminder, ...]
    tasks: tuple[Task, ...]
    calls: tuple[Call, ...]


def draw_goal(rng: SeededRng) -> Goal:
    """A random goal. It can be reached, but for calls that are meant to fail."""
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
    """Draws tasks one by one and carries them out in a calendar of its own, so that the next one is consistent."""

    def __init__(self, rng: SeededRng) -> None:
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
        """Looks up the reminders of a day, in a few cases none; then perhaps moves or cancels one of them."""
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
        """Moves a reminder to another day and time; the one that was looked up, if there is one."""
        day, time = self._free([a_day(self.rng)])
        name = Value(looked_up, looked_up) if looked_up else self._old_name()
        values = {NAME: name, DATE: day_value(self.rng, day), TIME: time_value(self.rng, time)}
        self._add(self._deviating(Task(MOVE, values, bool(looked_up), requests=self._some(REPEATS))))

    def cancel(self, looked_up: str = "") -> None:
        """Cancels a reminder; the one that was looked up, if there is one."""
        name = Value(looked_up, looked_up) if looked_up else self._old_name()
        self._add(Task(CANCEL, {NAME: name}, bool(looked_up), requests=() if looked_up else self._some(DATE, TIME)))

    def _deviating(self, task: Task) -> Task:
        """The task, in some cases with a deviation: another day, time or name at first."""
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
        """The task at a time that is taken by another reminder."""
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
        """A random selection of the slots, often none."""
        return tuple(slot for slot in slots if self.rng.chance(0.3))

    def _new_name(self) -> Value:
        while (name := a_name(self.rng)).canonical in self.calendar.by_name:
            pass
        return name

    def _old_name(self) -> Value:
        """The name of a reminder in the calendar; in a few cases, or where it is empty, another name."""
        if not self.calendar.by_name or self.rng.chance(0.1):
            return self._new_name()
        name = self.rng.choice(sorted(self.calendar.by_name))
        return Value(name, name)

    def _free(self, days: Sequence[str]) -> tuple[str, str]:
        """One of these days, and a time that is free."""
        while True:
            day, time = self.rng.choice(days), a_time(self.rng)
            if self.calendar.is_free(day, time):
                return day, time


def another(rng: SeededRng, slot: str) -> Value:
    """Any value of a slot."""
    if slot == NAME:
        return a_name(rng)
    return day_value(rng, a_day(rng)) if slot == DATE else time_value(rng, a_time(rng))


AGAIN, DENY = "again", "deny"  # notes: a slip that is corrected in passing, a value that the system got wrong


class User:
    """A user with a goal.

    Args:
      goal: the goal.
      rng: of the user's choices.

    Attributes:
      agenda: the acts to come, the next one last.
      task: the current task.
    """

    def __init__(self, goal: Goal, rng: SeededRng) -> None:
        self.goal, self.rng = goal, rng
        self.agenda = [Act("GOODBYE"), Act("THANK_YOU")]
        for task in reversed(goal.tasks):
            self.agenda += [Act("REQUEST", slot) for slot in reversed(task.requests)]
            given = self._given_in(task)
            self.agenda += [Act("INFORM", slot, given[slot]) for slot in reversed(SLOTS) if slot in given]
            if task.looked_up:
                self.agenda.append(Act("SELECT"))
            self.agenda.append(Act("INFORM_INTENT", "intent", Value(task.intent, task.intent)))
        self._coming = iter(goal.tasks)
        self.task = goal.tasks[0]
        self._values: dict[str, Value] = {}  # that the user wants now
        self._wrong: set[str] = set()  # slots with a wrong value so far
        self._seen = 0  # results that were offered

    def _given_in(self, task: Task) -> dict[str, Value]:
        given = {**task.values, **task.initial}
        return {slot: value for slot, value in given.items() if not (task.looked_up and slot == NAME)}

    def speak(self, heard: Sequence[Act]) -> list[Act]:
        """The next turn of the user, given the acts of the system."""
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

    # What the system's acts push onto the agenda and remove from it.

    def _answer(self, requested: Sequence[Act]) -> None:
        """Gives what is requested; a slip may be corrected in passing."""
        slots = [act.slot for act in requested]
        if self.task.deviation == SLIP and self._wrong and self.rng.chance(0.6):
            for slot in sorted(self._wrong):
                self.agenda.append(Act("INFORM", slot, self._values[slot], AGAIN))
            self._wrong.clear()
        for slot in reversed(slots):
            # The topmost is of this task; one of a later task may lie below.
            place = max(i for i, act in enumerate(self.agenda) if (act.name, act.slot) == ("INFORM", slot))
            self.agenda.append(self.agenda.pop(place))

    def _confirm(self, confirmed: Sequence[Act]) -> None:
        """Affirms right values and denies wrong ones, also where the user has changed a value."""
        values = values_of(confirmed)
        wrong = [slot for slot in values if values[slot].canonical != self._wanted(slot)]
        while self.agenda[-1].name == "INFORM":  # values not given yet are affirmed or denied now
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
        """Asks for the next reminder until the target is offered."""
        if self._seen < self.task.target:
            self.agenda.append(Act("REQUEST_ALTS"))
            self._seen += 1
        else:
            while self.agenda[-1].name == "REQUEST" and self.agenda[-1].slot in values_of(offered):
                self.agenda.pop()  # the offer has answered it

    def _fail(self, _: Sequence[Act]) -> None:
        if self.task.retry is not None and self._values.get(TIME) != self.task.retry:
            self._values[TIME] = self.task.retry
            self.agenda.append(Act("INFORM", TIME, self.task.retry, "retry"))

    def _go_on(self, _: Sequence[Act]) -> None:
        """Declines the offer of more help where there is nothing left to do."""
        if self.agenda[-1].name in ("THANK_YOU", "GOODBYE"):
            self.agenda.append(Act("NEGATE", note="more"))

    # What is popped off the agenda.

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


NO_INTENT = "NONE"


class Reply(msgspec.Struct, frozen=True):
    """A turn of the system.

    Attributes:
      acts: its dialogue acts.
      call: the call of the service before it, intent and canonical values; None where there is none.
      results: the results of the call.
    """

    acts: list[Act]
    call: tuple[str, dict[str, str]] | None = None
    results: tuple[dict[str, str], ...] = ()


class System:
    """A system with a calendar.

    A new intent starts without values: those of one reminder are not those of the next. Selecting a reminder that was
    offered sets its name.

    Args:
      calendar: the service.
      rng: of its choices.

    Attributes:
      intent: the active intent, or ``NONE``.
      values: slot to value, as the user has given or affirmed it.
    """

    def __init__(self, calendar: Calendar, rng: SeededRng) -> None:
        self.calendar, self.rng = calendar, rng
        self.intent, self.values = NO_INTENT, dict[str, Value]()
        self._said: list[Act] = []  # in the previous turn
        self._found: list[dict[str, str]] = []  # the results of the last call, the current one first
        self._has_misheard = False

    def hear(self, acts: Sequence[Act]) -> None:
        """Tracks the state."""
        names = {act.name for act in acts}
        if "INFORM_INTENT" in names:
            self.intent = next(act.value.text for act in acts if act.name == "INFORM_INTENT" and act.value)
            self.values = {NAME: self._say(NAME)} if "SELECT" in names else {}
            self._has_misheard = False
        if "AFFIRM" in names:
            self.values |= values_of([act for act in self._said if act.name == "CONFIRM"])
        if any(act.name == "NEGATE" and act.note == "more" for act in acts):
            self.intent = NO_INTENT
        self.values |= values_of([act for act in acts if act.name == "INFORM"])

    def reply(self, acts: Sequence[Act]) -> Reply:
        """The next turn of the system, given the acts of the user."""
        reply = self._reply({act.name for act in acts}, [act.slot for act in acts if act.name == "REQUEST"])
        self._said = reply.acts
        return reply

    def _reply(self, names: set[str], requested: list[str]) -> Reply:
        if "GOODBYE" in names or self.intent == NO_INTENT:
            return Reply([Act("GOODBYE")])
        if "THANK_YOU" in names:
            return Reply([Act("REQ_MORE")])
        if requested:
            return Reply([Act("INFORM", slot, self._say(slot)) for slot in SLOTS if slot in requested])
        if "REQUEST_ALTS" in names:
            del self._found[0]
            return Reply(self._offer("next"))
        if "AFFIRM" in names:
            return self._do()
        missing = [slot for slot in REQUIRED[self.intent] if slot not in self.values]
        if missing:
            return Reply(self._ask(missing))
        return self._do() if self.intent == FIND else Reply(self._confirm())

    def _ask(self, missing: list[str]) -> list[Act]:
        """Requests one missing slot, or two."""
        two = len(missing) > 1 and self.rng.chance(0.35)
        return [Act("REQUEST", slot) for slot in missing[: 1 + two]]

    def _confirm(self) -> list[Act]:
        """Confirms the values, defaults included. Now and then a value has been misheard."""
        values = {slot: self.values.get(slot) or repeats_value(self.rng, OFTEN[0]) for slot in CONFIRMED[self.intent]}
        if not self._has_misheard and self.rng.chance(0.08):
            self._has_misheard = True
            slot = self.rng.choice([slot for slot in values if slot != REPEATS])
            other = another(self.rng, slot)
            if other.canonical != values[slot].canonical:
                values[slot] = other
        return [Act("CONFIRM", slot, value) for slot, value in values.items()]

    def _do(self) -> Reply:
        """Calls the service and reports the result."""
        parameters = {slot: value.canonical for slot, value in self.values.items()}
        answer = self.calendar.call(self.intent, parameters)
        self._found = list(answer.results)
        if answer.failure:
            acts = [Act("NOTIFY_FAILURE", note=answer.failure)]
        elif self.intent == FIND:
            acts = self._offer("one" if len(answer.results) == 1 else "many")
            count = str(len(answer.results))
            acts.append(Act("INFORM_COUNT", "count", Value(count, count)))
        else:
            acts = [Act("NOTIFY_SUCCESS")]
        if self.intent != FIND and not answer.failure and self.rng.chance(0.4):
            acts.append(Act("REQ_MORE"))
        return Reply(acts, (self.intent, parameters), answer.results)

    def _offer(self, note: str) -> list[Act]:
        slots = (NAME, TIME) if self.rng.chance(0.5) else (NAME,)
        return [Act("OFFER", slot, self._say(slot), note) for slot in slots]

    def _say(self, slot: str) -> Value:
        """The value of a slot of the current reminder."""
        canonical = self._found[0][slot]
        if slot == NAME:
            return Value(canonical, canonical)
        say = {DATE: day_value, TIME: time_value, REPEATS: repeats_value}[slot]
        return say(self.rng, canonical)


LONGEST = 80  # turns; a longer dialogue goes round in circles


def simulate(seed: str, split: str, number: int, attempt: int = 0) -> tuple[dict[str, Any], Goal]:
    """Simulates a dialogue; gives it with the goal of its user. It depends on the arguments only.

    Args:
      seed: any text.
      split: such as ``train``.
      number: of the dialogue in its split.
      attempt: how many earlier attempts were the same as another dialogue.

    Raises:
      RuntimeError: it does not end.
    """
    rng = SeededRng(seed, "reminders", split, str(number), str(attempt))
    goal = draw_goal(rng)
    user, system = User(goal, rng), System(Calendar(goal.reminders), rng)
    turns: list[dict[str, Any]] = []
    heard: list[Act] = []
    while not any(act.name == "GOODBYE" for act in heard):
        if len(turns) >= LONGEST:
            raise RuntimeError(f"dialogue {number} of {split} does not end")
        acts = user.speak(heard)
        system.hear(acts)
        values = {slot: [value.text] for slot, value in system.values.items()}
        requested = [act.slot for act in acts if act.name == "REQUEST"]
        line = say(USER, acts, system.intent, rng)
        turns.append(
            user_turn(SERVICE, line, [act.as_action() for act in acts], state(system.intent, values, requested))
        )
        reply = system.reply(acts)
        heard = reply.acts
        line = say(SYSTEM, heard, system.intent, rng)
        turns.append(system_turn(SERVICE, line, [act.as_action() for act in heard], reply.call, reply.results))
    dialogue = {"dialogue_id": f"{split}_{number:05}", "services": [SERVICE], "turns": turns}
    return dialogue, goal


DIGEST_SIZE = 8  # bytes


def text_digest(text: str) -> bytes:
    """A digest of a text: of ten million texts two have the same once in 400,000 times."""
    return blake2b(text.encode(), digest_size=DIGEST_SIZE).digest()


def digest_of(dialogue: dict[str, Any]) -> bytes:
    """A digest of the utterances: equal dialogues have equal digests."""
    return text_digest("\0".join(turn["utterance"] for turn in dialogue["turns"]))


_SERVICES: dict[str, Service] = {SERVICE: parse_service(SCHEMA)}
_WITH_SPANS = {slot.name for slot in _SERVICES[SERVICE].slots if not slot.is_categorical}


def check_dialogue(raw: Mapping[str, Any], goal: Goal) -> None:
    """Checks a dialogue against the format, itself, and the goal of its user.

    Args:
      raw: the dialogue as it goes into a file.
      goal: of its user.

    Raises:
      RuntimeError: the dialogue is inconsistent: a bug of the simulator.
    """
    dialogue = msgspec.convert(raw, Dialogue)
    problems = [f"{where}: {reason}" for where, reason in problems_of(dialogue, _SERVICES)]
    intent, values, offered = NO_INTENT, dict[str, list[str]](), ""
    before: list[Mapping[str, Any]] = []  # the actions of the turn before
    calls, done = [], Counter[tuple[str, str]]()

    def expect(what: str, actual: object, expected: object) -> None:
        if actual != expected:
            problems.append(f"{what}: {actual}, expected {expected}")

    for i, turn in enumerate(raw["turns"]):
        (frame,) = turn["frames"]
        actions = frame["actions"]
        slots = {act: [action["slot"] for action in actions if action["act"] == act] for act in ("INFORM", "REQUEST")}
        spans = sorted(
            (span["slot"], turn["utterance"][span["start"] : span["exclusive_end"]]) for span in frame["slots"]
        )
        spoken = [(action["slot"], value) for action in actions for value in action["values"]]
        expect(f"spans of turn {i}", spans, sorted(pair for pair in spoken if pair[0] in _WITH_SPANS))
        if "service_call" in frame:
            call = frame["service_call"]
            calls.append((call["method"], call["parameters"], bool(frame["service_results"])))
        if turn["speaker"] == "SYSTEM":
            offered = next((a["values"][0] for a in actions if (a["act"], a["slot"]) == ("OFFER", NAME)), offered)
            if requested := {action["slot"] for action in before if action["act"] == "REQUEST"}:
                expect(f"slots informed in turn {i}", set(slots["INFORM"]), requested)
        else:
            acts = {action["act"] for action in actions}
            confirmed = {action["slot"]: action["values"] for action in before if action["act"] == "CONFIRM"}
            if "INFORM_INTENT" in acts:
                intent, values = next(a["values"][0] for a in actions if a["act"] == "INFORM_INTENT"), {}
            if "SELECT" in acts:
                values[NAME] = [offered]
            if "AFFIRM" in acts:
                values |= confirmed
            if "NEGATE" in acts and not confirmed:
                intent = NO_INTENT
            values |= {action["slot"]: action["values"] for action in actions if action["act"] == "INFORM"}
            expect(f"state of turn {i}", frame["state"], state(intent, values, slots["REQUEST"]))
        done.update((action["act"], action["slot"]) for action in actions)
        before = actions
    expect("calls", calls, [(call.method, call.parameters, call.succeeds) for call in goal.calls])
    expect("alternatives", done["REQUEST_ALTS", ""], sum(task.target for task in goal.tasks if task.intent == FIND))
    for slot, n in Counter(slot for task in goal.tasks for slot in task.requests).items():
        if (times := done["INFORM", slot] + done["OFFER", slot]) < n:
            problems.append(f"the goal requests {slot!r} {n} times, informed {times} times")
    if problems:
        raise RuntimeError(f"dialogue {dialogue.dialogue_id}: {'; '.join(problems)}")
