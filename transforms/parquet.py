"""Arrow tables as whole Parquet files; the same rows give the same bytes."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq


def parquet_bytes(table: pa.Table) -> bytes:
    """The file, compressed with Zstandard."""
    sink = pa.BufferOutputStream()
    pq.write_table(table.combine_chunks(), sink, compression="zstd")
    return bytes(sink.getvalue())
