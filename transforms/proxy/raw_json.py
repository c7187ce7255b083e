"""Edits JSON text: places in it, of which all others keep their bytes, and arguments of calls that arrive in pieces."""

import json
import operator
import re
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import msgspec
from msgspec import Raw

from parapet.schemas.arguments import Renaming, Shape

Value = TypeVar("Value")
Fields = dict[str, Raw]  # an object, of which each value is JSON text

ESCAPED_LETTER = rb"\\u00[4-7]"  # a pattern: a name may be written in this way, so that it cannot be searched for
EACH = "*"  # in a path: each element of a list

_FIELDS = msgspec.json.Decoder(Fields)
_ITEMS = msgspec.json.Decoder(list[Raw])
_TEXT = msgspec.json.Decoder(str)


def fields_of(data: bytes | Raw) -> Fields | None:
    """Returns the members of a JSON object; None if the text is none."""
    return _decoded(data, _FIELDS)


def items_of(data: Raw) -> list[Raw] | None:
    """Returns the elements of a JSON list; None if the text is none."""
    return _decoded(data, _ITEMS)


def text_of(data: Raw | None) -> str | None:
    """Returns a JSON string; None if the text is none."""
    return None if data is None else _decoded(data, _TEXT)


def _decoded(data: bytes | Raw, decoder: msgspec.json.Decoder[Value]) -> Value | None:
    """Returns a JSON value; None if the text is no such value."""
    try:
        return decoder.decode(data)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return None


def encoded(value: Any) -> Raw:
    """Returns a value, which may contain JSON texts, as JSON text."""
    return Raw(msgspec.json.encode(value))


def without_halves(data: bytes) -> bytes:
    """Replaces halves of surrogate pairs, which clients send in JSON and UTF-8 does not have, by question marks."""
    try:
        return json.dumps(json.loads(data), ensure_ascii=False).encode("utf-8", "replace")
    except (ValueError, RecursionError):
        return data


def edited(data: Raw, path: Sequence[str], edit: Callable[[Fields], Fields]) -> Raw:
    """Edits the objects at a path. What has another shape stays, as does the text if nothing is changed.

    Args:
      data: the JSON text.
      path: names of members, or EACH.
      edit: returns an object's new members, or those that it is given.
    """
    if path and path[0] == EACH:
        items = items_of(data) or []
        new_items = [edited(item, path[1:], edit) for item in items]
        return data if all(map(operator.is_, items, new_items)) else encoded(new_items)
    if (fields := fields_of(data)) is None:
        return data
    return data if (new := edited_fields(fields, path, edit)) is fields else encoded(new)


def edited_fields(fields: Fields, path: Sequence[str], edit: Callable[[Fields], Fields]) -> Fields:
    """Edits the objects at a path below an object."""
    if not path:
        return edit(fields)
    name, *below = path
    return replaced(fields, name, lambda data: edited(data, below, edit))


def replaced(fields: Fields, name: str, change: Callable[[Raw], Raw]) -> Fields:
    """Returns an object with a changed member, or itself."""
    if name not in fields or (new := change(fields[name])) is fields[name]:
        return fields
    return {**fields, name: new}


_STRING = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)
_IN_STRING = re.compile(r'(?:[^"\\]|\\.)*', re.DOTALL)
_MARK = re.compile(r'["{}\[\]:,]')


class ArgumentsText:
    """The arguments of one call. Only keys are changed; each is held back until its end has arrived.

    Args:
      renaming: the new names.

    Attributes:
      unknown: the first key that the tool's schema neither has nor provides for; empty if there is none.
      held: what has arrived and was not returned yet: the beginning of a key, or of an escape.
    """

    def __init__(self, renaming: Renaming) -> None:
        self.unknown = self.held = ""
        self._renaming = renaming
        self._arrived: list[str] = []
        self._open: list[tuple[bool, Shape | None]] = []  # objects and lists: whether it is an object, and its shape
        self._value = renaming.root  # the shape of the next value
        self._in_value = False  # within a string that is a value
        self._key_is_next = False

    def is_complete(self) -> bool:
        """Whether a JSON object has arrived, or nothing, as for a tool without parameters."""
        try:
            return isinstance(json.loads("".join(self._arrived) or "null"), dict | None)
        except (ValueError, RecursionError):
            return False

    def renamed(self, piece: str) -> str:
        """Returns what can be told of the arguments after a further piece."""
        text, written, start = self.held + piece, list[str](), 0
        self._arrived.append(piece)
        self.held = ""
        while start < len(text):
            if self._in_value:
                end = _IN_STRING.match(text, start).end()  # type: ignore[union-attr]  # it matches what is empty, too
                if text[end:] == "\\":
                    self.held = "\\"
                    written.append(text[start:end])
                    break
                self._in_value = end == len(text)
                end += not self._in_value
            elif (mark := _MARK.search(text, start)) is None:
                end = len(text)
            elif mark[0] == '"' and self._key_is_next:
                written.append(text[start : mark.start()])
                start = mark.start()
                if (key := _STRING.match(text, start)) is None:
                    self.held = text[start:]
                    break
                written.append(self._renamed_key(key[0]))
                start = end = key.end()
            else:
                self._pass(mark[0])
                end = mark.end()
            written.append(text[start:end])
            start = end
        return "".join(written)

    def _pass(self, mark: str) -> None:
        """Follows the structure over a quotation mark that begins a value, a bracket or a comma."""
        if mark == '"':
            self._in_value = True
        elif mark in "{[":
            if (shape := self._value) is not None:
                shape = shape.object() if mark == "{" else shape.element()
            self._open.append((mark == "{", shape))
            self._key_is_next, self._value = mark == "{", shape
        elif mark in "}]":
            self._open[-1:] = []
            self._key_is_next = False
        elif mark == "," and self._open:
            self._key_is_next, self._value = self._open[-1]

    def _renamed_key(self, quoted: str) -> str:
        """Returns a key under its new name, and prepares for its value."""
        self._key_is_next = False
        _, shape = self._open[-1]
        self._value = None
        if shape is None:
            return quoted
        try:
            name = json.loads(quoted, strict=False)
        except ValueError:
            return quoted
        new, self._value = self._renaming.member(shape, name)
        if self._value is None and shape.properties:
            self.unknown = self.unknown or name
        return quoted if new == name else json.dumps(new, ensure_ascii=quoted.isascii())
