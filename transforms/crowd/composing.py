"""The outline of ``compose`` and ``compose_variations``: answers are read, merged, settled, written with an audit.

Each pipeline has a transform of its own that settles the answers, and a :class:`CrowdRun` that describes the results.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import apache_beam as beam
import msgspec
import pyarrow as pa

from parapet.schemas.responses import DeadLetter
from parapet.transforms import files
from parapet.transforms.counts import Counts, Invariant
from parapet.transforms.crowd import audit
from parapet.transforms.crowd.ingest.files import Sources
from parapet.transforms.crowd.reading import AGREEMENT, COUNTS, DEAD_LETTERS, ReadAnswers
from parapet.transforms.crowd.review import ReviewItem, review_csv, review_pages
from parapet.transforms.crowd.summary import INVARIANTS, RECORDED, dead_letters_jsonl
from parapet.transforms.crowd.worker_key import load_worker_key
from parapet.transforms.report import Report, page
from parapet.transforms.runs import FinishRun, Outputs, RunInfo

# The outputs of a transform that settles answers, besides its dead letters and counts.
FILES, AUDIT, SUMMARY = "files", "audit", "summary"

Agreement = tuple[dict[str, Any], bytes]  # of two reviewers, and the sheet of what a third has to settle


class Metadata(NamedTuple):
    """What a run says of its results.

    Attributes:
      statistics: the content of ``statistics.json``.
      report: of the page.
      reviews: the answers held for review.
      shortfall: ``shortfall.csv``: what lacks good answers.
      others: path to bytes of what only this pipeline writes.
    """

    statistics: dict[str, Any]
    report: Report
    reviews: list[ReviewItem]
    shortfall: bytes
    others: Mapping[str, bytes] = {}


class CrowdRun(msgspec.Struct, frozen=True):
    """One pipeline's own side of the outline.

    Attributes:
      info: the run, its options those that shape the result.
      audit_schema: of ``responses.parquet``.
      explanations: reason id to a sentence for reviewers and requesters.
      metadata: makes them of the summaries of all services or dialogues, the number of dead letters, and the agreement
        of two reviewers where there were two.
      invariants: what must hold of the counts.
      recorded: the names of the counts that ``run.json`` has.
    """

    info: RunInfo
    audit_schema: pa.Schema
    explanations: Mapping[str, str]
    metadata: Callable[[Iterable[Any], int, dict[str, Any] | None], Metadata]
    invariants: Sequence[Invariant] = INVARIANTS
    recorded: Sequence[str] = RECORDED


class ComposeAnswers(beam.PTransform):
    """Reads, merges and settles answers, and publishes the results.

    Args:
      sources: the files of answers and decisions.
      settle: a transform from (service name, packed MergedBatch) to PCollections by name: ``files`` (path, bytes),
        ``audit`` (sort key, packed rows), ``summary``, ``dead_letters`` and ``counts``.
      run: the rest.
    """

    def __init__(self, sources: Sources, settle: beam.PTransform, run: CrowdRun) -> None:
        super().__init__()
        self.read, self.settle, self.run = ReadAnswers(sources, load_worker_key()), settle, run

    def expand(self, begin: beam.pvalue.PBegin) -> beam.PCollection:
        """The manifest of the published run."""
        pipeline, run, output = begin.pipeline, self.run, self.run.info.output
        files.prepare(output, run.info.pipeline)
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
            run.info,
            partial(_metadata_files, run),
            beam.pvalue.AsList(settled[SUMMARY]),
            beam.pvalue.AsList(dead_letters),
            beam.pvalue.AsList(answers[AGREEMENT]),
            invariants=run.invariants,
            recorded=run.recorded,
        )
        return published


def metadata_files(
    run: CrowdRun, summaries: Iterable[Any], dead_letters: Iterable[DeadLetter], agreement: Sequence[Agreement]
) -> dict[str, bytes]:
    """Statistics, report, review sheet and pages, shortfall, dead letters and adjudication, by path.

    Args:
      run: describes the results.
      summaries: one for each service or dialogue, in any order.
      dead_letters: all of them.
      agreement: of two reviewers; empty where there were none.
    """
    dead_letters = list(dead_letters)
    metadata = run.metadata(summaries, len(dead_letters), agreement[0][0] if agreement else None)
    return {
        "statistics.json": (json.dumps(metadata.statistics, indent=2) + "\n").encode(),
        "report.html": page(metadata.report).encode(),
        "review.csv": review_csv(metadata.reviews, run.explanations),
        **dict(review_pages(metadata.reviews, run.explanations, command=run.info.pipeline)),
        "shortfall.csv": metadata.shortfall,
        "dead_letters.jsonl": dead_letters_jsonl(dead_letters),
        **metadata.others,
        **({"adjudicate.csv": agreement[0][1]} if agreement else {}),
    }


def _metadata_files(run: CrowdRun, counts: Counts, examples: object, *side: Any) -> dict[str, bytes]:
    return metadata_files(run, *side)


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
