"""Rows by the hash of their key into sorted Parquet files; the same rows give the same bytes, wherever they come from.

What travels between workers are the rows of one input file that belong to one shard, as an Arrow stream.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import apache_beam as beam
import pyarrow as pa
import pyarrow.parquet as pq

from parapet.schemas.errors import InputError
from parapet.schemas.release_manifest import File
from parapet.transforms.files import HashingWriter, join, whole
from parapet.transforms.release.keys import key_text, shard_of, shard_path
from parapet.transforms.release.logical import logical_sha256, row_json

ROWS_OF_A_GROUP = 1000
_KEY = "\0key"  # the column that rows are sorted by, on their way

ShardKey = tuple[str, str, int, int]  # configuration, split, shard, shards


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
    """Rows as :func:`parts` packed them."""
    with pa.ipc.open_stream(packed) as stream:
        return stream.read_all()


class WriteShards(beam.PTransform):
    """Writes every shard as a file below a folder.

    Args:
      folder: the release's, while it is built.
    """

    def __init__(self, folder: str) -> None:
        super().__init__()
        self.folder = folder

    def expand(self, packed: beam.PCollection) -> beam.PCollection:
        """PCollection of (ShardKey, packed rows) to PCollection of File."""
        return packed | "Group by shard" >> beam.GroupByKey() | "Write shard" >> beam.Map(write_shard, self.folder)


def write_shard(shard: tuple[ShardKey, Iterable[bytes]], folder: str) -> File:
    """Writes one shard: its rows, sorted by their keys.

    Raises:
      InputError: two rows have one key, or the tables of one configuration have different columns.
    """
    place, packed = shard
    path = shard_path(*place)
    tables = [unpack(one) for one in packed]
    if any(table.schema != tables[0].schema for table in tables):
        raise InputError("the files of one configuration have different columns", path)
    table = pa.concat_tables(tables).sort_by(_KEY)
    _check_unique(table, path)
    table = table.drop_columns([_KEY])
    with whole(join(folder, path)) as handle:
        counting = HashingWriter(handle)
        pq.write_table(table, counting, compression="zstd", row_group_size=ROWS_OF_A_GROUP)
    _, sha256, size = counting.written(path)
    rows = (row_json(row) for batch in table.to_batches(ROWS_OF_A_GROUP) for row in batch.to_pylist())
    return File(path, size, sha256, table.num_rows, logical_sha256(rows))


def _check_unique(table: pa.Table, path: str) -> None:
    texts = table[_KEY].to_pylist()
    for i, text in enumerate(texts[1:]):
        if text == texts[i]:
            files = table["file"].to_pylist()[i : i + 2] if "file" in table.column_names else []
            among = f" (in {' and '.join(sorted(set(files)))})" if files else ""
            raise InputError(f"two rows have the key {text!r}{among}", path)
