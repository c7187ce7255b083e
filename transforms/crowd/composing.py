"""The outline of ``compose`` and ``compose_variations``: answers are read, merged, settled, written with an audit.

Each pipeline has a transform of its own that settles the answers, and a :class:`CrowdRun` that describes the results.
What grows with the answers goes from step to step as sorted runs, and is joined to files while it is read.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain, groupby
from typing import Any, NamedTuple

import apache_beam as beam
import msgspec
import pyarrow as pa
from apache_beam.pvalue import AsList

from parapet.schemas.responses import DeadLetter
from parapet.transforms import files
from parapet.transforms.counts import Counts, Invariant
from parapet.transforms.crowd import audit
from parapet.transforms.crowd.ingest.files import Sources
from parapet.transforms.crowd.reading import AGREEMENT, COUNTS, DEAD_LETTERS, ReadAnswers, dead_letter_key
from parapet.transforms.crowd.review import ReviewItem, review_order, review_pages, review_sheet
from parapet.transforms.crowd.summary import INVARIANTS, RECORDED
from parapet.transforms.crowd.worker_key import load_worker_key
from parapet.transforms.report import Report, page
from parapet.transforms.runs import FinishRun, Outputs, RunInfo
from parapet.transforms.sorted_runs import Record, Run, RunWritingDoFn, count, merged, sort_key

# The outputs of a transform that settles answers, besides its dead letters and counts.
FILES, AUDIT, REVIEWS, LINES, SUMMARY = "files", "audit", "reviews", "lines", "summary"

DEAD_LETTERS_FILE, SHEET = "dead_letters.jsonl", "review.csv"

Agreement = tuple[dict[str, Any], bytes]  # of two reviewers, and the sheet of what a third has to settle

_encode = msgspec.msgpack.Encoder().encode
_decode_items = msgspec.msgpack.Decoder(list[ReviewItem]).decode


class Metadata(NamedTuple):
    """What a run says of its results.

    Attributes:
      statistics: the content of ``statistics.json``.
      report: of the page.
      others: path to bytes of what only this pipeline writes.
    """

    statistics: dict[str, Any]
    report: Report
    others: Mapping[str, bytes] = {}


class CrowdRun(msgspec.Struct, frozen=True):
    """One pipeline's own side of the outline.

    Attributes:
      info: the run, its options those that shape the result.
      audit_schema: of ``responses.parquet``.
      explanations: reason id to a sentence for reviewers and requesters.
      metadata: makes them of the summaries of all services or dialogues, the number of dead letters, and the agreement
        of two reviewers where there were two.
      lines: path to first line of further files of lines.
      invariants: what must hold of the counts.
      recorded: the names of the counts that ``run.json`` has.
    """

    info: RunInfo
    audit_schema: pa.Schema
    explanations: Mapping[str, str]
    metadata: Callable[[Iterable[Any], int, dict[str, Any] | None], Metadata]
    lines: Mapping[str, bytes] = {}
    invariants: Sequence[Invariant] = INVARIANTS
    recorded: Sequence[str] = RECORDED


class SettleAnswers(beam.PTransform):
    """Settles merged answers: the base class of each pipeline's own transform.

    It makes of (shard, run of packed MergedAnswers) PCollections by name, all but the counts and summaries of runs:
    ``audit`` (packed rows by sort key), ``reviews`` (as :func:`packed_reviews` has them), ``dead_letters``, ``lines``
    (path, lines by sort key), ``summary``, ``counts``, and ``files`` (path, bytes).

    Args:
      output: below which runs are written, see ``reading.files_of_runs``.
    """

    def __init__(self, output: str) -> None:
        super().__init__()
        self.output = output

    @staticmethod
    def about(service_name: str) -> str:
        """What an assignment's answers are settled with: the service, or the dialogue."""
        return service_name


class ComposeAnswers(beam.PTransform):
    """Reads, merges and settles answers, and publishes the results.

    Args:
      sources: the files of answers and decisions.
      settle: settles the answers.
      run: the rest.
    """

    def __init__(self, sources: Sources, settle: SettleAnswers, run: CrowdRun) -> None:
        super().__init__()
        self.read = ReadAnswers(sources, load_worker_key(), settle.output, settle.about)
        self.settle, self.run = settle, run

    def expand(self, begin: beam.pvalue.PBegin) -> beam.PCollection:
        """The manifest of the published run."""
        pipeline, run, output = begin.pipeline, self.run, self.run.info.output
        files.prepare(output, run.info.pipeline)
        answers = pipeline | "Answers" >> self.read
        settled = answers["merged"] | "Settle" >> self.settle
        dead_letters = (answers[DEAD_LETTERS], settled[DEAD_LETTERS]) | "All dead letters" >> beam.Flatten()
        counts = (answers[COUNTS], settled[COUNTS]) | "All counts" >> beam.Flatten()
        runs = {AUDIT: settled[AUDIT], REVIEWS: settled[REVIEWS], DEAD_LETTERS: dead_letters}
        if LINES in settled:
            runs[LINES] = settled[LINES]
        joined = (
            pipeline
            | "Kinds of files" >> beam.Create([(kind,) for kind in (AUDIT, SHEET, REVIEWS, DEAD_LETTERS, *run.lines)])
            | "Join runs" >> beam.ParDo(_JoinRuns(run), **{kind: AsList(of_kind) for kind, of_kind in runs.items()})
        )
        written = [joined]
        if FILES in settled:
            written.append(settled[FILES] | "Write results" >> files.WriteFiles(output))
        published: beam.PCollection = Outputs.plain(
            written | "Written files" >> beam.Flatten(), counts
        ) | "Finish" >> FinishRun(
            run.info,
            partial(_metadata_files, run),
            AsList(settled[SUMMARY]),
            AsList(dead_letters),
            AsList(answers[AGREEMENT]),
            invariants=run.invariants,
            recorded=run.recorded,
        )
        return published


