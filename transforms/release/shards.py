"""Rows of a release: their keys and hashes, and sorted Parquet files, by the hash of the key.

The same rows give the same bytes, wherever they come from. No version of a Parquet library changes the hashes.

On their way, rows are Arrow streams: dialogues as the lines of ``parapet.schemas.dialogue_table``, others as they are.
"""

from __future__ import annotations

import datetime
import decimal
import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, pairwise
from typing import Any, NamedTuple

import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from parapet.schemas.dialogue_table import lines_table
from parapet.schemas.errors import InputError
from parapet.schemas.release import File
from parapet.transforms.files import HashingWriter, join, unpublished

ROWS_OF_A_GROUP = 1000
_KEY = "\0key"  # the column that rows are sorted by, on their way
_LINE = "\0line"  # the one that holds a row as a line of JSON


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


def table_of_lines(keys: Sequence[str], key: str, lines: Sequence[bytes]) -> pa.Table:
    """Returns rows as lines, with the one column of their key, for :func:`parts`."""
    return pa.table({key: pa.array(keys, pa.string()), _LINE: pa.array(lines, pa.large_binary())})


def parts(table: pa.Table, key: Sequence[str], shards: int) -> Iterator[tuple[int, bytes]]:
    """Yields the rows of each shard, packed."""
    texts = [key_text(row, key) for row in table.select(list(key)).to_pylist()]
    by_shard: dict[int, list[int]] = {}
    for i, text in enumerate(texts):
        by_shard.setdefault(shard_of(text, shards), []).append(i)
    keyed = table.append_column(_KEY, pa.array(texts, pa.string()))
    for shard, rows in sorted(by_shard.items()):
        yield shard, _pack(keyed.take(rows))


def _pack(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as stream:
        stream.write_table(table)
    return bytes(sink.getvalue())


def unpack(packed: bytes) -> pa.Table:
    """Returns rows that :func:`parts` packed."""
    with pa.ipc.open_stream(packed) as stream:
        return stream.read_all()


class Group(NamedTuple):
    """Rows of a shard, at most ``ROWS_OF_A_GROUP``: as a table, and as what the logical hash is made of."""

    table: pa.Table
    lines: list[bytes]


def sorted_groups(packed: Iterable[bytes], path: str) -> Iterator[Group]:
    """Yields the rows of a shard by their keys.

    Args:
      packed: the rows, in any order.
      path: the shard's, for messages.

    Raises:
      InputError: two rows have one key, or the tables of one configuration have different columns.
    """
    tables = [unpack(piece) for piece in packed]
    if any(table.schema != tables[0].schema for table in tables):
        raise InputError("the files of one configuration have different columns", path)
    table = pa.concat_tables(tables)
    del tables
    keys = table[_KEY].to_pylist()
    order = sorted(range(len(keys)), key=keys.__getitem__)
    for first, second in pairwise(order):
        if keys[first] == keys[second]:
            files = sorted({_file(table, first), _file(table, second)} - {""})
            among = f" (in {' and '.join(files)})" if files else ""
            raise InputError(f"two rows have the key {keys[first]!r}{among}", path)
    groups = [order[start : start + ROWS_OF_A_GROUP] for start in range(0, len(order), ROWS_OF_A_GROUP)]
    if _LINE in table.column_names:
        column = table[_LINE]
        for group in groups:
            # One by one: a sorted copy of the whole shard would double the memory.
            lines = [column[i].as_py() for i in group]
            yield Group(lines_table(lines), lines)
    else:
        table = table.drop_columns([_KEY]).take(order)
        for n, group in enumerate(groups):
            rows = table.slice(n * ROWS_OF_A_GROUP, len(group))
            yield Group(rows, [row_json(row) for row in rows.to_pylist()])


def _file(rows: pa.Table, i: int) -> str:
    if _LINE in rows.column_names:
        return str(orjson.loads(rows[_LINE][i].as_py())["file"])
    return str(rows["file"][i]) if "file" in rows.column_names else ""


def write_shard(packed: Iterable[bytes], folder: str, path: str) -> File:
    """Writes one shard, its rows sorted by their keys.

    Args:
      packed: its rows, in any order.
      folder: the release's, while it is built.
      path: the shard's, below the folder.

    Raises:
      InputError: two rows have one key, or the tables of one configuration have different columns.
    """
    groups = sorted_groups(packed, path)
    first = next(groups)
    rows, digest = 0, hashlib.sha256()
    with unpublished(join(folder, path)) as handle:
        counting = HashingWriter(handle)
        with pq.ParquetWriter(counting, first.table.schema, compression="zstd") as writer:
            for group in chain([first], groups):
                writer.write_table(group.table)
                rows += group.table.num_rows
                for line in group.lines:
                    digest.update(line)
                    digest.update(b"\n")
    _, sha256, size = counting.written(path)
    return File(path, size, sha256, rows, digest.hexdigest())
