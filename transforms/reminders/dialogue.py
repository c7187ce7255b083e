"""A dialogue of user and system in the SGD layout, and what must hold of it."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping
from typing import Any

import msgspec

from parapet.schemas.dialogue import Dialogue, problems_of
from parapet.schemas.service import Service, parse_service
from parapet.transforms.reminders.goals import Goal, draw_goal
from parapet.transforms.reminders.service import FIND, NAME, SCHEMA, SERVICE, Calendar
from parapet.transforms.reminders.system import System
from parapet.transforms.reminders.user import User
from parapet.transforms.reminders.wording import SYSTEM, USER, Act, say
from parapet.transforms.seeding import SeededRng
from parapet.transforms.sgd_turns import state, system_turn, user_turn

LONGEST = 80  # turns; what takes longer goes round in circles


def simulate(seed: str, split: str, number: int, attempt: int = 0) -> tuple[dict[str, Any], Goal]:
    """A dialogue, and what its user wants. Nothing else than the arguments decides what it is.

    Args:
      seed: any text.
      split: such as ``train``.
      number: of the dialogue in its split.
      attempt: how often it has come out as another one did.

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
        said = user.speak(heard)
        system.hear(said)
        values = {slot: [value.said] for slot, value in system.values.items()}
        asked = [act.slot for act in said if act.name == "REQUEST"]
        line = say(USER, said, system.intent, rng)
        turns.append(user_turn(SERVICE, line, [act.as_action() for act in said], state(system.intent, values, asked)))
        reply = system.reply(said)
        heard = reply.acts
        line = say(SYSTEM, heard, system.intent, rng)
        turns.append(system_turn(SERVICE, line, [act.as_action() for act in heard], reply.call, reply.results))
    dialogue = {"dialogue_id": f"{split}_{number:05}", "services": [SERVICE], "turns": turns}
    return dialogue, goal


def digest_of(dialogue: dict[str, Any]) -> bytes:
    """Of all that is said; dialogues with the same are the same."""
    said = "\0".join(turn["utterance"] for turn in dialogue["turns"])
    return hashlib.blake2b(said.encode(), digest_size=16).digest()


_SERVICES: dict[str, Service] = {SERVICE: parse_service(SCHEMA)}
_CATEGORICAL = {slot.name for slot in _SERVICES[SERVICE].slots if slot.is_categorical}
_NOT_SLOTS = ("", "intent", "count")


def check_dialogue(raw: Mapping[str, Any], goal: Goal) -> None:
    """Checks a dialogue against the format, itself, and the goal of its user.

    Args:
      raw: the dialogue as it goes into a file.
      goal: what its user wants.

    Raises:
      RuntimeError: something does not hold: a fault of the simulator's.
    """
    dialogue = msgspec.convert(raw, Dialogue)
    problems = [f"{where}: {reason}" for where, reason in problems_of(dialogue, _SERVICES)]
    problems += [f"turn {i}: {reason}" for i, turn in enumerate(raw["turns"]) for reason in _span_problems(turn)]
    problems += _state_problems(raw["turns"])
    problems += _goal_problems(raw["turns"], goal)
    if problems:
        raise RuntimeError(f"dialogue {dialogue.dialogue_id}: {'; '.join(problems)}")


def _span_problems(turn: Mapping[str, Any]) -> list[str]:
    """Each value of an action stands where a span says, and no span marks anything else."""
    frame = turn["frames"][0]
    marked = sorted((span["slot"], turn["utterance"][span["start"] : span["exclusive_end"]]) for span in frame["slots"])
    spoken = sorted(
        (action["slot"], value)
        for action in frame["actions"]
        if action["slot"] not in _NOT_SLOTS and action["slot"] not in _CATEGORICAL
        for value in action["values"]
    )
    return [] if marked == spoken else [f"spans {marked} are not the values {spoken}"]


def _state_problems(turns: list[Mapping[str, Any]]) -> list[str]:
    """States follow from the actions: they are worked out again here."""
    problems = []
    intent, values, offered = "NONE", dict[str, list[str]](), ""
    before: list[Mapping[str, Any]] = []
    for i, turn in enumerate(turns):
        frame = turn["frames"][0]
        acts = {action["act"] for action in frame["actions"]}
        if turn["speaker"] == "SYSTEM":
            before = frame["actions"]
            offered = next((a["values"][0] for a in before if (a["act"], a["slot"]) == ("OFFER", NAME)), offered)
            continue
        confirmed = [action for action in before if action["act"] == "CONFIRM"]
        for action in frame["actions"]:
            if action["act"] == "INFORM_INTENT":
                intent, values = action["values"][0], {}
        if "SELECT" in acts:
            values[NAME] = [offered]
        if "AFFIRM" in acts:
            values.update((action["slot"], action["values"]) for action in confirmed)
        if "NEGATE" in acts and not confirmed:
            intent = "NONE"
        values.update((a["slot"], a["values"]) for a in frame["actions"] if a["act"] == "INFORM")
        asked = sorted(action["slot"] for action in frame["actions"] if action["act"] == "REQUEST")
        expected = {"active_intent": intent, "requested_slots": asked, "slot_values": values}
        if frame["state"] != expected:
            problems.append(f"turn {i}: the state is {frame['state']}, and follows as {expected}")
    return problems


def _goal_problems(turns: list[Mapping[str, Any]], goal: Goal) -> list[str]:
    """The service was called as the goal wants, what was asked for was told, and what was looked for was offered."""
    problems = []
    calls = []
    for turn in turns:
        frame = turn["frames"][0]
        if "service_call" in frame:
            call = frame["service_call"]
            calls.append((call["method"], call["parameters"], bool(frame["service_results"])))
    wanted = [(call.method, call.parameters, call.succeeds) for call in goal.calls]
    if calls != wanted:
        problems.append(f"the calls are {calls}, and the goal wants {wanted}")
    for i, turn in enumerate(turns):
        actions = turn["frames"][0]["actions"]
        asked = {action["slot"] for action in actions if action["act"] == "REQUEST"}
        if turn["speaker"] == "USER" and asked:
            answers = turns[i + 1]["frames"][0]["actions"]
            told = {action["slot"] for action in answers if action["act"] == "INFORM"}
            if told != asked:
                problems.append(f"turn {i}: {sorted(asked)} are asked for, and {sorted(told)} told")
    done = Counter((action["act"], action["slot"]) for turn in turns for action in turn["frames"][0]["actions"])
    if done["REQUEST_ALTS", ""] != sum(task.wanted for task in goal.tasks if task.intent == FIND):
        problems.append("what the user looks for was not offered")
    wished = Counter(slot for task in goal.tasks for slot in task.requests)
    for slot, n in wished.items():
        if (times := done["INFORM", slot] + done["OFFER", slot]) < n:
            problems.append(f"the user wants to know {slot!r} {n} times, and is told {times} times")
    return problems
