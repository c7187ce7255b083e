"""Response files and reviewers' sheets to merged assignments: the first step of all that takes crowd answers.

Assignments go from step to step as sorted runs: by their ids, to be merged, and then by what they are about.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

import apache_beam as beam
import msgspec
from apache_beam.io.filesystems import FileSystems
from apache_beam.metrics import Metrics
from apache_beam.pvalue import AsList, TaggedOutput

from parapet.schemas.decisions import Decision
from parapet.schemas.responses import Assignment, DeadLetter
from parapet.transforms.counts import Counts
from parapet.transforms.crowd.agreement import adjudicate_csv, merge_reviewers
from parapet.transforms.crowd.ingest.fields import TaskKind
from parapet.transforms.crowd.ingest.files import Sources, distinct, read_response_part, read_sheet
from parapet.transforms.crowd.ingest.parts import Part, count_lines, parts_of
from parapet.transforms.crowd.merge import add_records, merge_fenced
from parapet.transforms.crowd.redaction import without_ids
from parapet.transforms.sorted_runs import (
    GatheredRuns,
    Run,
    RunWritingDoFn,
    joined,
    shard_of,
    sort_key,
)

DEAD_LETTERS, COUNTS, AGREEMENT = "dead_letters", "counts", "agreement"

SHARDS = 256  # into which services and dialogues fall
_BUCKET_BYTES = 16 * 2**20
_MOST_BUCKETS = 256
_BATCH_SIZE = 1_000  # assignments that are merged together
_SMALL = 32 * 2**20  # bytes of input up to which runs carry their bytes

Sharded = tuple[str, Run]


class MergedAnswers(msgspec.Struct, array_like=True):
    """Assignments with the decisions on their answers: assignment id to form field to decision."""

    assignments: list[Assignment]
    decisions: dict[str, dict[str, Decision]]


_packer = msgspec.msgpack.Encoder()
_unpack_assignment = msgspec.msgpack.Decoder(Assignment).decode
_unpack_decision = msgspec.msgpack.Decoder(Decision).decode
_unpack_merged = msgspec.msgpack.Decoder(MergedAnswers).decode
_encode_line = msgspec.json.Encoder().encode


def unpack_merged(packed: Iterable[bytes]) -> MergedAnswers:
    """All that is known of one service or dialogue, of the packed assignments in which it arrives."""
    merged = MergedAnswers([], {})
    for part in map(_unpack_merged, packed):
        merged.assignments += part.assignments
        merged.decisions |= part.decisions
    return merged


def show_progress(numbers: Mapping[str, int]) -> None:
    """Adds to counters that are shown while the run goes on."""
    for name, n in numbers.items():
        Metrics.counter("parapet", name).inc(n)


def dead_letter_key(letter: DeadLetter) -> bytes:
    """A dead letter as a record of a run: a line of JSON, by which it is sorted."""
    show_progress({"dead_letters": 1})
    return _encode_line(without_ids(letter))


def tagged(runs: Iterable[tuple[str, Run]]) -> Iterator[TaggedOutput]:
    """(output, run) for these outputs."""
    return (TaggedOutput(output, run) for output, run in runs)


def tag_counts(counts: Counts) -> Iterator[TaggedOutput]:
    """Counts for their own output, where they are summed."""
    for key, n in counts.items():
        yield TaggedOutput(COUNTS, (tuple(key), n))


def files_of_runs(sources: Sources, output: str, others: int = 0) -> str:
    """The output folder, where there is so much to read that runs are to be files below it; else nothing.

    Args:
      sources: the files of answers.
      output: the output folder.
      others: bytes of other files that are read.
    """
    return output if _size(sources) + others > _SMALL else ""


def _size(sources: Sources) -> int:
    return sum(map(_size_of, sources.responses))


def _size_of(path: str) -> int:
    (match,) = FileSystems.match([path])
    return sum(int(file.size_in_bytes) for file in match.metadata_list)


def _counted(part: Part) -> tuple[str, int, int]:
    return part.path, part.start, count_lines(part)


class ReadAnswers(beam.PTransform):
    """Reads response files and reviewers' sheets, and merges what they say of each assignment.

    Args:
      sources: the files.
      key: of the workers' hashes.
      output: below which runs are written, see :func:`files_of_runs`.
      about: the service name of an assignment to what its answers are settled with: the service, or the dialogue.

    Raises:
      InputError: a sheet is not a decisions file. That must fail before anything runs.
    """

    def __init__(self, sources: Sources, key: bytes, output: str, about: Callable[[str], str]) -> None:
        super().__init__()
        self.sources, self.key, self.output, self.about = sources, key, output, about
        for sheet in (*sources.decisions, *sources.reviewers):
            read_sheet(sheet)

    def expand(self, begin: beam.pvalue.PBegin) -> dict[str, beam.PCollection]:
        """``merged``: (shard, run of packed MergedAnswers); ``dead_letters``, ``counts``, ``agreement``."""
        pipeline, sources, output = begin.pipeline, self.sources, self.output
        buckets = min(_MOST_BUCKETS, 1 + _size(sources) // _BUCKET_BYTES)
        parts = [
            part for path in distinct(sources.responses) for part in parts_of(path, _size_of(path), sources.encoding)
        ]
        cut = [part for part in parts if part.step]
        lines = {}
        if cut:
            counted = pipeline | "Parts of files" >> beam.Create(cut) | "Count lines" >> beam.Map(_counted)
            lines["lines"] = AsList(counted)
        responses = (
            pipeline
            | "Response files" >> beam.Create(parts)
            | "Read responses"
            >> beam.ParDo(
                ReadResponses(output, buckets, self.key, sources.encoding, sources.kind), **lines
            ).with_outputs(DEAD_LETTERS, COUNTS, main="assignments")
        )
        decisions = (
            pipeline
            | "Decision sheets" >> beam.Create(distinct(sources.decisions))
            | "Read decisions"
            >> beam.ParDo(ReadDecisions(output, buckets)).with_outputs(DEAD_LETTERS, main="decisions")
        )
        reviewers = (
            pipeline
            | "Reviewers' sheets" >> beam.Create([tuple(sources.reviewers)] if sources.reviewers else [])
            | "Merge reviewers"
            >> beam.ParDo(ReadReviewers(output, buckets)).with_outputs(DEAD_LETTERS, AGREEMENT, main="decisions")
        )
        merged = (
            (responses.assignments, decisions.decisions, reviewers.decisions)
            | "Answers and decisions" >> beam.Flatten()
            | "By assignment" >> beam.GroupByKey()
            | "Merge" >> beam.ParDo(MergeBucket(output, self.about)).with_outputs(DEAD_LETTERS, COUNTS, main="merged")
        )
        dead_letters = [step[DEAD_LETTERS] for step in (responses, decisions, reviewers, merged)]
        return {
            "merged": merged.merged,
            DEAD_LETTERS: dead_letters | "Unusable records" >> beam.Flatten(),
            COUNTS: (responses[COUNTS], merged[COUNTS]) | "Counts of reading" >> beam.Flatten(),
            AGREEMENT: reviewers[AGREEMENT],
        }


class _Reader(RunWritingDoFn):
    """What reads files and gives runs of what it has read, by bucket.

    Args:
      output: below which runs are written.
      buckets: the number of groups into which assignments fall by id, so that copies from several exports meet.
    """

    def __init__(self, output: str, buckets: int) -> None:
        super().__init__(output)
        self.buckets = buckets

    def bucketed(self, records: Iterable[Assignment | Decision | DeadLetter]) -> Iterator[Sharded | TaggedOutput]:
        """(bucket, run of packed assignments and decisions by assignment id); dead letters for their own output."""
        gathered = GatheredRuns(self.runs)
        for record in records:
            if isinstance(record, DeadLetter):
                group, key, content = DEAD_LETTERS, dead_letter_key(record), b""
            elif isinstance(record, Assignment):
                key, content = sort_key(record.assignment_id), b"a" + _packer.encode(record)
                group = shard_of(key, self.buckets)
            else:
                key, content = sort_key(record.response_id.rpartition(":")[0]), b"d" + _packer.encode(record)
                group = shard_of(key, self.buckets)
            yield from _outputs(gathered.add(group, key, content))
        yield from _outputs(gathered.flush())


class ReadResponses(_Reader):
    """Part of a file to (bucket, run of assignments); dead letters and counts on the side.

    Args:
      output: below which runs are written.
      buckets: as of _Reader.
      key: of the workers' hashes.
      encoding: of files without a byte order mark.
      kind: of the tasks whose answers are taken.
    """

    def __init__(self, output: str, buckets: int, key: bytes, encoding: str, kind: TaskKind) -> None:
        super().__init__(output, buckets)
        self.key, self.encoding, self.kind = key, encoding, kind

    def process(self, part: Part, lines: Iterable[tuple[str, int, int]] = ()) -> Iterator[Sharded | TaggedOutput]:
        """Reads one part; ``lines`` are (file, start, number) of the parts of all files that have several."""
        before = sum(n for path, start, n in lines if path == part.path and start < part.start)
        counts = Counts.named(assignments_read=0)

        def counted(records: Iterable[Assignment | DeadLetter]) -> Iterator[Assignment | DeadLetter]:
            for record in records:
                if isinstance(record, Assignment):
                    add_records(counts, "assignments_read", [record.assignment_id])
                yield record

        yield from self.bucketed(counted(read_response_part(part, before, self.key, self.encoding, self.kind)))
        yield from tag_counts(counts)


class ReadDecisions(_Reader):
    """File name to (bucket, run of decisions); bad rows are dead letters."""

    def process(self, path: str) -> Iterator[Sharded | TaggedOutput]:
        """Reads one sheet."""
        decisions, dead_letters = read_sheet(path)
        yield from self.bucketed([*decisions, *dead_letters])


class ReadReviewers(_Reader):
    """Two reviewers' sheets to (bucket, run of decisions); their agreement and what to adjudicate on the side."""

    def process(self, sheets: tuple[str, str]) -> Iterator[Sharded | TaggedOutput]:
        """Reads and merges both sheets."""
        (first, first_dead), (second, second_dead) = read_sheet(sheets[0]), read_sheet(sheets[1])
        merged = merge_reviewers(first, second)
        yield TaggedOutput(AGREEMENT, (msgspec.to_builtins(merged.agreement), adjudicate_csv(merged.adjudicate)))
        yield from self.bucketed([*merged.decisions, *first_dead, *second_dead])


