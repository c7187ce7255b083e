"""The user: an agenda of dialogue acts, a stack that the system's acts push onto (Schatzmann et al. 2007).

At the start the agenda is filled from the goal: for each task its intent, the values to give and the slots to ask for
in the end; at the bottom thanks and goodbye. The system's acts push acts onto it (the answer to a question, the denial
of a wrong value) and remove what is settled. A turn of the user is popped off it: one act, and those that go with it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from parapet.transforms.reminders.goals import MIND, SLIP, Goal, Task
from parapet.transforms.reminders.service import NAME, OFTEN, SLOTS, TIME
from parapet.transforms.reminders.wording import Act, Value, values_of
from parapet.transforms.seeding import SeededRng

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
