"""``rows.parquet``: a row for each item that was scored, which ``parapet compare`` reads back.

Columns ``set``, ``dialogue_id`` and ``turn``, a column of float64 for each metric (null where a row does not have it;
the mean of the others is the metric), and what else a task wants to tell.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from parapet.evaluation.lines import Key

ROWS = "rows.parquet"


def rows_bytes(
    keys: Sequence[Key],
    metrics: Mapping[str, Sequence[float | None]],
    others: Mapping[str, Sequence[Any]] | None = None,
) -> bytes:
    """The file.

    Args:
      keys: of the rows, in order.
      metrics: name to its value in each row.
      others: columns that are no metric; of text.
    """
    import pyarrow as pa

    from parapet.transforms.parquet import parquet_bytes

    columns = {
        "set": pa.array([key[0] for key in keys], pa.string()),
        "dialogue_id": pa.array([key[1] for key in keys], pa.string()),
        "turn": pa.array([key[2] for key in keys], pa.int32()),
        **{name: pa.array(values, pa.string()) for name, values in (others or {}).items()},
        **{name: pa.array(values, pa.float64()) for name, values in metrics.items()},
    }
    return parquet_bytes(pa.table(columns))
