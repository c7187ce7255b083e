"""What of an utterance must stay as it is: annotated spans, state values that stand in it, and words that decide."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

Range = tuple[int, int]

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
    return [one for one in ranges if not any(start < one[1] and one[0] < end for start, end in spans)]


def touches(start: int, end: int, ranges: Iterable[Range]) -> bool:
    """Whether characters ``start`` to ``end`` overlap one of the ranges or lie directly beside it."""
    return any(first <= end and start <= last for first, last in ranges)
