"""Several runs of a system: the numbers of all runs together, from evaluations of the single runs, and their page."""

import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from statistics import stdev
from typing import Any, NamedTuple

import numpy as np
from msgspec.structs import replace

from parapet.evaluation import results as scores
from parapet.evaluation import sets, statistics, task
from parapet.evaluation.compare import board
from parapet.evaluation.results import RESULTS, SENSITIVITY, VARIANTS, WHOLE, ResultRow, TaskResults, macro_average
from parapet.schemas.layout import MANIFEST, as_path
from parapet.schemas.limits import read_whole
from parapet.transforms.report.report import Report, Table, Tile, page
from parapet.transforms.report.text import counted

_FIRST = 4  # the first pass^k on pages, besides the last

TERMS = {
    "±": "The standard deviation over the runs (n − 1); the number before it is their mean.",
    "Noise floor": "The difference between two runs of the same system on the same set that chance exceeds in 5% of "
    "cases, in percentage points; and the same for two means over as many runs as there are.",
    "pass^k": "The share of tasks that are right in all of k runs, an unbiased estimate (tau-bench, Yao et al. 2024).",
    "Excess": "A system that answers at random is not sensitive to the wording, but its accuracy varies over the "
    "variants, too. So the formula of schema sensitivity is also applied to repeats of one wording, the original; the "
    "excess is what the variants have more, with its 95% interval. Both are computed over equally many values: the "
    "number of variants, or of runs if there are fewer.",
}


def over_runs(paths: Sequence[str]) -> list[ResultRow]:
    """Makes ``results.parquet`` of several runs: the numbers of each run, and those of all runs together.

    Args:
      paths: the output folders of ``parapet evaluate`` for the runs.

    Raises:
      InputError: one of them is not a finished evaluation.
    """
    results = [scores.read_task(path) for path in paths]
    runs = {path: of_run for result in results for path, of_run in result.runs.items()}
    of_runs = list(runs.values())
    rows = [replace(row, run=i) for i, of_run in enumerate(of_runs) for row in of_run.values()]
    shown = scores.shown_metrics(results[0].task)
    wanted = [row.column for row in of_runs[0].values() if row.group == WHOLE and row.metric in shown]
    parts = scores.read_runs(runs, wanted, results[0].variants)
    for column, first in of_runs[0].items():
        values = [of_run[column].value if column in of_run else None for of_run in of_runs]
        mean = replace(first, value=macro_average(values), low=None, high=None, run=None)
        rows.append(mean)
        if column in wanted and mean.value is not None:
            known = [value for value in values if value is not None]
            rows += _spread(mean, known, [of_run.get(column, ()) for of_run in parts])
    anywhere = replace(rows[0], set=sets.ALL, group=WHOLE, low=None, high=None, n=None, run=None)
    rows.append(replace(anywhere, metric=scores.RUNS, value=float(len(paths))))
    if any(row.metric == SENSITIVITY for row in rows):
        rows += _noise_in_sensitivity(results, replace(anywhere, set=VARIANTS))
    return rows


def _spread(mean: ResultRow, values: Sequence[float], runs: Sequence[statistics.Parts]) -> Iterator[ResultRow]:
    """Yields the standard deviation of a number over the runs, its noise floor, and pass^k if items are right or wrong.

    Args:
      mean: its mean over the runs.
      values: its values in the runs.
      runs: the sums that it is the mean of in each run; empty if it is no mean.
    """
    yield replace(mean, metric=mean.metric + scores.SD, value=stdev(values))
    if not all(runs):
        return
    floor = statistics.noise_floor([_contributions(parts) for parts in runs], values)
    yield replace(mean, metric=mean.metric + scores.NOISE_FLOOR, value=floor)
    if mean.metric == scores.main_metric(mean.task) and all(map(_is_right_or_wrong, runs)):
        items = sorted(set(runs[0][0]).intersection(*(parts[0] for parts in runs[1:])))
        right = [int(sum(parts[0][item][0] for parts in runs)) for item in items]
        for k in range(1, len(runs) + 1):
            value = statistics.pass_power(right, len(runs), k)
            yield replace(mean, metric=f"{scores.POWER}{k}", value=value, n=len(items))


def _is_right_or_wrong(parts: statistics.Parts) -> bool:
    """Whether a number is a share of items that are right, without further structure."""
    return len(parts) == 1 and all(n == 1 and total in (0, 1) for total, n in parts[0].values())


