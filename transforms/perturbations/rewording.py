"""A turn in the words of somebody else: the edits that lead from one text to the other, and where its values are then.

Values that keep their order stay where they are, and words between them are compared; a value that has changed places
is an edit out and an edit in, and its new place is known all the same.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence

import msgspec
from rapidfuzz.distance import Levenshtein

from parapet.transforms.crowd.hits.markup import find_word, marks
from parapet.transforms.perturbation.user_turns import Range, UserTurn, is_decisive
from parapet.transforms.perturbations.typos import Operation
from parapet.transforms.reports.text import words

COPY = "copy"
RULES = "rules"  # a source: none of somebody else's words

# A word or mark with the white space before it.
_TOKEN = re.compile(r"\s*(?:\w+(?:['’]\w+)*|[^\w\s])|\s+")


class Made(msgspec.Struct, frozen=True):
    """What is to be done to a turn.

    Attributes:
      operations: in order, apart; none where nothing could be done.
      reason: why nothing could: an id, and what it is about after a colon.
      source: whose words they are.
      places: of its spans afterwards, where the operations alone do not tell.
      refused: of several candidates those that were not taken, as ``NAME: REASON``.
    """

    operations: Sequence[Operation] = ()
    reason: str = ""
    source: str = RULES
    places: Sequence[Range] | None = None
    refused: Sequence[str] = ()


def reworded(user_turn: UserTurn, text: str, kind: str, source: str, in_words: bool = True) -> Made:
    """A turn as ``text`` says it, or why it cannot be.

    Args:
      user_turn: the turn.
      text: the same in other words.
      kind: of the operations.
      source: where the text comes from.
      in_words: whether the words must be others; else another letter or mark will do.
    """
    if text == user_turn.utterance or (in_words and words(text) == words(user_turn.utterance)):
        return Made(reason=COPY)
    anchors = anchors_of(user_turn)
    places, reason = placed(user_turn.utterance, anchors, text)
    if reason:
        return Made(reason=reason)
    operations = edits_between(user_turn.utterance, text, anchors, places, kind)
    return Made(operations, source=source, places=_of_spans(user_turn, anchors, places))


def _of_spans(user_turn: UserTurn, anchors: Sequence[Anchor], places: Sequence[Range]) -> list[Range]:
    of_spans = []
    for span in user_turn.spans:
        i = next(i for i, one in enumerate(anchors) if one.start <= span.start and span.end <= one.end)
        shift = places[i][0] - anchors[i].start
        of_spans.append((span.start + shift, span.end + shift))
    return of_spans


def edits_between(
    utterance: str, text: str, anchors: Sequence[Anchor], places: Sequence[Range], kind: str
) -> list[Operation]:
    """The edits, of whole words, that make ``utterance`` to ``text``; none inside of an anchor that keeps its order."""
    kept = in_order(places)
    pairs = [(anchors[i].range, places[i]) for i in kept]
    operations: list[Operation] = []
    at, new_at = 0, 0
    for (start, end), (new_start, new_end) in [*pairs, ((len(utterance),) * 2, (len(text),) * 2)]:
        operations += _of_words(utterance[at:start], text[new_at:new_start], at, kind)
        at, new_at = end, new_end
    return operations


def _of_words(before: str, after: str, at: int, kind: str) -> Iterator[Operation]:
    """Edits of a piece that begins at ``at``."""
    old, new = _TOKEN.findall(before), _TOKEN.findall(after)
    for first, last, new_first, new_last in _changed(old, new):
        start = at + sum(map(len, old[:first]))
        gone, come = "".join(old[first:last]), "".join(new[new_first:new_last])
        # Both begin with the same white space, mostly.
        same = 0
        while same < min(len(gone), len(come)) and gone[same] == come[same] and gone[same].isspace():
            same += 1
        yield Operation(start + same, start + len(gone), come[same:], kind, gone[same:])


def _changed(old: Sequence[str], new: Sequence[str]) -> Iterator[tuple[int, int, int, int]]:
    """Ranges of tokens that differ, in both; those that touch are one."""
    open_range: tuple[int, int] | None = None
    for code in Levenshtein.opcodes(old, new):
        if code.tag != "equal":
            open_range = open_range or (code.src_start, code.dest_start)
            end = code.src_end, code.dest_end
        elif open_range:
            yield open_range[0], end[0], open_range[1], end[1]
            open_range = None
    if open_range:
        yield open_range[0], end[0], open_range[1], end[1]


LOST, UNCLEAR = "value_lost", "value_unclear"

_MANY = 20  # places of one text; whoever says it more often means none of them


class Anchor(msgspec.Struct, frozen=True, order=True):
    """What has to stay: characters ``start`` to ``end`` (exclusive) of the utterance. Spans that overlap are one."""

    start: int
    end: int
    slots: tuple[str, ...]

    @property
    def range(self) -> Range:
        """Its place."""
        return self.start, self.end


def anchors_of(user_turn: UserTurn) -> list[Anchor]:
    """What has to stay of a turn, in order; none overlaps another."""
    spans = sorted(Anchor(span.start, span.end, (span.slot,)) for span in user_turn.spans)
    joined: list[Anchor] = []
    for one in spans:
        if joined and one.start < joined[-1].end:
            last = joined.pop()
            slots = tuple(dict.fromkeys(last.slots + one.slots))
            one = Anchor(last.start, max(last.end, one.end), slots)
        joined.append(one)
    return sorted([*joined, *_without_span(user_turn, [one.range for one in joined])])


def _without_span(user_turn: UserTurn, taken: Sequence[Range]) -> Iterator[Anchor]:
    if user_turn.turn is None:
        return
    try:
        found = marks(user_turn.turn, user_turn.before)
    except ValueError:  # a span with nothing to see
        return
    spanned = {span.slot for span in user_turn.spans}
    places = list(taken)
    for mark in found:
        # Its own place is that on a page, where white space is other.
        start = None if mark.kept.slot in spanned else find_word(user_turn.utterance, mark.kept.value, places)
        if start is not None:
            places.append((start, start + len(mark.kept.value)))
            yield Anchor(*places[-1], (mark.kept.slot,))


def placed(utterance: str, anchors: Sequence[Anchor], text: str) -> tuple[list[Range], str]:
    """The place of every anchor in ``text``, in the anchors' order.

    A text that occurs as often as in the utterance keeps its order of occurrence. Where there is a choice, values stand
    in the order of the utterance if they can; a bare number is not chosen, for another may be meant.

    Returns:
      The places, and nothing; or some of them, and the reason why not all.
    """
    values = sorted(
        {utterance[anchor.start : anchor.end] for anchor in anchors}, key=lambda value: (-len(value), value)
    )
    before, after = occurrences(utterance, values), occurrences(text, values)
    settled: dict[Anchor, Range] = {}
    for value in values:
        of_value = [anchor for anchor in anchors if utterance[anchor.start : anchor.end] == value]
        slots = ", ".join(dict.fromkeys(slot for one in of_value for slot in one.slots))
        there = after[value]
        if len(there) < len(of_value):
            return [], f"{LOST}: {slots}"
        if len(there) == len(before[value]) and all(one.range in before[value] for one in of_value):
            settled |= {one: there[before[value].index(one.range)] for one in of_value}
        elif len(there) == len(of_value):
            settled |= dict(zip(of_value, there, strict=True))
        elif is_decisive(value) or not any(map(str.isalpha, value)):
            return [], f"{UNCLEAR}: {slots}"
    return _chosen(utterance, anchors, settled, after), ""


def _chosen(
    utterance: str, anchors: Sequence[Anchor], settled: dict[Anchor, Range], after: dict[str, list[Range]]
) -> list[Range]:
    """With the places of those for which there is a choice."""
    taken = set(settled.values())
    places: list[Range] = []
    at = 0
    for anchor in anchors:
        place = settled.get(anchor)
        if place is None:
            free = [found for found in after[utterance[anchor.start : anchor.end]] if found not in taken]
            place = next((found for found in free if found[0] >= at), free[0])
            taken.add(place)
        places.append(place)
        at = place[1]
    return places


def occurrences(text: str, values: Sequence[str]) -> dict[str, list[Range]]:
    """Where each value stands as words of its own, in order; what is inside of a longer one is not told.

    Args:
      text: where to look.
      values: each once, the longest first.
    """
    taken: list[Range] = []
    found: dict[str, list[Range]] = {}
    for value in values:
        found[value] = []
        while len(found[value]) < _MANY and (start := find_word(text, value, taken)) is not None:
            taken.append((start, start + len(value)))
            found[value].append(taken[-1])
    return found


def in_order(places: Sequence[Range]) -> list[int]:
    """The most places that follow each other, by index: the first such series."""
    ends: list[int] = []  # of the best series of each length, where its last place begins
    last: list[int] = []
    before: list[int] = []
    for i, (start, _) in enumerate(places):
        length = bisect_left(ends, start)
        before.append(last[length - 1] if length else -1)
        ends[length : length + 1] = [start]
        last[length : length + 1] = [i]
    series: list[int] = []
    at = last[-1] if last else -1
    while at >= 0:
        series.append(at)
        at = before[at]
    return series[::-1]
