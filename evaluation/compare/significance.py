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
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from parapet.evaluation import bootstrap
from parapet.evaluation.compare.results import JGA, Column, Outcome
from parapet.evaluation.dst.totals import coefficient
from parapet.evaluation.results import SEEN, SENSITIVITY, UNSEEN, VARIANTS, WHOLE
from parapet.evaluation.sets import ALL, ORIGINAL
from parapet.schemas.errors import InputError
from parapet.schemas.layout import as_path
from parapet.schemas.limits import open_path
from parapet.transforms.reports.text import counted

# Dialogue to the sum of a metric over its rows, and the number of rows that have it.
Sums = dict[str, tuple[float, int]]
# A number is the mean over these parts, one for each set, of the means over rows. Most numbers have one part.
Parts = tuple[Sums, ...]

_KEYS = ("set", "dialogue_id", "turn")
_FRAMES = ("frame", "original_service", "seen")  # columns of task dst


class Rows(msgspec.Struct, frozen=True):
    """The rows of one outcome.

    Attributes:
      turns: set to its scored turns: ``set``, ``dialogue_id``, ``turn``, and the number of rows of each.
      parts: the sums by dialogue, for numbers that are means of rows. Other numbers, such as macro-F1, BLEU, or joint
        accuracy by turn, have none.
    """

    turns: dict[str, pa.Table]
    parts: dict[Column, Parts]


def read_rows(outcome: Outcome, columns: Iterable[Column]) -> Rows | None:
    """Reads the rows of an outcome; None if it has none.

    Args:
      outcome: the folder's outcome.
      columns: the columns whose sums are needed.

    Raises:
      InputError: rows cannot be read.
    """
    wanted = [column for column in columns if outcome.values.get(column) is not None]
    metrics = sorted({column.metric for column in wanted})
    table = _read(outcome, metrics)
    if table is None:
        return None
    sums = _sums(table, outcome.task, metrics)
    if SENSITIVITY in metrics and (coefficients := _coefficients(table, outcome)):
        sums |= _sums(coefficients, outcome.task, [SENSITIVITY])
    parts: dict[Column, Parts] = {}
    for column in wanted:
        over_variants = column.set == VARIANTS and column.metric != SENSITIVITY
        names = outcome.variants if over_variants else (column.set,)
        members = tuple(sums.get(msgspec.structs.replace(column, set=name), {}) for name in names)
        if _is_mean(members, outcome.values[column]):
            parts[column] = members
    grouped = _grouped(table, list(_KEYS), [("turn", "count")])
    turns = {name: grouped.filter(pc.equal(grouped["set"], name)) for name in pc.unique(grouped["set"]).to_pylist()}
    return Rows(turns, parts)


def _is_mean(parts: Parts, value: float | None) -> bool:
    """Whether the rows average to the number."""
    if value is None or not parts or not all(parts):
        return False
    means = [math.fsum(total for total, _ in sums.values()) / sum(n for _, n in sums.values()) for sums in parts]
    return math.isclose(math.fsum(means) / len(means), value, rel_tol=1e-9, abs_tol=1e-12)


def _read(outcome: Outcome, metrics: Iterable[str]) -> pa.Table | None:
    """Reads ``rows.parquet``, or all Parquet files below ``rows``, for the sets of the outcome."""
    folder = as_path(outcome.path)
    single = folder / "rows.parquet"
    wanted = {*_KEYS, *_FRAMES, *metrics, JGA}
    tables = []
    for path in [single] if single.is_file() else sorted(folder.glob("rows/**/*.parquet")):
        try:
            with open_path(path) as handle:
                file = pq.ParquetFile(handle)
                table = file.read([name for name in file.schema_arrow.names if name in wanted])
            table.validate(full=True)  # detects text that is not UTF-8
        except (pa.ArrowException, OSError) as error:
            raise InputError(f"cannot be read as Parquet: {error}", path) from None
        if lacking := [name for name in _KEYS if name not in table.column_names]:
            raise InputError(f"has no column {lacking[0]!r}: not the rows of 'parapet evaluate'", path)
        tables.append(table)
    named = [name for name in outcome.sets if not name.startswith("#")]
    if not tables or not named:
        return pa.concat_tables(tables) if tables else None
    table = pa.concat_tables(tables)
    # The single set of an outcome without sets has an empty name or that of the split.
    return table.filter(pc.is_in(table["set"], pa.array(["", *named])))