def _contributions(parts: statistics.Parts) -> dict[str, float]:
    """Computes what each dialogue adds to a number, which is the mean of the means of its parts."""
    added: dict[str, float] = defaultdict(float)
    for sums in parts:
        n = sum(n for _, n in sums.values())
        for name, (total, _) in sums.items():
            added[name] += total / n / len(parts)
    return added


def _noise_in_sensitivity(results: Sequence[TaskResults], anywhere: ResultRow) -> Iterator[ResultRow]:
    """Yields the schema sensitivity of repeats of the original, and how much that of the variants exceeds it.

    Both are of as many values: of the variants, or of the runs if there are fewer.

    Args:
      results: the runs.
      anywhere: a row with the system and the task.
    """
    variants, metric = results[0].variants, scores.main_metric(anywhere.task)
    dialogues, values = scores.read_values([result.path for result in results], metric, (sets.ORIGINAL, *variants))
    size, policy = min(len(variants), len(results)), results[0].options.get("zero", "zero")
    repeated = statistics.sensitivities(values[:, 0], size, policy)
    excess = np.mean([statistics.sensitivities(of_run[1:], size, policy) for of_run in values], axis=0) - repeated
    known = np.isfinite(excess)
    if known.any():
        replicates = statistics.means(statistics.replicated("0", [(dialogues, excess)]))
        low, high = statistics.interval(replicates[:, 0]) or (None, None)
        yield replace(anywhere, metric=scores.NOISE, value=float(repeated[known].mean()))
        yield replace(anywhere, metric=scores.EXCESS, value=float(excess[known].mean()), low=low, high=high)


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
    digests = {sets.run_name(i): scores.sha256_of(as_path(path) / MANIFEST) for i, path in enumerate(paths)}
    rows = over_runs(paths)
    together = scores.defined([row for row in rows if row.run is None])
    files = {
        RESULTS: scores.results_bytes(rows),
        "metrics.json": task.json_bytes(_mean([_read_json(path, "metrics.json") for path in paths])),
        "report.html": page(report(together)).encode(),
    }
    return Combined(files, {**header, "counts": counts, "runs": digests}, summary(together))


def _read_json(folder: str, name: str) -> dict[str, Any]:
    return dict(json.loads(read_whole(as_path(folder) / name)))


def _mean(values: Sequence[Any]) -> Any:
    """Averages the numbers of several ``metrics.json``; null where one of them has none."""
    if all(isinstance(value, dict) for value in values):
        return {key: _mean([value.get(key) for value in values]) for key in values[0]}
    return macro_average([value if isinstance(value, int | float) else None for value in values])


class Spread(NamedTuple):
    """A number of a system over several runs.

    Attributes:
      row: the mean.
      others: the other numbers of all runs together on the same set, by metric: ``accuracy_sd``, ``pass^2`` …
      runs: the number of runs.
    """

    row: ResultRow
    others: Mapping[str, ResultRow]
    runs: int

    def shown(self, metric: str, factor: float = 1.0) -> str:
        """Formats one of the other numbers; empty if there is none."""
        row = self.others.get(metric)
        return "" if row is None or row.value is None else scores.shown(self.row.metric, factor * row.value)

    @property
    def mean(self) -> str:
        """The mean and the standard deviation."""
        metric, value = self.row.metric, self.row.value
        is_known = value is not None
        return f"{board.with_unit(metric, value)} ± {self.shown(metric + scores.SD)}" if is_known else task.NOT_DEFINED

    @property
    def compared(self) -> list[str]:
        """The schema sensitivity of equally many variants and repeats, the excess and its interval, if defined."""
        repeated, excess = self.others.get(scores.NOISE), self.others.get(scores.EXCESS)
        if self.row.metric != SENSITIVITY or self.row.value is None or repeated is None or excess is None:
            return []
        reworded = (repeated.value or 0.0) + (excess.value or 0.0)
        values = (reworded, repeated.value, excess.value, excess.low, excess.high)
        *cells, low, high = (scores.shown(SENSITIVITY, value) for value in values)
        return [*cells, f"{low} to {high}"]

    @property
    def label(self) -> str:
        """What it is a number of."""
        label = board.metric_label(self.row.task, self.row.metric)
        if self.row.metric == SENSITIVITY:
            return label
        return f"{label}, {'mean over the variants' if self.row.set == VARIANTS else sets.group_label(self.row.set)}"

    def power(self, k: int) -> str:
        """Formats pass^k, which belongs to the main metric; empty if there is none."""
        return self.shown(f"{scores.POWER}{k}") if self.row.metric == scores.main_metric(self.row.task) else ""


