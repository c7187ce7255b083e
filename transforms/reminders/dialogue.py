"""Simulation of a dialogue between user and system in the SGD layout, and a check of the result."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import msgspec

from parapet.schemas.dialogue import Dialogue, problems_of
from parapet.schemas.service import Service, parse_service
from parapet.transforms import digests
from parapet.transforms.reminders.goals import Goal, draw_goal
from parapet.transforms.reminders.service import FIND, NAME, SCHEMA, SERVICE, Calendar
from parapet.transforms.reminders.system import System
from parapet.transforms.reminders.user import User
from parapet.transforms.reminders.wording import SYSTEM, USER, Act, say
from parapet.transforms.seeding import SeededRng
from parapet.transforms.sgd_turns import state, system_turn, user_turn

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


def digest_of(dialogue: dict[str, Any]) -> bytes:
    """A digest of the utterances: equal dialogues have equal digests."""
    text = "\0".join(turn["utterance"] for turn in dialogue["turns"])
    return digests.digest_of(text)


_SERVICES: dict[str, Service] = {SERVICE: parse_service(SCHEMA)}
_CATEGORICAL = {slot.name for slot in _SERVICES[SERVICE].slots if slot.is_categorical}
_NOT_SLOTS = ("", "intent", "count")


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
    problems += [f"turn {i}: {reason}" for i, turn in enumerate(raw["turns"]) for reason in _span_problems(turn)]
    problems += _state_problems(raw["turns"])
    problems += _goal_problems(raw["turns"], goal)
    if problems:
        raise RuntimeError(f"dialogue {dialogue.dialogue_id}: {'; '.join(problems)}")


def _span_problems(turn: Mapping[str, Any]) -> list[str]:
    """Spans are the places of the values of actions, neither more nor less."""
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
    """States follow from the actions: they are derived again here."""
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
        requested = sorted(action["slot"] for action in frame["actions"] if action["act"] == "REQUEST")
        expected = {"active_intent": intent, "requested_slots": requested, "slot_values": values}
        if frame["state"] != expected:
            problems.append(f"turn {i}: the state is {frame['state']}, expected {expected}")
    return problems


def _goal_problems(turns: list[Mapping[str, Any]], goal: Goal) -> list[str]:
    """The calls are those of the goal, requested slots were informed, and the reminder looked for was offered."""
    problems = []
    calls = []
    for turn in turns:
        frame = turn["frames"][0]
        if "service_call" in frame:
            call = frame["service_call"]
            calls.append((call["method"], call["parameters"], bool(frame["service_results"])))
    expected = [(call.method, call.parameters, call.succeeds) for call in goal.calls]
    if calls != expected:
        problems.append(f"the calls are {calls}, expected {expected}")
    for i, turn in enumerate(turns):
        actions = turn["frames"][0]["actions"]
        requested = {action["slot"] for action in actions if action["act"] == "REQUEST"}
        if turn["speaker"] == "USER" and requested:
            answers = turns[i + 1]["frames"][0]["actions"]
            informed = {action["slot"] for action in answers if action["act"] == "INFORM"}
            if informed != requested:
                problems.append(f"turn {i}: requested {sorted(requested)}, informed {sorted(informed)}")
    done = Counter((action["act"], action["slot"]) for turn in turns for action in turn["frames"][0]["actions"])
    if done["REQUEST_ALTS", ""] != sum(task.target for task in goal.tasks if task.intent == FIND):
        problems.append("the reminder that the user looks for was not offered")
    requests = Counter(slot for task in goal.tasks for slot in task.requests)
    for slot, n in requests.items():
        if (times := done["INFORM", slot] + done["OFFER", slot]) < n:
            problems.append(f"the goal requests {slot!r} {n} times, informed {times} times")
    return problems
