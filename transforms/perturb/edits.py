"""Edits of texts: their application, the positions of spans after them, and the ranges that they must not touch."""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import Any

import msgspec


class Edit(msgspec.Struct, frozen=True, order=True):
    """An edit that replaces characters ``start`` to ``end`` (exclusive, in the original) by ``text``."""

    start: int
    end: int
    text: str


def edited(utterance: str, edits: Sequence[Edit]) -> str:
    """Applies edits. Raises ValueError if they are not in order, overlap, or are outside of the utterance."""
    parts, at = [], 0
    for edit in edits:
        if not at <= edit.start <= edit.end <= len(utterance):
            raise ValueError(f"edits out of order, or outside the utterance: {edits}")
        parts += [utterance[at : edit.start], edit.text]
        at = edit.end
    return "".join([*parts, utterance[at:]])


def moved(start: int, end: int, edits: Iterable[Edit]) -> tuple[int, int] | None:
    """Returns the position of the characters ``start`` to ``end`` after the edits.

    Returns:
      The new position, longer or shorter if edits are inside; None if an edit crosses a border, so that the position is
        undefined. Insertions at a border are outside.
    """
    before = inside = 0
    for edit in edits:
        grown = len(edit.text) - (edit.end - edit.start)
        if edit.end <= start:
            before += grown
        elif edit.start >= end:
            break
        elif start <= edit.start and edit.end <= end:
            inside += grown
        else:
            return None
    return start + before, end + before + inside


def move_spans(turn: dict[str, Any], edits: Sequence[Edit]) -> list[str]:
    """Applies edits to a turn in the format of its file, in place: to the utterance, and to the spans of its frames.

    Returns:
      The slots of spans whose border is crossed by an edit; if there are any, the turn is unchanged.
    """
    places: list[tuple[dict[str, Any], tuple[int, int]]] = []
    torn: list[str] = []
    for frame in turn["frames"]:
        for span in frame.get("slots", ()):
            if isinstance(span.get("start"), int) and isinstance(span.get("exclusive_end"), int):
                if (place := moved(span["start"], span["exclusive_end"], edits)) is None:
                    torn.append(str(span["slot"]))
                else:
                    places.append((span, place))
    if not torn:
        for span, (start, end) in places:
            span["start"], span["exclusive_end"] = start, end
        turn["utterance"] = edited(turn["utterance"], edits)
    return torn


Range = tuple[int, int]


class Ranges:
    """Ranges of characters that can be searched for overlaps in logarithmic time.

    Args:
      ranges: in any order; may overlap.
    """

    def __init__(self, ranges: Iterable[Range] = ()) -> None:
        ordered = sorted(ranges)
        self._starts = [start for start, _ in ordered]
        self._ends = list(accumulate((end for _, end in ordered), max))  # running maximum of ends

    def overlap(self, start: int, end: int) -> bool:
        """Whether any range overlaps ``start`` to ``end``; if these are equal, whether they are inside a range."""
        before = bisect_left(self._starts, end)
        return before > 0 and self._ends[before - 1] > start

    def touch(self, start: int, end: int) -> bool:
        """Whether any range overlaps characters ``start`` to ``end`` or is adjacent to them."""
        before = bisect_right(self._starts, end)
        return before > 0 and self._ends[before - 1] >= start


# Values of states that are never said.
_UNSAID = frozenset({"dontcare", "true", "false"})

_ASCII_LOWER = {upper: upper + 32 for upper in range(65, 91)}

YES = frozenset({"yes", "yeah", "yea", "yep", "yup"})
_NEGATIONS = """
no nope nah not never none nothing nobody neither nor without cannot cant dont doesnt didnt wont isnt arent wasnt werent
wouldnt couldnt shouldnt havent hasnt hadnt aint neednt mustnt
"""
NEGATIONS = frozenset(_NEGATIONS.split())

# Words for yes or no, numbers, times or money, where a changed letter may change the meaning.
_YES_NO = "ya sure ok okay okey alright right correct wrong nay except unless stop cancel"
_NUMBERS = """
zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen
nineteen twenty thirty forty fourty fifty sixty seventy eighty ninety hundred thousand million billion half quarter
dozen couple both single double triple once twice first second third fourth fifth sixth seventh eighth ninth tenth
eleventh twelfth thirteenth fourteenth fifteenth sixteenth seventeenth eighteenth nineteenth twentieth thirtieth
"""
_TIMES = """
am pm noon midday midnight morning afternoon evening night today tonight tomorrow yesterday weekend oclock
monday tuesday wednesday thursday friday saturday sunday mon tue tues wed thu thur thurs fri sat sun
january february march april may june july august september october november december
jan feb mar apr jun jul aug sep sept oct nov dec past till until after before
"""
_MONEY = "dollar dollars buck bucks cent cents euro euros pound pounds yen rupee rupees usd eur gbp grand free"
DECISIVE = YES | NEGATIONS | frozenset(f"{_YES_NO} {_NUMBERS} {_TIMES} {_MONEY}".split())

_NEGATION = re.compile(r"n['’]t\b", re.IGNORECASE)


def is_decisive(word: str) -> bool:
    """Whether a word means yes or no, a number, a time or money."""
    lower = word.lower()
    return lower in DECISIVE or _NEGATION.search(lower) is not None


def lowered(text: str) -> str:
    """Converts to lower case with the same length: ``"İ".lower()`` would have two characters."""
    return text.lower() if text.isascii() else text.translate(_ASCII_LOWER)


def sayable(values: Iterable[str]) -> tuple[str, ...]:
    """Returns distinct values that may occur in a turn and have letters, as input of :func:`value_ranges`."""
    sayings = {lowered(value.strip()) for value in set(values)}
    return tuple(sorted(value for value in sayings - _UNSAID if any(map(str.isalpha, value))))


def value_ranges(utterance: str, values: Iterable[str]) -> list[Range]:
    """Finds values as whole words in any case, including those inside of others and plurals.

    Args:
      utterance: the text.
      values: the result of :func:`sayable`.
    """
    text = lowered(utterance)
    ranges = []
    for value in values:
        at = text.find(value)
        while at >= 0:
            end = at + len(value)
            end += text[end : end + 1] == "s" and value[-1].isalpha()
            if not (text[at - 1 : at].isalnum() and value[0].isalnum()) and not (
                text[end : end + 1].isalnum() and value[-1].isalnum()
            ):
                ranges.append((at, end))
            at = text.find(value, at + 1)
    return ranges


def protected_ranges(
    utterance: str, spans: Sequence[Range], values: Iterable[str], perturb_values: bool = False
) -> list[Range]:
    """Returns the ranges that must not be changed.

    Args:
      utterance: the utterance.
      spans: the spans of annotated values.
      values: values of the dialogue's states, from :func:`sayable`.
      perturb_values: whether annotated values may be changed, but not values without a span, such as categorical ones.
    """
    ranges = value_ranges(utterance, values)
    if not perturb_values:
        ranges += spans
        return ranges
    touched = Ranges(spans)
    return [span for span in ranges if not touched.overlap(*span)]
