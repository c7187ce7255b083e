"""The SGD layout of simulated and converted dialogues: schemas, text with spans, and frames with acts and states."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

_GAP = re.compile(r"\{(\w+)\}")


class Line(msgspec.Struct, frozen=True):
    """An utterance with the places of its values.

    Attributes:
      utterance: the text.
      spans: (slot, start, exclusive end) of each value, in order.
    """

    utterance: str
    spans: tuple[tuple[str, int, int], ...] = ()


def filled(pattern: str, values: Mapping[str, str]) -> Line:
    """A pattern such as ``"a table in {location}, please"`` with its slots filled.

    Raises:
      KeyError: a slot of the pattern has no value.
    """
    pieces: list[str] = []
    spans = []
    at = length = 0
    for gap in _GAP.finditer(pattern):
        slot, value = gap[1], values[gap[1]]
        length += gap.start() - at
        spans.append((slot, length, length + len(value)))
        pieces += (pattern[at : gap.start()], value)
        length += len(value)
        at = gap.end()
    return Line("".join((*pieces, pattern[at:])), tuple(spans))


def slots_of(pattern: str) -> list[str]:
    """The slots of a pattern, in order."""
    return _GAP.findall(pattern)


def joined(*lines: Line) -> Line:
    """Lines joined by spaces."""
    text = ""
    spans: list[tuple[str, int, int]] = []
    for line in lines:
        before = len(text) + 1 if text else 0
        text = f"{text} {line.utterance}" if text else line.utterance
        spans += [(slot, start + before, end + before) for slot, start, end in line.spans]
    return Line(text, tuple(spans))


def act(name: str, slot: str = "", *values: str, canonical: Sequence[str] | None = None) -> dict[str, Any]:
    """An action of a frame; the values are canonical, too, unless canonical ones are given."""
    forms = values if canonical is None else canonical
    return {"act": name, "canonical_values": list(forms), "slot": slot, "values": list(values)}


def state(intent: str, values: Mapping[str, Sequence[str]], requested: Sequence[str] = ()) -> dict[str, Any]:
    """The dialogue state after a user turn."""
    return {
        "active_intent": intent,
        "requested_slots": sorted(requested),
        "slot_values": {slot: list(texts) for slot, texts in sorted(values.items())},
    }


def user_turn(service: str, line: Line, acts: Sequence[dict[str, Any]], after: dict[str, Any]) -> dict[str, Any]:
    """A turn of the user.

    Args:
      service: of the frame.
      line: the utterance.
      acts: made by :func:`act`.
      after: the :func:`state` after the turn.
    """
    frame = {"actions": list(acts), "service": service, "slots": _slots(line), "state": after}
    return {"frames": [frame], "speaker": "USER", "utterance": line.utterance}


def system_turn(
    service: str,
    line: Line,
    acts: Sequence[dict[str, Any]],
    call: tuple[str, Mapping[str, str]] | None = None,
    results: Sequence[Mapping[str, str]] = (),
) -> dict[str, Any]:
    """A turn of the system.

    Args:
      service: of the frame.
      line: the utterance.
      acts: made by :func:`act`.
      call: the call of the service before the turn, intent and values of slots; None where there is none.
      results: of the call.
    """
    frame: dict[str, Any] = {"actions": list(acts), "service": service, "slots": _slots(line)}
    if call is not None:
        frame["service_call"] = {"method": call[0], "parameters": dict(sorted(call[1].items()))}
        frame["service_results"] = [dict(sorted(result.items())) for result in results]
    return {"frames": [frame], "speaker": "SYSTEM", "utterance": line.utterance}


def _slots(line: Line) -> list[dict[str, Any]]:
    return [{"exclusive_end": end, "slot": slot, "start": start} for slot, start, end in line.spans]


def schema_service(
    name: str, description: str, slots: Sequence[dict[str, Any]], intents: Sequence[dict[str, Any]]
) -> dict[str, Any]:
    """A service of a schema file, with slots and intents from :func:`schema_slot` and :func:`schema_intent`."""
    return {"service_name": name, "description": description, "slots": list(slots), "intents": list(intents)}


def schema_slot(name: str, description: str, values: Sequence[str] = ()) -> dict[str, Any]:
    """A slot of a service; with values it is categorical."""
    return {
        "name": name,
        "description": description,
        "is_categorical": bool(values),
        "possible_values": list(values),
    }


def schema_intent(
    name: str,
    description: str,
    required: Sequence[str],
    results: Sequence[str],
    *,
    optional: Mapping[str, str] | None = None,
    transactional: bool = False,
) -> dict[str, Any]:
    """An intent of a service."""
    return {
        "name": name,
        "description": description,
        "is_transactional": transactional,
        "required_slots": list(required),
        "optional_slots": dict(optional or {}),
        "result_slots": list(results),
    }
