"""Where the values of a turn stand in a text that says the turn in other words; or which of them it has lost.

What must be found again letter for letter, as words of its own, is what slot spans point to, and values of the turn's
acts that stand in it without a span, as people who rewrite turns are asked
to keep (``parapet.transforms.hits.markup``).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence

import msgspec

from parapet.transforms.hits.markup import find_word, marks
from parapet.transforms.perturb.protected import Range, is_decisive
from parapet.transforms.user_turns import UserTurn

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
    values = sorted({utterance[one.start : one.end] for one in anchors}, key=lambda value: (-len(value), value))
    before, after = occurrences(utterance, values), occurrences(text, values)
    settled: dict[Anchor, Range] = {}
    for value in values:
        of_value = [one for one in anchors if utterance[one.start : one.end] == value]
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
    for one in anchors:
        place = settled.get(one)
        if place is None:
            free = [found for found in after[utterance[one.start : one.end]] if found not in taken]
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
