"""Typos of people who type quickly, and abbreviations of people who chat (RADDLE, Peng et al. 2021, section 4).

Only ASCII letters are changed, so that graphemes are never split; never the first letter of a word, which is rarely
wrong (Yannakoudakis and Fawthrop 1983); never text that :mod:`parapet.transforms.perturb.user_turns` protects.
"""

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from itertools import accumulate
from math import dist

import msgspec

from parapet.transforms.core.inputs import read_table
from parapet.transforms.core.seeding import DRAW_LIMIT, draws
from parapet.transforms.perturb.edits import DECISIVE, Edit, Range, Ranges, is_decisive, protected_ranges

SHORTEST = 3  # minimum number of letters of a word with a typo

# 90 to 95 of 100 misspellings are a single error, most often an omission (Pollock and Zamora 1983).
MIX = {"omission": 35.0, "neighbour": 25.0, "doubling": 20.0, "transposition": 15.0, "lost_space": 5.0}
_KINDS, _LIMITS = [*MIX], [*accumulate(MIX.values())]

_ABBREVIATION = "abbreviation"
_TOKEN = re.compile(r"[A-Za-z]++(?:['’][A-Za-z]++)?+")
# A token that is a separate word, not part of an address, a price, a time or a word of other letters. Adjacent
# characters must be ASCII, so that no combining accent follows its last letter. Only drawn words are matched.
_WORD = re.compile(
    rf"(?<![\w'’@#$/\\-])(?<![^\x00-\x7f])(?<!\w\.){_TOKEN.pattern}(?![\w@'’/\\-]|[.:][\w/]|[^\x00-\x7f])"
)

_NAME = re.compile(r"(?<=[a-z0-9] )[A-Z][a-z]+")
_VOWEL = re.compile("[aeiouy]", re.IGNORECASE)
_KEPT = DECISIVE | {"doc", "docx", "exe", "gif", "java", "jpeg", "json", "tiff", "yaml", "zip"}
# Quotations, and code with the words beside it, which may be its commands.
_VERBATIM = re.compile(
    r"\"[^\"]{1,80}\"|(?<!\w)'[^']{1,80}'(?!\w)|`[^`]+`"
    r"|(?:(?<![A-Za-z])[A-Za-z]++ )?(?<!\S)(?:\S*?[\\/=<>{}\[\]|;^~_*#@&]\S*|\.\w+|\w+\.[a-z]{2,4}\b)(?: [A-Za-z]+)?"
)
_COMMON = 10**-5.5  # frequency of words that a typo must not result in

Draw = Callable[[], int]


class Operation(Edit, frozen=True):
    """An edit with its kind."""

    kind: str


class Rates(msgspec.Struct, frozen=True):
    """The probabilities that a word has a typo, and that it is abbreviated if it has an abbreviation."""

    word: float = 0.08
    abbreviation: float = 0.15


@cache
def abbreviations() -> dict[str, str]:
    """Loads word → abbreviation from ``abbreviations.toml``."""
    return {str(word): str(short) for word, short in read_table(__package__, "abbreviations.toml")["words"].items()}


@cache
def _common_words() -> frozenset[str]:
    from wordfreq import get_frequency_dict

    return frozenset(word for word, frequency in get_frequency_dict("en", "small").items() if frequency >= _COMMON)


