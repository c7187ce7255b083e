"""Dialogues and services as Arrow rows, and back; nothing is lost either way.

JSON objects whose keys are data (slot values, parameters, results) are lists of key and value: Arrow's map columns
cannot be read by ``datasets``. What the columns cannot hold (keys of other programs, another order of keys) stands in
``source_json``, which is null where the columns say everything: so for all of SGD and SGD-X.

``layout`` says how the file of a row was laid out: ``published`` as SGD's are, ``no_newline`` the same without the
newline at its end (what the SGD-X generator writes); files of these two come back byte for byte. Any ``other`` comes
back with the same content.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import orjson
import pyarrow as pa

from parapet.schemas.layout import dialogue_bytes, schema_bytes

_PAIR = pa.struct([("key", pa.string()), ("value", pa.string())])
_PAIRS = pa.list_(_PAIR)
_TEXTS = pa.list_(pa.string())

_SPAN = pa.struct(
    [
        ("slot", pa.string()),
        ("start", pa.int32()),
        ("exclusive_end", pa.int32()),
    ]
)
_ACTION = pa.struct(
    [("act", pa.string()), ("slot", pa.string()), ("values", _TEXTS), ("canonical_values", _TEXTS)],
)
_STATE = pa.struct(
    [
        ("active_intent", pa.string()),
        ("requested_slots", _TEXTS),
        ("slot_values", pa.list_(pa.struct([("key", pa.string()), ("value", _TEXTS)]))),
    ]
)
_FRAME = pa.struct(
    [
        ("service", pa.string()),
        ("slots", pa.list_(_SPAN)),
        ("actions", pa.list_(_ACTION)),
        ("state", _STATE),
        ("service_call", pa.struct([("method", pa.string()), ("parameters", _PAIRS)])),
        ("service_results", pa.list_(_PAIRS)),
    ]
)
DIALOGUES = pa.schema(
    [
        pa.field("dialogue_id", pa.string(), nullable=False),
        pa.field("file", pa.string(), nullable=False),
        pa.field("position", pa.int32(), nullable=False),
        pa.field("layout", pa.string(), nullable=False),
        ("services", _TEXTS),
        (
            "turns",
            pa.list_(pa.struct([("speaker", pa.string()), ("utterance", pa.string()), ("frames", pa.list_(_FRAME))])),
        ),
        ("source_json", pa.string()),
    ]
)
SERVICES = pa.schema(
    [
        pa.field("variant", pa.string(), nullable=False),
        pa.field("service_name", pa.string(), nullable=False),
        pa.field("position", pa.int32(), nullable=False),
        pa.field("layout", pa.string(), nullable=False),
        ("description", pa.string()),
        (
            "slots",
            pa.list_(
                pa.struct(
                    [
                        ("name", pa.string()),
                        ("description", pa.string()),
                        ("is_categorical", pa.bool_()),
                        ("possible_values", _TEXTS),
                    ]
                )
            ),
        ),
        (
            "intents",
            pa.list_(
                pa.struct(
                    [
                        ("name", pa.string()),
                        ("description", pa.string()),
                        ("is_transactional", pa.bool_()),
                        ("required_slots", _TEXTS),
                        ("optional_slots", _PAIRS),
                        ("result_slots", _TEXTS),
                    ]
                )
            ),
        ),
        ("source_json", pa.string()),
    ]
)


def dialogue_rows(dialogues: Sequence[Mapping[str, Any]], file: str, data: bytes) -> list[dict[str, Any]]:
    """The rows of a file of dialogues, given its name, and its bytes for their layout."""
    rows = [dialogue_row(dialogue, file, i) for i, dialogue in enumerate(dialogues)]
    layout = layout_of(data, dialogue_bytes(dialogues))
    return [{**row, "layout": layout} for row in rows]


def service_rows(services: Sequence[Mapping[str, Any]], variant: str, data: bytes) -> list[dict[str, Any]]:
    """The rows of a schema file, given the corpus it is of, and its bytes for their layout."""
    layout = layout_of(data, schema_bytes(services))
    return [{**service_row(service, variant, i), "layout": layout} for i, service in enumerate(services)]


def dialogue_file(rows: Iterable[Mapping[str, Any]]) -> bytes:
    """A file of dialogues from its rows, in any order."""
    ordered = sorted(rows, key=lambda row: int(row["position"]))
    return _laid_out(dialogue_bytes([dialogue_of(row) for row in ordered]), ordered)


def schema_file(rows: Iterable[Mapping[str, Any]]) -> bytes:
    """A schema file from its rows, in any order."""
    ordered = sorted(rows, key=lambda row: int(row["position"]))
    return _laid_out(schema_bytes([service_of(row) for row in ordered]), ordered)


def layout_of(data: bytes, published: bytes) -> str:
    """How a file is laid out, given its bytes, and the bytes that it would have as SGD's files are."""
    return "published" if data == published else "no_newline" if data + b"\n" == published else "other"


def _laid_out(data: bytes, rows: Sequence[Mapping[str, Any]]) -> bytes:
    return data[:-1] if rows and rows[0]["layout"] == "no_newline" else data


