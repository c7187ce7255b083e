"""``results.parquet``, the one table of results: a row for each number of a task, which all comparisons read.

Its columns are ``system, task, set, group, metric, value, low, high, n, run``, see :class:`ResultRow`.
"""

import hashlib
import math
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from msgspec.structs import astuple, replace

from parapet.evaluation.sets import ALL, MEAN, ORIGINAL, parse_line
from parapet.evaluation.statistics import Parts, Real, Sums
from parapet.schemas import layout, limits
from parapet.schemas.errors import InputError
from parapet.schemas.rows import parquet_bytes
from parapet.transforms.report.text import number

RESULTS = "results.parquet"
VARIANTS = "#VARIANTS"  # the set of means over the variants, and of schema sensitivity
WHOLE, SEEN, UNSEEN = "all", "seen", "unseen"
SENSITIVITY = "schema_sensitivity"

_VARIANT = re.compile(r"v([0-9]+)")
_TEXTS = ("system", "task", "set", "group", "metric")
_NUMBERS = ("value", "low", "high")

# Endings of the metrics of several runs together, and their other metrics: how many runs there are, pass^k, and noise.
SD, NOISE_FLOOR = "_sd", "_noise_floor"
RUNS, POWER = "runs", "pass^"
NOISE, EXCESS = f"{SENSITIVITY}_of_noise", f"{SENSITIVITY}_excess"
_OVER_RUNS = re.compile(rf".*(?:{SD}|{NOISE_FLOOR})|{re.escape(POWER)}[0-9]+|{RUNS}|{NOISE}|{EXCESS}")

# Below this accuracy, schema sensitivity and relative changes say nothing: nearly all frames are wrong under all
# variants and count as 0, and a few frames more or fewer change the accuracy by hundreds of percent.
FLOOR = 0.05

Interval = Sequence[float] | None
_KEYS = ("dialogue_id", "turn", "frame")  # of an item; not all tasks have frames


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
            place = VARIANTS if metric == SENSITIVITY and key == ALL and len(variants) > 1 else name
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
    types = [pa.string()] * len(_TEXTS) + [pa.float64()] * len(_NUMBERS) + [pa.int64()] * 2
    columns = list(zip(*map(astuple, rows), strict=True)) or [()] * len(types)
    arrays = [pa.array(column, kind) for column, kind in zip(columns, types, strict=True)]
    return parquet_bytes(pa.table(arrays, pa.schema(list(zip(ResultRow.__struct_fields__, types, strict=True)))))


def sha256_of(path: Path) -> str:
    """Hashes a file, for ``run.json``."""
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


def read_parquet(path: Path, columns: Collection[str] | None = None) -> Any:
    """Reads a Parquet file, or those of the columns that it has. Raises InputError if it cannot be read."""
    try:
        with limits.open_path(path) as handle:
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


# The folder of each run of a system to its numbers, by column.
Runs = Mapping[str, Mapping[str, ResultRow]]


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
        of_sets = tuple(_sums(tables.get(name), row) for name in (variants if row.set == VARIANTS else [row.set]))
        if of_sets and all(of_sets):
            means = [sum(total for total, _ in sums.values()) / sum(n for _, n in sums.values()) for sums in of_sets]
            if math.isclose(sum(means) / len(means), row.value or 0.0, rel_tol=1e-9, abs_tol=1e-12):
                parts[row.column] = of_sets
    return parts


def read_runs(runs: Runs, columns: Iterable[str], variants: Sequence[str]) -> list[dict[str, Parts]]:
    """Reads the rows of evaluations of several runs like :func:`read_rows`, for the columns that all of them have."""
    wanted = [column for column in columns if all(column in of_run for of_run in runs.values())]
    return [read_rows(path, [of_run[column] for column in wanted], variants) for path, of_run in runs.items()]


def of_means(runs: Sequence[Mapping[str, Parts]]) -> dict[str, Parts]:
    """Returns what means over runs are means of: the parts of all runs, set by set."""
    columns = [column for column in runs[0] if all(column in run for run in runs)]
    return {column: tuple(chain.from_iterable(zip(*(run[column] for run in runs), strict=True))) for column in columns}


def read_tables(path: str, columns: Collection[str]) -> dict[str, pa.Table]:
    """Reads columns of the rows of an evaluation: a table for each set, and one of all. None if there are no rows."""
    folder = layout.as_path(path)
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


JGA = "joint_goal_accuracy"
AVERAGE = "average"

