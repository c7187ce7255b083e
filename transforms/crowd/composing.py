"""The outline of ``compose`` and ``compose_variations``: answers are read, merged, settled, and written with an audit.

All answers are in memory: a million of them take about 1.5 GB. Each kind of task is a :class:`CrowdTask`.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NamedTuple

import msgspec
import pyarrow as pa

from parapet.schemas.decisions import Decision
from parapet.schemas.rows import DISPOSITIONS, Assignment, DeadLetter
from parapet.transforms.crowd.agreement import adjudicate_csv, merge_reviewers
from parapet.transforms.crowd.ingest.files import Sources, distinct, read_responses, read_sheet
from parapet.transforms.crowd.merge import Decisions, Merged, answer_ids, merge
from parapet.transforms.crowd.review import ReviewItem, review_order, review_pages, review_sheet
from parapet.transforms.crowd.settle import Outcome, OutcomeT
from parapet.transforms.crowd.worker_ids import load_worker_key, without_ids
from parapet.transforms.report import Report, page

if TYPE_CHECKING:
    import apache_beam as beam

_ROW_GROUP_SIZE = 1 << 16


class Answers(msgspec.Struct):
    """The answers and decisions of a composition.

    Attributes:
      assignments: with all copies of each.
      decisions: of all reviewers.
      dead: what could not be read.
      agreement: of two reviewers, where there were two; ``adjudicate`` is the sheet of what a third has to settle.
    """

    assignments: list[Assignment] = []
    decisions: list[Decision] = []
    dead: list[DeadLetter] = []
    agreement: dict[str, Any] | None = None
    adjudicate: bytes = b""


class Composed(msgspec.Struct, Generic[OutcomeT]):
    """Everything settled.

    Attributes:
      outcomes: of the services or dialogues that there are, in order.
      dead: every record that could not be used, in the order of ``dead_letters.jsonl``.
      assignments: how many there were; ``answers`` to their fields that are not blank.
    """

    outcomes: list[OutcomeT]
    dead: list[DeadLetter]
    assignments: int
    answers: int
    agreement: dict[str, Any] | None
    adjudicate: bytes

    def audit(self, schema: pa.Schema) -> pa.Table:
        """What became of every answer, in the order of ``responses.parquet``."""
        ordered = sorted(self.outcomes, key=lambda outcome: outcome.name)
        return pa.concat_tables([schema.empty_table(), *(outcome.table for outcome in ordered)])

    def decisions(self) -> dict[str, int]:
        """How many decisions took effect, by word."""
        total: Counter[str] = Counter({"accept": 0, "fix": 0, "reject": 0})
        for outcome in self.outcomes:
            total.update(outcome.decisions)
        return dict(sorted(total.items()))


class Results(NamedTuple):
    """What a task makes of a composition: ``statistics.json``, the report, and further files by path."""

    statistics: dict[str, Any]
    report: Report
    files: Mapping[str, bytes]
    counts: Mapping[str, int] = {}


class CrowdTask(Generic[OutcomeT]):
    """A kind of crowd task whose answers are composed.

    Attributes:
      pipeline: the command.
      audit_schema: of ``responses.parquet``.
      explanations: reason id to a sentence for reviewers and requesters.
      method: the options that shape the result; ``header`` is what ``run.json`` says besides.
      output: the output folder.
    """

    pipeline: ClassVar[str]
    audit_schema: ClassVar[pa.Schema]
    explanations: Mapping[str, str]
    method: Mapping[str, str]
    header: Mapping[str, Any] = {}
    output: str

    def settle(self, assignments: Sequence[Assignment], decisions: Decisions) -> Iterator[OutcomeT]:
        """Settles the answers service by service, or dialogue by dialogue."""
        raise NotImplementedError

    def dead(self) -> list[DeadLetter]:
        """Dead letters that are not about answers; asked for after settling."""
        raise NotImplementedError

    def results(self, composed: Composed[OutcomeT]) -> Results:
        """What is written besides the audit, the review and the dead letters."""
        raise NotImplementedError


def read_answers(sources: Sources, key: bytes) -> Answers:
    """Reads all files of a composition.

    Args:
      sources: the files.
      key: for the workers' hashes.

    Raises:
      InputError: a reviewer's sheet that is none. A response file that is none is a dead letter.
      DamagedFile: a compressed file that is cut off or damaged.
    """
    answers = Answers()
    for path in distinct(sources.responses):
        for record in read_responses(path, key, sources.encoding, sources.kind):
            if isinstance(record, Assignment):
                answers.assignments.append(record)
            else:
                answers.dead.append(record)
    for path in distinct(sources.decisions):
        decisions, bad = read_sheet(path)
        answers.decisions += decisions
        answers.dead += bad
    if sources.reviewers:
        (first, bad), (second, worse) = map(read_sheet, sources.reviewers)
        merged = merge_reviewers(first, second)
        answers.decisions += merged.decisions
        answers.dead += [*bad, *worse]
        answers.agreement = msgspec.to_builtins(merged.agreement)
        answers.adjudicate = adjudicate_csv(merged.adjudicate)
    return answers


def settle_all(task: CrowdTask[OutcomeT], answers: Answers) -> Composed[OutcomeT]:
    """Merges the answers and settles them.

    Raises:
      RuntimeError: an answer was lost, or ended twice.
    """
    merged = merge(answers.assignments, answers.decisions)
    outcomes: list[OutcomeT] = []
    ended: Counter[str] = Counter()
    settled: set[str] = set()
    for outcome in task.settle(merged.assignments, merged.decisions):
        ended.update(row["response_id"] for row in outcome.audit if row["text"].strip())
        ended.update(outcome.dead_answers)
        keys = {*(row["response_id"] for row in outcome.audit), *(letter.key for letter in outcome.dead)}
        settled |= keys | {key.rpartition(":")[0] for key in keys}
        outcome.table = pa.Table.from_pylist(outcome.audit, task.audit_schema)
        outcome.audit, outcome.dead_answers = [], []
        outcomes.append(outcome)
    _check_nothing_is_lost(answers.assignments, merged, ended, settled)
    dead = [*task.dead(), *answers.dead, *merged.dead, *(letter for outcome in outcomes for letter in outcome.dead)]
    dead = sorted(map(without_ids, dead), key=msgspec.json.encode)
    n_answers = sum(len(answer_ids(assignment)) for assignment in merged.assignments)
    known = [outcome for outcome in outcomes if outcome.known]
    return Composed(known, dead, len(merged.assignments), n_answers, answers.agreement, answers.adjudicate)


def _check_nothing_is_lost(
    read: Iterable[Assignment], merged: Merged, ended: Counter[str], settled: Collection[str]
) -> None:
    """Checks that each assignment was merged or is a dead letter, and that each answer ends in one place.

    Args:
      read: as the exports have them.
      merged: each once.
      ended: the ids of answers in the audit and among dead letters.
      settled: the ids of these, and of their assignments.

    Raises:
      RuntimeError: one was lost, or is there twice.
    """
    kept = {assignment.assignment_id for assignment in merged.assignments}
    if {one.assignment_id for one in read} - kept - {letter.key.partition(":")[0] for letter in merged.dead}:
        raise RuntimeError("the counts do not balance for assignments_read")
    if kept - set(settled):
        raise RuntimeError("the counts do not balance for assignments")
    given = Counter(answer for assignment in merged.assignments for answer in answer_ids(assignment))
    if given != ended:
        as_many = " (as many, but not the same)" if given.total() == ended.total() else ""
        raise RuntimeError(f"the counts do not balance for answers_given{as_many}")


def dispositions(outcomes: Iterable[Outcome], kinds: Sequence[str] = ("",)) -> dict[str, int]:
    """The number of answers of some kinds, in all and by disposition."""
    total: Counter[tuple[str, str]] = Counter()
    for outcome in outcomes:
        total.update(outcome.answers)
    counts: dict[str, int] = {name: sum(total[kind, name] for kind in kinds) for name in DISPOSITIONS}
    return {"total": sum(counts.values()), **counts}


def reasons(outcomes: Iterable[Outcome], kinds: Sequence[str] = ("",)) -> dict[str, dict[str, int]]:
    """The number of answers of some kinds by disposition and reason."""
    by_disposition: dict[str, Counter[str]] = {
        name: Counter() for name in ("rejected", "review", "surplus", "duplicate")
    }
    for outcome in outcomes:
        for (kind, disposition, reason), n in outcome.reasons.items():
            if kind in kinds:
                by_disposition[disposition][reason] += n
    return {disposition: dict(sorted(counts.items())) for disposition, counts in by_disposition.items()}


def stage(task: CrowdTask[OutcomeT], composed: Composed[OutcomeT]) -> dict[str, Any]:
    """Writes everything into staging, which ``files.prepare`` has made. Returns the manifest."""
    from parapet.schemas.errors import run_header
    from parapet.transforms import files

    reviews: list[ReviewItem] = sorted((item for one in composed.outcomes for item in one.reviews), key=review_order)
    results = task.results(composed)
    whole: dict[str, bytes | Iterable[bytes]] = {
        "statistics.json": (json.dumps(results.statistics, indent=2) + "\n").encode(),
        "report.html": page(results.report).encode(),
        "review.csv": review_sheet(reviews, task.explanations),
        "dead_letters.jsonl": (msgspec.json.encode(letter) + b"\n" for letter in composed.dead),
        **dict(review_pages(reviews, task.explanations, command=task.pipeline)),
        **results.files,
        **({} if composed.agreement is None else {"adjudicate.csv": composed.adjudicate}),
    }
    written = [files.write_staged(task.output, path, data) for path, data in sorted(whole.items())]
    with files.staged(task.output, "responses.parquet") as handle:
        hashing = files.HashingWriter(handle)
        write_audit(composed.audit(task.audit_schema), hashing)
    written.append(hashing.written("responses.parquet"))
    counts = {"assignments": composed.assignments, "answers_given": composed.answers, **results.counts}
    header = {**run_header(task.pipeline, task.method), **task.header}
    counts = {name: n for name, n in sorted(counts.items()) if n}
    return files.manifest_of(header, counts, written)


def write_audit(table: pa.Table, handle: Any) -> None:
    """Writes ``responses.parquet``."""
    import pyarrow.parquet as pq

    with pq.ParquetWriter(handle, table.schema, compression="zstd") as writer:
        if table.num_rows:
            writer.write_table(table, row_group_size=_ROW_GROUP_SIZE)


def build(pipeline: beam.Pipeline, sources: Sources, task: CrowdTask[OutcomeT]) -> None:
    """Composes in one step of a pipeline: all answers fit into memory.

    Raises:
      InputError: a sheet is not a decisions file. That must fail before anything runs.
    """
    import apache_beam as beam

    from parapet.transforms import files

    key = load_worker_key()
    for sheet in (*sources.decisions, *sources.reviewers):
        read_sheet(sheet)
    files.prepare(task.output, task.pipeline)
    manifest = pipeline | beam.Create([sources], reshuffle=False) | "Compose" >> beam.Map(_compose, task, key)
    manifest | "Publish" >> files.PublishStaged(task.output)


def _compose(sources: Sources, task: CrowdTask[OutcomeT], key: bytes) -> dict[str, Any]:
    return stage(task, settle_all(task, read_answers(sources, key)))
