"""Parse JSON from other programs, with errors that say what is wrong and where."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from parapet.schemas.errors import InputError

_TOO_DEEP = "nested too deeply"
_decode = msgspec.json.Decoder().decode


def parse_json(data: bytes, path: object) -> Any:
    """Parse UTF-8 JSON, with or without a byte order mark. Raises InputError with line and column if it is not JSON."""
    data = without_mark(data, path)
    try:
        return _decode(data)
    except RecursionError:
        raise InputError(_TOO_DEEP, path) from None
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise _explained(data, path, error) from None


def _explained(data: bytes, path: object, error: Exception) -> InputError:
    """Return an error with line and column, which msgspec does not tell."""
    try:
        json.loads(data.decode(), parse_constant=_refuse)
    except UnicodeDecodeError as unreadable:
        return InputError(f"not UTF-8 at byte {unreadable.start}: save the file as UTF-8", path)
    except json.JSONDecodeError as wrong:
        return InputError(f"not JSON: {wrong.msg}", path, f"line {wrong.lineno} column {wrong.colno}")
    except ValueError as wrong:
        return InputError(f"not JSON: {wrong}", path)
    return InputError(f"not JSON: {_reason(error)}", path)  # Python reads some of what msgspec refuses


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no value of JSON")


def _reason(error: Exception) -> str:
    return str(error).removeprefix("JSON is malformed: ")


def parse_json_line(text: bytes | str) -> Any:
    """Parse a JSON value in a line of a file or in a cell. Raises ValueError if it is not JSON."""
    try:
        return _decode(text)
    except RecursionError:
        raise ValueError(_TOO_DEEP) from None
    except msgspec.MsgspecError as error:
        raise ValueError(_reason(error)) from None


def without_mark(data: bytes, path: object) -> bytes:
    """Remove a byte order mark. Raises InputError for an empty file."""
    if not data.strip():
        raise InputError("the file is empty", path)
    return data.removeprefix(b"\xef\xbb\xbf")


def compact_json(value: Any) -> str:
    """Return a value as JSON without spaces."""
    return msgspec.json.encode(value).decode()