def _sums(table: pa.Table, task: str, metrics: Iterable[str]) -> dict[Column, Sums]:
    """Sums metrics by dialogue, for each set, all sets together, and each group of services."""
    sums: dict[Column, Sums] = {}
    groups = [name for name in ("seen", "original_service") if name in table.column_names]
    for metric in (name for name in metrics if name in table.column_names):
        rows = table.filter(pc.is_valid(table[metric]))
        for group in [None, *groups]:
            keys = ["set", "dialogue_id", *([group] if group else [])]
            for row in _grouped(rows, keys, [(metric, "sum"), (metric, "count")]).to_pylist():
                of_group = _group(row[group]) if group else WHOLE
                for name in (row["set"], ALL):
                    by_dialogue = sums.setdefault(Column(task, name, metric, of_group), {})
                    total, n = by_dialogue.get(row["dialogue_id"], (0.0, 0))
                    by_dialogue[row["dialogue_id"]] = total + row[f"{metric}_sum"], n + row[f"{metric}_count"]
    return sums


def _grouped(table: pa.Table, keys: list[str], aggregations: list[tuple[str, str]]) -> pa.Table:
    """Aggregates to one row per key, sorted by key; on one thread, as sums of floats depend on the order."""
    grouped = pa.TableGroupBy(table, keys, use_threads=False).aggregate(aggregations)
    return grouped.sort_by([(key, "ascending") for key in keys])


def _group(value: bool | str | None) -> str:
    return value if isinstance(value, str) else SEEN if value else UNSEEN


def _coefficients(table: pa.Table, outcome: Outcome) -> pa.Table | None:
    """Computes the coefficients of variation over variants, see ``parapet.evaluation.dst.totals``, as rows of a set.

    None if the variants do not have the same frames.
    """
    if not {*_FRAMES, JGA} <= set(table.column_names) or len(outcome.variants) < 2:
        return None
    keys = ["dialogue_id", "turn", "frame"]
    of_sets = [table.filter(pc.equal(table["set"], name)) for name in outcome.variants]
    common = set.intersection(*(set(pc.unique(rows["dialogue_id"]).to_pylist()) for rows in of_sets))
    shared = pa.array(sorted(common), pa.string())
    of_sets = [
        rows.filter(pc.is_in(rows["dialogue_id"], shared)).sort_by([(key, "ascending") for key in keys])
        for rows in of_sets
    ]
    rows, *others = of_sets
    if not common or any(not rows.select(keys).equals(other.select(keys)) for other in others):
        return None
    values = np.stack([rows[JGA].to_numpy() for rows in of_sets])
    coefficients = coefficient(values)
    if outcome.options.get("zero") == "drop":
        coefficients[np.all(values == 0, axis=0)] = math.nan
    original = table.filter(pc.equal(table["set"], ORIGINAL))
    is_seen = dict(zip(original["original_service"].to_pylist(), original["seen"].to_pylist(), strict=True))
    columns = {
        "set": [VARIANTS] * len(rows),
        "dialogue_id": rows["dialogue_id"],
        "original_service": rows["original_service"],
        "seen": [is_seen.get(service) for service in rows["original_service"].to_pylist()],
        SENSITIVITY: pa.array(coefficients, from_pandas=True),  # NaN is null
    }
    return pa.table(columns)


