"""Where two values of JSON or of Parquet differ, and the difference on one line."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

import msgspec

from parapet.transforms.release.logical import row_json

_WIDTH = 60  # characters of a value that are shown
_BEFORE = 20  # of those, characters before the first that differs
_PAIR = {"key", "value"}


class Differing(msgspec.Struct, frozen=True):
    """One place where two values differ.

    Attributes:
      path: ``turns[3].frames[0].state.slot_values.city[0]``; empty for the whole.
      old: the first value, shortened, as text.
      new: the second.
    """

    path: str
    old: str
    new: str

    def below(self, key: str) -> str:
        """The place in what has the value under a key."""
        return f"{key}.{self.path}".rstrip(".").replace(".[", "[", 1)


class _Nothing:
    """Stands for what one of the two does not have."""


_NOTHING = _Nothing()


def differing(old: Any, new: Any, most: int = 3) -> list[Differing]:
    """The first places, in the order of the document, where two values differ; none where they are equal.

    Lists of key and value, as Parquet has what JSON has as an object, are compared as objects.
    """
    return list(islice(_walk(old, new, ""), most))


def _walk(old: Any, new: Any, path: str) -> Iterator[Differing]:
    old, new = _object(old), _object(new)
    if isinstance(old, dict) and new == []:
        new = {}
    if isinstance(new, dict) and old == []:
        old = {}
    if isinstance(old, dict) and isinstance(new, dict):
        for key in [*old, *(key for key in new if key not in old)]:
            below = f"{path}.{key}" if path else str(key)
            yield from _walk(old.get(key, _NOTHING), new.get(key, _NOTHING), below)
    elif isinstance(old, list) and isinstance(new, list):
        for i in range(max(len(old), len(new))):
            before, after = (items[i] if i < len(items) else _NOTHING for items in (old, new))
            yield from _walk(before, after, f"{path}[{i}]")
    elif type(old) is not type(new) or old != new:
        yield Differing(path, *shown_both(old, new))


def _object(value: Any) -> Any:
    """A list of key and value as the object that it encodes; anything else unchanged."""
    if not isinstance(value, list) or not all(isinstance(one, dict) and one.keys() == _PAIR for one in value):
        return value
    made = {str(one["key"]): one["value"] for one in value}
    return made if value and len(made) == len(value) else value


def shown_both(old: Any, new: Any) -> tuple[str, str]:
    """Both values; of long texts the part in which they begin to differ."""
    if not isinstance(old, str) or not isinstance(new, str):
        return shown(old), shown(new)
    same = next((i for i, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), min(len(old), len(new)))
    start = same - _BEFORE if max(len(old), len(new)) > _WIDTH and same > _BEFORE else 0
    return _cut(old, start), _cut(new, start)


def _cut(text: str, start: int) -> str:
    end = start + _WIDTH
    return repr(("…" if start else "") + text[start:end] + ("…" if len(text) > end else ""))


def shown(value: Any) -> str:
    """A value on one line, shortened."""
    if isinstance(value, _Nothing):
        return "nothing"
    if isinstance(value, str):
        return _cut(value, 0)
    try:
        text = row_json(value).decode()
    except (TypeError, ValueError):
        text = str(value)
    return text if len(text) <= _WIDTH else text[: _WIDTH - 1] + "…"


def plain_type(text: str) -> str:
    """An Arrow type as text, the same whether Parquet or Arrow named the items of its lists."""
    return text.replace("list<element: ", "list<item: ")


def printable(text: str) -> str:
    """Text without what would steer a terminal or begin a new line: such characters are escaped."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape", "surrogatepass").decode() for c in text)
