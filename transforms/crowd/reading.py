"""Response files and reviewers' sheets to merged assignments: the first step of all that takes crowd answers.

Assignments travel packed, some hundreds to an element.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, TypeVar
from zlib import crc32

import apache_beam as beam
import msgspec
from apache_beam.io.filesystems import FileSystems
from apache_beam.metrics import Metrics
from apache_beam.pvalue import TaggedOutput

from parapet.schemas.decisions import Decision
from parapet.schemas.responses import Assignment, DeadLetter
from parapet.transforms.counts import Counts
from parapet.transforms.crowd.agreement import adjudicate_csv, merge_reviewers
from parapet.transforms.crowd.ingest.fields import TaskKind
from parapet.transforms.crowd.ingest.files import Sources, distinct, read_responses, read_sheet
from parapet.transforms.crowd.merge import merge

DEAD_LETTERS, COUNTS, AGREEMENT = "dead_letters", "counts", "agreement"

_BUCKET_BYTES = 16 * 2**20
_BATCH_SIZE = 1_000  # assignments; a batch of the usual ones has about a megabyte

Bucket = tuple[str, bytes]
Item = TypeVar("Item")


class MergedBatch(msgspec.Struct):
    """Assignments of one service, or of one dialogue's turns, with the decisions on them."""

    assignments: list[Assignment]
    decisions: dict[str, dict[str, Decision]]


_packer = msgspec.msgpack.Encoder()
_unpack_assignments = msgspec.msgpack.Decoder(list[Assignment]).decode
_unpack_decisions = msgspec.msgpack.Decoder(list[Decision]).decode
_unpack_merged = msgspec.msgpack.Decoder(MergedBatch).decode


def unpack_merged(batches: Iterable[bytes]) -> MergedBatch:
    """All that is known of one service or dialogue, of the packed batches in which it arrives."""
    merged = MergedBatch([], {})
    for batch in map(_unpack_merged, batches):
        merged.assignments += batch.assignments
        merged.decisions |= batch.decisions
    return merged


def show_progress(name: str, n: int) -> None:
    """Adds to a counter that is shown while the run goes on."""
    Metrics.counter("parapet", name).inc(n)


def tag_dead_letters(dead_letters: Iterable[DeadLetter]) -> Iterator[TaggedOutput]:
    """Dead letters for their own output."""
    for letter in dead_letters:
        show_progress("dead_letters", 1)
        yield TaggedOutput(DEAD_LETTERS, letter)


def tag_counts(counts: Counts) -> Iterator[TaggedOutput]:
    """Counts for their own output, where they are summed."""
    for key, n in counts.items():
        yield TaggedOutput(COUNTS, (tuple(key), n))


class ReadAnswers(beam.PTransform):
    """Reads response files and reviewers' sheets, and merges what they say of each assignment.

    Args:
      sources: the files.
      key: of the workers' hashes.

    Raises:
      InputError: a sheet is not a decisions file. That must fail before anything runs.
    """

    def __init__(self, sources: Sources, key: bytes) -> None:
        super().__init__()
        self.sources, self.key = sources, key
        for sheet in (*sources.decisions, *sources.reviewers):
            read_sheet(sheet)

    def expand(self, begin: beam.pvalue.PBegin) -> dict[str, beam.PCollection]:
        """``merged``: (service name, packed MergedBatch); ``dead_letters``, ``counts``, ``agreement``."""
        pipeline, sources = begin.pipeline, self.sources
        matches = FileSystems.match(sources.responses)
        size = sum(file.size_in_bytes for match in matches for file in match.metadata_list)
        buckets = 1 + size // _BUCKET_BYTES
        responses = (
            pipeline
            | "Response files" >> beam.Create(distinct(sources.responses))
            | "Read responses"
            >> beam.ParDo(ReadResponses(self.key, buckets, sources.encoding, sources.kind)).with_outputs(
                DEAD_LETTERS, COUNTS, main="assignments"
            )
        )
        decisions = (
            pipeline
            | "Decision sheets" >> beam.Create(distinct(sources.decisions))
            | "Read decisions" >> beam.ParDo(ReadDecisions(buckets)).with_outputs(DEAD_LETTERS, main="decisions")
        )
        reviewers = (
            pipeline
            | "Reviewers' sheets" >> beam.Create([tuple(sources.reviewers)] if sources.reviewers else [])
            | "Merge reviewers"
            >> beam.ParDo(ReadReviewers(buckets)).with_outputs(DEAD_LETTERS, AGREEMENT, main="decisions")
        )
        all_decisions = (decisions.decisions, reviewers.decisions) | "All decisions" >> beam.Flatten()
        merged = (
            {"assignments": responses.assignments, "decisions": all_decisions}
            | "By assignment" >> beam.CoGroupByKey()
            | "Merge" >> beam.ParDo(MergeBucket()).with_outputs(DEAD_LETTERS, COUNTS, main="merged")
        )
        dead_letters = [step[DEAD_LETTERS] for step in (responses, decisions, reviewers, merged)]
        return {
            "merged": merged.merged,
            DEAD_LETTERS: dead_letters | "Unusable records" >> beam.Flatten(),
            COUNTS: (responses[COUNTS], merged[COUNTS]) | "Counts of reading" >> beam.Flatten(),
            AGREEMENT: reviewers[AGREEMENT],
        }


