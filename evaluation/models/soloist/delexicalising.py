"""Responses with placeholders instead of values."""

from __future__ import annotations

import re
from collections.abc import Iterator

from parapet.evaluation.response.knowledge import plain_name
from parapet.schemas.dialogue import Turn

_NO_VALUES = frozenset({"true", "false", "dontcare"})


def delexicalised(turn: Turn) -> str:
    """A response whose values are placeholders: ``[hotels_2_price]``, as ``parapet evaluate --task response`` has them.

    Values with a span are replaced there, others of the turn's acts where they stand once as words of their own. Of
    places that overlap the longest is taken, and of equal ones the first.
    """
    text = turn.utterance
    taken: list[tuple[int, int, str]] = []
    for start, end, name in sorted(_places(turn), key=lambda one: (one[0] - one[1], one)):
        if all(end <= first or last <= start for first, last, _ in taken):
            taken.append((start, end, name))
    for start, end, name in sorted(taken, reverse=True):
        text = f"{text[:start]}[{name}]{text[end:]}"
    return text


def _places(turn: Turn) -> Iterator[tuple[int, int, str]]:
    text = turn.utterance.casefold()
    for frame in turn.frames:
        spans = [(span.slot, span.start, span.exclusive_end) for span in frame.slots]
        for slot, start, end in spans:
            if isinstance(start, int) and isinstance(end, int) and 0 <= start < end <= len(turn.utterance):
                yield start, end, plain_name(f"{frame.service}_{slot}")
        for action in frame.actions or ():
            # Small letters of another length would move all places.
            if not action.slot or action.slot in {slot for slot, *_ in spans} or len(text) != len(turn.utterance):
                continue
            for value in {value.casefold() for value in action.values if value} - _NO_VALUES:
                found = list(re.finditer(rf"(?<!\w){re.escape(value)}(?!\w)", text))
                if len(found) == 1:
                    yield *found[0].span(), plain_name(f"{frame.service}_{action.slot}")
