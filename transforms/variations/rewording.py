"""A turn in the words of somebody else: the edits that lead from one text to the other, and where its values are then.

Values that keep their order stay where they are, and words between them are compared; a value that has changed places
is an edit out and an edit in, and its new place is known all the same.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import msgspec
from rapidfuzz.distance import Levenshtein

from parapet.transforms.perturb.protected import Range
from parapet.transforms.perturb.typos import Operation
from parapet.transforms.text import words
from parapet.transforms.user_turns import UserTurn
from parapet.transforms.variations.places import Anchor, anchors_of, in_order, placed

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
    """

    operations: Sequence[Operation] = ()
    reason: str = ""
    source: str = RULES
    places: Sequence[Range] | None = None


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
    found = []
    for span in user_turn.spans:
        i = next(i for i, one in enumerate(anchors) if one.start <= span.start and span.end <= one.end)
        shift = places[i][0] - anchors[i].start
        found.append((span.start + shift, span.end + shift))
    return found


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
