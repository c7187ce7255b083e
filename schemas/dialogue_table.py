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
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import msgspec
import orjson
import pyarrow as pa
import pyarrow.json
from msgspec import UNSET

from parapet.schemas.dialogue import Action, Dialogue, Frame, SlotSpan, Turn, as_ascii
from parapet.schemas.errors import NOT_FINITE, InputError, not_finite_in, reason_and_place, storable, surrogate_in
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


def dialogue_rows(dialogues: Sequence[Mapping[str, Any]], file: str, data: bytes) -> list[dict[str, Any]]:
    """Convert a dialogue file to rows, given its name, and its bytes to detect the layout."""
    rows = [dialogue_row(dialogue, file, i) for i, dialogue in enumerate(dialogues)]
    layout = layout_of(data, dialogue_bytes(dialogues))
    return [{**row, "layout": layout} for row in rows]


def service_rows(services: Sequence[Mapping[str, Any]], variant: str, data: bytes) -> list[dict[str, Any]]:
    """Convert a schema file to rows, given its corpus, and its bytes to detect the layout."""
    layout = layout_of(data, schema_bytes(services))
    return [{**service_row(service, variant, i), "layout": layout} for i, service in enumerate(services)]


def dialogue_file(rows: Iterable[Mapping[str, Any]]) -> bytes:
    """Convert rows in any order to a dialogue file."""
    ordered = sorted(rows, key=lambda row: int(row["position"]))
    return _laid_out(dialogue_bytes([dialogue_of(row) for row in ordered]), ordered)


def schema_file(rows: Iterable[Mapping[str, Any]]) -> bytes:
    """Convert rows in any order to a schema file."""
    ordered = sorted(rows, key=lambda row: int(row["position"]))
    return _laid_out(schema_bytes([service_of(row) for row in ordered]), ordered)


def layout_of(data: bytes, published: bytes) -> str:
    """Detect a file's layout from its bytes, and from the bytes in the published layout."""
    return "published" if data == published else "no_newline" if data + b"\n" == published else "other"


def _laid_out(data: bytes, rows: Sequence[Mapping[str, Any]]) -> bytes:
    return data[:-1] if rows and rows[0]["layout"] == "no_newline" else data


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
_INT32 = range(-(2**31), 2**31)


class FileLines(msgspec.Struct, frozen=True):
    """The typed dialogues of a file, and its rows as lines of JSON."""

    dialogues: list[Dialogue]
    lines: list[bytes]


class Malformed(msgspec.Struct, frozen=True):
    """A dialogue that is not in SGD format: its position in the file, its id, the place in it and the reason."""

    position: int
    dialogue_id: str
    where: str
    reason: str


# The rows of DIALOGUES. _Action and _Span represent missing fields as null.


class _Action(msgspec.Struct):
    act: str
    canonical_values: list[str] | None
    slot: str
    values: list[str]


class _Span(msgspec.Struct):
    exclusive_end: int | None
    slot: str
    start: int | None


class _Pair(msgspec.Struct):
    key: str
    value: str | list[str]


class _Call(msgspec.Struct):
    method: str
    parameters: list[_Pair]


class _State(msgspec.Struct):
    active_intent: str
    requested_slots: list[str]
    slot_values: list[_Pair]


class _Frame(msgspec.Struct):
    actions: Sequence[Action | _Action] | None
    service: str
    service_call: _Call | None
    service_results: list[list[_Pair]] | None
    slots: Sequence[SlotSpan | _Span]
    state: _State | None


class _Turn(msgspec.Struct):
    frames: list[_Frame]
    speaker: str
    utterance: str


class _Row(msgspec.Struct):
    dialogue_id: str
    file: str
    layout: str
    position: int
    services: list[str]
    source_json: None
    turns: list[_Turn]


_decode = msgspec.json.Decoder(list[Dialogue]).decode
_encode_sorted = msgspec.json.Encoder(order="sorted").encode


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
    """Parse a dialogue file to typed dialogues and lines.

    Args:
      data: the bytes of the file.
      file: the file name for the rows.
      path: the path for messages.

    Raises:
      InputError: the file is not a list of dialogues, or Parquet cannot represent it.
    """
    try:
        return _parsed(data, file, path)
    except msgspec.ValidationError as error:
        reason, at = reason_and_place(error)
        raise InputError(reason, path, at) from None
    except InputError as error:
        raise InputError(error.reason, path, error.where) from None
    except (TypeError, ValueError, OverflowError, pa.ArrowException) as error:
        where, error = _first_unfit(data, file) or ("", error)
        raise InputError(f"contains a value that Parquet cannot store: {error}", path, where) from None


def _first_unfit(data: bytes, file: str) -> tuple[str, Exception] | None:
    """Return the place of the first dialogue that Parquet cannot represent, and why."""
    for i, item in enumerate(parse_json(data, file)):
        where = f"[{i}] (dialogue {storable(str(item.get('dialogue_id')))})"
        if (half := surrogate_in(item)) is not None:
            return f"{where}.{half}", ValueError("lone surrogate")
        try:
            _long_way([item], [0], file, "other")
        except (TypeError, ValueError, OverflowError, pa.ArrowException) as error:
            return where, error
    return None


