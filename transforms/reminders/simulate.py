"""One dialogue of user and system, in the SGD layout."""

from __future__ import annotations

import hashlib
from typing import Any

from parapet.transforms.reminders.acts import SYSTEM, USER, Act, say
from parapet.transforms.reminders.goals import Goal, draw_goal
from parapet.transforms.reminders.service import SERVICE, Calendar
from parapet.transforms.reminders.system import System
from parapet.transforms.reminders.user import User
from parapet.transforms.seeding import SeededRng
from parapet.transforms.simulation.turns import state, system_turn, user_turn

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
