"""A dialogue: the system's policy, the loop in which it talks to the user, and a check of the result.

The system tracks the state, requests missing slots, confirms, calls the service and reports the result.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Any

import msgspec

from parapet.schemas.dialogue import Dialogue, problems_of
from parapet.schemas.service import Service, parse_service
from parapet.transforms.reminders.service import (
    CONFIRMED,
    DATE,
    FIND,
    NAME,
    OFTEN,
    REPEATS,
    REQUIRED,
    SCHEMA,
    SERVICE,
    SLOTS,
    TIME,
    Calendar,
)
from parapet.transforms.reminders.user import Goal, User, another, draw_goal
from parapet.transforms.reminders.wording import (
    SYSTEM,
    USER,
    Act,
    Value,
    day_value,
    repeats_value,
    say,
    time_value,
    values_of,
)
from parapet.transforms.seeding import SeededRng
from parapet.transforms.sgd_turns import state, system_turn, user_turn

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
