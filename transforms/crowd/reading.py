"""Response files and reviewers' sheets to merged assignments: what all pipelines that take crowd answers begin with."""

from __future__ import annotations

from collections.abc import Iterable

import apache_beam as beam
import msgspec
from apache_beam.io.filesystems import FileSystems

from parapet.schemas.layout import as_path
from parapet.transforms.crowd import composing
from parapet.transforms.crowd.ingest.fields import SCHEMAS, Asked

_BYTES_OF_A_BUCKET = 16 * 2**20


class Sources(msgspec.Struct, frozen=True):
    """What is read.

    Attributes:
      responses: batch CSVs and JSON lines.
      decisions: reviewers' sheets.
      reviewers: two sheets to be merged, or none.
      encoding: of response files without a byte order mark.
      asked: the kind of tasks that answers are taken to.
    """

    responses: list[str]
    decisions: list[str] = []
    reviewers: list[str] = []
    encoding: str = "utf-8"
    asked: Asked = SCHEMAS


class ReadAnswers(beam.PTransform):
    """Reads and merges.

    Args:
      sources: what is read.
      key: for the workers' hashes.

    Raises:
      InputError: one of the sheets is none: that must fail before anything runs.
    """

    def __init__(self, sources: Sources, key: bytes) -> None:
        super().__init__()
        self.sources, self.key = sources, key
        for sheet in (*sources.decisions, *sources.reviewers):
            composing.read_sheet(sheet)

    def expand(self, begin: beam.pvalue.PBegin) -> dict[str, beam.PCollection]:
        """``merged``: (what a task is about, packed assignments and decisions); ``dead``, ``counts``, ``agreement``."""
        pipeline, sources = begin.pipeline, self.sources
        size = sum(
            found.size_in_bytes for match in FileSystems.match(sources.responses) for found in match.metadata_list
        )
        buckets = 1 + size // _BYTES_OF_A_BUCKET
        responses = (
            pipeline
            | "Response files" >> beam.Create(_distinct(sources.responses))
            | "Read responses"
            >> beam.ParDo(composing.ReadResponses(self.key, buckets, sources.encoding, sources.asked)).with_outputs(
                composing.DEAD, composing.COUNTS, main="assignments"
            )
        )
        decisions = (
            pipeline
            | "Decision sheets" >> beam.Create(_distinct(sources.decisions))
            | "Read decisions"
            >> beam.ParDo(composing.ReadDecisions(buckets)).with_outputs(composing.DEAD, main="decisions")
        )
        reviewers = (
            pipeline
            | "Reviewers' sheets" >> beam.Create([tuple(sources.reviewers)] if sources.reviewers else [])
            | "Merge reviewers"
            >> beam.ParDo(composing.ReadReviewers(buckets)).with_outputs(
                composing.DEAD, composing.SUMMARY, main="decisions"
            )
        )
        all_decisions = (decisions.decisions, reviewers.decisions) | "All decisions" >> beam.Flatten()
        merged = (
            {"assignments": responses.assignments, "decisions": all_decisions}
            | "By assignment" >> beam.CoGroupByKey()
            | "Merge"
            >> beam.ParDo(composing.MergeBucket()).with_outputs(composing.DEAD, composing.COUNTS, main="merged")
        )
        dead = (responses.dead, decisions.dead, reviewers.dead, merged.dead) | "Unusable" >> beam.Flatten()
        counts = (responses.counts, merged.counts) | "Counts of reading" >> beam.Flatten()
        return {"merged": merged.merged, "dead": dead, "counts": counts, "agreement": reviewers.summary}


def _distinct(paths: Iterable[str]) -> list[str]:
    """Each file once, however its path is written."""
    return sorted({str(as_path(path).resolve()): path for path in sorted(paths, reverse=True)}.values())