def spreads(rows: Sequence[ResultRow]) -> list[Spread]:
    """Lists the numbers that have a standard deviation over runs.

    Args:
      rows: the numbers of all runs together, of one system or several.
    """
    places: dict[tuple[str, str, str], dict[str, ResultRow]] = defaultdict(dict)
    whole = [row for row in rows if row.group == WHOLE]
    for row in whole:
        places[row.system, row.task, row.set][row.metric] = row
    return [
        Spread(row, others, int(places[row.system, row.task, sets.ALL][scores.RUNS].value or 0))
        for row in whole
        if row.metric + scores.SD in (others := places[row.system, row.task, row.set])
    ]


def spread_tables(rows: Sequence[ResultRow]) -> list[Table]:
    """Makes the tables of numbers over several runs, and of the noise in schema sensitivity; none without runs."""
    numbers = spreads(rows)
    most = max((each.runs for each in numbers), default=0)
    powers = [k for k in range(1, most + 1) if (k <= _FIRST or k == most) and any(each.power(k) for each in numbers)]
    first = ["system"] if any(each.row.system for each in numbers) else []
    cells, of_noise = [], []
    for each in numbers:
        name, floor = [each.row.system] if first else [], each.row.metric + scores.NOISE_FLOOR
        floors = [each.shown(floor), each.shown(floor, each.runs**-0.5)]
        cells.append([*name, each.label, f"{each.runs}", each.mean, *floors, *map(each.power, powers)])
        if each.compared:
            reworded, repeated, excess, interval = each.compared
            value = scores.shown(SENSITIVITY, each.row.value)
            of_noise.append([*name, value, reworded, repeated, f"{excess}\n{interval}"])
    columns = [*first, "number", "runs", "mean", "noise floor", "of means", *(f"{scores.POWER}{k}" for k in powers)]
    compared = [*first, "of the variants", "of as many as repeats", "of repeats of the original", "excess"]
    texts = len(first)
    both = (
        Table(title="Repeats", columns=columns, rows=cells, text_columns=texts + 1, numbers_in=RESULTS),
        Table(title="Noise in schema sensitivity, %", columns=compared, rows=of_noise, text_columns=texts),
    )
    return [table for table in both if table.rows]


def main_of(numbers: Sequence[Spread]) -> list[Spread]:
    """Lists the numbers that matter most: those on the original, over the variants, and schema sensitivity last."""
    main = [each for each in numbers if each.row.set in (sets.ORIGINAL, VARIANTS)] or [*numbers]
    return sorted(main, key=lambda each: (each.row.metric == SENSITIVITY, each.row.set != sets.ORIGINAL))


def summary(rows: Sequence[ResultRow]) -> list[str]:
    """Formats the main numbers over the runs for the terminal.

    Args:
      rows: the numbers of all runs together.
    """
    numbers = spreads(rows)
    lines = []
    for each in main_of(numbers):
        parts = [f"{each.label}, mean over {each.runs} runs: {each.mean}"]
        if floor := each.shown(each.row.metric + scores.NOISE_FLOOR):
            parts.append(f"noise floor of two runs {floor} points")
        if power := each.power(each.runs):
            parts.append(f"{scores.POWER}{each.runs} {power}%")
        if each.compared:
            reworded, repeated, excess, interval = each.compared
            parts.append(f"of repeats of the original {repeated}%, of as many variants {reworded}%")
            parts.append(f"excess {excess} points ({interval})")
        lines.append("; ".join(parts))
    return lines


def report(rows: Sequence[ResultRow]) -> Report:
    """Makes the page of several runs from the numbers of all of them together."""
    main = main_of(spreads(rows))
    runs = counted(main[0].runs, "run")
    pages = {f"{sets.run_name(i)}/report.html": f"page of run {i}" for i in range(main[0].runs)}
    return Report(
        command="evaluate",
        title=f"{board.capital(rows[0].task.replace('_', ' '))}: {runs}",
        headline=f"{board.capital(main[0].label)}, mean over {runs}: {main[0].mean}",
        lead="One system on the same sets, several times.",
        tiles=[Tile(each.label, each.mean) for each in main],
        sections=spread_tables(rows),
        terms={**TERMS, **task.TERMS},
        links={RESULTS: task.FILES[RESULTS], "metrics.json": "the means over the runs", **pages},
    )