# The metrics of each task that enter the average, the main one first, and further ones that are shown: RADDLE's Table 2
# averages joint goal accuracy, Combined, intent accuracy and F1.
AVERAGED = {
    "dst": (JGA,),
    "response": ("combined",),
    "intent": ("accuracy",),
    "ood": ("f1",),
    "ranking": ("per_response", "per_dialogue"),
    "generation": ("sgsacc", "bleu"),
    "tool_calls": ("accuracy",),
}
_BESIDE = {
    "dst": (SENSITIVITY,),
    "intent": ("macro_f1",),
    "response": ("inform", "success", "bleu"),
    "ratings": ("human_faithful", "agreement", "fleiss_kappa"),
    "tool_calls": ("accuracy_by_meaning", SENSITIVITY),
}
OF_100 = frozenset({"bleu", "combined", "naturalness", AVERAGE})  # on a scale of 100 already; all others are shares
LOW_IS_GOOD = frozenset({"fpr95", "slot_error_rate", "word_error_rate", SENSITIVITY})  # enter no average

# The order of sets on the page: RADDLE's and SGD-X's first, then the others.
_ORDER = ("original$|standard$", "v[0-9]+$", f"{VARIANTS}$", "typo", "verb", "simpl", "para", "sr(?![a-z])|speech|asr",
          "unseen", "ood", "env", "[^#]", "")  # fmt: skip


def main_metric(task: str) -> str:
    """Returns the main metric of a task, beside which its schema sensitivity stands; empty if it has none."""
    return next(iter(AVERAGED.get(task, ())), "")


def shown_metrics(task: str) -> tuple[str, ...]:
    """Returns the default metrics of a task, those of the average first."""
    return AVERAGED.get(task, ()) + _BESIDE.get(task, ())


def of_100(metric: str, value: float) -> float:
    """Scales a number to 100, as in tables."""
    return value if metric in OF_100 else 100 * value


def shown(metric: str, value: float | None) -> str:
    """Formats a number for tables."""
    return number(None if value is None else of_100(metric, value), 1)


def is_undefined(row: ResultRow, others: Iterable[ResultRow]) -> bool:
    """Whether a number is a schema sensitivity that says nothing beside the accuracies in the other rows of its system.

    The accuracies are those on the original and over the variants.
    """
    key = (row.task, row.group, main_metric(row.task))
    beside = [other for other in others if (other.task, other.group, other.metric) == key]
    accuracies = [other.value for other in beside if other.set in (ORIGINAL, VARIANTS)]
    return row.metric in (SENSITIVITY, NOISE, EXCESS) and not sensitivity_is_defined(*accuracies)


def defined(rows: Sequence[ResultRow]) -> list[ResultRow]:
    """Removes the values of schema sensitivities that say nothing from the numbers of a system."""
    return [replace(row, value=None, low=None, high=None) if is_undefined(row, rows) else row for row in rows]


def set_order(name: str, first: Sequence[str] = ()) -> tuple[object, ...]:
    """Returns a sort key for sets: those in ``first``, then the order of the page; numbers in names sort by size."""
    chosen = first.index(name) if name in first else len(first)
    rank = next(i for i, pattern in enumerate(_ORDER) if re.match(pattern, name, re.IGNORECASE))
    parts = re.split(r"([0-9]+)", name.casefold())
    return chosen, rank, parts[::2], [int(part) for part in parts[1::2]], name


def has_name(row: ResultRow, name: str) -> bool:
    """Whether a flag's name for columns means a number's column: METRIC, SET/METRIC, GROUP/METRIC, TASK/SET/METRIC."""
    return f"/{row.column}".endswith(f"/{name}") and (row.group == WHOLE or f"{row.group}/" in name)


def is_requested(row: ResultRow, names: Iterable[str]) -> bool:
    """Whether one of the names means a number's column by more than its metric."""
    return any(has_name(row, name) and name != row.metric for name in names)


def columns_of(
    rows: Iterable[ResultRow], requested: Sequence[str] = (), sets: Sequence[str] = (), flag: str = "--metrics"
) -> list[ResultRow]:
    """Returns a row of each column of a comparison, in the order of the page.

    Args:
      rows: the numbers of all systems.
      requested: ``metric``, ``set/metric``, ``group/metric`` or ``task/set/metric``; empty for the defaults. What no
        system has is left out, so that a list serves for both dev, which has no unseen services, and test.
      sets: the sets that come first, in this order.
      flag: the flag that requests columns, for messages.

    Raises:
      InputError: the systems have none of the columns.
    """
    available = {row.column: row for row in rows}.values()
    defaults = [row for row in available if row.group == WHOLE and row.metric in shown_metrics(row.task)]
    chosen = [] if requested else defaults
    for name in requested:
        named = [row for row in available if has_name(row, name)]
        # If a set has the name of a group, ``unseen/METRIC`` refers to the set.
        chosen += [row for row in named if row.group == WHOLE] or named
    if not chosen:
        known = ", ".join(sorted({row.metric for row in available}))
        raise InputError(f"no system has {', '.join(requested) or 'a main metric'}: choose from {known}", flag)
    # #ALL would count the sets twice, unless it was requested as SET/METRIC.
    in_sets = {(row.task, row.metric) for row in chosen if row.set[:1] != "#"}
    tasks = [*AVERAGED, *(row.task for row in available)]  # dialogue states first, as RADDLE has them
    metrics = [name.rpartition("/")[2] for name in requested]

    def order(row: ResultRow) -> tuple[object, ...]:
        ranked = [*metrics, *shown_metrics(row.task), row.metric]
        return tasks.index(row.task), ranked.index(row.metric), row.metric, set_order(row.set, sets), row.group

    kept = {
        row.column: row
        for row in chosen
        if row.set[:1] != "#"
        or row.set == VARIANTS
        or (row.set == ALL and (row.task, row.metric) not in in_sets)
        or is_requested(row, requested)
    }
    return sorted(kept.values(), key=order)


