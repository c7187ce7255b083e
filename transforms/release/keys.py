"""The key of a row, and the file it is in."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any


def key_text(row: Mapping[str, Any], key: Sequence[str]) -> str:
    """The key of a row, which is unique in its split, as one text."""
    return "\0".join(str(row[name]) for name in key)


def shard_of(text: str, shards: int) -> int:
    """The shard of a row, given its key."""
    return int(hashlib.sha256(text.encode()).hexdigest(), 16) % shards


def shard_path(config: str, split: str, shard: int, shards: int) -> str:
    """The path of a shard below the release."""
    return f"data/{config}/{split}-{shard:05}-of-{shards:05}.parquet"
