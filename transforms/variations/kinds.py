"""A user turn as a kind of variation has it: what is done to it, checked, and written with its spans."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from parapet.transforms.perturb.edits import Edit, edited, moved
from parapet.transforms.perturb.protected import Range
from parapet.transforms.perturb.typos import Operation
from parapet.transforms.user_turns import Span, UserTurn
from parapet.transforms.variations.rewording import RULES, Made

BAD_SPAN, TORN_SPAN = "bad_span", "torn_span"  # reasons for which a turn goes to the dead letters


class Variation(msgspec.Struct, frozen=True):
    """A turn as a set has it.

    Attributes:
      utterance: its text.
      places: of its spans, in order.
      operations: what was done, in order.
      reason: why nothing was: an id, and what it is about after a colon.
      source: whose words they are; nothing where it is as it was.
    """

    utterance: str
    places: Sequence[Range]
    operations: Sequence[Operation] = ()
    reason: str = ""
    source: str = ""


def varied(user_turn: UserTurn, made: Made, perturb_values: bool = False) -> Variation:
    """A turn after what is to be done to it; as it was, with the reason, where a value would be damaged.

    Args:
      user_turn: the turn; its spans lie inside the utterance.
      made: what is to be done.
      perturb_values: whether operations may change the text of spans.
    """
    before = user_turn.utterance
    reason = made.reason
    if made.operations:
        utterance = edited(before, made.operations)
        places = [
            moved(span.start, span.end, made.operations) if made.places is None else made.places[i]
            for i, span in enumerate(user_turn.spans)
        ]
        kept = [place for place in places if place is not None]
        torn = next(
            (
                span.slot
                for span, place in zip(user_turn.spans, places, strict=True)
                if place is None or utterance[slice(*place)] != _value_after(before, span, made, perturb_values)
            ),
            None,
        )
        if torn is None and utterance != before:
            return Variation(utterance, kept, made.operations, source=made.source)
        reason = "unchanged" if torn is None else f"{TORN_SPAN}: {torn}: it cannot be mended"
    return Variation(before, user_turn.ranges, reason=reason)


def _value_after(utterance: str, span: Span, made: Made, perturb_values: bool) -> str:
    """What must stand in a span afterwards: the text it had, where values are perturbed after the operations inside."""
    value = utterance[span.start : span.end]
    if not perturb_values or made.source != RULES or made.places is not None:
        return value
    inside = [
        Edit(one.start - span.start, one.end - span.start, one.text)
        for one in made.operations
        if span.start <= one.start and one.end <= span.end and one.start < one.end
    ]
    return edited(value, inside)


def write_into(turn: dict[str, Any], variation: Variation) -> dict[str, Any]:
    """The turn of a file, as a set has it; the given one stays.

    Args:
      turn: as its file has it.
      variation: of the same turn.
    """
    places = iter(variation.places)
    frames = []
    for frame in turn["frames"]:
        if frame.get("slots"):
            frame = {**frame, "slots": [_moved_span(span, places) for span in frame["slots"]]}
        frames.append(frame)
    return {**turn, "utterance": variation.utterance, "frames": frames}


def _moved_span(span: dict[str, Any], places: Iterator[Range]) -> dict[str, Any]:
    if not isinstance(span.get("start"), int) or not isinstance(span.get("exclusive_end"), int):
        return span
    start, end = next(places)
    return {**span, "start": start, "exclusive_end": end}


def row_of(user_turn: UserTurn, variation: Variation, level: int) -> dict[str, Any]:
    """A row of ``parapet.schemas.rows``."""
    return {
        "dialogue_id": user_turn.dialogue_id,
        "turn": user_turn.position,
        "status": "varied" if variation.operations else "unchanged",
        "reason": variation.reason,
        "original": user_turn.utterance,
        "utterance": variation.utterance,
        "source": variation.source,
        "operations": [
            {"kind": one.kind, "start": one.start, "end": one.end, "before": one.before, "after": one.text}
            for one in variation.operations
        ],
        "env": level,
        "slots": [
            {
                "service": span.service,
                "slot": span.slot,
                "value": user_turn.utterance[span.start : span.end],
                "start": span.start,
                "exclusive_end": span.end,
                "new_value": variation.utterance[start:end],
                "new_start": start,
                "new_exclusive_end": end,
            }
            for span, (start, end) in zip(user_turn.spans, variation.places, strict=True)
        ],
    }
