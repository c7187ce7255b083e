"""Tables as TOML, which the standard library only reads."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

_BARE = re.compile("[A-Za-z0-9_-]+")


def toml_of(table: Mapping[str, Any], place: str = "") -> str:
    """A table as TOML: plain values first, then lists of tables, then tables.

    Args:
      table: strings, numbers, truth values, lists of these, and tables or lists of tables.
      place: the keys that lead to it, each with a dot; empty for the whole.
    """
    nested = {key: value for key, value in table.items() if isinstance(value, dict)}
    lists = {key: value for key, value in table.items() if isinstance(value, list) and value and _all_tables(value)}
    plain = {key: value for key, value in table.items() if key not in nested and key not in lists}
    text = "".join(f"{_key(key)} = {_value(value)}\n" for key, value in plain.items())
    for key, tables in lists.items():
        within = f"{place}{_key(key)}"
        text += "".join(f"\n[[{within}]]\n{toml_of(one, f'{within}.')}" for one in tables)
    for key, value in nested.items():
        within = f"{place}{_key(key)}"
        text += f"\n[{within}]\n{toml_of(value, f'{within}.')}"
    return text


def _all_tables(values: list[Any]) -> bool:
    return all(isinstance(one, dict) for one in values)


def _key(key: str) -> str:
    return key if _BARE.fullmatch(key) else _value(key)


def _value(value: Any) -> str:
    # Strings of JSON are strings of TOML, but for one control character.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
