"""Convert texts without annotation to dialogues of one service; values to keep are annotated as values of its slots."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

_SERVICE, _INTENT = "Tools_1", "UseTools"
_SLOTS = 40


def plain_service() -> dict[str, Any]:
    """Return the only service of such dialogues."""
    slots = [
        {"name": f"value_{i}", "description": "A value", "is_categorical": False, "possible_values": []}
        for i in range(_SLOTS)
    ]
    intent = {"name": _INTENT, "description": "Use tools", "is_transactional": False, "required_slots": [],
              "optional_slots": {}, "result_slots": []}  # fmt: skip
    return {"service_name": _SERVICE, "description": "Tools", "slots": slots, "intents": [intent]}


def dialogue_of(dialogue_id: str, turns: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Create a dialogue of that service."""
    return {"dialogue_id": dialogue_id, "services": [_SERVICE], "turns": list(turns)}


def system_turn(text: str) -> dict[str, Any]:
    """Create a turn that perturbations do not change."""
    return {"speaker": "SYSTEM", "utterance": text, "frames": []}


def user_turn(text: str, values: Iterable[str] = ()) -> dict[str, Any]:
    """Create a user turn in which values are annotated wherever they occur as whole words.

    Args:
      text: the utterance.
      values: the values in the order of :func:`longest_first`.
    """
    spans = [(f"value_{i % _SLOTS}", start, end) for i, (start, end) in enumerate(sorted(_spans(text, values)))]
    values_by_slot: dict[str, list[str]] = {}
    for slot, start, end in spans:
        values_by_slot.setdefault(slot, []).append(text[start:end])
    actions = [
        {"act": "INFORM", "slot": slot, "values": values_here, "canonical_values": values_here}
        for slot, values_here in values_by_slot.items()
    ]
    state = {"active_intent": _INTENT, "requested_slots": [], "slot_values": values_by_slot}
    slots = [{"slot": slot, "start": start, "exclusive_end": end} for slot, start, end in spans]
    frame = {"service": _SERVICE, "actions": actions, "slots": slots, "state": state}
    return {"speaker": "USER", "utterance": text, "frames": [frame]}


def longest_first(values: Iterable[str]) -> list[str]:
    """Sort values without duplicates, long ones first, so that "New York" precedes "York"."""
    return sorted({value.strip() for value in values} - {""}, key=lambda value: (-len(value), value))


def values_in(calls: Any) -> Iterator[str]:
    """Yield all texts and numbers in calls at any depth, except names of parameters; also the parts of texts.

    A user who wants "New York, NY" may say "New York", so the texts between commas, names and numbers are values, too.
    """
    if isinstance(calls, Mapping):
        for value in calls.values():
            yield from values_in(value)
    elif isinstance(calls, list):
        for value in calls:
            yield from values_in(value)
    elif isinstance(calls, int | float) and not isinstance(calls, bool):
        yield f"{calls:g}"
        yield str(calls)
    elif isinstance(calls, str) and calls.strip():
        yield calls.strip()
        yield from filter(None, map(str.strip, re.split(r"[,;/()]", calls)))
        yield from (word for word in re.findall(r"\w+", calls) if len(word) > 1 and not word.islower())


def _spans(text: str, values: Iterable[str]) -> list[tuple[int, int]]:
    """Find the positions of values in a text; earlier values take precedence over overlapping ones."""
    taken: list[tuple[int, int]] = []
    for value in values:
        for match in re.finditer(rf"(?<!\w){re.escape(value)}(?!\w)", text, re.IGNORECASE):
            if all(match.end() <= start or match.start() >= end for start, end in taken):
                taken.append(match.span())
    return taken