class ReadResponses(beam.DoFn):
    """File name to (bucket, packed assignments); dead letters and counts on the side.

    Args:
      key: of the workers' hashes.
      buckets: the number of groups into which assignments fall by id, so that copies from several exports meet.
      encoding: of files without a byte order mark.
      kind: of the tasks whose answers are taken.
    """

    def __init__(self, key: bytes, buckets: int, encoding: str, kind: TaskKind) -> None:
        super().__init__()
        self.key, self.buckets, self.encoding, self.kind = key, buckets, encoding, kind

    def process(self, path: str) -> Iterator[Bucket | TaggedOutput]:
        """Reads one file."""
        records = read_responses(path, self.key, self.encoding, self.kind)
        while batch := list(islice(records, _BATCH_SIZE)):
            assignments = [record for record in batch if isinstance(record, Assignment)]
            yield from tag_dead_letters(record for record in batch if isinstance(record, DeadLetter))
            yield from tag_counts(Counts.named(assignments_read=len(assignments)))
            yield from _buckets(assignments, lambda a: a.assignment_id, self.buckets)


class ReadDecisions(beam.DoFn):
    """File name to (bucket, packed decisions); bad rows are dead letters."""

    def __init__(self, buckets: int) -> None:
        super().__init__()
        self.buckets = buckets

    def process(self, path: str) -> Iterator[Bucket | TaggedOutput]:
        """Reads one sheet."""
        decisions, dead_letters = read_sheet(path)
        yield from tag_dead_letters(dead_letters)
        yield from _buckets(decisions, _assignment_of, self.buckets)


class ReadReviewers(beam.DoFn):
    """Two reviewers' sheets to (bucket, packed decisions); their agreement and what to adjudicate on the side."""

    def __init__(self, buckets: int) -> None:
        super().__init__()
        self.buckets = buckets

    def process(self, sheets: tuple[str, str]) -> Iterator[Bucket | TaggedOutput]:
        """Reads and merges both sheets."""
        (first, first_dead), (second, second_dead) = read_sheet(sheets[0]), read_sheet(sheets[1])
        yield from tag_dead_letters([*first_dead, *second_dead])
        merged = merge_reviewers(first, second)
        yield TaggedOutput(AGREEMENT, (msgspec.to_builtins(merged.agreement), adjudicate_csv(merged.adjudicate)))
        yield from _buckets(merged.decisions, _assignment_of, self.buckets)


class MergeBucket(beam.DoFn):
    """(bucket, its assignments and decisions) to (service name, packed MergedBatch)."""

    def process(self, element: tuple[str, Mapping[str, Iterable[bytes]]]) -> Iterator[tuple[str, bytes] | TaggedOutput]:
        """Merges one bucket: each assignment once, each decision with its response."""
        _, groups = element
        merged = merge(
            [a for batch in groups["assignments"] for a in _unpack_assignments(batch)],
            [d for batch in groups["decisions"] for d in _unpack_decisions(batch)],
        )
        yield from tag_dead_letters(merged.dead)
        yield from tag_counts(merged.counts)
        for service, assignments in _grouped(merged.assignments, lambda a: a.service_name):
            ids = [a.assignment_id for a in assignments if a.assignment_id in merged.decisions]
            yield service, _packer.encode(MergedBatch(assignments, {key: merged.decisions[key] for key in ids}))


def bucket_of(assignment_id: str, buckets: int) -> str:
    """The group in which all records of an assignment meet. The result of a run does not depend on it."""
    return str(crc32(assignment_id.encode()) % buckets)


def _buckets(records: Iterable[Item], assignment_id: Callable[[Item], str], buckets: int) -> Iterator[Bucket]:
    """(bucket, packed records) of the assignments that the records are about."""
    for bucket, group in _grouped(records, lambda record: bucket_of(assignment_id(record), buckets)):
        yield bucket, _packer.encode(group)


def _assignment_of(decision: Decision) -> str:
    return decision.response_id.rpartition(":")[0]


def _grouped(items: Iterable[Item], key: Callable[[Item], str]) -> list[tuple[str, list[Any]]]:
    groups: dict[str, list[Item]] = defaultdict(list)
    for item in items:
        groups[key(item)].append(item)
    return sorted(groups.items())
