"""What the worker sees of a user turn that is to be rewritten, or why it cannot be asked."""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

from parapet.schemas.dialogue import Dialogue, Turn
from parapet.transforms.hits.kept_values import Mark, bold_pieces, marks, speakable
from parapet.transforms.hits.markup import shown
from parapet.transforms.hits.terms import MAX_ANNOTATION, REWRITES
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
