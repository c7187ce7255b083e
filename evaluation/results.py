"""``results.parquet``, the one table of results: a row for each number of a task, which all comparisons read.

Its columns are ``system, task, set, group, metric, value, low, high, n, run``, see :class:`ResultRow`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import astuple

from parapet.evaluation.sets import ALL, MEAN
from parapet.schemas.errors import InputError
from parapet.schemas.limits import open_path

RESULTS = "results.parquet"
VARIANTS = "#VARIANTS"  # the set of means over the variants, and of schema sensitivity
WHOLE, SEEN, UNSEEN = "all", "seen", "unseen"
SENSITIVITY = "schema_sensitivity"

_VARIANT = re.compile(r"v([0-9]+)")
_TEXTS = ("system", "task", "set", "group", "metric")
_NUMBERS = ("value", "low", "high")

Interval = Sequence[float] | None


class ResultRow(msgspec.Struct, frozen=True):
    """A number.

    Attributes:
      system: the name of the system, if the task knows it.
      task: the ``--task`` of ``parapet evaluate``.
      set: the name of a set; ``#ALL`` for all sets together, ``#MEAN`` for the mean over sets, ``#VARIANTS`` for the
        mean over variants.
      group: ``all``, or the services that are counted: ``seen``, ``unseen``, or the name of a service.
      metric: the name in ``metrics.json``.
      value: None if it is undefined.
      low: with ``high``, the 95 % interval, if it is known.
      n: the number of items of the set and group: frames, turns, dialogues, tasks; None if it is not counted.
      run: the repetition, from 0; None for a number of all repetitions together, such as their mean.
    """

    system: str
    task: str
    set: str
    group: str
    metric: str
    value: float | None
    low: float | None = None
    high: float | None = None
    n: int | None = None
    run: int | None = 0

    @property
    def column(self) -> str:
        """What it is a number of: ``ood/ood-50/f1``, or with a group ``dst/v1/seen/joint_goal_accuracy``."""
        return "/".join([self.task, self.set, *([self.group] if self.group != WHOLE else []), self.metric])


def variants_of(sets: Iterable[str]) -> list[str]:
    """Returns the sets that are variants of the schema, v2 before v10."""
    return sorted({name for name in sets if _VARIANT.fullmatch(name)}, key=lambda name: int(name[1:]))


def macro_average(values: Sequence[float | None]) -> float | None:
    """Computes the unweighted mean of all numbers (RADDLE); None if there are none, or one is undefined."""
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known and len(known) == len(values) else None


def results_of(
    task: str,
    metrics: Mapping[str, Mapping[str, float | None]],
    sizes: Mapping[str, int],
    groups: Mapping[str, str] = {},
    intervals: Mapping[tuple[str, str], Interval] = {},
) -> list[ResultRow]:
    """Makes the rows of ``metrics.json``, and those of the means over variants if there are several.

    Args:
      task: the name of the task.
      metrics: the content of ``metrics.json``.
      sizes: the numbers of items of its keys.
      groups: the keys that are groups of services over all sets, with the names of the groups; others are sets.
      intervals: key and metric to an interval.
    """
    variants = variants_of(metrics.keys() - groups.keys())
    rows = []
    for key, numbers in sorted(metrics.items()):
        name, group = (ALL, groups[key]) if key in groups else (key, WHOLE)
        for metric, value in sorted(numbers.items()):
            is_of_variants = metric == SENSITIVITY and key == ALL and len(variants) > 1
            place = VARIANTS if is_of_variants else name
            low, high = intervals.get((key, metric)) or (None, None)
            n = sizes.get(ALL if key == MEAN else key)
            rows.append(ResultRow("", task, place, group, metric, finite(value), low, high, n))
    if len(variants) > 1:
        n = sum(sizes.get(name, 0) for name in variants)
        for metric in dict.fromkeys(row.metric for row in rows if row.metric != SENSITIVITY):
            mean = macro_average([finite(metrics[name].get(metric)) for name in variants])
            rows.append(ResultRow("", task, VARIANTS, WHOLE, metric, mean, n=n))
    return rows


def finite(value: float | None) -> float | None:
    """Returns a number; None if it is undefined or not a number."""
    return None if value is None or not math.isfinite(value) else float(value)


def results_bytes(rows: Iterable[ResultRow]) -> bytes:
    """Encodes ``results.parquet``."""
    import pyarrow as pa

    from parapet.schemas.rows import parquet_bytes

    types = [pa.string()] * len(_TEXTS) + [pa.float64()] * len(_NUMBERS) + [pa.int64()] * 2
    schema = pa.schema(list(zip(ResultRow.__struct_fields__, types, strict=True)))
    columns = list(zip(*map(astuple, rows), strict=True)) or [()] * len(types)
    arrays = [pa.array(column, kind) for column, kind in zip(columns, types, strict=True)]
    return parquet_bytes(pa.table(arrays, schema))


def read_parquet(path: Path, columns: Collection[str] | None = None) -> Any:
    """Reads a Parquet file, or those of the columns that it has. Raises InputError if it cannot be read."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with open_path(path) as handle:
            file = pq.ParquetFile(handle)
            table = file.read([name for name in file.schema_arrow.names if columns is None or name in columns])
        table.validate(full=True)  # detects text that is not UTF-8
    except (pa.ArrowException, OSError) as error:
        raise InputError(f"cannot be read as Parquet: {error}", path) from None
    return table


def read_results(path: Path) -> list[ResultRow]:
    """Reads ``results.parquet``. Raises InputError if it is missing or another table."""
    if not path.is_file():
        raise InputError("there is no such file", path)
    try:
        return msgspec.convert(read_parquet(path).to_pylist(), list[ResultRow])
    except msgspec.ValidationError as error:
        raise InputError(f"not written by 'parapet evaluate': {error}", path) from None
