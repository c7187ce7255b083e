"""The rows of a file of dialogues as lines of JSON, and lines as an Arrow table: with no row as a dict in between.

A line is a row of ``DIALOGUES`` with all its columns, sorted keys and no spaces: what the logical hash of a Parquet
file is made of. msgspec parses the file, fills the columns and encodes the lines; Arrow parses these. A dialogue that
the columns do not describe entirely takes the longer way, through :func:`parapet.schemas.dialogue_table.dialogue_row`.
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
from msgspec import UNSET

from parapet.schemas.dialogue import Action, Dialogue, Frame, SlotSpan, Turn
from parapet.schemas.dialogue_files import as_ascii
from parapet.schemas.dialogue_table import DIALOGUES, dialogue_row, layout_of
from parapet.schemas.errors import NOT_FINITE, InputError, not_finite_in, reason_and_place, storable, surrogate_in
from parapet.schemas.layout import dialogue_bytes, parse_json

_BLOCK = 64 * 2**20  # bytes of lines that Arrow parses at once
_INT32 = range(-(2**31), 2**31)


class FileLines(msgspec.Struct, frozen=True):
    """A file of dialogues: typed, and as the lines of its rows."""

    dialogues: list[Dialogue]
    lines: list[bytes]


class Malformed(msgspec.Struct, frozen=True):
    """A dialogue that is not of the SGD format: its place in the file, its id, the place inside it and the reason."""

    position: int
    dialogue_id: str
    where: str
    reason: str


# The rows of DIALOGUES; of actions and spans those that lack something, which is null in a row.


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
    """Pauses Python's search for cycles while dialogues are parsed and used, where it would take half of the time.

    There are no cycles in dialogues. They should be gone when the block ends: the search goes through what is left.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def dialogue_lines(data: bytes, file: str, path: object) -> FileLines:
    """Parses a file of dialogues.

    Args:
      data: its bytes.
      file: its name, for the rows.
      path: its place, for messages.

    Raises:
      InputError: it holds no dialogues, or what Parquet cannot hold.
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
        raise InputError(f"holds what Parquet cannot: {error}", path, where) from None


def _first_unfit(data: bytes, file: str) -> tuple[str, Exception] | None:
    """The place of the first dialogue that Parquet cannot hold, and why."""
    for i, item in enumerate(parse_json(data, file)):
        where = f"[{i}] (dialogue {storable(str(item.get('dialogue_id')))})"
        if (half := surrogate_in(item)) is not None:
            return f"{where}.{half}", ValueError("half a surrogate pair")
        try:
            _long_way([item], [0], file, "other")
        except (TypeError, ValueError, OverflowError, pa.ArrowException) as error:
            return where, error
    return None


def lines_of_any(data: bytes, file: str, path: object) -> tuple[FileLines, list[Malformed]]:
    """Parses a file some of whose dialogues are not of the SGD format: the row of one has all of it in ``source_json``.

    Args:
      data: its bytes.
      file: its name, for the rows.
      path: its place, for messages.

    Returns:
      The lines of all, typed dialogues of those that are of the format; the others.

    Raises:
      InputError: it is no list of JSON objects that have a ``dialogue_id``, or holds what Parquet cannot.
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
            raise InputError("is no dialogue: it has no 'dialogue_id'", path, f"[{i}]")
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
            raise InputError(f"holds what Parquet cannot: {error}", path, f"[{i}]") from None
        malformed.append(Malformed(i, key, at, reason))
        row = {"services": None, "turns": None, "source_json": json.dumps(item, sort_keys=True)}
        lines.append(_encode_sorted({"dialogue_id": key, "file": file, "layout": layout, "position": i, **row}))
    return FileLines(dialogues, lines), malformed


def lines_table(lines: Sequence[bytes]) -> pa.Table:
    """Lines as a table of ``DIALOGUES``."""
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
        # Read again by what says line and column, and takes half surrogates.
        items = parse_json(data, path)
        dialogues = msgspec.convert(items, list[Dialogue])
        return FileLines(dialogues, _long_way(items, range(len(items)), file, layout_of(data, dialogue_bytes(items))))
    published = as_ascii(msgspec.json.format(_encode_sorted(dialogues), indent=2) + b"\n")
    layout = layout_of(data, published)
    items = []
    rest: list[int] = []
    if layout == "other":  # or it has keys that are none of a dialogue's
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
    """The lines of the dialogues at some places of a file, as Arrow reads their rows."""
    rows = [{**dialogue_row(items[i], file, i), "layout": layout} for i in places]
    for i, row in zip(places, rows, strict=True):
        if row["source_json"] is not None and (at := not_finite_in(items[i], f"[{i}]")) is not None:
            raise InputError(NOT_FINITE, "", at)
    table = pa.Table.from_pylist(rows, DIALOGUES)
    return [orjson.dumps(row, option=orjson.OPT_SORT_KEYS) for row in table.to_pylist()]


def _line(dialogue: Dialogue, file: str, layout: str, position: int) -> bytes:
    """The line of a dialogue; empty where the columns cannot hold all of it."""
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
        None if call is UNSET else _Call(call.method, _pairs(call.parameters)),
        None if results is UNSET else [_pairs(result) for result in results],
        [_span(span) for span in frame.slots],
        None if state is UNSET else _State(state.active_intent, state.requested_slots, _pairs(state.slot_values)),
    )


def _action(action: Action) -> _Action:
    return _Action(action.act, None, action.slot, action.values)


def _span(span: SlotSpan) -> SlotSpan | _Span:
    start, end = span.start, span.exclusive_end
    if start is not UNSET and end is not UNSET:
        return span
    return _Span(None if end is UNSET else end, span.slot, None if start is UNSET else start)


def _pairs(found: Mapping[str, str] | Mapping[str, list[str]]) -> list[_Pair]:
    return [_Pair(key, value) for key, value in found.items()]
