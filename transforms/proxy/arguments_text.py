"""Rename the keys in the JSON text of a call's arguments, which may arrive in pieces."""

from __future__ import annotations

import json
import re

from parapet.schemas.arguments import Renaming, Shape

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
        """Return what can be told of the arguments after a further piece."""
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
        """Follow the structure over a quotation mark that begins a value, a bracket or a comma."""
        if mark == '"':
            self._in_value = True
        elif mark in "{[":
            shape = self._value
            if shape is not None:
                shape = shape.object() if mark == "{" else shape.element()
            self._open.append((mark == "{", shape))
            self._key_is_next, self._value = mark == "{", shape
        elif mark in "}]":
            self._open[-1:] = []
            self._key_is_next = False
        elif mark == "," and self._open:
            self._key_is_next, self._value = self._open[-1]

    def _renamed_key(self, quoted: str) -> str:
        """Return a key under its new name, and prepare for its value."""
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
