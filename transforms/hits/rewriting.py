"""The user turns that workers rewrite: what a page shows of one, why one has no page, and which are drawn.

Of dialogues that share an id, the first has pages.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from itertools import accumulate
from pathlib import Path

import msgspec
import numpy as np

from parapet.schemas.dialogue import Dialogue, Turn
from parapet.schemas.errors import InputError
from parapet.schemas.layout import SPLITS, TEST, as_path, dialogue_files, is_there
from parapet.transforms.digests import as_array, digest_of
from parapet.transforms.fence import bad_record
from parapet.transforms.hits.kept_values import Mark, bold_pieces, marks, speakable
from parapet.transforms.hits.markup import page_name, shown
from parapet.transforms.hits.terms import MAX_ANNOTATION, REWRITES
from parapet.transforms.seeding import stable_digest
from parapet.transforms.touching import services_in_turns

FIELDS = ("paraphrase", "typos", "verbose", "simplified")

NO_TEXT = "no_text: the utterance has no words"
ONLY_VALUES = "only_values: the utterance is slot values only, which must stay"
BAD_ID = "bad_id: the dialogue id is blank, or has characters that MTurk does not accept"
LONG_ID = f"long_id: the task id passes the {MAX_ANNOTATION} characters of a RequesterAnnotation"
BAD_SPAN = "bad_span"

_WORD = re.compile(r"[^\W_]")
_DIGITS = 16  # hexadecimal ones of a sort key, 64 bits


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


def rewriting_of(dialogue: Dialogue, position: int) -> Rewriting | str:
    """What is to be rewritten of the user turn at ``position``; where nothing can be, the reason."""
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
    """The services that a turn is about, joined, see :func:`parapet.transforms.touching.services_in_turns`."""
    return "+".join(services_in_turns(dialogue)[position])


def _before(turns: Sequence[Turn], position: int) -> Turn | None:
    return next((turn for turn in reversed(turns[:position]) if turn.speaker == "USER"), None)


def _carried(text: str) -> bool:
    # MTurk refuses four-byte characters in a question, and an id is sent unchanged: there they cannot be escaped.
    return shown(text) == text and all(c.isprintable() and ord(c) < 0x10000 for c in text)


class Scan(msgspec.Struct, frozen=True):
    """What the choice needs to know of a dialogue file: eight bytes of each dialogue and of each turn.

    Attributes:
      position: the file's place among the others. ``name`` is what it is called in reasons.
      names: of each dialogue, the digest of its :func:`page_name` without regard to case: some file systems have none.
      turns: of each dialogue, how many of its turns can be drawn; none where all turns are taken.
      keys: of each of these, the first digits of its sort key in the random draw.
      user_turns: how many there are.
    """

    position: int
    name: str
    names: bytes
    turns: list[int]
    keys: bytes
    user_turns: int


class Choice(msgspec.Struct, frozen=True):
    """Which turns have pages.

    Attributes:
      elsewhere: (file, dialogue), by position, of dialogues whose id an earlier one has; with the file of that one.
      last: the last sort key that is drawn; None for all turns, ``""`` for none.
    """

    elsewhere: dict[tuple[int, int], str]
    last: str | None

    def draws(self, seed: int, task_id: str) -> bool:
        """Whether a turn is among those drawn."""
        return self.last is None or stable_digest(str(seed), task_id) <= self.last


def fenced_rewriting(dialogue: Dialogue, turn: int) -> Rewriting | str:
    """As :func:`rewriting_of`; where that raises, the error is the reason."""
    try:
        return rewriting_of(dialogue, turn)
    except Exception as error:
        return bad_record(error).reason


def scan(position: int, name: str, dialogues: Iterable[Dialogue], turns: int | None, seed: int) -> Scan:
    """Looks through a dialogue file; only where ``turns`` of them are to be drawn, at the turns as well."""
    names, keys = bytearray(), bytearray()
    numbers = []
    count = 0
    for dialogue in dialogues:
        positions = user_turns(dialogue)
        count += len(positions)
        names += digest_of(page_name(dialogue.dialogue_id).lower())
        drawn = [
            stable_digest(str(seed), turn_task_id(dialogue.dialogue_id, turn))
            for turn in (positions if turns is not None else ())
            if isinstance(fenced_rewriting(dialogue, turn), Rewriting)
        ]
        numbers.append(len(drawn))
        keys += b"".join(bytes.fromhex(key[:_DIGITS])[::-1] for key in drawn)
    return Scan(position, name, bytes(names), numbers, bytes(keys), count)


def choose(scans: Iterable[Scan], turns: int | None) -> Choice:
    """The choice among all files, in any order."""
    ordered = sorted(scans, key=lambda each: each.position)
    names = as_array(b"".join(each.names for each in ordered))
    _, first, number = np.unique(names, return_index=True, return_inverse=True)
    is_first = np.zeros(len(names), bool)
    is_first[first] = True
    starts = [0, *accumulate(len(each.turns) for each in ordered)]

    def place(i: int) -> tuple[Scan, int]:
        """(file, dialogue in it) of the i-th dialogue of all files."""
        of = bisect_right(starts, i) - 1
        return ordered[of], i - starts[of]

    elsewhere = {}
    for i in map(int, np.flatnonzero(~is_first)):
        file, dialogue = place(i)
        elsewhere[file.position, dialogue] = place(int(first[number[i]]))[0].name
    last = None
    if turns is not None:
        keys = as_array(b"".join(each.keys for each in ordered))
        keys = keys[np.repeat(is_first, [n for each in ordered for n in each.turns])]
        drawn = min(turns, len(keys))
        # The digits that were cut off do not matter: no two keys share the first 64 bits.
        last = f"{int(np.partition(keys, drawn - 1)[drawn - 1]):0{_DIGITS}x}" + "f" * 48 if drawn else ""
    return Choice(elsewhere, last)


class DialoguePath(msgspec.Struct, frozen=True):
    """A dialogue file. ``name`` is its last folder and file name: the split, but nothing of the machine."""

    position: int
    path: str
    name: str


def dialogue_paths(places: Iterable[str | Path], split: str | None = None) -> list[DialoguePath]:
    """The dialogue files of corpora, splits' folders and files, each once, in that order.

    Args:
      places: ``ROOT`` with ``{train,dev,test}/dialogues_NNN.json``, a folder with ``dialogues_NNN.json``, or files.
      split: of corpora; ``test`` unless given. A split's folder has its own.

    Raises:
      InputError: nothing there, or no dialogue file in it.
    """
    found = {path.resolve(): path for place in places for path in _files_of(as_path(place), split)}
    return [
        DialoguePath(position, str(path), f"{resolved.parent.name}/{resolved.name}")
        for position, (resolved, path) in enumerate(found.items())
    ]


def _files_of(place: Path, split: str | None) -> list[Path]:
    if not is_there(place):
        raise InputError("there is no such file or folder", place)
    if place.is_file():
        if split is not None:
            raise InputError("is a file: --split takes one split of a corpus's folder", place)
        return [place]
    found = dialogue_files(place, split or TEST) or (dialogue_files(place, "") if split is None else [])
    if not found:
        there = [each for each in SPLITS if dialogue_files(place, each)]
        if there:
            raise InputError(f"no dialogues of {split or TEST!r}; there are in: {', '.join(there)}", place, "--split")
        raise InputError(f"no dialogues here: expected {split or TEST}/dialogues_001.json and so on", place)
    return found
