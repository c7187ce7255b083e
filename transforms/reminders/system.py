"""The system: tracks what the user wants, asks for what it lacks, confirms, calls the service, and tells."""

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
from parapet.transforms.reminders.wording import Act, Value, said_day, said_often, said_time, values_of
from parapet.transforms.seeding import SeededRng

NO_INTENT = "NONE"


class Reply(msgspec.Struct, frozen=True):
    """The system's turn.

    Attributes:
      acts: what it says.
      call: of the service before it: intent, and canonical values; none where there is no call.
      results: what the service has answered.
    """

    acts: list[Act]
    call: tuple[str, dict[str, str]] | None = None
    results: tuple[dict[str, str], ...] = ()


class System:
    """A system beside a calendar.

    A new intent begins with no values: those of a reminder before it are not those of the next one. Selecting a
    reminder that was offered brings its name along.

    Args:
      calendar: the service.
      rng: how it goes about things.

    Attributes:
      intent: what the user wants done, or ``NONE``.
      values: of its slots, as the user has said or affirmed them.
    """

    def __init__(self, calendar: Calendar, rng: SeededRng) -> None:
        self.calendar, self.rng = calendar, rng
        self.intent, self.values = NO_INTENT, dict[str, Value]()
        self._said: list[Act] = []  # in the turn before
        self._found: list[dict[str, str]] = []  # the reminders to speak of, the one spoken of first
        self._has_misheard = False

    def hear(self, acts: Sequence[Act]) -> None:
        """Tracks the state."""
        names = {act.name for act in acts}
        if "INFORM_INTENT" in names:
            self.intent = next(act.value.said for act in acts if act.name == "INFORM_INTENT" and act.value)
            self.values = {NAME: self._say(NAME)} if "SELECT" in names else {}
            self._has_misheard = False
        if "AFFIRM" in names:
            self.values |= values_of([act for act in self._said if act.name == "CONFIRM"])
        if any(act.name == "NEGATE" and act.note == "more" for act in acts):
            self.intent = NO_INTENT
        self.values |= values_of([act for act in acts if act.name == "INFORM"])

    def reply(self, acts: Sequence[Act]) -> Reply:
        """What the system does and says, given what it has heard."""
        reply = self._reply({act.name for act in acts}, [act.slot for act in acts if act.name == "REQUEST"])
        self._said = reply.acts
        return reply

    def _reply(self, names: set[str], asked: list[str]) -> Reply:
        if "GOODBYE" in names or self.intent == NO_INTENT:
            return Reply([Act("GOODBYE")])
        if "THANK_YOU" in names:
            return Reply([Act("REQ_MORE")])
        if asked:
            return Reply([Act("INFORM", slot, self._say(slot)) for slot in SLOTS if slot in asked])
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
        """Asks for what is missing: for one slot, or for two that go together."""
        two = len(missing) > 1 and self.rng.chance(0.35)
        return [Act("REQUEST", slot) for slot in missing[: 1 + two]]

    def _confirm(self) -> list[Act]:
        """Says what it has understood; of what nobody has said, the default. Now and then it has misheard a value."""
        values = {slot: self.values.get(slot) or said_often(self.rng, OFTEN[0]) for slot in CONFIRMED[self.intent]}
        if not self._has_misheard and self.rng.chance(0.08):
            self._has_misheard = True
            slot = self.rng.choice([slot for slot in values if slot != REPEATS])
            other = another(self.rng, slot)
            if other.canonical != values[slot].canonical:
                values[slot] = other
        return [Act("CONFIRM", slot, value) for slot, value in values.items()]

    def _do(self) -> Reply:
        """Calls the service, and tells what came of it."""
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
        """A slot of the reminder that is spoken of."""
        canonical = self._found[0][slot]
        if slot == NAME:
            return Value(canonical, canonical)
        say = {DATE: said_day, TIME: said_time, REPEATS: said_often}[slot]
        return say(self.rng, canonical)
