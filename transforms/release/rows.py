"""Rows of a release: their keys and shards, and hashes that no version of a Parquet library changes."""

from __future__ import annotations

import datetime
import decimal
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import orjson


def key_text(row: Mapping[str, Any], key: Sequence[str]) -> str:
    """Returns the key of a row, which is unique in its split, as one text."""
    return "\0".join(str(row[name]) for name in key)


def shard_of(text: str, shards: int) -> int:
    """Returns the shard of a row, given its key."""
    return int(hashlib.sha256(text.encode()).hexdigest(), 16) % shards


def shard_path(config: str, split: str, shard: int, shards: int) -> str:
    """Returns the path of a shard below the release."""
    return f"data/{config}/{split}-{shard:05}-of-{shards:05}.parquet"


def row_json(row: Mapping[str, Any]) -> bytes:
    """Returns a row as JSON with sorted keys: the form that is hashed, compared and sorted."""
    return orjson.dumps(row, default=_plain, option=orjson.OPT_SORT_KEYS)


def logical_sha256(rows: Iterable[bytes]) -> str:
    """Returns the SHA-256 over rows as :func:`row_json` gives them, a newline after each."""
    digest = hashlib.sha256()
    for row in rows:
        digest.update(row)
        digest.update(b"\n")
    return digest.hexdigest()


def split_sha256(files: Iterable[str]) -> str:
    """Returns the SHA-256 of a split, over the logical hashes of its files in their order."""
    return logical_sha256(digest.encode() for digest in files)


def _plain(value: Any) -> str:
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, datetime.datetime):  # pandas' own, of nanoseconds
        return value.isoformat()
    if isinstance(value, (decimal.Decimal, datetime.timedelta)):
        return str(value)
    raise TypeError(f"cannot be written as JSON: {type(value).__name__}")


def plain_type(text: str) -> str:
    """Returns the text of an Arrow type, the same whether Parquet or Arrow named the items of its lists."""
    return text.replace("list<element: ", "list<item: ")
