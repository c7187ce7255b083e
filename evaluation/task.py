"""The outline that the tasks of ``parapet evaluate`` and ``parapet compare`` share: options, inputs, scores, outputs.

A :class:`Task` is a struct whose fields are its options. It reads its inputs into typed records and scores them; a
:class:`Result` has the files and lines that come of it. Writing them, ``run.json`` and the terminal are the same for
all tasks (``parapet.pipelines.evaluate.run_task``). Dialogue state tracking, whose corpora may be large, is a Beam
pipeline of its own: ``parapet.evaluation.dst.scoring``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar, Generic, TypeVar

import msgspec

from parapet.evaluation.writing import ROWS, json_bytes, sha256_of
from parapet.schemas.distribution import run_header
from parapet.schemas.layout import as_path
from parapet.transforms.report import Report, page

Inputs = TypeVar("Inputs")
Metrics = dict[str, dict[str, float | None]]  # metrics.json: group (#ALL, a set) to metric to value; None: not defined
Stage = Callable[[str], None]  # is called with the name of what is done next


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """What a task makes of its inputs.

    Attributes:
      files: the outputs, path below the output folder to content.
      summary: lines for the terminal.
      options: those that shape the content, for ``run.json``; ``counts`` how much was scored.
      plugins: the record of plug-ins that took part, see ``parapet.transforms.plugins.recorded``.
      warnings: what the user should look at.
    """

    files: dict[str, bytes]
    summary: list[str]
    options: Mapping[str, object]
    counts: Mapping[str, int] = {}
    plugins: Mapping[str, object] = {}
    warnings: Sequence[str] = ()


class Task(msgspec.Struct, Generic[Inputs], frozen=True, kw_only=True):
    """A task: its options, as fields."""

    name: ClassVar[str]  # of the pipeline in run.json

    def inputs(self) -> dict[str, str | None]:
        """Flag to the place that it names. None may be the output folder; of files ``run.json`` has the hash."""
        return {}

    def read(self) -> Inputs:
        """Reads everything that is scored. Raises InputError where it cannot be."""
        raise NotImplementedError

    def score(self, inputs: Inputs, stage: Stage) -> Result:
        """Scores what was read."""
        raise NotImplementedError

    def header(self, result: Result) -> dict[str, object]:
        """What ``run.json`` has besides the files."""
        header = {**run_header(self.name, result.options), **result.plugins}
        if self.inputs():
            places = {flag: as_path(path) for flag, path in self.inputs().items() if path is not None}
            header["inputs"] = {flag: sha256_of(path) for flag, path in places.items() if path.is_file()}
            header["counts"] = result.counts
        return header


FILES = {
    "metrics.json": "the metrics by set",
    "details.json": "what the metrics are made of",
    ROWS: "a row for every item that was scored",
}


def files_of(metrics: Metrics, details: object, rows: bytes, report: Report) -> dict[str, bytes]:
    """The files that every task of ``parapet evaluate`` writes; ``details`` may be a struct."""
    return {
        "metrics.json": json_bytes(metrics),
        "details.json": json_bytes(details),
        ROWS: rows,
        "report.html": page(report).encode(),
    }
