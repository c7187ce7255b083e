"""Write tables as TOML, which the standard library only reads; and read TOML with errors that name the place."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping
from importlib import resources
from typing import Any

import msgspec

from parapet.schemas.errors import InputError, reason_and_place

_BARE = re.compile("[A-Za-z0-9_-]+")


def toml_of(table: Mapping[str, Any], place: str = "") -> str:
    """Format a table as TOML: plain values first, then lists of tables, then tables.

    Args:
      table: strings, numbers, truth values, lists of these, and tables or lists of tables.
      place: the keys that lead to it, each followed by a dot; empty for the root.
    """
    nested = {key: value for key, value in table.items() if isinstance(value, dict)}
    lists = {key: value for key, value in table.items() if isinstance(value, list) and value and _all_tables(value)}
    plain = {key: value for key, value in table.items() if key not in nested and key not in lists}
    text = "".join(f"{_key(key)} = {_value(value)}\n" for key, value in plain.items())
    for key, tables in lists.items():
        within = f"{place}{_key(key)}"
        text += "".join(f"\n[[{within}]]\n{toml_of(entry, f'{within}.')}" for entry in tables)
    for key, value in nested.items():
        within = f"{place}{_key(key)}"
        text += f"\n[{within}]\n{toml_of(value, f'{within}.')}"
    return text


def _all_tables(values: list[Any]) -> bool:
    return all(isinstance(value, dict) for value in values)


def _key(key: str) -> str:
    return key if _BARE.fullmatch(key) else _value(key)


def _value(value: Any) -> str:
    # JSON strings are valid TOML strings, except for one control character
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def parse_toml(data: bytes, path: object) -> dict[str, Any]:
    """Parse a TOML file, with or without a byte order mark. Raises InputError."""
    try:
        return tomllib.loads(data.removeprefix(b"\xef\xbb\xbf").decode("utf-8"))
    except UnicodeDecodeError:
        raise InputError("not UTF-8: save the file as UTF-8", path) from None
    except RecursionError:
        raise InputError("TOML nested too deeply", path) from None
    except ValueError as error:
        raise InputError(f"not TOML: {error}", path) from None


def convert(value: Any, kind: Any, path: object, place: str = "", prefix: str = "") -> Any:
    """Convert a value to a type with msgspec.

    Args:
      value: a value from TOML or JSON.
      kind: the type.
      path: the path of the file for messages.
      place: the place of the value in the file for messages.
      prefix: text before the reason.

    Raises:
      InputError: it does not fit the type; with the place.
    """
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        reason, at = reason_and_place(error)
        dot = "." if place and at and not at.startswith("[") else ""
        raise InputError(prefix + reason, path, f"{place}{dot}{at}") from None


def read_table(package: str, name: str) -> dict[str, Any]:
    """Read a TOML file in a package."""
    return tomllib.loads((resources.files(package) / name).read_text(encoding="utf-8"))
