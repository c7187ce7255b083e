"""The rewriting tasks of ``hits``: the user turn of a task, and the values that its rewritings must keep."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from parapet.schemas.dialogue import Dialogue, Frame
from parapet.schemas.errors import InputError
from parapet.schemas.rows import KINDS, Kind
from parapet.transforms.crowd.answer_files import TaskKind
from parapet.transforms.crowd.hits import rewrite_pages
from parapet.transforms.crowd.hits.markup import Mark, find_word, speakable
from parapet.transforms.crowd.hits.page import PageRecord, read_manifest
from parapet.transforms.crowd.hits.terms import REWRITES
from parapet.transforms.perturb.corpora import services_in_turns

# The form field of the page for each kind of variation.
FIELD_OF: Mapping[Kind, str] = dict(zip(KINDS, rewrite_pages.FIELDS, strict=True))

_TASK_ID = re.compile(r"(?P<service>.+:(?:0|[1-9][0-9]{0,8})):(?P<task>rewrites)")
_FIELD = re.compile("|".join(rewrite_pages.FIELDS))
REWRITING_TASKS = TaskKind((REWRITES,), _TASK_ID, "DIALOGUE_ID:TURN:rewrites", _FIELD)

# Values of states and actions that do not occur as words.
_UNSAID = frozenset({"", "true", "false", "dontcare", "none", "yes", "no"})


Place = tuple[int, int]


class Unit(msgspec.Struct, frozen=True):
    """A piece of text that must be kept: a value, or several overlapping values.

    Attributes:
      text: the text as the page shows it.
      marks: the values in it.
      whole: whether it consists of whole words; a span may be off by a letter.
    """

    text: str
    marks: tuple[Mark, ...]
    whole: bool


class SourceTurn(msgspec.Struct, frozen=True):
    """A user's turn that was to be rewritten.

    Attributes:
      services: the services of the turn, joined.
      before: the previous turn, as the page shows it; empty at the beginning of the dialogue.
      utterance: the sentence, as the page shows it.
      units: the texts that every rewriting must keep.
      others: values elsewhere in the dialogue that this turn neither contains nor means, in lower case.
    """

    dialogue_id: str
    turn: int
    services: str
    before: str
    utterance: str
    units: tuple[Unit, ...]
    others: tuple[str, ...]

    @property
    def place(self) -> str:
        """Return ``DIALOGUE_ID:TURN``."""
        return f"{self.dialogue_id}:{self.turn}"


def source_turn(dialogue: Dialogue, position: int) -> SourceTurn | str:
    """Return the turn that was to be rewritten, or the reason why it cannot have been."""
    if not 0 <= position < len(dialogue.turns):
        return f"unknown_turn: the dialogue has {len(dialogue.turns)} turns"
    if dialogue.turns[position].speaker != "USER":
        return "unknown_turn: this is a turn of the system, not of the user"
    rewriting = rewrite_pages.rewriting_of(dialogue, position)
    if isinstance(rewriting, str):
        return f"never_asked: {rewriting}"
    return SourceTurn(
        dialogue.dialogue_id,
        position,
        "+".join(services_in_turns(dialogue)[position]),
        speakable(dialogue.turns[position - 1].utterance) if position else "",
        rewriting.utterance,
        tuple(_units(rewriting)),
        tuple(_others(dialogue, position, rewriting.utterance)),
    )


def _units(rewriting: rewrite_pages.Rewriting) -> Iterator[Unit]:
    """Yield the units of a sentence, in order."""
    groups: list[list[Mark]] = []
    for mark in rewriting.marks:
        if groups and mark.start < max(other.end for other in groups[-1]):
            groups[-1].append(mark)
        else:
            groups.append([mark])
    for group in groups:
        text = rewriting.utterance[group[0].start : max(mark.end for mark in group)]
        yield Unit(text, tuple(group), find_word(rewriting.utterance, text) is not None)


def _others(dialogue: Dialogue, position: int, utterance: str) -> Iterator[str]:
    """Yield values elsewhere in the dialogue, except values that the turn paraphrases ("a couple" for 2)."""
    folded = utterance.casefold()
    own = {value for frame in dialogue.turns[position].frames for value in _of_turn(frame)}
    values: set[str] = set()
    for frame in (frame for turn in dialogue.turns for frame in turn.frames):
        values.update(_of_turn(frame), *(frame.state.slot_values.values() if frame.state else ()))
    for value in sorted({speakable(value).casefold() for value in values - own} - _UNSAID):
        if any(map(str.isalnum, value)) and find_word(folded, value) is None:
            yield value


def _of_turn(frame: Frame) -> Iterator[str]:
    for action in frame.actions or ():
        if action.slot not in ("", "intent", "count"):
            yield from action.values
            yield from action.canonical_values or ()


def read_tasks(folders: Iterable[str]) -> list[PageRecord]:
    """Read the tasks in folders of ``hits``. Raises InputError if a folder does not exist or has no rewriting tasks."""
    tasks: list[PageRecord] = []
    for folder in folders:
        of_folder = [record for record in read_manifest(folder) if record.task == REWRITES]
        if not of_folder:
            reason = "contains no rewriting tasks: make them with 'parapet hits --task rewrites'"
            raise InputError(reason, folder, "--hits")
        tasks += of_folder
    return tasks


def check_same(task: PageRecord, turn: SourceTurn | str) -> None:
    """Raise InputError unless the corpus still has the turn of the task."""
    if isinstance(turn, str):
        why = turn
    elif turn.utterance != task.utterance:
        why = f"workers saw {task.utterance!r}, but the corpus has {turn.utterance!r}"
    elif [mark.kept for unit in turn.units for mark in unit.marks] != task.values:
        why = "the annotation of its values has changed"
    else:
        return
    reason = f"{task.task_id} has changed: {why}; give the corpus and --split that you gave to 'parapet hits'"
    raise InputError(reason, "--hits")


def find_units(units: Sequence[Unit], text: str) -> list[Place | None]:
    """Find the position of each unit in a rewriting, without overlaps; None for missing units.

    Longer units are found first, so that "2" is not found in "2 pm" if both are values; equal ones in their order.
    """
    places: dict[int, Place] = {}
    for i, unit in sorted(enumerate(units), key=lambda pair: -len(pair[1].text)):
        start = find_word(text, unit.text, [*places.values()], unit.whole)
        if start is not None:
            places[i] = (start, start + len(unit.text))
    return [places.get(i) for i in range(len(units))]


def value_rows(units: Sequence[Unit], places: Sequence[Place | None]) -> Iterator[dict[str, Any]]:
    """Yield the rows of ``values`` in the audit: each value with its positions before and after.

    Args:
      units: the units of the sentence.
      places: their positions in the rewriting.
    """
    for unit, place in zip(units, places, strict=True):
        for mark in unit.marks:
            start = None if place is None else place[0] + mark.start - unit.marks[0].start
            yield {
                **msgspec.structs.asdict(mark.kept),
                "start": mark.start,
                "exclusive_end": mark.end,
                "new_start": start,
                "new_exclusive_end": None if start is None else start + mark.end - mark.start,
            }