def lines_of_any(data: bytes, file: str, path: object) -> tuple[FileLines, list[Malformed]]:
    """Parse a file in which dialogues may not be in SGD format; their rows have everything in ``source_json``.

    Args:
      data: the bytes of the file.
      file: the file name for the rows.
      path: the path for messages.

    Returns:
      The lines of all dialogues, with typed objects of those in SGD format; and the malformed ones.

    Raises:
      InputError: the file is not a list of JSON objects with a ``dialogue_id``, or Parquet cannot represent it.
    """
    items = parse_json(data, path)
    if not isinstance(items, list):
        raise InputError("expected a list of dialogues", path)
    layout = layout_of(data, dialogue_bytes(items))
    dialogues: list[Dialogue] = []
    lines: list[bytes] = []
    malformed: list[Malformed] = []
    for i, item in enumerate(items):
        if not isinstance(item, dict) or not isinstance(key := item.get("dialogue_id"), str):
            raise InputError("is not a dialogue: it has no 'dialogue_id'", path, f"[{i}]")
        try:
            dialogue = msgspec.convert(item, Dialogue)
            lines += _long_way(items, [i], file, layout)
            dialogues.append(dialogue)
            continue
        except msgspec.ValidationError as error:
            reason, at = reason_and_place(error)
        except InputError as error:
            reason, at = error.reason, error.where.partition(".")[2]
        except (TypeError, UnicodeEncodeError, pa.ArrowException) as error:
            raise InputError(f"contains a value that Parquet cannot store: {error}", path, f"[{i}]") from None
        malformed.append(Malformed(i, key, at, reason))
        row = {"services": None, "turns": None, "source_json": json.dumps(item, sort_keys=True)}
        lines.append(_encode_sorted({"dialogue_id": key, "file": file, "layout": layout, "position": i, **row}))
    return FileLines(dialogues, lines), malformed


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


def _parsed(data: bytes, file: str, path: object) -> FileLines:
    try:
        dialogues = _decode(data.removeprefix(b"\xef\xbb\xbf"))
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        # The slower parser reports line and column, and accepts lone surrogates.
        items = parse_json(data, path)
        dialogues = msgspec.convert(items, list[Dialogue])
        return FileLines(dialogues, _long_way(items, range(len(items)), file, layout_of(data, dialogue_bytes(items))))
    published = as_ascii(msgspec.json.format(_encode_sorted(dialogues), indent=2) + b"\n")
    layout = layout_of(data, published)
    items = []
    rest: list[int] = []
    if layout == "other":  # or it has unknown keys
        items = parse_json(data, path)
        layout = layout_of(data, dialogue_bytes(items))
        encoded = (orjson.dumps(item, option=orjson.OPT_SORT_KEYS) for item in items)
        pairs = zip(dialogues, encoded, strict=True)
        rest = [i for i, (dialogue, item) in enumerate(pairs) if _encode_sorted(dialogue) != item]
    strange = set(rest)
    lines = [b"" if i in strange else _line(dialogue, file, layout, i) for i, dialogue in enumerate(dialogues)]
    rest = [i for i, line in enumerate(lines) if not line]
    if rest:
        for i, line in zip(rest, _long_way(items or parse_json(data, path), rest, file, layout), strict=True):
            lines[i] = line
    return FileLines(dialogues, lines)


def _long_way(items: Sequence[Mapping[str, Any]], places: Sequence[int], file: str, layout: str) -> list[bytes]:
    """Convert dialogues at some positions of a file to lines through Arrow."""
    rows = [{**dialogue_row(items[i], file, i), "layout": layout} for i in places]
    for i, row in zip(places, rows, strict=True):
        if row["source_json"] is not None and (at := not_finite_in(items[i], f"[{i}]")) is not None:
            raise InputError(NOT_FINITE, "", at)
    table = pa.Table.from_pylist(rows, DIALOGUES)
    return [orjson.dumps(row, option=orjson.OPT_SORT_KEYS) for row in table.to_pylist()]


def _line(dialogue: Dialogue, file: str, layout: str, position: int) -> bytes:
    """Convert a dialogue to a line; empty if the columns cannot represent it."""
    for turn in dialogue.turns:
        for frame in turn.frames:
            if frame.slots and not all(map(_fits, frame.slots)):
                return b""
    turns = [_turn(turn) for turn in dialogue.turns]
    return _encode_sorted(_Row(dialogue.dialogue_id, file, layout, position, dialogue.services, None, turns))


def _fits(span: SlotSpan) -> bool:
    if span.copy_from is not UNSET or span.value is not UNSET:
        return False
    return all(number is UNSET or number in _INT32 for number in (span.start, span.exclusive_end))


def _turn(turn: Turn) -> _Turn:
    return _Turn([_frame(frame) for frame in turn.frames], turn.speaker, turn.utterance)


def _frame(frame: Frame) -> _Frame:
    actions, state, call, results = frame.actions, frame.state, frame.service_call, frame.service_results
    return _Frame(
        None
        if actions is UNSET
        else [_action(action) if action.canonical_values is UNSET else action for action in actions],
        frame.service,
        None if call is UNSET else _Call(call.method, _structs(call.parameters)),
        None if results is UNSET else [_structs(result) for result in results],
        [_span(span) for span in frame.slots],
        None if state is UNSET else _State(state.active_intent, state.requested_slots, _structs(state.slot_values)),
    )


def _action(action: Action) -> _Action:
    return _Action(action.act, None, action.slot, action.values)


def _span(span: SlotSpan) -> SlotSpan | _Span:
    start, end = span.start, span.exclusive_end
    if start is not UNSET and end is not UNSET:
        return span
    return _Span(None if end is UNSET else end, span.slot, None if start is UNSET else start)


def _structs(found: Mapping[str, str] | Mapping[str, list[str]]) -> list[_Pair]:
    return [_Pair(key, value) for key, value in found.items()]
