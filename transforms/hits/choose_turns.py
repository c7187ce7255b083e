"""Which user turns are asked: of dialogues that share an id the first, and of all turns those that are drawn."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from parapet.schemas.dialogue import Dialogue
from parapet.transforms.hits.page_names import page_name
from parapet.transforms.hits.rewriting import Rewriting, ask_turn, turn_task_id, user_turns
from parapet.transforms.seeding import stable_digest


class Scan(msgspec.Struct, frozen=True):
    """What the choice needs to know of a dialogue file.

    Attributes:
      position: the file's place among the others. ``name`` is what it is called in reasons.
      names: of each dialogue, its :func:`page_name` without regard to case: some file systems have none.
      keys: of each dialogue, where its turns stand in the draw; empty where all are asked.
      user_turns: how many there are.
    """

    position: int
    name: str
    names: list[str]
    keys: list[list[str]]
    user_turns: int


class Choice(msgspec.Struct, frozen=True):
    """What is asked.

    Attributes:
      elsewhere: (file, dialogue), by position, of those that another dialogue's id bars; with that one's file.
      last: the last draw key that is asked; None for all turns, ``""`` for none.
    """

    elsewhere: dict[tuple[int, int], str]
    last: str | None

    def draws(self, seed: int, task_id: str) -> bool:
        """Whether a turn is among those drawn."""
        return self.last is None or stable_digest(str(seed), task_id) <= self.last


def scan(position: int, name: str, dialogues: Iterable[Dialogue], turns: int | None, seed: int) -> Scan:
    """Looks through a dialogue file; only where ``turns`` of them are to be drawn, at the turns as well."""
    found = Scan(position, name, [], [], 0)
    count = 0
    for dialogue in dialogues:
        asked = user_turns(dialogue)
        count += len(asked)
        found.names.append(page_name(dialogue.dialogue_id).lower())
        askable = asked if turns is None else [i for i in asked if isinstance(ask_turn(dialogue, i), Rewriting)]
        keys = (
            [] if turns is None else [stable_digest(str(seed), turn_task_id(dialogue.dialogue_id, i)) for i in askable]
        )
        found.keys.append(keys)
    return msgspec.structs.replace(found, user_turns=count)


def choose(scans: Iterable[Scan], turns: int | None) -> Choice:
    """The choice among all files, in any order."""
    first: dict[str, str] = {}
    elsewhere: dict[tuple[int, int], str] = {}
    keys: list[str] = []
    for each in sorted(scans, key=lambda each: each.position):
        for i, name in enumerate(each.names):
            if name in first:
                elsewhere[each.position, i] = first[name]
            else:
                first[name] = each.name
                keys += each.keys[i]
    last = None
    if turns is not None:
        drawn = sorted(keys)[:turns]
        last = drawn[-1] if drawn else ""
    return Choice(elsewhere, last)
