"""Paired significance tests of differences between two systems, over the dialogues of their rows.

In approximate randomisation (Noreen 1989; Yeh 2000), each replicate swaps the two systems' results on each dialogue or
not, by a random coin; p is the share of replicates with a difference as large as the observed one. Numbers computed
over several sets (the mean over variants, schema sensitivity) are tested by a paired Poisson bootstrap, which also
yields all intervals. Coins and weights depend on seed and dialogue id only: the order of dialogues is irrelevant, and a
dialogue that occurs in several sets is resampled alike in all of them.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from parapet.evaluation import bootstrap
from parapet.evaluation.compare import kinds
from parapet.evaluation.dst.totals import coefficient
from parapet.evaluation.results import SEEN, SENSITIVITY, UNSEEN, VARIANTS, WHOLE, ResultRow, read_parquet
from parapet.evaluation.sets import ALL, ORIGINAL
from parapet.schemas.errors import InputError
from parapet.schemas.layout import as_path
from parapet.transforms.reports.text import counted

if TYPE_CHECKING:
    from parapet.evaluation.compare.board import TaskResults

# Dialogue to the sum of a metric over its rows, and the number of rows that have it.
Sums = dict[str, tuple[float, int]]
# A number is the mean over these parts, one for each set, of the means over rows. Most numbers have one part.
Parts = tuple[Sums, ...]
PartsOf = dict[tuple[str, str], Parts]  # by system and column

Turns = dict[str, pa.Table]  # set to its scored turns: dialogue_id, turn, and the number of rows of each

Whole = NDArray[np.int64]
Real = NDArray[np.float64]
Interval = tuple[float, float] | None

_KEYS = ("set", "dialogue_id", "turn")
_FRAMES = ("frame", "original_service", "seen")  # columns of task dst
_SAME = 1e-9  # differences closer than this are equal


def read_rows(results: TaskResults, columns: Sequence[ResultRow]) -> tuple[Turns, PartsOf]:
    """Reads ``rows.parquet``, or all Parquet files below ``rows``, of a system's results, if there are any.

    Args:
      results: the results.
      columns: a row of each column whose sums are needed; those of its groups are, too.

    Returns:
      The scored turns; and system and column to the sums by dialogue, for numbers that are means of rows. Other
      numbers, such as macro-F1, BLEU, or joint accuracy by turn, have none.

    Raises:
      InputError: rows cannot be read.
    """
    names = kinds.with_groups(columns, results.rows)
    wanted = [row for row in results.rows if row.value is not None and row.column in names]
    read = {*_KEYS, *_FRAMES, *(row.metric for row in wanted), kinds.JGA}
    folder = as_path(results.path)
    files = [*folder.glob("rows.parquet"), *sorted(folder.glob("rows/**/*.parquet"))]
    if not files:
        return {}, {}
    table = pa.concat_tables([read_parquet(path, read) for path in files])
    if named := [name for name in results.sets if name[:1] != "#"]:
        # The single set of results without sets has an empty name or that of the split.
        table = table.filter(pc.is_in(table["set"], pa.array(["", *named])))
    tables = {name: table.filter(pc.equal(table["set"], name)) for name in pc.unique(table["set"]).to_pylist()}
    turns = {name: _grouped(of_set, ["dialogue_id", "turn"], [("turn", "count")]) for name, of_set in tables.items()}
    tables |= {ALL: table, VARIANTS: _coefficients(tables, results)}
    parts: PartsOf = {}
    for row in wanted:
        is_over_variants = row.set == VARIANTS and row.metric != SENSITIVITY
        of_sets = tuple(_sums(tables.get(name), row) for name in (results.variants if is_over_variants else [row.set]))
        if all(of_sets):
            means = [sum(total for total, _ in sums.values()) / sum(n for _, n in sums.values()) for sums in of_sets]
            if math.isclose(sum(means) / len(means), row.value or 0.0, rel_tol=1e-9, abs_tol=1e-12):
                parts[results.system, row.column] = of_sets
    return turns, parts


def _grouped(table: pa.Table, keys: list[str], aggregations: list[tuple[str, str]]) -> pa.Table:
    """Aggregates to one row per key, sorted by key; on one thread, as sums of floats depend on the order."""
    grouped = pa.TableGroupBy(table, keys, use_threads=False).aggregate(aggregations)
    return grouped.sort_by([(key, "ascending") for key in keys])


def _coefficients(tables: Mapping[str, pa.Table], results: TaskResults) -> pa.Table | None:
    """Computes the coefficients of variation over variants, see ``parapet.evaluation.dst.totals``, as rows of a set.

    Frames that a variant lacks have none.
    """
    of_variants = [tables[name] for name in results.variants if name in tables]
    if len(of_variants) < 2 or not {*_FRAMES, kinds.JGA} <= set(of_variants[0].column_names):
        return None
    keys = ["dialogue_id", "turn", "frame", "original_service"]
    frames = _grouped(pa.concat_tables(of_variants), keys, [(kinds.JGA, "list")])
    frames = frames.filter(pc.equal(pc.list_value_length(frames[f"{kinds.JGA}_list"]), len(results.variants)))
    values = pc.list_flatten(frames[f"{kinds.JGA}_list"]).to_numpy().reshape(len(frames), len(results.variants))
    coefficients = coefficient(values.T)
    if results.options.get("zero") == "drop":
        coefficients[np.all(values == 0, axis=1)] = math.nan
    original = tables.get(ORIGINAL, frames.slice(0, 0))
    is_seen = dict(zip(original["original_service"].to_pylist(), original["seen"].to_pylist(), strict=True))
    seen = [is_seen.get(service) for service in frames["original_service"].to_pylist()]
    frames = frames.append_column("seen", pa.array(seen, pa.bool_()))
    return frames.append_column(SENSITIVITY, pa.array(coefficients, from_pandas=True))  # NaN is null


def _sums(table: pa.Table | None, row: ResultRow) -> Sums:
    """Sums a metric by dialogue over the rows of a set, of the services that the number is of."""
    column = "seen" if row.group in (SEEN, UNSEEN) else "original_service"
    if table is None or not {row.metric, *([column] if row.group != WHOLE else [])} <= set(table.column_names):
        return {}
    if row.group != WHOLE:
        group = row.group == SEEN if pa.types.is_boolean(table[column].type) else row.group
        table = table.filter(pc.equal(table[column], group))
    table = table.filter(pc.is_valid(table[row.metric]))
    sums = _grouped(table, ["dialogue_id"], [(row.metric, "sum"), (row.metric, "count")])
    names, totals, counts = (column.to_pylist() for column in sums.columns)
    return dict(zip(names, zip(totals, counts, strict=True), strict=True))


def refused_turns(of_task: Sequence[tuple[TaskResults, Turns]]) -> list[str]:
    """Says which turns of a set some systems lack because an endpoint refused the requests for them.

    Raises InputError if two systems were scored on different turns of a set for another reason.
    """
    firsts: dict[str, tuple[TaskResults, pa.Table]] = {}
    refused: dict[str, None] = {}
    for results, tables in of_task:
        for name in dict.fromkeys([*tables, *(name for name in results.sets if name[:1] != "#")]):
            table = tables.get(name, pa.table({}))
            first, first_table = firsts.setdefault(name, (results, table))
            if table.equals(first_table):
                continue
            ours, theirs = ({tuple(turn.values()) for turn in turns.to_pylist()} for turns in (first_table, table))
            for system, lacking in ((first, theirs - ours), (results, ours - theirs)):
                if len(lacking) > system.refused.get(name, 0):
                    place = f" of set {name!r}" if name else ""
                    dialogue, turn, _ = min(ours ^ theirs)
                    raise InputError(
                        f"different turns{place} were scored: {len(ours - theirs):,} only for {first.system!r}, "
                        f"{len(theirs - ours):,} only for {results.system!r}; the first is turn {turn} of dialogue "
                        f"{dialogue!r}. Evaluate the systems on the same dialogues",
                        results.path,
                    )
                place = f"of set {name} of task {results.task} for {system.system!r}, which its endpoint refused"
                refused |= {f"{counted(len(lacking), 'item')} {place}": None} if lacking else {}
    return [*refused]


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
    parts: PartsOf,
    pairs: Sequence[tuple[str, str]],
    columns: Mapping[str, Sequence[float]],
    seed: str,
    replicates: int,
    bootstrapped: Collection[str] = (),
) -> list[Difference]:
    """Tests the differences of pairs of systems, pair by pair.

    Args:
      parts: the sums of the systems' numbers, by system and column.
      pairs: the first and the second system of each pair.
      columns: column to the factor of each of its parts, which all systems have.
      seed: any text.
      replicates: the replicates of the test. The intervals of randomisation use ``bootstrap.REPLICATES``.
      bootstrapped: the columns tested by the bootstrap: p is twice the share of replicates beyond zero.
    """
    numbers = {(name, column): parts[name, column] for name in chain(*pairs) for column in columns}
    over_sets = [of_column for (_, column), of_column in numbers.items() if column in bootstrapped]
    seen = _totals(numbers.values(), lambda _: np.ones(1, np.int64))
    swapped = _totals(numbers.values(), partial(coins_of, seed, replicates=replicates))
    drawn = _totals(numbers.values(), partial(bootstrap.weights, seed))
    drawn_over_sets = _totals(over_sets, partial(bootstrap.weights, seed, replicates=replicates))

    def test(first: str, second: str, column: str) -> Difference:
        def gaps(first: Whole, second: Whole) -> Real:
            of_replicates: Real = ((bootstrap.means(first) - bootstrap.means(second)) * columns[column]).mean(axis=1)
            return of_replicates

        ours, theirs = parts[first, column], parts[second, column]
        difference = float(gaps(seen(ours), seen(theirs))[0])
        resample = drawn_over_sets if column in bootstrapped else drawn
        resampled = gaps(resample(ours), resample(theirs))
        # Replicates without a value must count against significance, so the conditions are negated: not "at least as
        # large".
        if column in bootstrapped:
            beyond = replicates - max(int((resampled > _SAME).sum()), int((resampled < -_SAME).sum()))
            p = min(1.0, 2 * (1 + beyond) / (1 + replicates))
        else:
            moved = swapped(theirs) - swapped(ours)  # where the coin is 1, the systems swap their results
            by_chance = gaps(seen(ours) + moved, seen(theirs) - moved)
            p = (1 + replicates - int((np.abs(by_chance) < abs(difference) - _SAME).sum())) / (1 + replicates)
        dialogues = len(set().union(*ours, *theirs))
        return Difference(first, second, column, difference, bootstrap.interval(resampled), p, dialogues)

    return [test(*pair, column) for pair in pairs for column in columns]


def intervals(numbers: Sequence[Parts], seed: str, metrics: Sequence[str]) -> list[Interval]:
    """Computes the 95 % interval of each number by a Poisson bootstrap over dialogues; None without values.

    The interval of a share is Wilson's if each dialogue has one row, which is right or wrong, or if the replicates do
    not vary, as at 0 and 100 %.

    Args:
      numbers: the parts of each number.
      seed: the seed of the bootstrap.
      metrics: the metric of each number.
    """
    drawn = _totals(numbers, partial(bootstrap.weights, seed))
    computed: list[Interval] = []
    for parts, metric in zip(numbers, metrics, strict=True):
        replicated = bootstrap.means(drawn(parts)).mean(axis=1)
        rows = [row for sums in parts for row in sums.values()]
        if metric == SENSITIVITY or any(not 0 <= total <= n for total, n in rows):
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
