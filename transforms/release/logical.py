"""Hashes of rows, which no version of a Parquet library changes."""

from __future__ import annotations

import datetime
import decimal
import hashlib
from collections.abc import Iterable, Mapping
from typing import Any

import orjson


def row_json(row: Mapping[str, Any]) -> bytes:
    """A row as JSON, keys sorted: what is hashed, compared and sorted by."""
    return orjson.dumps(row, default=_plain, option=orjson.OPT_SORT_KEYS)


def logical_sha256(rows: Iterable[bytes]) -> str:
    """SHA-256 over rows as :func:`row_json` gives them, a newline after each."""
    digest = hashlib.sha256()
    for row in rows:
        digest.update(row)
        digest.update(b"\n")
    return digest.hexdigest()


def split_sha256(files: Iterable[str]) -> str:
    """SHA-256 of a split, over the logical hashes of its files in their order."""
    return logical_sha256(digest.encode() for digest in files)


def _plain(value: Any) -> str:
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, datetime.datetime):  # pandas' own, of nanoseconds
        return value.isoformat()
    if isinstance(value, (decimal.Decimal, datetime.timedelta)):
        return str(value)
    raise TypeError(f"cannot be written as JSON: {type(value).__name__}")
