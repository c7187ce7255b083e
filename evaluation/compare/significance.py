"""Intervals of numbers and paired significance tests of their differences, over the dialogues of their rows.

In approximate randomisation (Noreen 1989; Yeh 2000), each replicate swaps the two systems' results on each dialogue or
not, by a random coin; p is the share of replicates with a difference as large as the observed one. Intervals are from a
Poisson bootstrap. Coins and weights depend on seed and dialogue id only: the order of dialogues is irrelevant, and a
dialogue that occurs in several sets is swapped or resampled alike in all of them.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from itertools import product
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from parapet.evaluation import bootstrap
from parapet.evaluation.results import SEEN, UNSEEN, VARIANTS, WHOLE, ResultRow, read_parquet
from parapet.evaluation.sets import ALL
from parapet.schemas.layout import as_path

# Dialogue to the sum of a metric over its rows, and the number of rows that have it.
Sums = dict[str, tuple[float, int]]
# A number is the mean over these parts, one for each set, of the means over rows. Most numbers have one part.
Parts = tuple[Sums, ...]
PartsOf = Mapping[tuple[str, str], Parts]  # by system and column

Whole = NDArray[np.int64]
Real = NDArray[np.float64]
Interval = tuple[float, float] | None


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


def read_tables(path: str, columns: Collection[str]) -> dict[str, pa.Table]:
    """Reads columns of the rows of an evaluation: a table for each set, and one of all. None if there are no rows."""
    folder = as_path(path)
    files = [*folder.glob("rows.parquet"), *sorted(folder.glob("rows/**/*.parquet"))]
    if not files:
        return {}
    table = pa.concat_tables([read_parquet(path, {"set", *columns}) for path in files])
    names = pc.unique(table["set"]).to_pylist()
    return {**{name: table.filter(pc.equal(table["set"], name)) for name in names}, ALL: table}


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


class Difference(msgspec.Struct, frozen=True):
    """A paired test of two systems on a column or the average.

    Attributes:
      difference: the first system's number minus the second's, on a scale of 100.
      interval: its 95 % bootstrap interval.
      p: two-sided; ``p_holm`` is corrected for all tests of the comparison.
      dialogues: the number of resampled dialogues.
    """

    first: str
    second: str
    column: str
    difference: float
    interval: Interval
    p: float
    dialogues: int
    p_holm: float = math.nan


def paired(
    parts: PartsOf, pairs: Sequence[tuple[str, str]], columns: Mapping[str, float], seed: str, replicates: int
) -> list[Difference]:
    """Tests the differences of pairs of systems, pair by pair, on the columns of which both have equally many parts.

    Args:
      parts: the sums of the systems' numbers, by system and column.
      pairs: the first and the second system of each pair.
      columns: column to the factor that brings its number to a scale of 100.
      seed: any text.
      replicates: the replicates of the test; intervals use ``bootstrap.REPLICATES``.
    """
    numbers = [of_number for (_, column), of_number in parts.items() if column in columns]
    plain = _totals(numbers, lambda _: np.ones(1, np.int64))
    swapped = _totals(numbers, partial(coins_of, seed, replicates=replicates))
    drawn = _totals(numbers, partial(bootstrap.weights, seed))
    tests = []
    for (first, second), column in product(pairs, columns):
        ours, theirs = parts.get((first, column), ()), parts.get((second, column), ())
        if not ours or len(ours) != len(theirs):
            continue
        difference = float(_gaps(plain(ours), plain(theirs))[0])
        moved = swapped(theirs) - swapped(ours)  # where the coin is 1, the systems swap their results
        by_chance = np.abs(_gaps(plain(ours) + moved, plain(theirs) - moved))
        # Differences that are closer than 1e-9 are equal. Replicates without a value count against significance, which
        # "at least as large" would not do.
        p = (1 + replicates - int((by_chance < abs(difference) - 1e-9).sum())) / (1 + replicates)
        interval = bootstrap.interval(_gaps(drawn(ours), drawn(theirs)) * columns[column])
        dialogues = len(set().union(*ours, *theirs))
        tests.append(Difference(first, second, column, difference * columns[column], interval, p, dialogues))
    corrected = holm([test.p for test in tests])
    return [msgspec.structs.replace(test, p_holm=p) for test, p in zip(tests, corrected, strict=True)]


def _gaps(first: Whole, second: Whole) -> Real:
    """Computes the difference of two numbers in each replicate."""
    gaps: Real = (bootstrap.means(first) - bootstrap.means(second)).mean(axis=1)
    return gaps


def intervals(numbers: Sequence[Parts], seed: str) -> list[Interval]:
    """Computes the 95 % interval of each number by a Poisson bootstrap over dialogues; None without values.

    The interval of a share is Wilson's if each dialogue has one row, which is right or wrong, or if the replicates do
    not vary, as at 0 and 100 %.
    """
    drawn = _totals(numbers, partial(bootstrap.weights, seed))
    computed: list[Interval] = []
    for parts in numbers:
        replicated = bootstrap.means(drawn(parts)).mean(axis=1)
        rows = [row for sums in parts for row in sums.values()]
        if any(not 0 <= total <= n for total, n in rows):
            computed.append(bootstrap.interval(replicated))  # not a share
        elif len(parts) == 1 and all(n == 1 and total in (0, 1) for total, n in rows):
            computed.append(bootstrap.wilson_interval(sum(total for total, _ in rows), len(rows)))
        else:
            computed.append(bootstrap.share_interval(replicated, len(set().union(*parts))))
    return computed


def _totals(numbers: Iterable[Parts], draw: Callable[[str], NDArray[Any]]) -> Callable[[Parts], Whole]:
    """Sums over dialogues, each with the weights that ``draw`` returns for its name.

    Returns a function from the parts of a number to the sums in units of 2 ** -40 and counts of each replicate and
    part: shape (replicates, parts, 2).
    """
    distinct = {id(sums): sums for parts in numbers for sums in parts}
    place = {key: i for i, key in enumerate(distinct)}
    names = sorted(set().union(*distinct.values()))
    values = [[sums.get(name, (0.0, 0)) for sums in distinct.values()] for name in names]
    whole = np.rint(np.ldexp(np.reshape(values, (len(names), len(distinct), 2)), [bootstrap.POINT, 0])).astype(np.int64)
    total = bootstrap.resampled(names, whole, draw)
    return lambda parts: total[:, [place[id(sums)] for sums in parts]]


def coins_of(seed: str, dialogue_id: str, replicates: int) -> NDArray[np.uint8]:
    """Draws 0 or 1 for each replicate, from seed and dialogue only."""
    text = f"swap\0{seed}\0{dialogue_id}".encode("utf-8", "surrogatepass")
    bits = np.frombuffer(hashlib.shake_128(text).digest((replicates + 7) // 8), np.uint8)
    return np.unpackbits(bits)[:replicates]


def holm(values: Sequence[float]) -> list[float]:
    """Corrects p-values for multiple tests (Holm 1979), in the same order."""
    order = np.argsort(values, kind="stable")
    corrected = np.zeros(len(values))
    factors = np.arange(len(values), 0, -1)
    corrected[order] = np.maximum.accumulate(np.minimum(1.0, factors * np.asarray(values)[order]))
    return [float(value) for value in corrected]