def typo_operations(
    utterance: str,
    spans: Sequence[Range],
    values: Iterable[str],
    rates: Rates,
    key: bytes,
    perturb_values: bool = False,
) -> list[Operation]:
    """Returns the typos for an utterance, in order: at least one, unless no word can have one.

    Args:
      utterance: the utterance.
      spans: the spans of the annotated values.
      values: values of the dialogue's states, from ``sayable``.
      rates: the rates of typos and abbreviations.
      key: the key of the draws.
      perturb_values: whether words of annotated values may have typos, too.
    """
    if not (words := [match.span() for match in _TOKEN.finditer(utterance)]):
        return []
    numbers = draws(key)
    draw = numbers.__next__
    typo = int(rates.word * DRAW_LIMIT)
    either = typo + int(rates.abbreviation * DRAW_LIMIT)
    drawn = [(i, number) for i, number in zip(range(len(words)), numbers) if number < either]  # noqa: B905
    patterns = (_VERBATIM,) if perturb_values else (_VERBATIM, _NAME)
    verbatim = [match.span() for pattern in patterns for match in pattern.finditer(utterance)]
    kept = Ranges([*protected_ranges(utterance, spans, values, perturb_values), *verbatim])
    operations: dict[int, Operation] = {}

    def change(i: int, kinds: Iterable[str]) -> None:
        start, end = words[i]
        if _WORD.match(utterance, start) is None or kept.touch(start, end):
            return
        for kind in kinds:
            operation = _operation(utterance, words, i, kind, kept, draw)
            if operation is not None and (not perturb_values or _inside(operation, spans)):
                operations[i] = operation
                break

    for i, number in drawn:
        change(i, _drawn_kinds(draw) if number < typo else (_ABBREVIATION,))
    first = draw() * len(words) // DRAW_LIMIT
    for i in (*range(first, len(words)), *range(first)):
        if operations:
            break
        change(i, (*_drawn_kinds(draw), _ABBREVIATION))
    return [operations[i] for i in sorted(operations)]


def _inside(operation: Operation, spans: Sequence[Range]) -> bool:
    """Whether an operation is completely inside or outside of every span; a lost space must not be at their borders."""
    start, end = operation.start, operation.end
    if operation.kind == "lost_space":
        start, end = start - 1, end + 1
    return not any(start < first < end or start < last < end for first, last in spans)


def _drawn_kinds(draw: Draw) -> list[str]:
    """Returns the drawn kind, then the others, for words that it does not suit."""
    i = bisect_right(_LIMITS, draw() * _LIMITS[-1] / DRAW_LIMIT)
    return _KINDS[i:] + _KINDS[:i]


def _operation(utterance: str, words: Sequence[Range], i: int, kind: str, kept: Ranges, draw: Draw) -> Operation | None:
    start, end = words[i]
    word = utterance[start:end]
    if kind == _ABBREVIATION:
        if (short := abbreviations().get(word.lower().replace("’", "'"))) is None:
            return None
        return Operation(start, end, short.capitalize() if word[0].isupper() else short, kind)
    # Capitals after the first letter indicate names and acronyms. Apostrophes are not letters.
    rest = word[1:]
    if (
        len(word) < SHORTEST
        or not (rest.isalpha() and rest.islower())
        or not _VOWEL.search(word)
        or word.lower() in _KEPT
    ):
        return None
    if kind == "lost_space":
        return _lost_space(utterance, words[i : i + 2], kept)
    places = len(word) - (2 if kind == "transposition" else 1)
    first = draw() * places // DRAW_LIMIT
    for at in (*range(1 + first, 1 + places), *range(1, 1 + first)):
        before = word[at]
        if kind == "omission":
            text = ""
        elif kind == "doubling":
            text = before * 2
        elif kind == "neighbour":
            text = NEIGHBOURS[before][draw() * len(NEIGHBOURS[before]) // DRAW_LIMIT]
        else:
            before = word[at : at + 2]
            text = before[::-1]
        if text == before:
            continue
        new = (word[:at] + text + word[at + len(before) :]).lower()
        if new not in DECISIVE and new not in _common_words():
            return Operation(start + at, start + at + len(before), text, kind)
    return None


def _lost_space(utterance: str, words: Sequence[Range], kept: Ranges) -> Operation | None:
    (start, end), (after, last) = words[0], words[-1]
    if utterance[end:after] != " " or _WORD.match(utterance, after) is None or kept.touch(after, last):
        return None
    if is_decisive(utterance[after:last]) or (utterance[start:end] + utterance[after:last]).lower() in DECISIVE:
        return None
    return Operation(end, after, "", "lost_space")


# Offset of each row from the first, in widths of a key.
ROWS = (("qwertyuiop", 0.0), ("asdfghjkl", 0.25), ("zxcvbnm", 0.75))
_NEAR = 1.26  # maximum distance between the centres of adjacent keys, in the same row or the next
_PLACES = {letter: (shift + x, y) for y, (row, shift) in enumerate(ROWS) for x, letter in enumerate(row)}
# letter to the letters around it
NEIGHBOURS = {
    letter: "".join(other for other in sorted(_PLACES) if 0 < dist(_PLACES[letter], _PLACES[other]) <= _NEAR)
    for letter in _PLACES
}
