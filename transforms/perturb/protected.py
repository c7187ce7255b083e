"""What of an utterance must stay as it is: annotated spans, state values that stand in it, and words that decide."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from itertools import accumulate

Range = tuple[int, int]


class Ranges:
    """Ranges of characters that others may overlap: asking takes the logarithm of their number.

    Args:
      ranges: in any order; they may overlap each other.
    """

    def __init__(self, ranges: Iterable[Range] = ()) -> None:
        ordered = sorted(ranges)
        self._starts = [start for start, _ in ordered]
        self._ends = list(accumulate((end for _, end in ordered), max))  # the last end so far

    def __len__(self) -> int:
        return len(self._starts)

    def overlap(self, start: int, end: int) -> bool:
        """Whether one of them has characters between ``start`` and ``end``; of a place, whether it lies inside one."""
        before = bisect_left(self._starts, end)
        return before > 0 and self._ends[before - 1] > start

    def touch(self, start: int, end: int) -> bool:
        """Whether one of them overlaps characters ``start`` to ``end`` or lies directly beside them."""
        before = bisect_right(self._starts, end)
        return before > 0 and self._ends[before - 1] >= start

    def add(self, start: int, end: int) -> None:
        """Adds one; quick where it reaches over none of the others."""
        place = bisect_left(self._starts, start)
        self._starts.insert(place, start)
        self._ends.insert(place, max(end, self._ends[place - 1]) if place else end)
        for i in range(place + 1, len(self._ends)):
            if self._ends[i] >= end:
                break
            self._ends[i] = end


# Of a dialogue state, yet never said.
_UNSAID = frozenset({"dontcare", "true", "false"})

_ASCII_LOWER = {upper: upper + 32 for upper in range(65, 91)}

# Words that say yes or no, a number, a time or money: a letter more or less, and the turn may say something else.
_YES_NO = """
yes yeah yea yep yup ya sure ok okay okey alright right correct wrong no nope nah not never none nothing nobody neither
nor nay without cannot cant dont doesnt didnt wont isnt arent wasnt werent wouldnt couldnt shouldnt havent hasnt hadnt
aint neednt except unless stop cancel
"""
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
DECISIVE = frozenset(f"{_YES_NO} {_NUMBERS} {_TIMES} {_MONEY}".split())

_NEGATION = re.compile(r"n['’]t\b", re.IGNORECASE)


def is_decisive(word: str) -> bool:
    """Whether a word says yes or no, a number, a time or money."""
    lower = word.lower()
    return lower in DECISIVE or _NEGATION.search(lower) is not None


def lowered(text: str) -> str:
    """Lower case, of the same length: ``"İ".lower()`` would be two characters."""
    return text.lower() if text.isascii() else text.translate(_ASCII_LOWER)


def sayable(values: Iterable[str]) -> tuple[str, ...]:
    """Values that may stand in a turn and have letters, each once, as :func:`value_ranges` takes them."""
    found = {lowered(value.strip()) for value in set(values)}
    return tuple(sorted(value for value in found - _UNSAID if any(map(str.isalpha, value))))


def value_ranges(utterance: str, values: Iterable[str]) -> list[Range]:
    """Where values stand, as whole words and in any case; one inside another is found as well.

    Args:
      utterance: the text.
      values: as :func:`sayable` gives them.
    """
    text = lowered(utterance)
    ranges = []
    for value in values:
        if value not in text:
            continue
        at = text.find(value)
        while at >= 0:
            end = at + len(value)
            if not (text[at - 1 : at].isalnum() and value[0].isalnum()) and not (
                text[end : end + 1].isalnum() and value[-1].isalnum()
            ):
                ranges.append((at, end))
            at = text.find(value, at + 1)
    return ranges


def protected_ranges(
    utterance: str, spans: Sequence[Range], values: Iterable[str], perturb_values: bool = False
) -> list[Range]:
    """What must not be touched.

    Args:
      utterance: the text.
      spans: of the annotated values.
      values: of the dialogue's states, as :func:`sayable` gives them.
      perturb_values: annotated values may be touched; those that no span has, as those of categorical slots, not.
    """
    ranges = value_ranges(utterance, values)
    if not perturb_values:
        ranges += spans
        return ranges
    touched = Ranges(spans)
    return [one for one in ranges if not touched.overlap(*one)]
