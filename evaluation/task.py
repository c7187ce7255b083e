"""The common structure of the tasks of ``parapet evaluate`` and ``parapet compare``: options, inputs, scores, outputs.

A :class:`Task` is a struct whose fields are its options. It reads its inputs into typed records and scores them; a
:class:`Result` has the resulting files and lines. Writing them, ``run.json`` and the terminal are the same for all
tasks (``parapet.pipelines.evaluate.Evaluation``). Dialogue state tracking, whose corpora may be large, is a separate
Beam pipeline: ``parapet.evaluation.dst.scoring``. Training writes its JSON and folders with the same functions.
"""

import json
import math
from collections.abc import Callable, Mapping, Sequence, Sized
from typing import Any, ClassVar, Generic, TypeVar

import msgspec

from parapet.evaluation.results import FLOOR, RESULTS, ResultRow, results_bytes, sha256_of
from parapet.evaluation.sets import ALL, MEAN, ORIGINAL, Key, group_label, mixes
from parapet.schemas.errors import InputError, run_header
from parapet.schemas.layout import as_path
from parapet.transforms.report.report import Dots, Report, Section, Table, Tile, page, sets_chart
from parapet.transforms.report.text import counted, number, percent

ROWS = "rows.parquet"


def rows_bytes(
    keys: Sequence[Key],
    metrics: Mapping[str, Sequence[float | None]],
    texts: Mapping[str, Sequence[str | None]] | None = None,
) -> bytes:
    """Encodes ``rows.parquet``, with a row for each scored item, which ``parapet compare`` reads.

    Its columns are ``set``, ``dialogue_id`` and ``turn``, the texts, and a column of float64 for each metric, null if
    the row does not have it. The metric is the mean of the other values.

    Args:
      keys: the keys of the rows, in order.
      metrics: name to its value in each row.
      texts: name to its text in each row.
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
    """Encodes JSON for the outputs: sorted keys, numbers in full precision, null for undefined numbers."""
    builtins = _without_nan(msgspec.to_builtins(value))
    return (json.dumps(builtins, indent=2, sort_keys=True, ensure_ascii=False) + "\n").encode()


def _without_nan(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nan(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_without_nan(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def publish(output: str, files: Mapping[str, bytes], header: Mapping[str, object]) -> None:
    """Writes the files under temporary names, moves them into place, and writes ``run.json`` last.

    Args:
      output: the folder, local or in a bucket.
      files: path below it to content.
      header: the content of ``run.json`` besides the files: at least ``pipeline``.

    Raises:
      InputError: the folder cannot be written, or has another command's output, or files that were changed by hand.
    """
    from parapet.transforms.core import files as whole  # imports Beam, which takes a second, for buckets

    whole.prepare(output, str(header["pipeline"]))
    written = [whole.write_staged(output, relative, files[relative]) for relative in sorted(files)]
    listed = {path: {"bytes": size, "sha256": digest} for path, digest, size in written}
    whole.publish(output, {**header, "files": listed})


Inputs = TypeVar("Inputs")
Metrics = dict[str, dict[str, float | None]]  # metrics.json: group (#ALL, a set) to metric to value; None: undefined
Stage = Callable[[str], None]  # is called with the name of each stage


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a task.

    Attributes:
      files: the outputs, path below the output folder to content.
      summary: lines for the terminal.
      options: options that determine the content, for ``run.json``; ``counts`` are the numbers of scored items.
      plugins: the record of the plug-ins used, see ``parapet.transforms.core.plugins.recorded``.
      warnings: messages that the user should act on.
      refused: set to the number of items that are not scored, see :func:`refused_notes`.
    """

    files: dict[str, bytes]
    summary: list[str]
    options: Mapping[str, object]
    counts: Mapping[str, int] = {}
    plugins: Mapping[str, object] = {}
    warnings: Sequence[str] = ()
    refused: Mapping[str, int] = {}


