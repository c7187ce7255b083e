"""The system: tracks the state, requests missing slots, confirms, calls the service and reports the result."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from parapet.transforms.reminders.goals import another
from parapet.transforms.reminders.service import (
    CONFIRMED,
    DATE,
    FIND,
    NAME,
    OFTEN,
    REPEATS,
    REQUIRED,
    SLOTS,
    TIME,
    Calendar,
)
from parapet.transforms.reminders.wording import Act, Value, day_value, repeats_value, time_value, values_of
from parapet.transforms.seeding import SeededRng

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
