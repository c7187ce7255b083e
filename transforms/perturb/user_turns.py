"""User turns: text, annotated values, acts and services; text to protect; and edits that keep annotations correct."""

import copy
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import msgspec

from parapet.schemas.dialogue import Dialogue, Turn, is_marker, typed
from parapet.transforms.perturb import base, corpora
from parapet.transforms.perturb.edits import Edit, Range, move_spans, protected_ranges, sayable

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
      dialogue_id: the id of its dialogue.
      position: its position in the dialogue, from 0.
      utterance: the text.
      spans: its annotated values.
      values: values in states and actions of the dialogue, from ``sayable``.
      acts: the acts of all its frames.
      services: the services that it is about.
      wrong: the slots of spans that are not inside the utterance.
      turn: the turn itself.
      before: the previous user turn.
    """

    dialogue_id: str
    position: int
    utterance: str
    spans: tuple[Span, ...]
    values: tuple[str, ...]
    acts: frozenset[str]
    services: tuple[str, ...]
    wrong: tuple[str, ...]
    turn: Turn | None = None
    before: Turn | None = None

    @property
    def ranges(self) -> list[Range]:
        """Returns the ranges of its spans."""
        return [(span.start, span.end) for span in self.spans]

    def protected(self, perturb_values: bool = False) -> list[Range]:
        """Returns the ranges that must not be changed."""
        return protected_ranges(self.utterance, self.ranges, self.values, perturb_values)


def user_turns(dialogue: Dialogue) -> Iterator[UserTurn]:
    """Yields the user turns, in order."""
    values = sayable(_values(dialogue))
    before = None
    for position, (turn, services) in enumerate(zip(dialogue.turns, corpora.services_in_turns(dialogue), strict=True)):
        if turn.speaker != "USER":
            continue
        spans, wrong = [], []
        for frame in turn.frames:
            for span in frame.slots:
                if not isinstance(span.start, int) or not isinstance(span.exclusive_end, int):
                    continue  # copied from another turn, so without a position in this one
                if 0 <= span.start < span.exclusive_end <= len(turn.utterance):
                    spans.append(Span(frame.service, span.slot, span.start, span.exclusive_end))
                else:
                    wrong.append(span.slot)
        acts = frozenset(action.act for frame in turn.frames for action in frame.actions or ())
        place = (dialogue.dialogue_id, position, turn.utterance)
        yield UserTurn(*place, tuple(spans), values, acts, services, tuple(wrong), turn, before)
        before = turn


def _values(dialogue: Dialogue) -> set[str]:
    values: set[str] = set()
    for turn in dialogue.turns:
        if turn.speaker == "USER":
            for frame in turn.frames:
                if frame.state:
                    values.update(*frame.state.slot_values.values())
                for action in frame.actions or ():
                    if not is_marker(action.act, action.slot):
                        values.update(action.values)
    return values


def edit_user_turns(
    dialogue: dict[str, Any], edits: Callable[[UserTurn], Edits], *, edit_values: bool = False
) -> base.Perturbed:
    """Edits the user turns of a dialogue. Spans of slot values move with the text; states are unchanged.

    Values are protected: an edit that overlaps the span of a value, or a value of the dialogue's states, is dropped. So
    are edits that would leave an empty utterance.

    Args:
      dialogue: the dialogue in SGD format; it is not modified.
      edits: called with each user turn, and returns edits of its utterance: characters ``start`` to ``end`` (exclusive)
        are replaced by ``text``. It can use these attributes of the turn: ``dialogue_id``, ``position`` in the
        dialogue, ``utterance``, ``spans``, ``acts``, ``services``.
      edit_values: whether the text inside spans may be edited, too.

    Returns:
      The dialogue, and a row (:func:`changed_turn`) for each changed turn.

    Raises:
      InputError: the dialogue is not in SGD format.
      ValueError: edits overlap, or are outside of the utterance.

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
        rows.append(base.changed_turn(dialogue, user_turn.position, turn))
        turns[user_turn.position] = turn
    return base.Perturbed({**dialogue, "turns": turns}, rows)
