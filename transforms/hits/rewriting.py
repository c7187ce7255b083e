"""What a worker sees of a user turn that is to be rewritten, why a turn is not asked, and which turns are drawn.

Of dialogues that share an id the first is asked.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

import msgspec

from parapet.schemas.dialogue import Dialogue, Turn
from parapet.transforms.hits.kept_values import Mark, bold_pieces, marks, speakable
from parapet.transforms.hits.markup import page_name, shown
from parapet.transforms.hits.terms import MAX_ANNOTATION, REWRITES
from parapet.transforms.seeding import stable_digest
from parapet.transforms.touching import services_in_turns

FIELDS = ("paraphrase", "typos", "verbose", "simplified")

NO_TEXT = "no_text: the user says no word"
ONLY_VALUES = "only_values: the user says slot values and nothing else, and those must stay"
BAD_ID = "bad_id: the dialogue's id is blank, or has characters that MTurk does not carry"
LONG_ID = f"long_id: the task id passes the {MAX_ANNOTATION} characters of a RequesterAnnotation"
BAD_SPAN = "bad_span"

_WORD = re.compile(r"[^\W_]")


class Rewriting(msgspec.Struct, frozen=True):
    """A user's sentence, with the values that every answer must keep."""

    utterance: str
    marks: list[Mark]

    def pieces(self) -> list[tuple[str, bool]]:
        """The sentence in pieces that are bold, or not."""
        return bold_pieces(self.utterance, self.marks)

    def values(self) -> list[str]:
        """What is to be kept, each text once."""
        return list(dict.fromkeys(mark.kept.value for mark in self.marks))


def turn_task_id(dialogue_id: str, turn: int) -> str:
    """``1_00003:4:rewrites``: the turn is the utterance's position in the dialogue, from 0."""
    return f"{dialogue_id}:{turn}:{REWRITES}"


def user_turns(dialogue: Dialogue) -> list[int]:
    """The positions of the user's turns."""
    return [i for i, turn in enumerate(dialogue.turns) if turn.speaker == "USER"]


def ask_turn(dialogue: Dialogue, position: int) -> Rewriting | str:
    """What is asked about the user's turn at ``position``; where it cannot be asked, the reason."""
    task_id = turn_task_id(dialogue.dialogue_id, position)
    if not dialogue.dialogue_id or not _carried(dialogue.dialogue_id):
        return BAD_ID
    if len(task_id) > MAX_ANNOTATION:
        return LONG_ID
    turn = dialogue.turns[position]
    utterance = speakable(turn.utterance)
    if not utterance:
        return NO_TEXT
    try:
        found = marks(turn, _before(dialogue.turns, position))
    except ValueError as error:
        return f"{BAD_SPAN}: {error}"
    rewriting = Rewriting(utterance, found)
    # Without a letter or a digit of its own, no typing mistake could be made.
    if not any(_WORD.search(text) for text, bold in rewriting.pieces() if not bold):
        return ONLY_VALUES if found else NO_TEXT
    return rewriting


def services_of(dialogue: Dialogue, position: int) -> str:
    """The services that a turn speaks of, joined, see :func:`parapet.transforms.touching.services_in_turns`."""
    return "+".join(services_in_turns(dialogue)[position])


def _before(turns: Sequence[Turn], position: int) -> Turn | None:
    return next((turn for turn in reversed(turns[:position]) if turn.speaker == "USER"), None)


def _carried(text: str) -> bool:
    # MTurk refuses four-byte characters in a question; an id is sent as it is, so there they cannot be rewritten.
    return shown(text) == text and all(c.isprintable() and ord(c) < 0x10000 for c in text)


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