def metadata_files(
    run: CrowdRun, summaries: Iterable[Any], dead_letters: int, agreement: Sequence[Agreement]
) -> dict[str, bytes]:
    """Statistics, report and adjudication, and what only this pipeline has, by path.

    Args:
      run: describes the results.
      summaries: of all services or dialogues, in any order.
      dead_letters: how many there are.
      agreement: of two reviewers; empty where there were none.
    """
    metadata = run.metadata(summaries, dead_letters, agreement[0][0] if agreement else None)
    return {
        "statistics.json": (json.dumps(metadata.statistics, indent=2) + "\n").encode(),
        "report.html": page(metadata.report).encode(),
        **metadata.others,
        **({"adjudicate.csv": agreement[0][1]} if agreement else {}),
    }


def _metadata_files(
    run: CrowdRun,
    counts: Counts,
    examples: object,
    summaries: Iterable[Any],
    dead_letters: Sequence[Run],
    agreement: Sequence[Agreement],
) -> dict[str, bytes]:
    return metadata_files(run, summaries, count(dead_letters), agreement)


def write_reviews(run: CrowdRun, items: Iterable[ReviewItem]) -> Iterator[files.Written]:
    """Writes ``review.html`` and further pages into staging.

    Args:
      run: describes the results.
      items: the answers held for review, in the order of ``review_order``; they are iterated over twice.
    """
    for path, data in review_pages(items, run.explanations, command=run.info.pipeline):
        yield files.write_staged(run.info.output, path, data)


def write_sheet(run: CrowdRun, items: Iterable[ReviewItem]) -> files.Written:
    """Writes ``review.csv`` into staging; the arguments are those of :func:`write_reviews`."""
    return write_lines(run.info.output, SHEET, review_sheet(items, run.explanations))


def write_dead_letters(run: CrowdRun, lines: Iterable[bytes]) -> files.Written:
    """Writes ``dead_letters.jsonl`` into staging, of lines without their ends, in order."""
    return write_lines(run.info.output, DEAD_LETTERS_FILE, (line + b"\n" for line in lines))


def write_lines(output: str, relative: str, parts: Iterable[bytes]) -> files.Written:
    """Writes a file into staging, part by part."""
    with files.staged(output, relative) as handle:
        hashing = files.HashingWriter(handle)
        for part in parts:
            hashing.write(part)
    return hashing.written(relative)


def packed_reviews(items: Iterable[ReviewItem]) -> Iterator[Record]:
    """Answers held for review, all of each element, as records of a run: one for each element."""
    for element, of_element in groupby(sorted(items, key=review_order), key=lambda item: item.element_id):
        yield sort_key(element), _encode(list(of_element))


class _Items:
    """The items of runs, again each time that they are iterated over."""

    def __init__(self, runs: Sequence[Run]) -> None:
        self.runs = runs

    def __iter__(self) -> Iterator[ReviewItem]:
        for _, packed in merged(self.runs):
            yield from _decode_items(packed)


class WriteDeadLetters(RunWritingDoFn):
    """List of dead letters to a run of them."""

    def process(self, dead_letters: Sequence[DeadLetter]) -> Iterator[Run]:
        """Nothing where there are none."""
        if dead_letters:
            yield self.runs.write((dead_letter_key(letter), b"") for letter in dead_letters)


class _JoinRuns(beam.DoFn):
    """Kind of a file, or path of one of lines, to what was written of all runs."""

    def __init__(self, run: CrowdRun) -> None:
        super().__init__()
        self.run = run

    def process(
        self,
        element: tuple[str],
        audit: Iterable[Run],
        reviews: Iterable[Run],
        dead_letters: Iterable[Run],
        lines: Iterable[tuple[str, Run]] = (),
    ) -> Iterator[files.Written]:
        kind, run = element[0], self.run
        if kind == AUDIT:
            yield write_audit(run, (packed for _, packed in merged(audit)))
        elif kind == SHEET:
            yield write_sheet(run, _Items(list(reviews)))
        elif kind == REVIEWS:
            yield from write_reviews(run, _Items(list(reviews)))
        elif kind == DEAD_LETTERS:
            yield write_dead_letters(run, (line for line, _ in merged(dead_letters)))
        else:
            of_path = (part for _, part in merged(run for path, run in lines if path == kind))
            yield write_lines(run.info.output, kind, chain([run.lines[kind]], of_path))


def write_audit(run: CrowdRun, packed: Iterable[bytes]) -> files.Written:
    """Writes ``responses.parquet`` into staging, of packed rows in order."""
    return audit.write_staged(run.info.output, map(audit.unpack, packed), run.audit_schema)
