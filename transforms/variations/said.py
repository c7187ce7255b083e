"""What a user turn says, as the rules need it: its text, where its values stand, and its dialogue acts."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from parapet.schemas.dialogue import Dialogue, Turn, is_marker
from parapet.transforms.perturb.protected import Range, protected_ranges, sayable
from parapet.transforms.touching import services_in_turns


class Span(msgspec.Struct, frozen=True):
    """An annotated value: characters ``start`` to ``end`` (exclusive), inside the utterance."""

    service: str
    slot: str
    start: int
    end: int


class Said(msgspec.Struct, frozen=True):
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


def said_by_user(dialogue: Dialogue) -> Iterator[Said]:
    """The user's turns, in order."""
    values = sayable(_values(dialogue))
    before = None
    for position, (turn, services) in enumerate(zip(dialogue.turns, services_in_turns(dialogue), strict=True)):
        if turn.speaker == "USER":
            yield _said(dialogue.dialogue_id, position, turn, before, values, services)
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


def _said(
    dialogue_id: str,
    position: int,
    turn: Turn,
    before: Turn | None,
    values: tuple[str, ...],
    services: tuple[str, ...],
) -> Said:
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
    return Said(
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
