"""What evaluations and trainings write: JSON, rows, and whole folders with ``run.json`` last."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from parapet.evaluation.lines import Key

ROWS = "rows.parquet"


def rows_bytes(
    keys: Sequence[Key],
    metrics: Mapping[str, Sequence[float | None]],
    texts: Mapping[str, Sequence[str | None]] | None = None,
) -> bytes:
    """``rows.parquet``: a row for each item that was scored, which ``parapet compare`` reads back.

    Columns ``set``, ``dialogue_id`` and ``turn``; the texts; a column of float64 for each metric, null where a row does
    not have it. The mean of the others is the metric.

    Args:
      keys: of the rows, in order.
      metrics: name to its value in each row.
      texts: columns that are no metric.
    """
    import pyarrow as pa

    from parapet.schemas.rows import parquet_bytes

    columns = {
        "set": pa.array([key[0] for key in keys], pa.string()),
        "dialogue_id": pa.array([key[1] for key in keys], pa.string()),
        "turn": pa.array([key[2] for key in keys], pa.int32()),
        **{name: pa.array(values, pa.string()) for name, values in (texts or {}).items()},
        **{name: pa.array(values, pa.float64()) for name, values in metrics.items()},
    }
    return parquet_bytes(pa.table(columns))


def json_bytes(value: object) -> bytes:
    """JSON as the outputs have it: sorted keys, numbers in full, null where a number is not defined."""
    builtins = _without_nan(msgspec.to_builtins(value))
    return (json.dumps(builtins, indent=2, sort_keys=True, ensure_ascii=False) + "\n").encode()


def _without_nan(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nan(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_without_nan(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def sha256_of(path: Path) -> str:
    """The hash of a file that was read, for ``run.json``."""
    digest = hashlib.sha256()
    with path.open("rb") as handle:
        while block := handle.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def publish(output: str, files: Mapping[str, bytes], header: Mapping[str, object]) -> None:
    """Writes the files under temporary names, moves them into place, and writes ``run.json`` last.

    Args:
      output: the folder, local or of a bucket.
      files: path below it to content.
      header: what ``run.json`` has besides the files: at least ``pipeline``.

    Raises:
      InputError: the folder cannot be written, holds another command's output, or files that were changed by hand.
    """
    from parapet.transforms import files as whole  # Beam knows buckets, and takes a second to be imported

    whole.prepare(output, str(header["pipeline"]))
    written = [whole.write_staged(output, relative, files[relative]) for relative in sorted(files)]
    listed = {path: {"bytes": size, "sha256": digest} for path, digest, size in written}
    whole.publish(output, {**header, "files": listed})
