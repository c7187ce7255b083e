"""Write a composition: the audit of every answer, the review pages, the report, and the files of the task itself."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import reduce
from typing import Any

import apache_beam as beam
import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
from apache_beam.transforms.window import GlobalWindow
from apache_beam.utils.windowed_value import WindowedValue

from parapet.schemas.errors import run_header
from parapet.schemas.layout import STAGING
from parapet.schemas.rows import WRITERS, Assignment, DeadLetter
from parapet.transforms.core import files
from parapet.transforms.crowd.review import review_order, review_pages, review_sheet
from parapet.transforms.crowd.task import Answer, CrowdTask, Notes, Outcome, total
from parapet.transforms.crowd.work_times import TABLE, work_times
from parapet.transforms.crowd.worker_ids import without_ids
from parapet.transforms.report.numbers import sections_of
from parapet.transforms.report.report import Text, page
from parapet.transforms.report.text import counted

AUDIT = "responses.parquet"
_ROW_GROUP_SIZE = 1 << 16


def batch_files(
    task: CrowdTask[Any], outcomes: Sequence[Outcome], dead: Sequence[DeadLetter], notes: Notes
) -> Iterator[tuple[str, bytes | Iterable[bytes]]]:
    """Yield (path, content) of statistics, report, review sheet and pages, dead letters and the task's own files.

    Args:
      task: the task.
      outcomes: one for each service or turn.
      dead: all dead letters.
      notes: those on all assignments and answers.

    Raises:
      RuntimeError: an answer was lost after it was vetted, or is counted twice.
    """
    ended = sum(outcome.answers.total() for outcome in outcomes)
    if ended != notes.counts["vetted"]:
        raise RuntimeError(
            f"the counts do not balance for answers: {ended:,} of {notes.counts['vetted']:,} have a disposition"
        )
    letters = sorted(map(without_ids, dead), key=msgspec.json.encode)
    results = task.results(sorted(outcomes, key=lambda outcome: outcome.name), letters)
    results.statistics["work"] = work_times(notes.work)
    warnings = notes.warnings()
    if warnings:
        results.statistics["warnings"] = warnings
    writers = [
        f"{counted(n, 'answer')}: {WRITERS[source]}." for source, n in total(o.sources for o in outcomes).items()
    ]
    report = msgspec.structs.replace(
        results.report,
        notes=[*results.report.notes, *(f"{text}." for text in warnings)],
        sections=[
            *results.report.sections,
            *sections_of(results.statistics, TABLE),
            *([Text(title="Who wrote the answers", paragraphs=writers)] if writers else []),
        ],
    )
    reviews = sorted((item for outcome in outcomes for item in outcome.reviews), key=review_order)
    yield "statistics.json", (json.dumps(results.statistics, indent=2) + "\n").encode()
    yield "report.html", page(report).encode()
    yield "dead_letters.jsonl", (msgspec.json.encode(letter) + b"\n" for letter in letters)
    yield "review.csv", review_sheet(reviews, task.explanations)
    yield from review_pages(reviews, task.explanations, command=task.command)
    yield from results.files.items()


def audit_table(answers: Iterable[Answer], schema: pa.Schema) -> pa.Table:
    """Return the rows of some answers in the columns of ``responses.parquet``."""
    return pa.Table.from_pylist([answer.row() for answer in answers], schema)


def write_audit(output: str, tables: Iterable[pa.Table], schema: pa.Schema) -> files.Written:
    """Write ``responses.parquet`` into staging from tables of one or more rows, which are gathered into row groups."""
    with files.staged(output, AUDIT) as handle:
        hashing = files.HashingWriter(handle)
        with pq.ParquetWriter(hashing, schema, compression="zstd") as writer:
            gathered, rows = list[pa.Table](), 0
            for table in tables:
                gathered.append(table)
                rows += table.num_rows
                while rows >= _ROW_GROUP_SIZE:
                    whole = pa.concat_tables(gathered)
                    writer.write_table(whole[:_ROW_GROUP_SIZE])
                    gathered, rows = [whole[_ROW_GROUP_SIZE:]], rows - _ROW_GROUP_SIZE
            if rows:
                writer.write_table(pa.concat_tables(gathered))
    return hashing.written(AUDIT)


class WriteComposition(beam.PTransform):
    """Writes and publishes a composition.

    The answers to one service or turn are written to a part in staging; the last step copies the parts into
    ``responses.parquet`` in the order of names, and so holds one of them at a time.

    Args:
      task: the task.
      assignments: all assignments, without copies.
      dead: all dead letters.
      written: further files that were written into staging.
      vetted: a collection with an element for each vetted answer; by default, the answers of the outcomes.
    """

    def __init__(
        self,
        task: CrowdTask[Any],
        assignments: beam.PCollection[Assignment],
        dead: Sequence[beam.PCollection[DeadLetter]],
        written: Sequence[beam.PCollection] = (),
        vetted: beam.PCollection | None = None,
    ) -> None:
        super().__init__()
        self.task, self.assignments, self.dead, self.written, self.vetted = task, assignments, dead, written, vetted

    def expand(self, outcomes: beam.PCollection) -> beam.PCollection:
        """Convert a PCollection of (outcome, answers) to the manifest."""
        vetted = self.vetted
        if vetted is None:
            vetted = outcomes | "All answers" >> beam.FlatMap(lambda pair: pair[1])
        nothing = outcomes.pipeline | "No files" >> beam.Create([], reshuffle=False)
        whole = [
            outcomes | "Part" >> beam.Map(_write_part, self.task.output, self.task.audit_schema),
            self.assignments | "Notes" >> beam.ParDo(_Note(Notes.add)),
            vetted | "Vetted" >> beam.ParDo(_Note(lambda notes, _: notes.counts.update(vetted=1))),
            self.dead | "Dead letters" >> beam.Flatten(),
            [nothing, *self.written] | "Written" >> beam.Flatten(),
        ]
        once = outcomes.pipeline | "Once" >> beam.Create([self.task], reshuffle=False)
        manifest = once | "Whole batch" >> beam.Map(_write_batch, *map(beam.pvalue.AsList, whole))
        return manifest | "Publish" >> files.PublishStaged(self.task.output)


class _Note(beam.DoFn):
    """Adds up notes on the elements of a bundle."""

    def __init__(self, add: Callable[[Notes, Any], None]) -> None:
        super().__init__()
        self.add = add

    def start_bundle(self) -> None:
        self.notes = Notes()

    def process(self, element: Any) -> None:
        self.add(self.notes, element)

    def finish_bundle(self) -> Iterator[WindowedValue]:
        yield WindowedValue(self.notes, 0, [GlobalWindow()])


def _write_part(pair: tuple[Outcome, Sequence[Answer]], output: str, schema: pa.Schema) -> tuple[str, Outcome]:
    outcome, answers = pair
    path = f"parts/{hashlib.sha256(outcome.name.encode()).hexdigest()}"
    with files.staged(output, path) as handle, pa.ipc.new_stream(handle, schema) as stream:
        stream.write_table(audit_table(answers, schema))
    return path, outcome


def _write_batch(
    task: CrowdTask[Any],
    parts: Sequence[tuple[str, Outcome]],
    notes: Sequence[Notes],
    vetted: Sequence[Notes],
    dead: Sequence[DeadLetter],
    written: Sequence[files.Written],
) -> dict[str, Any]:
    """Write the files about all answers into staging, and return the manifest."""
    folder = files.join(task.output, STAGING)
    parts = sorted(parts, key=lambda part: part[1].name)
    data = (files.read_bytes(files.join(folder, path)) for path, _ in parts)
    tables = (pa.ipc.open_stream(part).read_all() for part in data)
    total_notes = reduce(Notes.merged, [*notes, *vetted], Notes())
    return stage_batch(task, tables, [outcome for _, outcome in parts], dead, total_notes, written)


def stage_batch(
    task: CrowdTask[Any],
    tables: Iterable[pa.Table],
    outcomes: Sequence[Outcome],
    dead: Sequence[DeadLetter],
    notes: Notes,
    written: Sequence[files.Written] = (),
) -> dict[str, Any]:
    """Write all files but those in ``written`` into staging, and return the manifest.

    Args:
      task: the task.
      tables: the answers to each service or turn, in the order of names.
      outcomes: one for each service or turn, in that order.
      dead: all dead letters.
      notes: those on all assignments and answers.
      written: further files that were written into staging.
    """
    batch = [write_audit(task.output, tables, task.audit_schema)]
    batch += [files.write_staged(task.output, path, data) for path, data in batch_files(task, outcomes, dead, notes)]
    counts = Counter(assignments=notes.counts["assignments"], answers_given=notes.counts["answers"])
    for outcome in outcomes:
        counts.update(outcome.counts())
    header = {**run_header(task.command, task.method), **task.header}
    return files.manifest_of(header, {name: n for name, n in sorted(counts.items()) if n}, [*batch, *written])
