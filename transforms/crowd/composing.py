"""The outline of ``compose`` and ``compose_variations``: answers are read, merged, settled, written with an audit.

Each pipeline has a transform of its own that settles the answers, and a :class:`CrowdRun` that describes the results.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar, Protocol, TypeVar

import apache_beam as beam
import pyarrow as pa

from parapet.schemas.responses import DeadLetter
from parapet.transforms import files
from parapet.transforms.counts import Counts, Invariant
from parapet.transforms.crowd import audit
from parapet.transforms.crowd.ingest.files import Sources
from parapet.transforms.crowd.reading import AGREEMENT, COUNTS, DEAD_LETTERS, ReadAnswers
from parapet.transforms.crowd.review import ReviewItem, review_csv, review_pages
from parapet.transforms.crowd.summary import dead_letters_jsonl
from parapet.transforms.crowd.worker_key import load_worker_key
from parapet.transforms.report import Report, page
from parapet.transforms.runs import FinishRun, Outputs, RunInfo

# The outputs of a transform that settles answers, besides its dead letters and counts.
FILES, AUDIT, SUMMARY = "files", "audit", "summary"

Agreement = tuple[dict[str, Any], bytes]  # of two reviewers, and the sheet of what a third has to settle


class Summary(Protocol):
    """What the metadata files need of one service, or of one dialogue."""

    @property
    def reviews(self) -> list[ReviewItem]:
        """The answers held for review."""


SummaryT = TypeVar("SummaryT", bound=Summary)


class CrowdRun(Protocol[SummaryT]):
    """One pipeline's own side of the outline.

    Attributes:
      pipeline: the command.
      audit_schema: of ``responses.parquet``.
      invariants: what must hold of the counts. ``recorded`` are the names of those that ``run.json`` has.
    """

    pipeline: ClassVar[str]
    audit_schema: ClassVar[pa.Schema]
    invariants: ClassVar[Sequence[Invariant]]
    recorded: ClassVar[Sequence[str]]

    def info(self, output: str) -> RunInfo:
        """The run, its options those that shape the result."""

    def explanations(self) -> Mapping[str, str]:
        """Reason id to a sentence for reviewers and requesters."""

    def ordered(self, summaries: Iterable[SummaryT]) -> list[SummaryT]:
        """The summaries in the order of the corpus."""

    def statistics(
        self, summaries: Sequence[SummaryT], dead_letters: int, agreement: dict[str, Any] | None
    ) -> dict[str, Any]:
        """``statistics.json``; with the agreement of two reviewers where there were two."""

    def report(self, statistics: Mapping[str, Any], summaries: Sequence[SummaryT]) -> Report:
        """Of the page."""

    def shortfall(self, summaries: Sequence[SummaryT]) -> bytes:
        """``shortfall.csv``: what lacks good answers."""

    def other_files(self, summaries: Sequence[SummaryT]) -> Iterable[tuple[str, bytes]]:
        """(path, bytes) of what only this pipeline writes."""


class ComposeAnswers(beam.PTransform):
    """Reads, merges and settles answers, and publishes the results.

    Args:
      sources: the files of answers and decisions.
      settle: a transform from (service name, packed MergedBatch) to PCollections by name: ``files`` (path, bytes),
        ``audit`` (sort key, packed rows), ``summary``, ``dead_letters`` and ``counts``.
      run: describes the results.
      output: the output folder.
    """

    def __init__(self, sources: Sources, settle: beam.PTransform, run: CrowdRun[Any], output: str) -> None:
        super().__init__()
        self.read, self.settle = ReadAnswers(sources, load_worker_key()), settle
        self.run, self.output = run, output

    def expand(self, begin: beam.pvalue.PBegin) -> beam.PCollection:
        """The manifest of the published run."""
        pipeline, run, output = begin.pipeline, self.run, self.output
        files.prepare(output, run.pipeline)
        answers = pipeline | "Answers" >> self.read
        settled = answers["merged"] | "Settle" >> self.settle
        dead_letters = (answers[DEAD_LETTERS], settled[DEAD_LETTERS]) | "All dead letters" >> beam.Flatten()
        counts = (answers[COUNTS], settled[COUNTS]) | "All counts" >> beam.Flatten()
        audit_file = (
            settled[AUDIT]
            | "One audit" >> beam.GroupBy(_together)
            | "Write audit" >> beam.ParDo(_WriteAudit(output, run.audit_schema))
        )
        results = settled[FILES] | "Write results" >> files.WriteFiles(output)
        written = (audit_file, results) | "Written files" >> beam.Flatten()
        published: beam.PCollection = Outputs.plain(written, counts) | "Finish" >> FinishRun(
            run.info(output),
            partial(_metadata_files, run),
            beam.pvalue.AsList(settled[SUMMARY]),
            beam.pvalue.AsList(dead_letters),
            beam.pvalue.AsList(answers[AGREEMENT]),
            invariants=run.invariants,
            recorded=run.recorded,
        )
        return published


def _metadata_files(run: CrowdRun[Any], counts: Counts, examples: object, *side: Any) -> dict[str, bytes]:
    return dict(metadata_files(run, *side))


def metadata_files(
    run: CrowdRun[SummaryT],
    summaries: Iterable[SummaryT],
    dead_letters: Iterable[DeadLetter],
    agreement: Sequence[Agreement],
) -> Iterator[tuple[str, bytes]]:
    """Yields (path, bytes): statistics, report, review sheet and pages, shortfall, dead letters, adjudication.

    Args:
      run: describes the results.
      summaries: one for each service or dialogue, in any order.
      dead_letters: all of them.
      agreement: of two reviewers; empty where there were none.
    """
    summaries, dead_letters = run.ordered(summaries), list(dead_letters)
    reviews, explanations = [item for summary in summaries for item in summary.reviews], run.explanations()
    statistics = run.statistics(summaries, len(dead_letters), agreement[0][0] if agreement else None)
    yield "statistics.json", (json.dumps(statistics, indent=2) + "\n").encode()
    yield "report.html", page(run.report(statistics, summaries)).encode()
    yield "review.csv", review_csv(reviews, explanations)
    yield from review_pages(reviews, explanations, command=run.pipeline)
    yield "shortfall.csv", run.shortfall(summaries)
    yield "dead_letters.jsonl", dead_letters_jsonl(dead_letters)
    yield from run.other_files(summaries)
    if agreement:
        yield "adjudicate.csv", agreement[0][1]


class _WriteAudit(beam.DoFn):
    """(anything, all packed rows with their sort keys) to ``responses.parquet``."""

    def __init__(self, output: str, schema: pa.Schema) -> None:
        super().__init__()
        self.output, self.schema = output, schema

    def process(self, element: tuple[bytes, Iterable[tuple[str, bytes]]]) -> Iterator[files.Written]:
        _, parts = element
        tables = (audit.unpack(rows) for _, rows in sorted(parts))
        yield audit.write_staged(self.output, tables, self.schema)


def _together(_: Any) -> bytes:
    """The one key under which everything meets."""
    return b""
