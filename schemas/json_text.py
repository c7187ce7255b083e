"""Parse JSON from other programs without loss, or refuse it with the place of what cannot be preserved.

Integers of any size are preserved, and so are lone surrogates, which Python's json module writes. NaN and infinity,
which it writes, too, are not JSON: :func:`parse_json` returns them, so that messages can name their place, and
:func:`parse_exactly` refuses them. Numbers beyond the range of 64-bit floats, which would become infinity, and
duplicate keys, of which only one value would be left, are refused.
"""

from __future__ import annotations

import json
import math
import re
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any

import msgspec
import orjson

from parapet.schemas.errors import NOT_FINITE, InputError
from parapet.schemas.limits import MAX_DEPTH

_WRITTEN = 254  # maximum levels that orjson writes
_MAX_DIGITS = 4_300  # of an integer; Python's limit
_TOO_DEEP = f"nested more than {MAX_DEPTH} levels deep"
# Strings are matched as a whole, so that brackets and commas in them do not count; a single quote is never closed.
_TOKEN = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"|["\[\]{},]', re.DOTALL)
_decode = msgspec.json.Decoder().decode
_brackets = threading.local()  # nested lists around a value whose depth is checked


class _Wrong:
    """Stands for a value in parsed JSON that cannot be preserved."""

    def __init__(self, reason: str) -> None:
        self.reason = reason


def parse_json(data: bytes, path: object) -> Any:
    """Parse UTF-8 JSON, with or without a byte order mark.

    Raises:
      InputError: it is not JSON, with line and column; or it is nested more than ``MAX_DEPTH`` levels deep, with the
        place.
    """
    data = without_mark(data, path)
    try:
        value = _decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        value = _parse_as_python(data, path)
    if place := too_deep(value):
        raise InputError(_TOO_DEEP, path, place)
    return value


def parse_json_line(text: bytes | str) -> Any:
    """Parse a JSON value in a line of a file or in a cell.

    Raises:
      ValueError: not JSON, or nested more than ``MAX_DEPTH`` levels deep.
    """
    try:
        value = _decode(text)
    except RecursionError:
        raise ValueError(_TOO_DEEP) from None
    except msgspec.MsgspecError as error:  # a subclass of ValueError
        raise ValueError(str(error).removeprefix("JSON is malformed: ")) from None
    if too_deep(value):
        raise ValueError(_TOO_DEEP)
    return value


def parse_exactly(data: bytes, fractions: bool = True) -> Any:
    """Parse JSON, and refuse it unless every key and number is preserved.

    Args:
      data: the JSON.
      fractions: whether to refuse a fraction that is not exact as a 64-bit float; otherwise it is rounded.

    Raises:
      InputError: a value cannot be preserved, with its place; or the JSON is nested too deeply.
      ValueError: not JSON.
    """

    def read(text: str) -> float | str:
        if fractions and not _is_exact(text):
            return f"the number {_short(text)} has more digits than a 64-bit float can hold"
        return float(text)

    return _load(data, read, exactly=True)


def parse_line_exactly(line: bytes, form: str) -> Any:
    """Parse the JSON of a line, as :func:`parse_exactly` does.

    Args:
      line: the line.
      form: the code of the error if a value cannot be preserved, such as ``not_sgd``.

    Raises:
      InputError: it is not JSON (``not_json``), or a value cannot be preserved; with the place in the line.
    """
    try:
        return parse_exactly(line)
    except InputError as error:
        raise InputError(f"{form}: {error.reason}", "", error.where) from None
    except ValueError as error:
        reason, _, place = str(error).partition(": line 1 ")
        raise InputError(f"not_json: {reason}", "", place) from None


def check_kept(data: bytes, value: Any) -> None:
    """Check that parsing preserved all of a JSON text, in particular that no key was duplicated.

    Args:
      data: the JSON.
      value: the result of parsing it.

    Raises:
      InputError: a value was not preserved, with its place; or the JSON is nested too deeply.
    """
    written = written_if_flat(value)
    if not written or has_key_twice(data, written):
        parse_exactly(data, fractions=False)


def has_key_twice(data: bytes, written: bytes) -> bool:
    """Whether an object in JSON may have a duplicate key, of which only one was parsed.

    Args:
      data: the JSON.
      written: the parsed value as JSON: it has as many colons, apart from escaped ones.
    """
    return data.count(b":") != written.count(b":") or (b"\\" in data and b"\\u003" in data)


def without_mark(data: bytes, path: object) -> bytes:
    """Remove a byte order mark. Raises InputError for an empty file."""
    if not data.strip():
        raise InputError("the file is empty", path)
    return data.removeprefix(b"\xef\xbb\xbf")


def items_in(data: bytes) -> list[bytes] | None:
    """Split the JSON of a list into items without parsing them, so that they may have any depth.

    Returns:
      The items, including spaces around them; None if ``data`` is not a list, or its brackets are not closed.
    """
    items, depth, start = [], 0, 0
    for token in _TOKEN.finditer(data):
        match token[0][:1]:
            case b"[" | b"{":
                depth += 1
                if depth == 1:
                    if token[0] == b"{" or data[: token.start()].strip():
                        return None
                    start = token.end()
            case b"]" | b"}":
                depth -= 1
                if not depth:
                    items.append(data[start : token.start()])
                    return None if token[0] == b"}" or data[token.end() :].strip() else _unless_empty(items)
            case b"," if depth == 1:
                items.append(data[start : token.start()])
                start = token.end()
            case b'"' if len(token[0]) == 1:
                return None
    return None