def check_same_turns(rows: Mapping[str, Rows], outcomes: Mapping[str, Outcome]) -> list[str]:
    """Says which turns of a set some systems lack because an endpoint refused the requests for them.

    Raises InputError if two systems were scored on different turns of a set for another reason.

    Args:
      rows: system to its rows, of one task.
      outcomes: system to its outcome.
    """
    firsts: dict[str, str] = {}
    refused: dict[str, None] = {}
    for name, theirs in rows.items():
        for of_set in dict.fromkeys([*theirs.turns, *(at for at in outcomes[name].sets if at[:1] != "#")]):
            first = firsts.setdefault(of_set, name)
            tables = [rows[system].turns.get(of_set) for system in (first, name)]
            if tables[0] is tables[1] or (None not in tables and tables[0].equals(tables[1])):  # type: ignore[union-attr]
                continue
            ours, them = ({tuple(row.values()) for row in of.to_pylist()} if of else set() for of in tables)
            lacks = {first: len(them - ours), name: len(ours - them)}
            if all(n <= outcomes[system].refused.get(of_set, 0) for system, n in lacks.items()):
                of_task = f"of set {of_set} of task {outcomes[name].task}"
                for system in (system for system, n in lacks.items() if n):
                    items = counted(lacks[system], "item")
                    refused[f"{items} {of_task} for {system!r}, which its endpoint refused"] = None
                continue
            only = f"{len(ours - them):,} only for {first!r}, {len(them - ours):,} only for {name!r}"
            _, dialogue, turn, _ = min(ours ^ them)
            quoted = f" of set {of_set!r}" if of_set else ""
            raise InputError(
                f"different turns{quoted} were scored: {only}; the first is turn {turn} of dialogue {dialogue!r}. "
                "Evaluate the systems on the same dialogues",
                outcomes[name].path,
            )
    return [*refused]


_SAME = 1e-9  # differences closer than this are equal

Whole = NDArray[np.int64]
Real = NDArray[np.float64]


class Difference(msgspec.Struct, frozen=True):
    """A paired test.

    Attributes:
      difference: the first system's value minus the second's.
      interval: its 95 % bootstrap interval.
      p: two-sided.
      dialogues: the number of resampled dialogues.
    """

    difference: float
    interval: tuple[float, float] | None
    p: float
    dialogues: int


Pair = Sequence[tuple[Sums, Sums]]  # the sums of two systems, for each part of their numbers


def paired(
    pairs: Sequence[Pair],
    factors: Sequence[float],
    numbers: Sequence[Sequence[int]],
    seed: str,
    replicates: int,
    method: str = "randomisation",
) -> list[list[Difference]]:
    """Tests pairs of systems.

    Args:
      pairs: for each pair, both systems' sums by dialogue, part by part. All pairs have the same parts.
      factors: the factor of the mean of each part.
      numbers: the numbers to test: each is the mean over some parts, by position.
      seed: any text.
      replicates: the replicates of the test. The intervals of randomisation use ``bootstrap.REPLICATES``.
      method: ``randomisation``, or ``bootstrap``, in which p is twice the share of replicates beyond zero.

    Returns:
      For each pair, the difference in each of the numbers.
    """
    is_bootstrap = method == "bootstrap"
    size = len(pairs), len(factors), 2, 2
    seen = np.zeros(size, np.int64)
    swapped = np.zeros((0 if is_bootstrap else replicates, *size), np.int64)
    drawn = np.zeros((replicates if is_bootstrap else bootstrap.REPLICATES, *size), np.int64)
    for names, values in _chunks([sums for pair in pairs for part in pair for sums in part]):
        values = values.reshape(-1, *size)
        seen += values.sum(axis=0)
        drawn += bootstrap.weighted(np.stack([_weights(seed, name, len(drawn)) for name in names]), values)
        if not is_bootstrap:
            coins = np.stack([coins_of(seed, name, replicates) for name in names])
            # Swaps the two systems' results where the coin is 1.
            swapped += bootstrap.weighted(coins, values[..., ::-1, :] - values)
    swapped += seen
    factor = np.asarray(factors, dtype=float)
    gaps, of_chance, resampled = _gaps(seen, factor), _gaps(swapped, factor), _gaps(drawn, factor)

    def test(i: int, number: list[int]) -> Difference:
        difference, replicated = float(gaps[i, number].mean()), resampled[:, i, number].mean(axis=-1)
        # Replicates without a value must count against significance, so the conditions are negated: not "at least as
        # large".
        if is_bootstrap:
            beyond = replicates - max(int((replicated > _SAME).sum()), int((replicated < -_SAME).sum()))
            p = min(1.0, 2 * (1 + beyond) / (1 + replicates))
        else:
            smaller = int((np.abs(of_chance[:, i, number].mean(axis=-1)) < abs(difference) - _SAME).sum())
            p = (1 + replicates - smaller) / (1 + replicates)
        dialogues = {name for part in number for sums in pairs[i][part] for name in sums}
        return Difference(difference, bootstrap.interval(replicated), p, len(dialogues))

    return [[test(i, list(number)) for number in numbers] for i in range(len(pairs))]