def dialogue_row(dialogue: Mapping[str, Any], file: str, position: int) -> dict[str, Any]:
    """A dialogue as a row of DIALOGUES.

    Args:
      dialogue: as its file has it, checked (see ``parapet.schemas.dialogue``).
      file: the file's name.
      position: its place there, from 0.
    """
    row = {
        "dialogue_id": dialogue["dialogue_id"],
        "file": file,
        "position": position,
        "layout": "published",
        "services": dialogue["services"],
        "turns": [
            {
                "speaker": turn["speaker"],
                "utterance": turn["utterance"],
                "frames": [_frame_row(frame) for frame in turn["frames"]],
            }
            for turn in dialogue["turns"]
        ],
        "source_json": None,
    }
    if _sorted_json(dialogue_of(row)) != _sorted_json(dialogue):
        row["source_json"] = json.dumps(dialogue, sort_keys=True)
    return row


def dialogue_of(row: Mapping[str, Any]) -> dict[str, Any]:
    """The dialogue of a row, as its file had it."""
    if row["source_json"] is not None:
        return dict(json.loads(row["source_json"]))
    return {
        "dialogue_id": row["dialogue_id"],
        "services": row["services"],
        "turns": [
            {
                "speaker": turn["speaker"],
                "utterance": turn["utterance"],
                "frames": [_frame_of(frame) for frame in turn["frames"]],
            }
            for turn in row["turns"]
        ],
    }


def service_row(service: Mapping[str, Any], variant: str, position: int) -> dict[str, Any]:
    """A service as a row of SERVICES.

    Args:
      service: as its file has it, checked (see ``parapet.schemas.service``).
      variant: the corpus it is of: ``original``, ``v1``.
      position: its place in the file, from 0.
    """
    row = {
        "variant": variant,
        "service_name": service["service_name"],
        "position": position,
        "layout": "published",
        "description": service["description"],
        "slots": [{key: slot.get(key) for key in _SLOT_KEYS} for slot in service["slots"]],
        "intents": [
            {**{key: intent.get(key) for key in _INTENT_KEYS}, "optional_slots": _pairs(intent.get("optional_slots"))}
            for intent in service["intents"]
        ],
        "source_json": None,
    }
    # Compared as text: the order of keys is part of a published schema file's bytes.
    if json.dumps(service_of(row)) != (text := json.dumps(service)):
        row["source_json"] = text
    return row


def service_of(row: Mapping[str, Any]) -> dict[str, Any]:
    """The service of a row, keys in the order of the published files."""
    if row["source_json"] is not None:
        return dict(json.loads(row["source_json"]))
    return {
        "service_name": row["service_name"],
        "description": row["description"],
        "slots": [_without_none(slot, _SLOT_KEYS) for slot in row["slots"]],
        "intents": [
            _without_none({**intent, "optional_slots": _object(intent["optional_slots"])}, _INTENT_KEYS)
            for intent in row["intents"]
        ],
    }


_SLOT_KEYS = ("name", "description", "is_categorical", "possible_values")
_INTENT_KEYS = ("name", "description", "is_transactional", "required_slots", "optional_slots", "result_slots")
_SPAN_KEYS = ("slot", "start", "exclusive_end")
_ACTION_KEYS = ("act", "slot", "values", "canonical_values")


def _frame_row(frame: Mapping[str, Any]) -> dict[str, Any]:
    state, call, results, actions = (frame.get(key) for key in ("state", "service_call", "service_results", "actions"))
    return {
        "service": frame["service"],
        "slots": [{key: span.get(key) for key in _SPAN_KEYS} for span in frame.get("slots", [])],
        "actions": actions and [{key: action.get(key) for key in _ACTION_KEYS} for action in actions],
        "state": state
        and {
            "active_intent": state["active_intent"],
            "requested_slots": state["requested_slots"],
            "slot_values": _pairs(state["slot_values"]),
        },
        "service_call": call and {"method": call["method"], "parameters": _pairs(call["parameters"])},
        "service_results": results and [_pairs(result) for result in results],
    }


def _frame_of(frame: Mapping[str, Any]) -> dict[str, Any]:
    state, call, results, actions = (frame[key] for key in ("state", "service_call", "service_results", "actions"))
    made = {
        "service": frame["service"],
        "slots": [_without_none(span, _SPAN_KEYS) for span in frame["slots"]],
        "actions": actions and [_without_none(action, _ACTION_KEYS) for action in actions],
        "state": state and {**state, "slot_values": _object(state["slot_values"])},
        "service_call": call and {"method": call["method"], "parameters": _object(call["parameters"])},
        "service_results": results and [_object(result) for result in results],
    }
    return {key: value for key, value in made.items() if value is not None}


def _pairs(found: Mapping[str, Any] | None) -> list[dict[str, Any]] | None:
    return None if found is None else [{"key": key, "value": value} for key, value in found.items()]


def _object(pairs: list[dict[str, Any]] | None) -> dict[str, Any] | None:
    return None if pairs is None else {pair["key"]: pair["value"] for pair in pairs}


def _without_none(found: Mapping[str, Any], keys: tuple[str, ...]) -> dict[str, Any]:
    return {key: found[key] for key in keys if found[key] is not None}


def _sorted_json(found: Any) -> bytes:
    return orjson.dumps(found, option=orjson.OPT_SORT_KEYS)
