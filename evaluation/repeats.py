"""Several runs of a system: the numbers of all runs together, from the evaluations of the single runs, and their page."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from statistics import stdev
from typing import Any, NamedTuple

import numpy as np
from msgspec.structs import replace

from parapet.evaluation import noise, task
from parapet.evaluation.compare import kinds, significance, tables
from parapet.evaluation.compare.board import TaskResults, read_task
from parapet.evaluation.compare.significance import Parts
from parapet.evaluation.results import (
    RESULTS,
    SENSITIVITY,
    VARIANTS,
    WHOLE,
    ResultRow,
    macro_average,
    read_results,
    results_bytes,
)
from parapet.evaluation.sets import ALL, ORIGINAL, group_label, run_name
from parapet.schemas.layout import MANIFEST, as_path
from parapet.schemas.limits import read_whole
from parapet.transforms.reports.report import Report, Table, Tile, page
from parapet.transforms.reports.text import counted, number

Item = tuple[str, ...]  # what identifies a row: its dialogue, turn and frame

_KEYS = ("dialogue_id", "turn", "frame")
_FIRST = 4  # the first pass^k on pages, besides the last

TERMS = {
    "±": "The standard deviation over the runs (n − 1); the number before it is their mean.",
    "Noise floor": "The difference between two runs of the same system on the same set that chance exceeds in 5% of "
    "cases, in percentage points; and the same for two means over as many runs as there are.",
    "pass^k": "The share of tasks that are right in all of k runs, estimated without bias (tau-bench, Yao et al. 2024).",
    "Excess": "A system that answers at random is not sensitive to the wording, but its accuracy varies over the "
    "variants, too. So the formula of schema sensitivity is also applied to repeats of one wording, the original; the "
    "excess is what the variants have more. Both are computed over equally many values: the number of variants, or of "
    "runs if there are fewer.",
}


def over_runs(paths: Sequence[str]) -> list[ResultRow]:
    """Makes ``results.parquet`` of several runs: the numbers of each run, and those of all runs together.

    Args:
      paths: the output folders of ``parapet evaluate`` for the runs.

    Raises:
      InputError: one of them is not a finished evaluation.
    """
    results = [read_task(path) for path in paths]
    of_runs = [{row.column: row for row in read_results(as_path(path) / RESULTS)} for path in paths]
    rows = [replace(row, run=i) for i, of_run in enumerate(of_runs) for row in of_run.values()]
    shown = kinds.shown_metrics(results[0].task)
    wanted = [row.column for row in of_runs[0].values() if row.group == WHOLE and row.metric in shown]
    parts = [
        significance.read_rows(path, [of_run[column] for column in wanted if column in of_run], result.variants)
        for path, of_run, result in zip(paths, of_runs, results, strict=True)
    ]
    for column, first in of_runs[0].items():
        values = [of_run[column].value if column in of_run else None for of_run in of_runs]
        mean = replace(first, value=macro_average(values), low=None, high=None, run=None)
        rows.append(mean)
        if column in wanted and mean.value is not None:
            known = [value for value in values if value is not None]
            rows += _spread(mean, known, [of_run.get(column, ()) for of_run in parts])
    anywhere = replace(rows[0], set=ALL, group=WHOLE, low=None, high=None, n=None, run=None)
    rows.append(replace(anywhere, metric=noise.RUNS, value=float(len(paths))))
    if results[0].variants:
        of_noise = _noise_in_sensitivity(results)
        rows += [replace(anywhere, set=VARIANTS, metric=metric, value=value) for metric, value in of_noise.items()]
    return rows


def _spread(mean: ResultRow, values: Sequence[float], runs: Sequence[Parts]) -> Iterator[ResultRow]:
    """Yields the standard deviation of a number over the runs, its noise floor, and pass^k if items are right or wrong.

    Args:
      mean: its mean over the runs.
      values: its values in the runs.
      runs: the sums that it is the mean of in each run; empty if it is no mean.
    """
    yield replace(mean, metric=mean.metric + noise.SD, value=stdev(values))
    if not all(runs):
        return
    floor = noise.noise_floor([_contributions(parts) for parts in runs], values)
    yield replace(mean, metric=mean.metric + noise.FLOOR, value=floor)
    if mean.metric == kinds.main_metric(mean.task) and all(map(_is_right_or_wrong, runs)):
        items = sorted(set(runs[0][0]).intersection(*(parts[0] for parts in runs[1:])))
        right = [int(sum(parts[0][item][0] for parts in runs)) for item in items]
        for k in range(1, len(runs) + 1):
            value = noise.pass_power(right, len(runs), k)
            yield replace(mean, metric=f"{noise.PASS}{k}", value=value, n=len(items))


def _is_right_or_wrong(parts: Parts) -> bool:
    """Whether a number is a share of items that are right, without further structure."""
    return len(parts) == 1 and all(n == 1 and total in (0, 1) for total, n in parts[0].values())


def _contributions(parts: Parts) -> dict[str, float]:
    """Computes what each dialogue adds to a number, which is the mean of the means of its parts."""
    added: dict[str, float] = defaultdict(float)
    for sums in parts:
        n = sum(n for _, n in sums.values())
        for name, (total, _) in sums.items():
            added[name] += total / n / len(parts)
    return added


def _noise_in_sensitivity(results: Sequence[TaskResults]) -> dict[str, float]:
    """Computes what repeats of the original give by the formula of schema sensitivity, and how much the variants exceed it.

    Both are of as many values: of the variants, or of the runs if there are fewer.
    """
    variants, metric = results[0].variants, kinds.main_metric(results[0].task)
    runs = [_items(result.path, metric, (ORIGINAL, *variants)) for result in results]
    items = sorted(set.intersection(*(set(of_set) for run in runs for of_set in run.values())))
    if not items:
        return {}
    size, policy = min(len(variants), len(runs)), results[0].options.get("zero", "zero")

    def values(of_set: Mapping[Item, float]) -> list[float]:
        return [of_set[item] for item in items]

    repeats = np.array([values(run[ORIGINAL]) for run in runs])
    reworded = [np.array([values(run[name]) for name in variants]) for run in runs]
    of_noise = noise.mean_sensitivity(repeats, size, policy)
    of_wording = float(np.mean([noise.mean_sensitivity(of_run, size, policy) for of_run in reworded]))
    return {noise.NOISE: of_noise, noise.EXCESS: of_wording - of_noise}


def _items(path: str, metric: str, sets: Sequence[str]) -> dict[str, dict[Item, float]]:
    """Reads the values of a metric by set and item."""
    tables = significance.read_tables(path, {*_KEYS, metric})
    values: dict[str, dict[Item, float]] = {name: {} for name in sets}
    for name in sets:
        if name in tables and metric in tables[name].column_names:
            columns = [tables[name][key].to_pylist() for key in _KEYS if key in tables[name].column_names]
            known = zip(zip(*columns, strict=True), tables[name][metric].to_pylist(), strict=True)
            values[name] = {item: value for item, value in known if value is not None}
    return values


class Combined(NamedTuple):
    """The output of several runs: files, the header of ``run.json``, and lines for the terminal."""

    files: dict[str, bytes]
    header: dict[str, Any]
    summary: list[str]


def combine(paths: Sequence[str]) -> Combined:
    """Makes the output of several runs from the output folders of each, ``run-0``, ``run-1`` …"""
    manifests = [_read_json(path, MANIFEST) for path in paths]
    counts: Counter[str] = Counter()
    for manifest in manifests:
        counts.update(manifest["counts"])
    header = {key: value for key, value in manifests[0].items() if key not in ("files", "inputs")}
    digests = {run_name(i): task.sha256_of(as_path(path) / MANIFEST) for i, path in enumerate(paths)}
    rows = over_runs(paths)
    means = _mean([_read_json(path, "metrics.json") for path in paths])
    files = {
        RESULTS: results_bytes(rows),
        "metrics.json": task.json_bytes(means),
        "report.html": page(report(rows)).encode(),
    }
    return Combined(files, {**header, "counts": counts, "runs": digests}, summary(rows))


def _read_json(folder: str, name: str) -> dict[str, Any]:
    return dict(json.loads(read_whole(as_path(folder) / name)))


def _mean(values: Sequence[Any]) -> Any:
    """Averages the numbers of several ``metrics.json``; null where one of them has none."""
    if all(isinstance(value, dict) for value in values):
        return {key: _mean([value.get(key) for value in values]) for key in values[0]}
    return macro_average([value if isinstance(value, int | float) else None for value in values])


class Spread(NamedTuple):
    """A number of a system over several runs, in percentage points or on its scale of 100.

    Attributes:
      row: the mean.
      others: the numbers of all runs together by metric: ``accuracy_sd``, ``pass^2`` …
      runs: the number of runs.
    """

    row: ResultRow
    others: Mapping[str, float | None]
    runs: int

    def shown(self, ending: str, factor: float = 1.0) -> str:
        """Formats the standard deviation or the noise floor."""
        value = self.others.get(self.row.metric + ending)
        return kinds.shown(self.row.metric, None if value is None else factor * value)

    def shown_pass(self, k: int) -> str:
        """Formats pass^k; empty if it is of another metric."""
        is_main = self.row.metric == kinds.main_metric(self.row.task)
        value = self.others.get(f"{noise.PASS}{k}") if is_main else None
        return "" if value is None else kinds.shown(noise.PASS, value)


def spreads(rows: Sequence[ResultRow]) -> list[Spread]:
    """Lists the numbers that have a standard deviation over runs.

    Args:
      rows: the numbers of all runs together, of one system or several.
    """
    places: dict[tuple[str, str, str], dict[str, float | None]] = defaultdict(dict)
    for row in rows:
        if row.group == WHOLE:
            places[row.system, row.task, row.set][row.metric] = row.value
    numbers = []
    for row in rows:
        others = places[row.system, row.task, row.set]
        if row.group == WHOLE and row.metric + noise.SD in others:
            numbers.append(Spread(row, others, int(places[row.system, row.task, ALL][noise.RUNS] or 0)))
    return numbers


def spread_tables(rows: Sequence[ResultRow]) -> list[Table]:
    """Makes the tables of numbers over several runs, and of the noise in schema sensitivity; none without runs."""
    numbers = spreads(rows)
    most = {k for each in numbers for k in range(1, each.runs + 1) if k <= _FIRST or k == each.runs}
    powers = [k for k in sorted(most) if any(map(Spread.shown_pass, numbers, [k] * len(numbers)))]
    has_names = any(each.row.system for each in numbers)
    cells, of_noise = [], []
    for each in numbers:
        row, name = each.row, [each.row.system] * has_names
        spread = [kinds.shown(row.metric, row.value), each.shown(noise.SD)]
        floors = [each.shown(noise.FLOOR), each.shown(noise.FLOOR, each.runs**-0.5)]
        cells.append([*name, _label(row), f"{each.runs}", *spread, *floors, *map(each.shown_pass, powers)])
        if row.metric == SENSITIVITY and noise.EXCESS in each.others:
            is_undefined = kinds.is_undefined(row, [other for other in rows if other.system == row.system])
            noisy, excess = (kinds.shown(metric, each.others[metric]) for metric in (noise.NOISE, noise.EXCESS))
            of_noise.append([*name, *([task.NOT_DEFINED] * 3 if is_undefined else [spread[0], noisy, excess])])
    first = ["system"] * has_names
    columns = [*first, "number", "runs", "mean", "sd", "noise floor", "of means", *(f"{noise.PASS}{k}" for k in powers)]
    sensitivity = [*first, "schema sensitivity", "of repeats of the original", "excess"]
    texts = len(first) + 1
    made = [
        Table(title="Repeats", columns=columns, rows=cells, text_columns=texts, numbers_in=RESULTS),
        Table(title="Noise in schema sensitivity, %", columns=sensitivity, rows=of_noise, text_columns=len(first)),
    ]
    return [table for table in made if table.rows]


def _label(row: ResultRow) -> str:
    of_set = "mean over the variants" if row.set == VARIANTS and row.metric != SENSITIVITY else group_label(row.set)
    label = tables.metric_label(row.task, row.metric)
    return label if row.metric == SENSITIVITY else f"{label}, {of_set}"


def summary(rows: Sequence[ResultRow]) -> list[str]:
    """Formats the main numbers over the runs for the terminal."""
    numbers = spreads([row for row in rows if row.run is None])
    lines = []
    for each in [each for each in numbers if each.row.set in (ORIGINAL, VARIANTS)] or numbers:
        row = each.row
        line = (
            f"{_label(row)}, mean over {each.runs} runs: {kinds.shown(row.metric, row.value)} ± {each.shown(noise.SD)}"
        )
        if row.metric + noise.FLOOR in each.others:
            line += f"; noise floor of two runs: {each.shown(noise.FLOOR)} points"
        if power := each.shown_pass(each.runs):
            line += f"; {noise.PASS}{each.runs}: {power}"
        if row.metric == SENSITIVITY and noise.EXCESS in each.others:
            line += f"; {kinds.shown(noise.EXCESS, each.others[noise.EXCESS])} more than repeats of the original have"
        lines.append(line)
    return lines


def report(rows: Sequence[ResultRow]) -> Report:
    """Makes the page of several runs."""
    together = [row for row in rows if row.run is None]
    numbers = spreads(together)
    runs = sorted({row.run for row in rows if row.run is not None})
    wanted = [each.row for each in numbers]
    values = {(row.run, row.column): kinds.shown(row.metric, row.value) for row in rows}
    cells = [[run_name(run), *(values[run, row.column] for row in wanted)] for run in runs]
    single = Table(
        title="Single runs",
        columns=["run", *map(_label, wanted)],
        rows=cells,
        hrefs={(i, 0): f"{run_name(run)}/report.html" for i, run in enumerate(runs)},
        numbers_in=RESULTS,
    )
    tiles = [
        Tile(_label(each.row), f"{kinds.shown(each.row.metric, each.row.value)} ± {each.shown(noise.SD)}")
        for each in numbers
        if each.row.set in (ORIGINAL, VARIANTS)
    ]
    return Report(
        command="evaluate",
        title=f"{tables.capital(rows[0].task.replace('_', ' '))}, {counted(len(runs), 'run')}",
        headline=f"{_label(wanted[0])}, mean over {counted(len(runs), 'run')}: {tiles[0].value}" if tiles else "",
        lead="The same system on the same sets, several times.",
        tiles=tiles,
        sections=[*spread_tables(together), single],
        terms={**TERMS, **task.TERMS},
        links={RESULTS: task.FILES[RESULTS], "metrics.json": "the means over the runs"},
    )