def with_groups(columns: Sequence[ResultRow], rows: Iterable[ResultRow]) -> list[str]:
    """Returns the columns, those of seen and unseen services and of single services, and numbers over several runs."""
    wanted = {(row.task, row.set, row.metric) for row in columns if row.group == WHOLE}
    rows = list(rows)
    groups = (row.column for row in rows if row.group != WHOLE and (row.task, row.set, row.metric) in wanted)
    repeated = (row.column for row in rows if is_over_runs(row))
    return list(dict.fromkeys([*(row.column for row in columns), *groups, *repeated]))


def sensitivity_is_defined(*accuracies: float | None) -> bool:
    """Whether schema sensitivity is shown beside the accuracies on the original and over the variants."""
    return all(accuracy is None or accuracy >= FLOOR for accuracy in accuracies)


def is_over_runs(row: ResultRow) -> bool:
    """Whether a number is of several runs together, such as a standard deviation."""
    return _OVER_RUNS.fullmatch(row.metric) is not None


def floors_of_means(rows: Collection[ResultRow]) -> dict[tuple[str, str], float]:
    """Returns the noise floor of each mean over runs, by system and column."""
    runs = {(row.system, row.task): row.value or 1.0 for row in rows if row.metric == RUNS}
    return {
        (row.system, row.column.removesuffix(NOISE_FLOOR)): (row.value or 0.0) / math.sqrt(runs[row.system, row.task])
        for row in rows
        if row.metric.endswith(NOISE_FLOOR)
    }


class TaskResults(msgspec.Struct, frozen=True):
    """An output folder of ``parapet evaluate``: the results of a system in a task.

    Attributes:
      variants: the sets that ``#VARIANTS`` averages.
      options: the options of the evaluation.
      refused: set to the number of its items that were not scored, as the endpoint refused the requests.
      runs: the runs, whose means the rows are; of a single one, this folder. Their numbers include undefined ones.
      is_noisy: whether it is a single run of a system that may answer differently in another one.
    """

    system: str
    task: str
    path: str
    rows: list[ResultRow]
    variants: tuple[str, ...] = ()
    options: dict[str, Any] = {}
    refused: dict[str, int] = {}
    runs: Runs = {}
    is_noisy: bool = False


class _Manifest(msgspec.Struct, frozen=True):
    """The part of ``run.json`` that comparisons need."""

    pipeline: str
    options: dict[str, Any] = {}
    counts: dict[str, Any] = {}
    runs: dict[str, str] = {}  # the folders of runs to the hashes of their run.json
    is_deterministic: bool = True


def read_task(path: str, system: str = "") -> TaskResults:
    """Reads the numbers of a folder. Raises InputError if it is not a finished evaluation."""
    folder = layout.as_path(path)
    run = folder / "run.json"
    layout.check_published(path)
    if not layout.is_there(path) or not run.is_file():
        raise InputError("there is no finished output of 'parapet evaluate'", path)
    manifest = parse_line(limits.read_whole(run), msgspec.json.Decoder(_Manifest), str(run), "")
    if not manifest.pipeline.startswith("evaluate"):
        reason = f"contains the output of 'parapet {manifest.pipeline}': give the output of 'parapet evaluate'"
        raise InputError(reason, path)
    for name, digest in manifest.runs.items():
        if not (folder / name / "run.json").is_file() or sha256_of(folder / name / "run.json") != digest:
            raise InputError("has changed since: run 'parapet evaluate' again for all runs", folder / name)
    shown_run = None if manifest.runs else 0  # the numbers of all runs together, or of the only one
    known = read_results(folder / RESULTS)
    rows = defined([replace(row, system=system) for row in known if row.run == shown_run])
    folders = [str(folder / name) for name in manifest.runs] or [path]
    runs = {place: {row.column: row for row in known if row.run == i} for i, place in enumerate(folders)}
    task = manifest.pipeline.removeprefix("evaluate_")
    sets = {row.set for row in rows}
    variants = manifest.options.get("variants", ()) if task == "dst" else variants_of(sets)
    variants = tuple(variants) if VARIANTS in sets else ()
    refused = {name.partition("/")[2]: n for name, n in manifest.counts.items() if name.startswith("refused")}
    is_noisy = len(runs) == 1 and not manifest.is_deterministic
    return TaskResults(system, task, path, rows, variants, manifest.options, refused, runs, is_noisy)
