"""The rewriting tasks of ``hits``: the user turn of a task, and the values that its rewritings must keep."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import msgspec

from parapet.schemas.dialogue import Dialogue, Frame
from parapet.schemas.errors import InputError
from parapet.schemas.rows import Kind
from parapet.transforms.crowd.answer_files import TaskKind
from parapet.transforms.crowd.hits.markup import Mark, find_word, speakable
from parapet.transforms.crowd.hits.page import PageRecord, read_manifest
from parapet.transforms.crowd.hits.rewrite_pages import FIELDS, Rewriting, rewriting_of, turn_task_id
from parapet.transforms.crowd.hits.terms import REWRITES
from parapet.transforms.perturbation.corpora import services_in_turns

# The kind of variation for each form field of the page.
KIND_OF: Mapping[str, Kind] = {
    "paraphrase": "paraphrase",
    "typos": "typos",
    "verbose": "verbose",
    "simplified": "simple",
}
FIELD_OF: Mapping[Kind, str] = {kind: field for field, kind in KIND_OF.items()}

REWRITING_TASKS = TaskKind(
    (REWRITES,),
    re.compile(r"(?P<service>.+:(?:0|[1-9][0-9]{0,8})):(?P<task>rewrites)"),
    "DIALOGUE_ID:TURN:rewrites",
    re.compile("|".join(FIELDS)),
)

# Values of states and actions that do not occur as words.
_UNSAID = frozenset({"", "true", "false", "dontcare", "none", "yes", "no"})


Place = tuple[int, int]


class Unit(msgspec.Struct, frozen=True):
    """A piece of text that must be kept: a value, or several overlapping values.

    Attributes:
      text: the text as the page shows it. ``start`` is its position in the sentence.
      whole: whether it consists of whole words; a span may be off by a letter.
      marks: the values in it.
    """

    text: str
    start: int
    whole: bool
    marks: tuple[Mark, ...]


class SourceTurn(msgspec.Struct, frozen=True, dict=True):
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

    @cached_property
    def place(self) -> str:
        """Return ``DIALOGUE_ID:TURN``."""
        return f"{self.dialogue_id}:{self.turn}"

    @property
    def task_id(self) -> str:
        """Return the task id of its HIT."""
        return turn_task_id(self.dialogue_id, self.turn)

    @cached_property
    def values(self) -> list[str]:
        """Return the texts to keep, without duplicates."""
        return list(dict.fromkeys(unit.text for unit in self.units))


def place_of(service_name: str) -> tuple[str, int]:
    """Split an assignment's ``service_name``, as matched by :data:`REWRITING_TASKS`, into dialogue id and turn."""
    dialogue_id, _, turn = service_name.rpartition(":")
    return dialogue_id, int(turn)


def source_turn(dialogue: Dialogue, position: int) -> SourceTurn | str:
    """Return the turn that was to be rewritten, or the reason why it cannot have been."""
    if not 0 <= position < len(dialogue.turns):
        return f"unknown_turn: the dialogue has {len(dialogue.turns)} turns"
    if dialogue.turns[position].speaker != "USER":
        return "unknown_turn: this is a turn of the system, not of the user"
    rewriting = rewriting_of(dialogue, position)
    if not isinstance(rewriting, Rewriting):
        return f"never_asked: {rewriting}"
    before = speakable(dialogue.turns[position - 1].utterance) if position else ""
    return SourceTurn(
        dialogue.dialogue_id,
        position,
        "+".join(services_in_turns(dialogue)[position]),
        before,
        rewriting.utterance,
        units_of(rewriting),
        tuple(_others(dialogue, position, rewriting.utterance)),
    )


def _others(dialogue: Dialogue, position: int, utterance: str) -> Iterator[str]:
    """Yield values elsewhere in the dialogue, except values that the turn paraphrases ("a couple" for 2)."""
    folded = utterance.casefold()
    own = {value for frame in dialogue.turns[position].frames for value in _of_turn(frame)}
    values = {value for turn in dialogue.turns for frame in turn.frames for value in (*_of_turn(frame), *_known(frame))}
    for value in sorted({speakable(value).casefold() for value in values - own} - _UNSAID):
        if any(map(str.isalnum, value)) and find_word(folded, value) is None:
            yield value