class Task(msgspec.Struct, Generic[Inputs], frozen=True, kw_only=True):
    """A task with its options as fields."""

    name: ClassVar[str]  # the name of the pipeline in run.json

    def inputs(self) -> dict[str, str | None]:
        """Returns flag to path. No path may be the output folder; ``run.json`` has the hashes of files."""
        return {}

    def read(self) -> Inputs:
        """Reads the inputs. Raises InputError if they cannot be read."""
        raise NotImplementedError

    def score(self, inputs: Inputs, stage: Stage) -> Result:
        """Scores the inputs."""
        raise NotImplementedError

    def header(self, result: Result) -> dict[str, object]:
        """Makes the content of ``run.json`` besides the files."""
        header = {**run_header(self.name, result.options), **result.plugins}
        if self.inputs():
            places = {flag: as_path(path) for flag, path in self.inputs().items() if path is not None}
            header["inputs"] = {flag: sha256_of(path) for flag, path in places.items() if path.is_file()}
            refused = {f"refused/{name}".rstrip("/"): n for name, n in result.refused.items()}
            header["counts"] = {**result.counts, **refused}
        return header


FILES = {
    "metrics.json": "the metrics by set",
    RESULTS: "a row for every number, which `compare` reads",
    "details.json": "what the metrics are made of",
    ROWS: "a row for every item that was scored",
}
TERMS = {"All": "All items together, whatever their set.", "Mean": "The unweighted mean over the sets."}
# Metrics that are no shares, unlike those shown in percent; with their decimal places if fixed.
NOT_SHARES = {"bleu": None, "combined": None, "mean_reciprocal_rank": 3}

Headings = Mapping[str, str]  # metric or count to its heading

NOT_DEFINED = "not defined"
UNDEFINED_SENSITIVITY = (
    f"It is not defined where the accuracy on the original, or its mean over the variants, is below {FLOOR:.0%}: a "
    "system that is nearly always wrong is not sensitive to the wording either."
)

NOISE_REMARK = (
    "Part of the schema sensitivity is noise, since the system is not known to give the same answers in each run and "
    "there is only one run: --repeats shows how much."
)


def relative_change(value: float, original: float, low: float | None) -> float | None:
    """Computes a relative change; None if the original is below :data:`FLOOR`, or ``low``, its interval's end, is 0."""
    return (value - original) / original if low is not None and low > 0 and original >= FLOOR else None


def change_text(value: float, original: float, low: float | None) -> str:
    """Formats a change of a share: ``-7.7 points (-27.5%)``, without the second part if there is no relative change."""
    relative = relative_change(value, original, low)
    of_original = "" if relative is None else f" ({percent(relative, signed=True)})"
    return f"{number(100 * (value - original), 1, signed=True)} points{of_original}"


def main_group(metrics: Metrics) -> str:
    """Returns the group of the key numbers: the original, or else the mean over several sets."""
    return next(name for name in (ORIGINAL, MEAN, ALL) if name in metrics)


def with_group(label: str, metrics: Metrics, group: str, metric: str) -> str:
    """Adds to a metric's label what it is of: ``accuracy, original``, ``F1, mean over 3 sets``; nothing for one set."""
    sets = [name for name, values in metrics.items() if name[:1] != "#" and metric in values]
    if group == MEAN:
        return f"{label}, mean over {counted(len(sets), 'set')}"
    return label if group == ALL or len(sets) < 2 else f"{label}, {group}"


def files_of(
    metrics: Metrics, results: Sequence[ResultRow], details: object, rows: bytes, report: Report
) -> dict[str, bytes]:
    """Makes the files that every task of ``parapet evaluate`` writes; ``details`` may be a struct."""
    return {
        RESULTS: results_bytes(results),
        "metrics.json": json_bytes(metrics),
        "details.json": json_bytes(details),
        ROWS: rows,
        "report.html": page(report).encode(),
    }


