"""``responses.parquet``: what became of every answer, as one sorted file of deterministic bytes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from parapet.schemas.responses import RESPONSES, AuditRow, audit_table
from parapet.transforms.files import HashingWriter, Written, staged

FILE = "responses.parquet"
_ROW_GROUP_SIZE = 1 << 16


def pack(rows: list[AuditRow]) -> bytes:
    """One service's rows, small enough to travel."""
    return pack_table(audit_table(rows))


def unpack(packed: bytes) -> pa.Table:
    """The rows again."""
    with pa.ipc.open_stream(packed) as stream:
        return stream.read_all()


def pack_table(table: pa.Table) -> bytes:
    """Rows, small enough to travel: an Arrow stream, compressed."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as stream:
        stream.write_table(table)
    return bytes(sink.getvalue())


def write_staged(output: str, tables: Iterable[pa.Table], schema: pa.Schema = RESPONSES) -> Written:
    """Writes ``responses.parquet`` to the staging folder of ``output``; arguments as in :func:`write`."""
    with staged(output, FILE) as handle:
        hashing = HashingWriter(handle)
        write(tables, hashing, schema)
    return hashing.written(FILE)


def write(tables: Iterable[pa.Table], handle: Any, schema: pa.Schema = RESPONSES) -> None:
    """Writes tables, one after the other, as one Parquet file of even row groups."""
    with pq.ParquetWriter(handle, schema, compression="zstd") as writer:
        waiting: list[pa.Table] = []
        rows = 0
        for table in tables:
            waiting.append(table)
            rows += table.num_rows
            while rows >= _ROW_GROUP_SIZE:
                whole = pa.concat_tables(waiting)
                writer.write_table(whole.slice(0, _ROW_GROUP_SIZE), row_group_size=_ROW_GROUP_SIZE)
                waiting = [whole.slice(_ROW_GROUP_SIZE)]
                rows -= _ROW_GROUP_SIZE
        if rows:
            writer.write_table(pa.concat_tables(waiting), row_group_size=_ROW_GROUP_SIZE)
