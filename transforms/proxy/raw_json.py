"""Edit places of a JSON text; all others keep their bytes."""

from __future__ import annotations

import json
import operator
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import msgspec
from msgspec import Raw

Value = TypeVar("Value")
Fields = dict[str, Raw]  # an object, of which each value is JSON text

ESCAPED_LETTER = rb"\\u00[4-7]"  # a pattern: a name may be written in this way, so that it cannot be searched for
EACH = "*"  # in a path: each element of a list

_FIELDS = msgspec.json.Decoder(Fields)
_ITEMS = msgspec.json.Decoder(list[Raw])
_TEXT = msgspec.json.Decoder(str)


def fields_of(data: bytes | Raw) -> Fields | None:
    """Return the members of a JSON object; None if the text is none."""
    return decoded(data, _FIELDS)


def items_of(data: Raw) -> list[Raw] | None:
    """Return the elements of a JSON list; None if the text is none."""
    return decoded(data, _ITEMS)


def text_of(data: Raw | None) -> str | None:
    """Return a JSON string; None if the text is none."""
    return None if data is None else decoded(data, _TEXT)


def decoded(data: bytes | Raw, decoder: msgspec.json.Decoder[Value]) -> Value | None:
    """Returns a JSON value; None if the text is no such value."""
    try:
        return decoder.decode(data)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return None


def encoded(value: Any) -> Raw:
    """Return a value, which may contain JSON texts, as JSON text."""
    return Raw(msgspec.json.encode(value))


def without_halves(data: bytes) -> bytes:
    """Replace halves of surrogate pairs, which clients send in JSON and UTF-8 does not have, by question marks."""
    try:
        return json.dumps(json.loads(data), ensure_ascii=False).encode("utf-8", "replace")
    except (ValueError, RecursionError):
        return data


def edited(data: Raw, path: Sequence[str], edit: Callable[[Fields], Fields]) -> Raw:
    """Edit the objects at a path. What has another shape stays, as does the text if nothing is changed.

    Args:
      data: the JSON text.
      path: names of members, or EACH.
      edit: returns an object's new members, or those that it is given.
    """
    if path and path[0] == EACH:
        items = items_of(data) or []
        new_items = [edited(item, path[1:], edit) for item in items]
        return data if all(map(operator.is_, items, new_items)) else encoded(new_items)
    fields = fields_of(data)
    if fields is None:
        return data
    return data if (new := edited_fields(fields, path, edit)) is fields else encoded(new)


def edited_fields(fields: Fields, path: Sequence[str], edit: Callable[[Fields], Fields]) -> Fields:
    """Edit the objects at a path below an object."""
    if not path:
        return edit(fields)
    name, *below = path
    return replaced(fields, name, lambda data: edited(data, below, edit))


def replaced(fields: Fields, name: str, change: Callable[[Raw], Raw]) -> Fields:
    """Return an object with a changed member, or itself."""
    if name not in fields or (new := change(fields[name])) is fields[name]:
        return fields
    return {**fields, name: new}
