"""Convert dialogues and services to Arrow rows and back without loss.

JSON objects whose keys are data (slot values, parameters, results) become lists of key and value, because ``datasets``
cannot read Arrow's map columns. Content that the columns cannot represent (keys of other programs, another order of
keys) is kept in ``source_json``, which is null if the columns suffice, as for all of SGD and SGD-X.

``layout`` is the format of the row's file: ``published`` like SGD's files; ``no_newline`` for the same without the
final newline (as written by the SGD-X generator), which are both restored byte for byte; or ``other``, which is
restored with the same content.
"""

from __future__ import annotations

import gc
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import msgspec
import orjson
import pyarrow as pa
import pyarrow.json

from parapet.schemas.dialogue import Dialogue
from parapet.schemas.errors import InputError, reason_and_place
from parapet.schemas.layout import dialogue_bytes, parse_json, schema_bytes

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


def service_rows(services: Sequence[Mapping[str, Any]], variant: str, data: bytes) -> list[dict[str, Any]]:
    """Convert a schema file to rows, given its corpus, and its bytes to detect the layout."""
    layout = layout_of(data, schema_bytes(services))
    return [{**service_row(service, variant, i), "layout": layout} for i, service in enumerate(services)]


def layout_of(data: bytes, published: bytes) -> str:
    """Detect a file's layout from its bytes, and from the bytes in the published layout."""
    return "published" if data == published else "no_newline" if data + b"\n" == published else "other"


def dialogue_row(dialogue: Mapping[str, Any], file: str, position: int) -> dict[str, Any]:
    """Convert a dialogue to a row of DIALOGUES.

    Args:
      dialogue: the validated dialogue in the format of its file (see ``parapet.schemas.dialogue``).
      file: the name of the file.
      position: its position in the file, from 0.
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
    """Convert a row to a dialogue in the format of its file."""
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
    """Convert a service to a row of SERVICES.

    Args:
      service: the validated service in the format of its file (see ``parapet.schemas.service``).
      variant: its corpus: ``original``, ``v1``.
      position: its position in the file, from 0.
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
    # compared as text, since the order of keys matters for the bytes of a schema file
    if json.dumps(service_of(row)) != (text := json.dumps(service)):
        row["source_json"] = text
    return row


def service_of(row: Mapping[str, Any]) -> dict[str, Any]:
    """Convert a row to a service, with keys in the order of the published files."""
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
    frame_here = {
        "service": frame["service"],
        "slots": [_without_none(span, _SPAN_KEYS) for span in frame["slots"]],
        "actions": actions and [_without_none(action, _ACTION_KEYS) for action in actions],
        "state": state and {**state, "slot_values": _object(state["slot_values"])},
        "service_call": call and {"method": call["method"], "parameters": _object(call["parameters"])},
        "service_results": results and [_object(result) for result in results],
    }
    return {key: value for key, value in frame_here.items() if value is not None}


def _pairs(found: Mapping[str, Any] | None) -> list[dict[str, Any]] | None:
    return None if found is None else [{"key": key, "value": value} for key, value in found.items()]


def _object(pairs: list[dict[str, Any]] | None) -> dict[str, Any] | None:
    return None if pairs is None else {pair["key"]: pair["value"] for pair in pairs}


def _without_none(found: Mapping[str, Any], keys: tuple[str, ...]) -> dict[str, Any]:
    return {key: found[key] for key in keys if found[key] is not None}


def _sorted_json(found: Any) -> bytes:
    return orjson.dumps(found, option=orjson.OPT_SORT_KEYS)


_BLOCK = 64 * 2**20  # bytes of lines that Arrow parses at a time


class Malformed(msgspec.Struct, frozen=True):
    """A dialogue that is not in SGD format: its id, the place in it and the reason."""

    dialogue_id: str
    where: str
    reason: str


class FileLines(msgspec.Struct, frozen=True):
    """A dialogue file as rows: each a line of JSON, with the id of its dialogue.

    Attributes:
      ids: the ids of all dialogues.
      lines: the rows of all dialogues.
      dialogues: the typed dialogues in SGD format.
      malformed: the other dialogues, whose rows have everything in ``source_json``.
    """

    ids: list[str] = []
    lines: list[bytes] = []
    dialogues: list[Dialogue] = []
    malformed: list[Malformed] = []


@contextmanager
def collection_paused() -> Iterator[None]:
    """Pause Python's cyclic garbage collection, which would take half of the time for parsing and using dialogues.

    Dialogues have no cycles. They should be released when the block ends, because the collector visits what is left.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def dialogue_lines(data: bytes, file: str, path: object) -> FileLines:
    """Convert a dialogue file to lines.

    Args:
      data: the bytes of the file.
      file: the file name for the rows.
      path: the path for messages.

    Raises:
      InputError: the file is not a list of JSON objects with a ``dialogue_id``.
    """
    items = parse_json(data, path)
    if not isinstance(items, list):
        raise InputError("expected a list of dialogues", path)
    try:
        layout = layout_of(data, dialogue_bytes(items))
    except TypeError as error:
        raise InputError(f"contains a value that cannot be stored: {error}", path) from None
    result = FileLines()
    for i, item in enumerate(items):
        if not isinstance(item, dict) or not isinstance(dialogue_id := item.get("dialogue_id"), str):
            raise InputError("is not a dialogue: it has no 'dialogue_id'", path, f"[{i}]")
        try:
            result.dialogues.append(msgspec.convert(item, Dialogue))
            row = dialogue_row(item, file, i)
        except msgspec.ValidationError as error:
            reason, where = reason_and_place(error)
            result.malformed.append(Malformed(dialogue_id, where, reason))
            source = json.dumps(item, sort_keys=True)
            row = {"dialogue_id": dialogue_id, "file": file, "position": i, "services": None, "turns": None}
            row["source_json"] = source
        result.ids.append(dialogue_id)
        result.lines.append(_sorted_json({**row, "layout": layout}))
    return result


def lines_table(lines: Sequence[bytes]) -> pa.Table:
    """Parse lines to a table of ``DIALOGUES``."""
    blocks, size = [[]], 0  # type: list[list[bytes]], int
    for line in lines:
        if size + len(line) > _BLOCK and blocks[-1]:
            blocks.append([])
            size = 0
        blocks[-1].append(line)
        size += len(line) + 1
    return pa.concat_tables([_table(b"\n".join(block)) for block in blocks])


def _table(text: bytes) -> pa.Table:
    if not text:
        return DIALOGUES.empty_table()
    read = pyarrow.json.ReadOptions(use_threads=False, block_size=len(text) + 1)
    parse = pyarrow.json.ParseOptions(explicit_schema=DIALOGUES, unexpected_field_behavior="error")
    return pyarrow.json.read_json(pa.BufferReader(text), read, parse).cast(DIALOGUES)
