"""User turns: the text, its annotated values, dialogue acts and services; and edits that keep the annotations right."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import msgspec

from parapet.schemas.dialogue import Dialogue, Turn, is_marker, typed
from parapet.transforms.corpora import services_in_turns
from parapet.transforms.perturb.edits import Edit, move_spans
from parapet.transforms.perturb.protected import Range, protected_ranges, sayable
from parapet.transforms.perturbation.base import Perturbed, changed_turn

Edits = Iterable[tuple[int, int, str]]


class Span(msgspec.Struct, frozen=True):
    """An annotated value: characters ``start`` to ``end`` (exclusive), inside the utterance."""

    service: str
    slot: str
    start: int
    end: int


class UserTurn(msgspec.Struct, frozen=True):
    """A user turn.

    Attributes:
      dialogue_id: its dialogue.
      position: in the dialogue, from 0.
      utterance: the text.
      spans: its annotated values.
      values: that stand in states and actions of the dialogue, as ``sayable`` gives them.
      acts: of all its frames.
      services: those that it speaks of.
      wrong: the slots of spans that do not lie inside the utterance.
      odd: the slots of spans whose text is no value that state or actions of the turn know.
      turn: the turn itself.
      before: the user's turn before it.
    """

    dialogue_id: str
    position: int
    utterance: str
    spans: tuple[Span, ...]
    values: tuple[str, ...]
    acts: frozenset[str]
    services: tuple[str, ...]
    wrong: tuple[str, ...]
    odd: tuple[str, ...]
    turn: Turn | None = None
    before: Turn | None = None

    @property
    def ranges(self) -> list[Range]:
        """Of its spans."""
        return [(span.start, span.end) for span in self.spans]

    def protected(self, perturb_values: bool = False) -> list[Range]:
        """What of it must stay."""
        return protected_ranges(self.utterance, self.ranges, self.values, perturb_values)


def user_turns(dialogue: Dialogue) -> Iterator[UserTurn]:
    """The user's turns, in order."""
    values = sayable(_values(dialogue))
    before = None
    for position, (turn, services) in enumerate(zip(dialogue.turns, services_in_turns(dialogue), strict=True)):
        if turn.speaker == "USER":
            yield _user_turn(dialogue.dialogue_id, position, turn, before, values, services)
            before = turn


def _values(dialogue: Dialogue) -> set[str]:
    found: set[str] = set()
    for turn in dialogue.turns:
        if turn.speaker == "USER":
            for frame in turn.frames:
                if frame.state:
                    found.update(*frame.state.slot_values.values())
                for action in frame.actions or ():
                    if not is_marker(action.act, action.slot):
                        found.update(action.values)
    return found


def _user_turn(
    dialogue_id: str,
    position: int,
    turn: Turn,
    before: Turn | None,
    values: tuple[str, ...],
    services: tuple[str, ...],
) -> UserTurn:
    spans: list[Span] = []
    wrong, odd = [], []
    for frame in turn.frames:
        for span in frame.slots:
            if not isinstance(span.start, int) or not isinstance(span.exclusive_end, int):
                continue  # copied from another turn: it has no place in this one
            if not 0 <= span.start < span.exclusive_end <= len(turn.utterance):
                wrong.append(span.slot)
                continue
            spans.append(Span(frame.service, span.slot, span.start, span.exclusive_end))
            text = turn.utterance[span.start : span.exclusive_end]
            known = frame.state.slot_values.get(span.slot, ()) if frame.state else ()
            if text not in known and not any(
                text in action.values for action in frame.actions or () if action.slot == span.slot
            ):
                odd.append(span.slot)
    return UserTurn(
        dialogue_id=dialogue_id,
        position=position,
        utterance=turn.utterance,
        spans=tuple(spans),
        values=values,
        acts=frozenset(action.act for frame in turn.frames for action in frame.actions or ()),
        services=services,
        wrong=tuple(wrong),
        odd=tuple(odd),
        turn=turn,
        before=before,
    )


def edit_user_turns(
    dialogue: dict[str, Any], edits: Callable[[UserTurn], Edits], *, edit_values: bool = False
) -> Perturbed:
    """Edits the user turns of a dialogue. Spans of slot values move with the text; states stay.

    Values are protected: an edit that overlaps the span of a value, or a value of the dialogue's states, is not made.
    Neither is one that would leave nothing of an utterance.

    Args:
      dialogue: in SGD's form; it is not modified.
      edits: is called with each user turn, and gives edits of its utterance: characters ``start`` to ``end``
        (exclusive) become ``text``. What it can use of the turn: ``dialogue_id``, ``position`` in the dialogue,
        ``utterance``, ``spans``, ``acts``, ``services``.
      edit_values: whether the text inside spans may be edited, too.

    Returns:
      The dialogue, and a row (:func:`changed_turn`) for each turn that has changed.

    Raises:
      InputError: the dialogue is not of SGD's form.
      ValueError: edits overlap, or lie outside the utterance.

    Example:
      >>> import parapet
      >>> dialogue = next(parapet.load_corpus().dialogues("test"))
      >>> dialogue["turns"][0]["utterance"]
      'My bike broke down, who can fix it in Port Alder?'
      >>> perturbed = parapet.edit_user_turns(dialogue, lambda turn: [(0, 0, "Hi! ")])
      >>> turn = perturbed.dialogue["turns"][0]
      >>> turn["utterance"]
      'Hi! My bike broke down, who can fix it in Port Alder?'
      >>> span = turn["frames"][0]["slots"][0]
      >>> turn["utterance"][span["start"] : span["exclusive_end"]]
      'Port Alder'
      >>> perturbed.rows[0]["turn"], perturbed.rows[0]["utterance"][:11]
      (0, 'Hi! My bike')
    """
    turns, rows = [*dialogue["turns"]], []
    for user_turn in user_turns(typed(dialogue)):
        wanted = sorted(Edit(start, end, text) for start, end, text in edits(user_turn))
        protected = user_turn.protected(edit_values)
        allowed = [
            edit for edit in wanted if not any(edit.start < end and start < edit.end for start, end in protected)
        ]
        turn = copy.deepcopy(turns[user_turn.position])
        torn = move_spans(turn, allowed)
        if torn or not turn["utterance"].strip() or turn["utterance"] == user_turn.utterance:
            continue
        rows.append(changed_turn(dialogue, user_turn.position, turn))
        turns[user_turn.position] = turn
    return Perturbed({**dialogue, "turns": turns}, rows)
