"""Rewrites of user turns, and the positions of their values in another text for a turn."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from parapet.transforms.crowd.hits.dialogue_pages import find_word, marks
from parapet.transforms.perturb.edits import Range, edited, is_decisive, moved
from parapet.transforms.perturb.typos import Operation
from parapet.transforms.perturb.user_turns import UserTurn
from parapet.transforms.report.text import words

COPY = "copy"
NOT_ANSWERED = "not_answered"
RULES = "rules"  # the source if nobody else wrote the words


class Rewrite(msgspec.Struct, frozen=True):
    """A user turn in other words, or the reason why it is unchanged.

    Attributes:
      text: the new text; empty if the turn is unchanged.
      places: the new positions of its spans, in order.
      operations: the kinds of changes by rules that edit single words.
      reason: why it is unchanged: an id, and details after a colon.
      source: the source of the words.
      refused: candidates that were refused, as ``NAME: REASON``.
    """

    text: str = ""
    places: Sequence[Range] = ()
    operations: Sequence[str] = ()
    reason: str = ""
    source: str = RULES
    refused: Sequence[str] = ()


def by_edits(user_turn: UserTurn, operations: Sequence[Operation]) -> Rewrite:
    """Apply edits, in order and without overlaps, to a turn."""
    places = [moved(span.start, span.end, operations) for span in user_turn.spans]
    whole = [place for place in places if place is not None]
    if len(whole) < len(places):
        return Rewrite(reason="torn_span")
    return Rewrite(edited(user_turn.utterance, operations), whole, [operation.kind for operation in operations])


def reworded(user_turn: UserTurn, text: str, source: str, in_words: bool = True) -> Rewrite:
    """Find the values of a turn in another text for it.

    Args:
      user_turn: the turn.
      text: the new text.
      source: the source of the text.
      in_words: whether a word must differ; otherwise, another letter or mark is enough.
    """
    if text == user_turn.utterance or (in_words and words(text) == words(user_turn.utterance)):
        return Rewrite(reason=COPY)
    anchors = anchors_of(user_turn)
    places, reason = placed(user_turn.utterance, anchors, text)
    if reason:
        return Rewrite(reason=reason)
    return Rewrite(text, _of_spans(user_turn, anchors, places), source=source)


def _of_spans(user_turn: UserTurn, anchors: Sequence[Anchor], places: Sequence[Range]) -> list[Range]:
    of_spans = []
    for span in user_turn.spans:
        i = next(i for i, anchor in enumerate(anchors) if anchor.start <= span.start and span.end <= anchor.end)
        shift = places[i][0] - anchors[i].start
        of_spans.append((span.start + shift, span.end + shift))
    return of_spans


LOST, UNCLEAR = "value_lost", "value_unclear"

_MANY = 20  # maximum occurrences of a text that are searched


class Anchor(msgspec.Struct, frozen=True, order=True):
    """A text that must be kept: characters ``start`` to ``end`` (exclusive) of the utterance.

    Overlapping spans are merged.
    """

    start: int
    end: int
    slots: tuple[str, ...]

    @property
    def range(self) -> Range:
        """Return ``(start, end)``."""
        return self.start, self.end


def anchors_of(user_turn: UserTurn) -> list[Anchor]:
    """Return the texts of a turn that must be kept, in order and without overlaps."""
    spans = sorted(Anchor(span.start, span.end, (span.slot,)) for span in user_turn.spans)
    joined: list[Anchor] = []
    for anchor in spans:
        if joined and anchor.start < joined[-1].end:
            last = joined.pop()
            slots = tuple(dict.fromkeys(last.slots + anchor.slots))
            anchor = Anchor(last.start, max(last.end, anchor.end), slots)
        joined.append(anchor)
    return sorted([*joined, *_without_span(user_turn, [anchor.range for anchor in joined])])


def _without_span(user_turn: UserTurn, taken: Sequence[Range]) -> Iterator[Anchor]:
    if user_turn.turn is None:
        return
    try:
        marked = marks(user_turn.turn, user_turn.before)
    except ValueError:  # a span without visible text
        return
    spanned = {span.slot for span in user_turn.spans}
    places = list(taken)
    for mark in marked:
        # Found again, because marks have positions on a page, where white space differs.
        start = None if mark.kept.slot in spanned else find_word(user_turn.utterance, mark.kept.value, places)
        if start is not None:
            places.append((start, start + len(mark.kept.value)))
            yield Anchor(*places[-1], (mark.kept.slot,))


def placed(utterance: str, anchors: Sequence[Anchor], text: str) -> tuple[list[Range], str]:
    """Find the position of every anchor in ``text``, in the order of anchors.

    A value that occurs as often as in the utterance keeps its order of occurrence. Of more occurrences the first are
    taken, except of bare numbers, since another one may be meant.

    Returns:
      The positions and an empty string; or some of them and the reason why others are missing.
    """
    values = sorted(
        {utterance[anchor.start : anchor.end] for anchor in anchors}, key=lambda value: (-len(value), value)
    )
    before, after = occurrences(utterance, values), occurrences(text, values)
    settled: dict[Anchor, Range] = {}
    for value in values:
        of_value = [anchor for anchor in anchors if utterance[anchor.start : anchor.end] == value]
        slots = ", ".join(dict.fromkeys(slot for kept in of_value for slot in kept.slots))
        places = after[value]
        if len(places) < len(of_value):
            return [], f"{LOST}: {slots}"
        if len(places) == len(before[value]) and all(kept.range in before[value] for kept in of_value):
            settled |= {kept: places[before[value].index(kept.range)] for kept in of_value}
        elif len(places) > len(of_value) and (is_decisive(value) or not any(map(str.isalpha, value))):
            return [], f"{UNCLEAR}: {slots}"
        else:
            settled |= zip(of_value, places, strict=False)
    return [settled[anchor] for anchor in anchors], ""


def occurrences(text: str, values: Sequence[str]) -> dict[str, list[Range]]:
    """Find where each value occurs as separate words, in order, outside of longer values.

    Args:
      text: the text to search.
      values: distinct values, longest first.
    """
    taken: list[Range] = []
    places: dict[str, list[Range]] = {}
    for value in values:
        places[value] = []
        while len(places[value]) < _MANY and (start := find_word(text, value, taken)) is not None:
            taken.append((start, start + len(value)))
            places[value].append(taken[-1])
    return places