def _of_turn(frame: Frame) -> Iterator[str]:
    for action in frame.actions or ():
        if action.slot not in ("", "intent", "count"):
            yield from action.values
            yield from action.canonical_values or ()


def _known(frame: Frame) -> Iterator[str]:
    if frame.state:
        for values in frame.state.slot_values.values():
            yield from values


def read_tasks(folders: Iterable[str]) -> dict[str, list[PageRecord]]:
    """Read the tasks in folders of ``hits`` by dialogue, without duplicates.

    Raises:
      InputError: a folder does not exist, has no rewriting tasks, or contradicts another one.
    """
    records: dict[str, PageRecord] = {}
    for folder in folders:
        of_folder = [record for record in read_manifest(folder) if record.task == REWRITES]
        if not of_folder:
            raise InputError(
                "contains no rewriting tasks: make them with 'parapet hits --task rewrites'", folder, "--hits"
            )
        for task in of_folder:
            first = records.setdefault(task.task_id, task)
            if (first.utterance, first.values) != (task.utterance, task.values):
                reason = (
                    f"{task.task_id} has a different sentence than in an earlier folder: give folders of one "
                    "corpus only"
                )
                raise InputError(reason, folder, "--hits")
    tasks: dict[str, list[PageRecord]] = defaultdict(list)
    for _, task in sorted(records.items()):
        tasks[task.dialogue_id].append(task)
    return dict(tasks)


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


def units_of(rewriting: Rewriting) -> tuple[Unit, ...]:
    """Return the units of a sentence, in order."""
    units: list[Unit] = []
    group: list[Mark] = []
    for mark in [*sorted(rewriting.marks, key=lambda mark: (mark.start, mark.end)), None]:
        if group and (mark is None or mark.start >= max(member.end for member in group)):
            start, end = group[0].start, max(member.end for member in group)
            text = rewriting.utterance[start:end]
            units.append(Unit(text, start, find_word(rewriting.utterance, text) is not None, tuple(group)))
            group = []
        if mark is not None:
            group.append(mark)
    return tuple(units)


def find_units(units: Sequence[Unit], text: str) -> list[Place | None]:
    """Find the position of each unit in a rewriting, without overlaps; None for missing units.

    Longer units are found first, so that "2" is not found in "2 pm" if both are values; equal ones in their order.
    """
    places: list[Place | None] = [None] * len(units)
    taken: list[Place] = []
    for i in sorted(range(len(units)), key=lambda i: (-len(units[i].text), i)):
        unit = units[i]
        start = find_word(text, unit.text, taken) if unit.whole else _find(text, unit.text, taken)
        if start is not None:
            places[i] = (start, start + len(unit.text))
            taken.append((start, start + len(unit.text)))
    return places


def _find(text: str, part: str, taken: Sequence[Place]) -> int | None:
    start = text.find(part)
    while start >= 0:
        if not any(start < end and other < start + len(part) for other, end in taken):
            return start
        start = text.find(part, start + 1)
    return None


def spans_of(units: Sequence[Unit], found: Sequence[Place | None]) -> Iterator[dict[str, Any]]:
    """Yield the rows of ``values`` in the audit: each value with its positions before and after.

    Args:
      units: the units of the sentence.
      found: their positions in the rewriting.
    """
    for unit, place in zip(units, found, strict=True):
        for mark in unit.marks:
            start = None if place is None else place[0] + mark.start - unit.start
            yield {
                "service": mark.kept.service,
                "slot": mark.kept.slot,
                "value": mark.kept.value,
                "start": mark.start,
                "exclusive_end": mark.end,
                "new_start": start,
                "new_exclusive_end": None if start is None else start + mark.end - mark.start,
            }


def interchangeable(units: Sequence[Unit]) -> bool:
    """Whether two units of different slots have the same text, so that they cannot be told apart in a rewriting."""
    slots: dict[str, list[tuple[str, str]]] = {}
    for unit in units:
        mine = sorted((mark.kept.service, mark.kept.slot) for mark in unit.marks)
        if slots.setdefault(unit.text, mine) != mine:
            return True
    return False
