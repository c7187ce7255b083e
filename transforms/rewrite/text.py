"""Dialogue files as streams: dialogues are read one by one and written one by one, with the published files' bytes."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import msgspec
import orjson

from parapet.schemas.errors import InputError
from parapet.schemas.layout import parse_json

# What stands before the first dialogue of a file, between two, and after the last.
OPENING, BETWEEN, CLOSING = b"[\n", b",\n", b"\n]\n"
EMPTY = b"[]\n"

_OPTIONS = orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS
_NOT_ASCII = re.compile("[\x7f-\U0010ffff]+")
_split = msgspec.json.Decoder(list[msgspec.Raw]).decode
_decode = msgspec.json.Decoder().decode


def read_each(data: bytes, path: object) -> Iterator[tuple[Any, bool]]:
    """The items of a dialogue file, one at a time: besides the bytes only one is in memory.

    Yields:
      (item, whether it is plain JSON; Python's own module also takes NaN, infinity and half surrogates).

    Raises:
      InputError: not JSON or not a list; possibly after some items.
    """
    data = data.removeprefix(b"\xef\xbb\xbf")
    try:
        items = _split(data)
    except (msgspec.MsgspecError, RecursionError):
        for item in _parsed(data, path):
            yield item, False
        return
    for raw in items:
        try:
            item, plain = _decode(raw), True
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            # The whole file, so that an error has its line and column.
            _parsed(data, path)
            item, plain = json.loads(bytes(raw)), False
        yield item, plain


def _parsed(data: bytes, path: object) -> list[Any]:
    items = parse_json(data, path)
    if not isinstance(items, list):
        raise InputError(f"expected a list of dialogues, found {type(items).__name__}", path)
    return items


def dialogue_text(dialogue: Any, plain: bool = True) -> bytes:
    """One dialogue as it stands in a file of them, ``json.dumps(..., indent=2, sort_keys=True)``: ASCII, indented.

    Args:
      dialogue: the dialogue.
      plain: as :func:`read_each` has it.

    Raises:
      InputError: nested too deeply.
    """
    if plain:
        try:
            data = orjson.dumps([dialogue], option=_OPTIONS)[2:-2]
        except TypeError:  # whole numbers beyond 64 bits, or nested deeply
            pass
        else:
            if data.isascii() and b"\x7f" not in data:
                return data
            return _NOT_ASCII.sub(_escape, data.decode()).encode("ascii")
    try:
        return json.dumps([dialogue], indent=2, sort_keys=True)[2:-2].encode("ascii")
    except RecursionError:
        raise InputError("not_sgd: nested too deeply") from None


def _escape(found: re.Match[str]) -> str:
    return json.dumps(found[0])[1:-1]
