"""``responses.parquet``: the fate of every answer, as one sorted file of deterministic bytes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from parapet.schemas.responses import RESPONSES, AuditRow, audit_table

FILE = "responses.parquet"
_ROWS_OF_A_GROUP = 1 << 16


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


def write(services: Iterable[pa.Table], handle: Any, schema: pa.Schema = RESPONSES) -> None:
    """Writes services' rows, in the order given, as one Parquet file of even row groups."""
    with pq.ParquetWriter(handle, schema, compression="zstd") as writer:
        waiting: list[pa.Table] = []
        rows = 0
        for table in services:
            waiting.append(table)
            rows += table.num_rows
            while rows >= _ROWS_OF_A_GROUP:
                whole = pa.concat_tables(waiting)
                writer.write_table(whole.slice(0, _ROWS_OF_A_GROUP), row_group_size=_ROWS_OF_A_GROUP)
                waiting = [whole.slice(_ROWS_OF_A_GROUP)]
                rows -= _ROWS_OF_A_GROUP
        if rows:
            writer.write_table(pa.concat_tables(waiting), row_group_size=_ROWS_OF_A_GROUP)
