"""Response files and reviewers' sheets to merged assignments: what all pipelines that take crowd answers begin with."""

from __future__ import annotations

import apache_beam as beam
from apache_beam.io.filesystems import FileSystems

from parapet.transforms.crowd import composing
from parapet.transforms.crowd.ingest.files import Sources, distinct, read_sheet

_BYTES_OF_A_BUCKET = 16 * 2**20


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
            read_sheet(sheet)

    def expand(self, begin: beam.pvalue.PBegin) -> dict[str, beam.PCollection]:
        """``merged``: (what a task is about, packed assignments and decisions); ``dead``, ``counts``, ``agreement``."""
        pipeline, sources = begin.pipeline, self.sources
        size = sum(
            found.size_in_bytes for match in FileSystems.match(sources.responses) for found in match.metadata_list
        )
        buckets = 1 + size // _BYTES_OF_A_BUCKET
        responses = (
            pipeline
            | "Response files" >> beam.Create(distinct(sources.responses))
            | "Read responses"
            >> beam.ParDo(composing.ReadResponses(self.key, buckets, sources.encoding, sources.asked)).with_outputs(
                composing.DEAD, composing.COUNTS, main="assignments"
            )
        )
        decisions = (
            pipeline
            | "Decision sheets" >> beam.Create(distinct(sources.decisions))
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
