"""Shared parts of the simulators: turns and schemas in the SGD layout, text with spans, tables of reports, digests."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np

_GAP = re.compile(r"\{(\w+)\}")


class Sentence(msgspec.Struct, frozen=True):
    """An utterance with the spans of its values.

    Attributes:
      utterance: the text.
      spans: (slot, start, exclusive end) of each value, in order.
    """

    utterance: str
    spans: tuple[tuple[str, int, int], ...] = ()


def filled(pattern: str, values: Mapping[str, str]) -> Sentence:
    """Fill the slots of a pattern such as ``"a table in {location}, please"``.

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
    return Sentence("".join((*pieces, pattern[at:])), tuple(spans))


def slots_of(pattern: str) -> list[str]:
    """Return the slots of a pattern in order."""
    return _GAP.findall(pattern)


def joined(*lines: Sentence) -> Sentence:
    """Join lines by spaces, and shift their spans."""
    text = ""
    spans: list[tuple[str, int, int]] = []
    for line in lines:
        before = len(text) + 1 if text else 0
        text = f"{text} {line.utterance}" if text else line.utterance
        spans += [(slot, start + before, end + before) for slot, start, end in line.spans]
    return Sentence(text, tuple(spans))


def act(name: str, slot: str = "", *values: str, canonical: Sequence[str] | None = None) -> dict[str, Any]:
    """Create an action of a frame; canonical values are the values unless others are given."""
    forms = values if canonical is None else canonical
    return {"act": name, "canonical_values": list(forms), "slot": slot, "values": list(values)}


def state(intent: str, values: Mapping[str, Sequence[str]], requested: Sequence[str] = ()) -> dict[str, Any]:
    """Create the dialogue state after a user turn."""
    return {
        "active_intent": intent,
        "requested_slots": sorted(requested),
        "slot_values": {slot: list(texts) for slot, texts in sorted(values.items())},
    }


def user_turn(service: str, line: Sentence, acts: Sequence[dict[str, Any]], after: dict[str, Any]) -> dict[str, Any]:
    """Create a turn of the user.

    Args:
      service: the service of the frame.
      line: the utterance.
      acts: actions created by :func:`act`.
      after: the :func:`state` after the turn.
    """
    frame = {"actions": list(acts), "service": service, "slots": _slots(line), "state": after}
    return {"frames": [frame], "speaker": "USER", "utterance": line.utterance}


def system_turn(
    service: str,
    line: Sentence,
    acts: Sequence[dict[str, Any]],
    call: tuple[str, Mapping[str, str]] | None = None,
    results: Sequence[Mapping[str, str]] = (),
) -> dict[str, Any]:
    """Create a turn of the system.

    Args:
      service: the service of the frame.
      line: the utterance.
      acts: actions created by :func:`act`.
      call: the intent and values of the service call before the turn; None without a call.
      results: the results of the call.
    """
    frame: dict[str, Any] = {"actions": list(acts), "service": service, "slots": _slots(line)}
    if call is not None:
        frame["service_call"] = {"method": call[0], "parameters": dict(sorted(call[1].items()))}
        frame["service_results"] = [dict(sorted(result.items())) for result in results]
    return {"frames": [frame], "speaker": "SYSTEM", "utterance": line.utterance}


def _slots(line: Sentence) -> list[dict[str, Any]]:
    return [{"exclusive_end": end, "slot": slot, "start": start} for slot, start, end in line.spans]


def schema_service(
    name: str, description: str, slots: Sequence[dict[str, Any]], intents: Sequence[dict[str, Any]]
) -> dict[str, Any]:
    """Create a service of a schema, with slots and intents from :func:`schema_slot` and :func:`schema_intent`."""
    return {"service_name": name, "description": description, "slots": list(slots), "intents": list(intents)}


def schema_slot(name: str, description: str, values: Sequence[str] = ()) -> dict[str, Any]:
    """Create a slot of a service; with values it is categorical."""
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
    """Create an intent of a service."""
    return {
        "name": name,
        "description": description,
        "is_transactional": transactional,
        "required_slots": list(required),
        "optional_slots": dict(optional or {}),
        "result_slots": list(results),
    }


def best_rated(names: Iterable[str], facts: Mapping[str, Mapping[str, str]], rating: str) -> str:
    """Return the first name with the highest rating among its facts; empty without names."""

    def rated(name: str) -> float:
        try:
            return float(facts[name].get(rating, ""))
        except ValueError:
            return 0.0

    return max(names, key=rated, default="")


def count_distinct(digests: Iterable[bytes]) -> int:
    """Count the different digests of eight bytes in several concatenations of digests."""
    return len(np.unique(np.frombuffer(b"".join(digests), "<u8")))
