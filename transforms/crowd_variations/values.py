"""The values that a rewriting must keep, and their places in it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from parapet.transforms.hits.kept_values import Mark, find_word
from parapet.transforms.hits.rewriting import Rewriting

Place = tuple[int, int]


class Unit(msgspec.Struct, frozen=True):
    """Words to be kept in one piece: a value, or values that overlap.

    Attributes:
      text: the words, as the page shows them. ``start`` is their place in the sentence.
      whole: whether they are whole words there; a span may be off by a letter.
      marks: the values in them.
    """

    text: str
    start: int
    whole: bool
    marks: tuple[Mark, ...]


def units_of(rewriting: Rewriting) -> tuple[Unit, ...]:
    """The units of a sentence, in order."""
    units: list[Unit] = []
    group: list[Mark] = []
    for mark in [*sorted(rewriting.marks, key=lambda mark: (mark.start, mark.end)), None]:
        if group and (mark is None or mark.start >= max(member.end for member in group)):
            start, end = group[0].start, max(member.end for member in group)
            text = rewriting.utterance[start:end]
            units.append(Unit(text, start, find_word(rewriting.utterance, text) is not None, tuple(group)))
            group = []
        if mark is not None:
            group.append(mark)
    return tuple(units)


def find_units(units: Sequence[Unit], text: str) -> list[Place | None]:
    """The place of each unit in a rewriting, None for those that it lacks; no two share a place.

    The longest come first, so that "2" is not found in "2 pm" where both are values; equal ones in their order.
    """
    found: list[Place | None] = [None] * len(units)
    taken: list[Place] = []
    for i in sorted(range(len(units)), key=lambda i: (-len(units[i].text), i)):
        unit = units[i]
        start = find_word(text, unit.text, taken) if unit.whole else _find(text, unit.text, taken)
        if start is not None:
            found[i] = (start, start + len(unit.text))
            taken.append((start, start + len(unit.text)))
    return found


def _find(text: str, part: str, taken: Sequence[Place]) -> int | None:
    start = text.find(part)
    while start >= 0:
        if not any(start < end and other < start + len(part) for other, end in taken):
            return start
        start = text.find(part, start + 1)
    return None


def spans_of(units: Sequence[Unit], found: Sequence[Place | None]) -> Iterator[dict[str, Any]]:
    """The rows of ``values`` in the audit: each value with its place before and after.

    Args:
      units: of the sentence.
      found: their places in the rewriting.
    """
    for unit, place in zip(units, found, strict=True):
        for mark in unit.marks:
            start = None if place is None else place[0] + mark.start - unit.start
            yield {
                "service": mark.kept.service,
                "slot": mark.kept.slot,
                "value": mark.kept.value,
                "start": mark.start,
                "exclusive_end": mark.end,
                "new_start": start,
                "new_exclusive_end": None if start is None else start + mark.end - mark.start,
            }


def interchangeable(units: Sequence[Unit]) -> bool:
    """Whether two units of different slots have the same words: once moved, they cannot be distinguished."""
    slots: dict[str, list[tuple[str, str]]] = {}
    for unit in units:
        mine = sorted((mark.kept.service, mark.kept.slot) for mark in unit.marks)
        if slots.setdefault(unit.text, mine) != mine:
            return True
    return False
