"""Changes of an utterance as a list of edits, and where that leaves what stood in it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec


class Edit(msgspec.Struct, frozen=True, order=True):
    """Characters ``start`` to ``end`` (exclusive, of the original) become ``text``."""

    start: int
    end: int
    text: str


def edited(utterance: str, edits: Sequence[Edit]) -> str:
    """The utterance after the edits. Raises ValueError where they are not in order, overlap or leave it."""
    parts, at = [], 0
    for edit in edits:
        if not at <= edit.start <= edit.end <= len(utterance):
            raise ValueError(f"edits out of order, or outside the utterance: {edits}")
        parts += [utterance[at : edit.start], edit.text]
        at = edit.end
    return "".join([*parts, utterance[at:]])


def moved(start: int, end: int, edits: Iterable[Edit]) -> tuple[int, int] | None:
    """Where the characters ``start`` to ``end`` of the original are after the edits.

    Returns:
      The new place, which has grown or shrunk where edits lie inside; None where an edit reaches across a border, so
      that nobody can say. What is inserted at a border stays outside.
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
    """Edits a turn, as its file has it, in place: the utterance, and the spans of its frames.

    Returns:
      The slots of spans that an edit reaches across; where there is one, the turn is left as it was.
    """
    places: list[tuple[dict[str, Any], tuple[int, int]]] = []
    torn: list[str] = []
    for frame in turn["frames"]:
        for span in frame.get("slots", ()):
            if isinstance(span.get("start"), int) and isinstance(span.get("exclusive_end"), int):
                place = moved(span["start"], span["exclusive_end"], edits)
                if place is None:
                    torn.append(str(span["slot"]))
                else:
                    places.append((span, place))
    if not torn:
        for span, (start, end) in places:
            span["start"], span["exclusive_end"] = start, end
        turn["utterance"] = edited(turn["utterance"], edits)
    return torn