def shown(metric: str, value: Any, digits: int = 2) -> str:
    """Formats a value for tables, tiles and the terminal: texts and counts as they are, shares in percent."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    return number(value, NOT_SHARES[metric] or digits) if metric in NOT_SHARES else percent(value, digits)


def line(name: str, values: Mapping[str, Any], headings: Headings, digits: int = 2) -> str:
    """Formats the line of the terminal about a group: ``typos: accuracy 93.10%, macro-F1 92.87%``."""
    return f"{name}: " + ", ".join(f"{label} {shown(key, values.get(key), digits)}" for key, label in headings.items())


def group_table(
    title: str, first: str, groups: Mapping[str, Mapping[str, Any]], headings: Headings, **options: Any
) -> Table:
    """Makes a table with a row for each group (a set, a service, an act), and a column for each heading.

    Args:
      title: the title of the table; ``first`` is the heading of the first column, the names of the groups.
      groups: name to its values.
      headings: the columns, in order.
      options: further fields of the table.
    """
    rows = [[name, *(shown(key, numbers.get(key)) for key in headings)] for name, numbers in groups.items()]
    return Table(title=title, columns=[first, *headings.values()], rows=rows, **options)


def group_dots(title: str, groups: Mapping[str, Mapping[str, Any]], metrics: Headings) -> Dots:
    """Charts some metrics of the groups that have them, without mixes."""
    mixed = mixes(groups.keys())
    rows = [
        (name, label, numbers[key], None, None)
        for name, numbers in groups.items()
        for key, label in metrics.items()
        if key in numbers and name not in mixed
    ]
    return sets_chart(title[:1].upper() + title[1:], rows)


def refused_notes(refused: Mapping[str, int], unit: str = "request") -> list[str]:
    """Says how many items of each set are not scored, because the endpoint refused the requests for them."""
    text = "refused by the endpoint, not scored: run the prediction again to ask for them again"
    return [f"{name + ': ' if name else ''}{counted(n, unit)} {text}" for name, n in refused.items()]


def check_scored(items: Sized, path: str) -> None:
    """Raises InputError if there is nothing to score, because all requests were refused."""
    if not items:
        raise InputError("has no answer to score: the endpoint refused all requests", path, "--predictions")


def set_report(
    metrics: Metrics,
    headings: Headings,
    *,
    sizes: Mapping[str, Mapping[str, int]],
    sections: Sequence[Section] = (),
    tiles: Headings | None = None,
    facts: Mapping[str, str] = {},
    chart: Headings | None = None,
    overall: str = "",
    terms: Mapping[str, str] = {},
    links: Mapping[str, str] = {},
    refused: Mapping[str, int] = {},
    **texts: Any,
) -> Report:
    """Makes the report of a task: the metrics of all sets, then the sections of the task.

    Args:
      metrics: ``metrics.json``; groups in ``sizes`` and the mean are shown.
      headings: the columns: metrics, and counts of ``sizes``.
      sizes: counts of each group, by name.
      sections: the sections of the task.
      tiles: the numbers at the top, of the group ``overall``; None for the metrics of ``headings``.
      facts: further tiles, already formatted.
      chart: the metrics to chart if there are several sets.
      overall: the group of the tiles; by default that of :func:`main_group`.
      terms: the terms of the task.
      links: further files.
      refused: set to the number of items that are not scored, see :func:`refused_notes`.
      texts: title, headline, lead and notes of the report.
    """
    if refused:
        sizes = {name: {**counts, "refused": refused.get(name, 0)} for name, counts in sizes.items()}
        sizes |= {ALL: {**sizes[ALL], "refused": sum(refused.values())}} if ALL in sizes else {}
        headings = {**headings, "refused": "refused"}
        texts["notes"] = [*texts.get("notes", ()), *refused_notes(refused)]
    groups = {
        group_label(name): {**values, **sizes.get(name, {})}
        for name, values in metrics.items()
        if name in sizes or name == MEAN
    }
    overall = overall or main_group(metrics)
    of_all = metrics[overall]
    tiles = {key: label for key, label in headings.items() if key in of_all} if tiles is None else tiles
    has_sets = len(groups.keys() - {group_label(ALL)}) > 1
    drawn = [group_dots(f"{' and '.join(chart.values())} by set", groups, chart)] if chart and has_sets else []
    return Report(
        command="evaluate",
        tiles=[
            *(
                Tile(with_group(label, metrics, overall, key), shown(key, of_all.get(key)))
                for key, label in tiles.items()
            ),
            *(Tile(label, value) for label, value in facts.items()),
        ],
        sections=[*drawn, group_table("Sets", "set", groups, headings, numbers_in="metrics.json"), *sections],
        terms={**terms, **TERMS},
        links={**FILES, **links},
        **texts,
    )
