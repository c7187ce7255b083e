"""Typos of people who type quickly, and abbreviations of people who chat (RADDLE, Peng et al. 2021, section 4).

Only ASCII letters are changed, so that graphemes are never split; never the first letter of a word, which is rarely
wrong (Yannakoudakis and Fawthrop 1983); never text that :mod:`parapet.transforms.perturbation.user_turns` protects.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from math import dist

import msgspec

from parapet.transforms.perturbation.user_turns import DECISIVE, Edit, Range, Ranges, is_decisive, protected_ranges
from parapet.transforms.running.seeding import DRAW_LIMIT, draws
from parapet.transforms.storage.toml import read_table

SHORTEST = 3  # minimum number of letters of a word with a typo

# 90 to 95 of 100 misspellings are a single error, most often an omission (Pollock and Zamora 1983).
MIX = (("omission", 35.0), ("neighbour", 25.0), ("doubling", 20.0), ("transposition", 15.0), ("lost_space", 5.0))

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
    r"|(?:[A-Za-z]+ )?(?<!\S)(?:\S*?[\\/=<>{}\[\]|;^~_*#@&]\S*|\.\w+|\w+\.[a-z]{2,4}\b)(?: [A-Za-z]+)?"
)
_COMMON = 10**-5.5  # frequency of words that a typo must not result in

Draw = Callable[[], int]
Orders = tuple[tuple[int, tuple[str, ...]], ...]


class Operation(Edit, frozen=True):
    """An edit with its kind: characters ``start`` to ``end``, which are ``before``, are replaced by ``text``."""

    kind: str
    before: str


class Rates(msgspec.Struct, frozen=True):
    """The rates of typos and abbreviations.

    Attributes:
      word: probability that a word has a typo.
      abbreviation: probability that a word is abbreviated if it has an abbreviation.
      mix: weights of the kinds of typos.
      at_least: minimum number of changes per turn, if its words allow them.
    """

    word: float = 0.08
    abbreviation: float = 0.15
    mix: tuple[tuple[str, float], ...] = MIX
    at_least: int = 1


@cache
def _orders(mix: tuple[tuple[str, float], ...]) -> Orders:
    """Return (upper limit of draws, kinds in the order of attempts): the drawn kind, then the others."""
    kinds = tuple(kind for kind, weight in mix if weight)
    total, below = sum(weight for _, weight in mix), 0.0
    orders = []
    for i, (_, weight) in enumerate((kind, weight) for kind, weight in mix if weight):
        below += weight
        orders.append((round(below / total * DRAW_LIMIT), kinds[i:] + kinds[:i]))
    return tuple(orders)


@cache
def abbreviations() -> dict[str, str]:
    """Load word → abbreviation from ``abbreviations.toml``."""
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
    """Return the typos for an utterance, in order; empty if no word can have one.

    Args:
      utterance: the utterance.
      spans: the spans of the annotated values.
      values: values of the dialogue's states, from ``sayable``.
      rates: the rates of typos and abbreviations.
      key: the key of the draws.
      perturb_values: whether words of annotated values may have typos, too.
    """
    words = [match.span() for match in _TOKEN.finditer(utterance)]
    if not words:
        return []
    numbers = draws(key)
    draw = numbers.__next__
    typo = int(rates.word * DRAW_LIMIT)
    either = typo + int(rates.abbreviation * DRAW_LIMIT)
    drawn = [(i, number) for i, number in zip(range(len(words)), numbers) if number < either]  # noqa: B905
    if not drawn and not rates.at_least:
        return []
    patterns = (_VERBATIM,) if perturb_values else (_VERBATIM, _NAME)
    verbatim = [match.span() for pattern in patterns for match in pattern.finditer(utterance)]
    kept = Ranges([*protected_ranges(utterance, spans, values, perturb_values), *verbatim])
    orders = _orders(rates.mix)
    match: dict[int, Operation] = {}
    for i, number in drawn:
        if number < typo:
            operation = _typo(utterance, words, i, orders, kept, draw)
        else:
            operation = _abbreviation(utterance, words[i], kept)
        if operation is not None and (not perturb_values or _inside(operation, spans)):
            match[i] = operation
    if len(match) < rates.at_least:
        first = draw() * len(words) // DRAW_LIMIT
        for i in range(first, first + len(words)):
            i %= len(words)
            if i not in match:
                operation = _typo(utterance, words, i, orders, kept, draw) or _abbreviation(utterance, words[i], kept)
                if operation is not None and (not perturb_values or _inside(operation, spans)):
                    match[i] = operation
                    if len(match) == rates.at_least:
                        break
    return [match[i] for i in sorted(match)]


def _inside(operation: Operation, spans: Sequence[Range]) -> bool:
    """Whether an operation is completely inside or outside of every span; a lost space must not be at their borders."""
    start, end = operation.start, operation.end
    if operation.kind == "lost_space":
        start, end = start - 1, end + 1
    return not any(start < first < end or start < last < end for first, last in spans)


def _abbreviation(utterance: str, word: Range, kept: Ranges) -> Operation | None:
    start, end = word
    before = utterance[start:end]
    short = abbreviations().get(before.lower().replace("’", "'"))
    if short is None or _WORD.match(utterance, start) is None or kept.touch(start, end):
        return None
    if before[0].isupper():
        short = short[0].upper() + short[1:]
    return Operation(start, end, short, "abbreviation", before)


def _typo(utterance: str, words: Sequence[Range], i: int, orders: Orders, kept: Ranges, draw: Draw) -> Operation | None:
    start, end = words[i]
    if not _may_change(utterance, start, end, kept):
        return None
    word = utterance[start:end]
    for kind in _drawn_kinds(orders, draw()):
        if kind == "lost_space":
            operation = _lost_space(utterance, words, i, kept)
        else:
            operation = _misspelled(word, start, kind, draw)
        if operation is not None:
            return operation
    return None


def _drawn_kinds(orders: Orders, number: int) -> tuple[str, ...]:
    for below, kinds in orders:
        if number < below:
            return kinds
    return orders[-1][1]


def _may_change(utterance: str, start: int, end: int, kept: Ranges) -> bool:
    # Capitals after the first letter indicate names and acronyms. Apostrophes are not letters.
    rest = utterance[start + 1 : end]
    return (
        end - start >= SHORTEST
        and rest.isalpha()
        and rest.islower()
        and _WORD.match(utterance, start) is not None
        and utterance[start:end].lower() not in _KEPT
        and _VOWEL.search(utterance, start, end) is not None
        and not kept.touch(start, end)
    )


def _lost_space(utterance: str, words: Sequence[Range], i: int, kept: Ranges) -> Operation | None:
    start, end = words[i]
    if i + 1 == len(words) or words[i + 1][0] != end + 1 or utterance[end] != " ":
        return None
    after = words[i + 1]
    if _WORD.match(utterance, after[0]) is None:
        return None
    joined = utterance[start:end] + utterance[slice(*after)]
    if kept.touch(*after) or is_decisive(utterance[slice(*after)]) or joined.lower() in DECISIVE:
        return None
    return Operation(end, end + 1, "", "lost_space", " ")


def _misspelled(word: str, start: int, kind: str, draw: Draw) -> Operation | None:
    """Make a typo of one kind after the first letter; None if each would result in another word."""
    places = len(word) - (2 if kind == "transposition" else 1)
    first = draw() * places // DRAW_LIMIT
    for i in range(first, first + places):
        at = 1 + i % places
        before = word[at]
        if kind == "omission":
            text = ""
        elif kind == "doubling":
            text = before * 2
        elif kind == "neighbour":
            keys = NEIGHBOURS[before]
            text = keys[draw() * len(keys) // DRAW_LIMIT]
        else:
            before = word[at : at + 2]
            text = before[::-1]
            if text == before:
                continue
        new = (word[:at] + text + word[at + len(before) :]).lower()
        if new not in DECISIVE and new not in _common_words():
            return Operation(start + at, start + at + len(before), text, kind, before)
    return None


# Offset of each row from the first, in widths of a key.
ROWS = (("qwertyuiop", 0.0), ("asdfghjkl", 0.25), ("zxcvbnm", 0.75))
_NEAR = 1.26  # maximum distance between the centres of adjacent keys, in the same row or the next
_PLACES = {letter: (shift + x, y) for y, (row, shift) in enumerate(ROWS) for x, letter in enumerate(row)}
# letter to the letters around it
NEIGHBOURS = {
    letter: "".join(other for other in sorted(_PLACES) if 0 < dist(_PLACES[letter], _PLACES[other]) <= _NEAR)
    for letter in _PLACES
}
