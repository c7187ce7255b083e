"""Reads the rows of evaluations: what numbers are means of, by dialogue, for comparisons and for several runs."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from parapet.evaluation.results import RESULTS, SEEN, UNSEEN, VARIANTS, WHOLE, ResultRow, read_parquet, read_results
from parapet.evaluation.sets import ALL
from parapet.schemas.layout import as_path

# Dialogue to the sum of a metric over its rows, and the number of rows that have it.
Sums = dict[str, tuple[float, int]]
# A number is the mean over these parts, one for each set, of the means over rows. Most numbers have one part.
Parts = tuple[Sums, ...]
Real = NDArray[np.float64]

_KEYS = ("dialogue_id", "turn", "frame")  # of an item; not all tasks have frames


def read_rows(path: str, numbers: Iterable[ResultRow], variants: Sequence[str]) -> dict[str, Parts]:
    """Reads ``rows.parquet``, or all Parquet files below ``rows``, of an evaluation, if there are any.

    Args:
      path: the folder of the evaluation.
      numbers: the numbers whose sums are needed.
      variants: the sets that ``#VARIANTS`` averages.

    Returns:
      Column to the sums by dialogue, for numbers that are means of rows. Other numbers, such as macro-F1, BLEU, schema
      sensitivity, or joint accuracy by turn, have none.

    Raises:
      InputError: rows cannot be read.
    """
    wanted = [row for row in numbers if row.value is not None]
    tables = read_tables(path, {"dialogue_id", "original_service", "seen", *(row.metric for row in wanted)})
    parts = {}
    for row in wanted:
        sets = variants if row.set == VARIANTS else [row.set]
        of_sets = tuple(_sums(tables.get(name), row) for name in sets)
        if of_sets and all(of_sets):
            means = [sum(total for total, _ in sums.values()) / sum(n for _, n in sums.values()) for sums in of_sets]
            if math.isclose(sum(means) / len(means), row.value or 0.0, rel_tol=1e-9, abs_tol=1e-12):
                parts[row.column] = of_sets
    return parts


def read_runs(paths: Sequence[str], columns: Iterable[str], variants: Sequence[str]) -> list[dict[str, Parts]]:
    """Reads the rows of evaluations of several runs like :func:`read_rows`, for the columns that all of them have."""
    numbers = [{row.column: row for row in read_results(as_path(path) / RESULTS)} for path in paths]
    wanted = [column for column in columns if all(column in of_run for of_run in numbers)]
    return [
        read_rows(path, [of_run[column] for column in wanted], variants)
        for path, of_run in zip(paths, numbers, strict=True)
    ]


def of_means(runs: Sequence[Mapping[str, Parts]]) -> dict[str, Parts]:
    """Returns what means over runs are means of: the parts of all runs, set by set."""
    columns = [column for column in runs[0] if all(column in of_run for of_run in runs)]
    return {
        column: tuple(chain.from_iterable(zip(*(of_run[column] for of_run in runs), strict=True))) for column in columns
    }


def read_tables(path: str, columns: Collection[str]) -> dict[str, pa.Table]:
    """Reads columns of the rows of an evaluation: a table for each set, and one of all. None if there are no rows."""
    folder = as_path(path)
    files = [*folder.glob("rows.parquet"), *sorted(folder.glob("rows/**/*.parquet"))]
    if not files:
        return {}
    table = pa.concat_tables([read_parquet(path, {"set", *columns}) for path in files])
    names = pc.unique(table["set"]).to_pylist()
    return {**{name: table.filter(pc.equal(table["set"], name)) for name in names}, ALL: table}


def read_values(paths: Sequence[str], metric: str, sets: Sequence[str]) -> tuple[list[str], Real]:
    """Reads the values of a metric for the items that have one in all sets of all evaluations.

    Args:
      paths: the folders of the evaluations.
      metric: the metric.
      sets: the sets.

    Returns:
      The dialogue of each item, sorted, and the values: shape (paths, sets, items).
    """
    known: list[dict[tuple[Any, ...], float]] = []
    for path in paths:
        tables = read_tables(path, {*_KEYS, metric})
        for name in sets:
            columns = tables[name].to_pydict() if name in tables else {}
            items = zip(*(columns[key] for key in _KEYS if key in columns), strict=True)
            of_items = zip(items, columns.get(metric, ()), strict=False)
            known.append({item: value for item, value in of_items if value is not None})
    common = sorted(set(known[0]).intersection(*known[1:]))
    values = np.array([[of_set[item] for item in common] for of_set in known])
    return [item[0] for item in common], values.reshape(len(paths), len(sets), len(common))


def _sums(table: pa.Table | None, row: ResultRow) -> Sums:
    """Sums a metric by dialogue over the rows of a set, of the services that the number is of."""
    column = "seen" if row.group in (SEEN, UNSEEN) else "original_service"
    if table is None or not {row.metric, *([column] if row.group != WHOLE else [])} <= set(table.column_names):
        return {}
    if row.group != WHOLE:
        group = row.group == SEEN if pa.types.is_boolean(table[column].type) else row.group
        table = table.filter(pc.equal(table[column], group))
    table = table.filter(pc.is_valid(table[row.metric]))
    # On one thread, as sums of floats depend on the order.
    grouped = pa.TableGroupBy(table, "dialogue_id", use_threads=False)
    sums = grouped.aggregate([(row.metric, "sum"), (row.metric, "count")]).sort_by("dialogue_id")
    names, totals, counts = (column.to_pylist() for column in sums.columns)
    return dict(zip(names, zip(totals, counts, strict=True), strict=True))