def too_deep(value: Any) -> str:
    """Return the place of a list or object more than ``MAX_DEPTH`` levels deep in ``value``, or ``""``."""
    return "" if written_if_flat(value) else deep_place(value)


def written_if_flat(value: Any) -> bytes:
    """Return a value as JSON within brackets; empty if it is too deep, or orjson cannot write it."""
    if not hasattr(_brackets, "outer"):
        _brackets.inner = _brackets.outer = [None]
        for _ in range(_WRITTEN - MAX_DEPTH - 1):
            _brackets.outer = [_brackets.outer]
    _brackets.inner[0] = value
    try:
        return orjson.dumps(_brackets.outer)  # a tenth of the time for parsing
    except TypeError:  # too deep, a lone surrogate, or an integer beyond 64 bits
        return b""
    finally:
        _brackets.inner[0] = None


def compact_json(value: Any) -> str:
    """Return a value as JSON without spaces, even if orjson cannot write it, as for integers beyond 64 bits."""
    try:
        return orjson.dumps(value).decode()
    except TypeError:
        return json.dumps(value, separators=(",", ":"))


def deep_place(value: Any) -> str:
    """Return the same as :func:`too_deep` by visiting all values, for values that are probably too deep."""
    waiting = [("", value, 0)]
    while waiting:
        place, item, depth = waiting.pop()
        if isinstance(item, dict | list) and depth == MAX_DEPTH:
            return place if len(place) <= 80 else f"{place[:80]}\u2026"
        waiting += [(f"{place}{name}", child, depth + 1) for name, child in _children(item)]
    return ""


def _values(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield (place, value) of everything in parsed JSON, in arbitrary order; long places are truncated."""
    waiting = [("", value)]
    while waiting:
        place, item = waiting.pop()
        place = place if len(place) <= 80 else f"{place[:80]}\u2026"
        yield place, item
        waiting += [(f"{place}{name}", child) for name, child in _children(item)]


def _children(item: Any) -> list[tuple[str, Any]]:
    if isinstance(item, dict):
        return [(f".{key}", child) for key, child in item.items()]
    if isinstance(item, list):
        return [(f"[{i}]", child) for i, child in enumerate(item)]
    return []


def _unless_empty(items: list[bytes]) -> list[bytes]:
    return [] if len(items) == 1 and not items[0].strip() else items


def parse_as_python(data: bytes) -> Any:
    """Parse a JSON value that msgspec refuses: with NaN or lone surrogates.

    Raises:
      InputError: it is nested too deeply, or a number is out of range, with its place.
      ValueError: not JSON.
    """

    def read(text: str) -> float | str:
        number = float(text)
        return number if math.isfinite(number) else f"the number {_short(text)} is out of range"

    return _load(data, read, exactly=False)


def _load(data: bytes, fraction: Callable[[str], float | str], exactly: bool) -> Any:
    """Parse JSON with Python's json module, and refuse values that cannot be preserved, with their place.

    Args:
      data: the JSON.
      fraction: parses a number that is not an integer, or returns why it cannot be preserved.
      exactly: whether to refuse duplicate keys, NaN, infinity and deep nesting, too.
    """
    wrong: list[_Wrong] = []

    def unkept(reason: str) -> _Wrong:
        wrong.append(_Wrong(reason))
        return wrong[-1]

    def number(text: str) -> float | _Wrong:
        value = fraction(text)
        return unkept(value) if isinstance(value, str) else value

    def whole(text: str) -> int | _Wrong:
        if len(text) <= _MAX_DIGITS:
            return int(text)
        return unkept(f"the number {_short(text)} has {len(text):,} digits, over the limit of {_MAX_DIGITS:,}")

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        values = dict(pairs)
        if len(values) < len(pairs):
            for key, n in Counter(key for key, _ in pairs).items():
                if n > 1:
                    values[key] = unkept("the key appears twice")
        return values

    more: dict[str, Any] = {}
    if exactly:
        more = {"object_pairs_hook": once, "parse_constant": lambda _: unkept(NOT_FINITE)}
    try:
        value = json.loads(data.decode("utf-8"), parse_float=number, parse_int=whole, **more)
    except RecursionError:
        raise InputError(_TOO_DEEP) from None
    if exactly and (place := too_deep(value)):
        raise InputError(_TOO_DEEP, "", place)
    if wrong:
        # a value inside a dropped value has no place
        places = ((place, part) for place, part in _values(value) if isinstance(part, _Wrong))
        place, first = next(places, ("", wrong[-1]))
        raise InputError(first.reason, "", place)
    return value


def _parse_as_python(data: bytes, path: object) -> Any:
    try:
        return parse_as_python(data)
    except UnicodeDecodeError as error:
        raise InputError(f"not UTF-8 at byte {error.start}: save the file as UTF-8", path) from None
    except json.JSONDecodeError as error:
        raise InputError(f"not JSON: {error.msg}", path, f"line {error.lineno} column {error.colno}") from None
    except InputError as error:
        raise InputError(error.reason, path, error.where.removeprefix(".")) from None


def _is_exact(text: str) -> bool:
    try:
        return Decimal(repr(float(text))) == Decimal(text)
    except ArithmeticError:  # an exponent with many digits
        return False


def _short(text: str) -> str:
    return text if len(text) <= 40 else f"{text[:40]}\u2026"