def intervals(numbers: Sequence[Parts], seed: str, metrics: Sequence[str]) -> list[tuple[float, float] | None]:
    """Computes the 95 % interval of each number by a Poisson bootstrap over dialogues; None without values.

    The interval of a share is Wilson's if each dialogue has one row, which is right or wrong, or if the replicates do
    not vary, as at 0 and 100 %.

    Args:
      numbers: the parts of each number.
      seed: the seed of the bootstrap.
      metrics: the metric of each number.
    """
    flat = [part for parts in numbers for part in parts]
    drawn = np.zeros((bootstrap.REPLICATES, len(flat), 2), np.int64)
    for names, values in _chunks(flat):
        drawn += bootstrap.weighted(np.stack([_weights(seed, name) for name in names]), values)
    means = bootstrap.means(drawn)
    ends = np.cumsum([len(parts) for parts in numbers])
    return [
        _interval(parts, means[:, end - len(parts) : end].mean(axis=1), metric) if parts else None
        for parts, end, metric in zip(numbers, ends, metrics, strict=True)
    ]


def _interval(parts: Parts, replicated: Real, metric: str) -> tuple[float, float] | None:
    rows = [row for sums in parts for row in sums.values()]
    if metric == SENSITIVITY or any(not 0 <= total <= n for total, n in rows):
        return bootstrap.interval(replicated)  # not a share
    if len(parts) == 1 and all(n == 1 and total in (0, 1) for total, n in rows):
        return bootstrap.wilson_interval(sum(total for total, _ in rows), len(rows))
    return bootstrap.share_interval(replicated, len({name for sums in parts for name in sums}))


def _chunks(flat: Sequence[Sums]) -> Iterator[tuple[list[str], Whole]]:
    """Yields chunks of dialogues, with their sums in units of 2 ** -40 and counts: shape (dialogue, sums, 2)."""
    distinct = {id(sums): sums for sums in flat}  # a system is in many pairs
    column = {key: i for i, key in enumerate(distinct)}
    columns = [column[id(sums)] for sums in flat]
    names = sorted({name for sums in distinct.values() for name in sums})
    for start in range(0, len(names), bootstrap.CHUNK):
        chunk = names[start : start + bootstrap.CHUNK]
        pairs = np.array([[sums.get(name, (0.0, 0)) for sums in distinct.values()] for name in chunk])
        yield chunk, np.rint(np.ldexp(pairs, [bootstrap.POINT, 0])).astype(np.int64)[:, columns]


@lru_cache(maxsize=1 << 14)
def _weights(seed: str, dialogue_id: str, replicates: int = bootstrap.REPLICATES) -> NDArray[np.uint8]:
    """Draws the bootstrap weights of a dialogue, cached for further numbers; weights never reach 256."""
    return bootstrap.weights(seed, dialogue_id, replicates).astype(np.uint8)


def coins_of(seed: str, dialogue_id: str, replicates: int) -> Whole:
    """Draws 0 or 1 for each replicate, from seed and dialogue only."""
    text = f"swap\0{seed}\0{dialogue_id}".encode("utf-8", "surrogatepass")
    bits = np.frombuffer(hashlib.shake_128(text).digest((replicates + 7) // 8), np.uint8)
    return np.unpackbits(bits)[:replicates].astype(np.int64)


def _gaps(sums: Whole, factor: Real) -> Real:
    """Computes the first system's mean minus the second's, from (..., part, system, sum and count)."""
    with np.errstate(divide="ignore", invalid="ignore"):
        means = np.ldexp(sums[..., 0].astype(float), -bootstrap.POINT) / sums[..., 1]
    gaps: Real = (means[..., 0] - means[..., 1]) * factor
    return gaps


def holm(values: Sequence[float]) -> list[float]:
    """Corrects p-values for multiple tests (Holm 1979), in the same order."""
    order = np.argsort(values, kind="stable")
    factors = np.arange(len(values), 0, -1)
    corrected = np.zeros(len(values))
    corrected[order] = np.maximum.accumulate(np.minimum(1.0, factors * np.asarray(values)[order]))
    return [float(value) for value in corrected]