class MergeBucket(RunWritingDoFn):
    """(bucket, runs of assignments and decisions) to (shard, run of packed MergedAnswers).

    Args:
      output: below which runs are written.
      about: as of ReadAnswers.
    """

    def __init__(self, output: str, about: Callable[[str], str]) -> None:
        super().__init__(output)
        self.about = about

    def process(self, element: tuple[str, Iterable[Run]]) -> Iterator[Sharded | TaggedOutput]:
        """Merges one bucket: each assignment once, each decision with its response."""
        gathered = GatheredRuns(self.runs)
        for read, decisions in _batches(element[1]):
            merged = merge_fenced(read, decisions)
            yield from tag_counts(merged.counts)
            for letter in merged.dead:
                yield from _outputs(gathered.add(DEAD_LETTERS, dead_letter_key(letter)))
            for assignment in merged.assignments:
                on_it = merged.decisions.get(assignment.assignment_id)
                packed = MergedAnswers([assignment], {assignment.assignment_id: on_it} if on_it else {})
                key = sort_key(self.about(assignment.service_name))
                yield from _outputs(gathered.add(shard_of(key, SHARDS), key, _packer.encode(packed)))
        yield from _outputs(gathered.flush())


def _outputs(runs: Iterable[Sharded]) -> Iterator[Sharded | TaggedOutput]:
    """Runs by shard, those of dead letters for their own output."""
    for group, run in runs:
        yield TaggedOutput(DEAD_LETTERS, run) if group == DEAD_LETTERS else (group, run)


def _batches(runs: Iterable[Run]) -> Iterator[tuple[list[Assignment], list[Decision]]]:
    """What was read of some hundreds of assignments at a time, all of each."""
    read: list[Assignment] = []
    decisions: list[Decision] = []
    for _, (contents,) in joined(runs):
        for content in contents:
            if content[:1] == b"a":
                read.append(_unpack_assignment(content[1:]))
            else:
                decisions.append(_unpack_decision(content[1:]))
        if len(read) + len(decisions) >= _BATCH_SIZE:
            yield read, decisions
            read, decisions = [], []
    yield read, decisions
