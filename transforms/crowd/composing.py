"""Read, merge, settle and audit crowd answers: the part that schema tasks and rewriting tasks share.

All answers are kept in memory; a million answers take about 1.5 GB. Each kind of task is a :class:`CrowdTask`. Settling
gives every answer a disposition: answers with the same words count as one, and reviewers' decisions override the
automatic verdicts.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NamedTuple, TypeVar

import msgspec
import pyarrow as pa

from parapet.schemas.decisions import Decision
from parapet.schemas.errors import InputError
from parapet.schemas.rows import DISPOSITIONS, WRITERS, Assignment, DeadLetter, Disposition
from parapet.transforms.crowd.answer_files import Sources, distinct, read_responses, read_sheet
from parapet.transforms.crowd.dedupe import (
    Decisions,
    Merged,
    answer_ids,
    answers_text,
    merge,
    unusable_decision,
)
from parapet.transforms.crowd.lexicon import spelling_rank
from parapet.transforms.crowd.review import ReviewItem, neighbours, review_order, review_pages, review_sheet
from parapet.transforms.crowd.rules import PASS, Verdict
from parapet.transforms.crowd.worker_ids import load_worker_key, redact, without_ids
from parapet.transforms.reports.report import Report, Text, page
from parapet.transforms.reports.text import counted

if TYPE_CHECKING:
    import apache_beam as beam

_SHOWN = 3  # examples in a warning
_RANK = {"": 0, "review": 1, "reject": 2}


class Entry(msgspec.Struct, kw_only=True):
    """An answer that is being settled.

    Attributes:
      text: the text as typed.
      canonical: the answer as it would be written to the output; ``words`` are its words, empty if nothing is left of
        it.
      verdict: the automatic one, or the reviewer's rejection.
      disposition: the current disposition; ``surplus`` is a good answer that has not been drawn yet.
    """

    response_id: str
    text: str
    canonical: str
    words: tuple[str, ...]
    assignment: Assignment
    decision: Decision | None = None
    verdict: Verdict = PASS
    disposition: Disposition = "surplus"
    reason: str = ""
    doubt: float = 0.0  # answers with a lower value are less likely to mean what they should

    @property
    def accepted(self) -> bool:
        """Whether a reviewer accepted or fixed the answer."""
        return self.decision is not None and self.decision.decision != "reject"

    def spelling(self) -> tuple[Any, ...]:
        """Return a sort key that puts the better spelled of two answers with the same words first."""
        return spelling_rank(self.canonical, self.words, self.text) if self.words else ()

    def shown(self) -> tuple[str, str, str, str]:
        """Return what a reviewer sees: the element's id, the task, what the worker saw, and the original."""
        raise NotImplementedError

    def row(self) -> dict[str, Any]:
        """Return the answer's row of ``responses.parquet``."""
        return {
            "response_id": self.response_id,
            "text": self.text,
            "canonical": self.canonical,
            "disposition": self.disposition,
            "reason": self.reason,
            **answer_columns(self.assignment, self.response_id.rpartition(":")[2]),
        }


EntryT = TypeVar("EntryT", bound=Entry)


def answer_columns(assignment: Assignment, field: str) -> dict[str, Any]:
    """Return the columns common to all tables of answers: worker, times, source, and how the field was typed."""

    def milliseconds(seconds: int | None) -> int | None:  # Parquet has no unit of seconds
        return None if seconds is None else seconds * 1000

    return {
        "worker_hash": assignment.worker_hash,
        "accept_time": milliseconds(assignment.accept_time),
        "submit_time": milliseconds(assignment.submit_time),
        "work_seconds": assignment.work_seconds,
        "source": assignment.platform,
        "keystrokes": assignment.keystrokes.get(field),
        "pastes": assignment.pastes.get(field),
        "seconds": assignment.seconds.get(field),
    }


class Outcome(msgspec.Struct, kw_only=True):
    """The settled answers about one service or dialogue.

    Attributes:
      name: the name of the service or the id of the dialogue.
      known: whether this service or dialogue exists.
      audit: a row for each answer; ``table`` has them in the columns of ``responses.parquet``.
      short: the elements or turns that need more good answers.
      dead: the dead letters; ``dead_answers`` are the ids of the answers among them.
      answers: the number by kind and disposition; ``reasons`` by kind, disposition and reason. Schema tasks have only
        the kind ``""``.
      decisions: the number of decisions that took effect, by decision (accept, fix, reject).
    """

    name: str
    known: bool = True
    audit: list[dict[str, Any]] = []
    table: pa.Table | None = None
    reviews: list[ReviewItem] = []
    short: list[Any] = []
    dead: list[DeadLetter] = []
    dead_answers: list[str] = []
    answers: Counter[tuple[str, str]] = msgspec.field(default_factory=Counter)
    reasons: Counter[tuple[str, str, str]] = msgspec.field(default_factory=Counter)
    decisions: Counter[str] = msgspec.field(default_factory=Counter)


OutcomeT = TypeVar("OutcomeT", bound=Outcome)


def note_answers(outcome: Outcome, entries: Sequence[Entry]) -> None:
    """Add the rows of settled answers to an outcome, in their order, and count them."""
    outcome.audit = [entry.row() for entry in entries]
    for row in outcome.audit:
        kind = row.get("kind", "")
        outcome.answers[kind, row["disposition"]] += 1
        if row["reason"]:
            outcome.reasons[kind, row["disposition"], row["reason"].partition(":")[0]] += 1
    outcome.decisions.update(entry.decision.decision for entry in entries if entry.decision is not None)


def decided(
    make: Callable[[str], EntryT], text: str, decision: Decision | None, problem: Callable[[EntryT], str]
) -> tuple[EntryT, list[DeadLetter]]:
    """Apply a reviewer's decision to an answer; a decision that cannot be carried out becomes a dead letter.

    Args:
      make: creates the entry for a text.
      text: the answer as typed.
      decision: the reviewer's decision on the answer.
      problem: returns why not even a reviewer can accept an answer, or an empty string.
    """
    entry = make(decision.text if decision is not None and decision.decision == "fix" else text)
    if decision is None:
        return entry, []
    if decision.decision == "reject":
        entry.verdict = Verdict("reject", f"reviewer: {decision.reason}" if decision.reason else "reviewer")
    elif why := problem(entry):
        return make(text), [unusable_decision(decision, f"bad_decision: {why}")]
    entry.decision = decision
    return entry, []


def settle_same(answers: Iterable[tuple[str, EntryT]]) -> list[list[EntryT]]:
    """Group (words, answer) pairs by words and settle each group; the first answer of a group represents it."""
    clusters: dict[str, list[EntryT]] = defaultdict(list)
    for words, entry in answers:
        clusters[words or f"\0{entry.response_id}"].append(entry)
    for same in clusters.values():
        _settle_cluster(same)
    return list(clusters.values())


def _settle_cluster(same: list[EntryT]) -> None:
    """Assign a disposition to each answer in a group with the same words, and put the representative first.

    A reviewer judges words, so a rejection applies to all workers who gave them, unless one of their answers was
    accepted. Answers that need a review are held together. If one answer passes, the others are its duplicates.
    """
    reviewer = next((a.verdict for a in same if a.verdict.reason.startswith("reviewer")), None)
    if reviewer is not None and not any(a.accepted for a in same):
        for answer in same:
            if answer.verdict.action != "reject":
                answer.verdict = reviewer
    if len(same) > 1:
        same.sort(key=lambda a: (_RANK[a.verdict.action], not a.accepted, a.spelling(), a.canonical, a.response_id))
    best = same[0]
    for answer in same:
        action = answer.verdict.action
        if action == "reject":
            answer.disposition, answer.reason = "rejected", answer.verdict.reason
        elif answer is best and not action:
            answer.disposition, answer.reason = "surplus", "not_drawn"
        elif best.verdict.action == "review":
            answer.disposition, answer.reason = "review", answer.verdict.reason
        else:
            answer.disposition, answer.reason = "duplicate", f"duplicate_of: {best.response_id}"


def good_answers(clusters: Iterable[Sequence[EntryT]]) -> list[EntryT]:
    """Return one answer for each group of equal answers that passed."""
    return [same[0] for same in clusters if same[0].disposition == "surplus"]


def review_items(
    groups: Iterable[Sequence[Sequence[EntryT]]], flags: Callable[[EntryT], Iterable[str]]
) -> list[ReviewItem]:
    """List the groups of answers that are held for review, in review order.

    Args:
      groups: for each element and task, its answers grouped by equal words.
      flags: returns every reason that applies to an answer.
    """
    items = []
    for clusters in groups:
        held = [same for same in clusters if same[0].disposition == "review"]
        answers = [(same[0].canonical, same[0].disposition) for same in clusters]
        most = min((same[0].doubt for same in held), default=0.0)
        for same in held:
            best = same[0]
            beside, more = neighbours(answers, (best.canonical, best.disposition))
            reasons = list(dict.fromkeys([best.reason, *flags(best)]))
            texts, doubt = (best.text, best.canonical, reasons), (most, best.doubt)
            items.append(ReviewItem(best.response_id, *best.shown(), *texts, len(same), beside, more, doubt))
    return sorted(items, key=review_order)


def unknown(outcome: Outcome, reason: str, assignments: Iterable[Assignment], decisions: Decisions) -> None:
    """Add dead letters for assignments about unknown services or dialogues, and for the decisions on them."""
    void = f"unused_response: {reason.partition(': ')[2]}"
    for assignment in assignments:
        on_it = decisions.get(assignment.assignment_id, {})
        outcome.dead += [unusable_decision(decision, void) for decision in on_it.values()]
        shown = answers_text(assignment.answers)
        outcome.dead.append(DeadLetter("compose", assignment.assignment_id, reason, shown, assignment.source))
        outcome.dead_answers += answer_ids(assignment)


@contextmanager
def settling(name: str) -> Iterator[None]:
    """Name the service or dialogue if settling its answers fails unexpectedly, which is a bug."""
    try:
        yield
    except InputError:  # a vetting rule of a plug-in failed
        raise
    except Exception as error:
        raise RuntimeError(f"the answers about {name} could not be settled: {type(error).__name__}") from error


_ROW_GROUP_SIZE = 1 << 16


class Answers(msgspec.Struct):
    """The answers and decisions of a composition.

    Attributes:
      assignments: all assignments, including copies.
      decisions: the decisions of all reviewers.
      dead: the records that could not be read.
    """

    assignments: list[Assignment] = []
    decisions: list[Decision] = []
    dead: list[DeadLetter] = []


class Composed(msgspec.Struct, Generic[OutcomeT]):
    """All settled answers of a composition.

    Attributes:
      outcomes: one for each existing service or dialogue, in order.
      dead: a dead letter for every record that could not be used, in the order of ``dead_letters.jsonl``.
      assignments: the number of assignments; ``answers`` is the number of their non-blank fields.
      warnings: what is missing or unreadable in assignments that are used all the same.
    """

    outcomes: list[OutcomeT]
    dead: list[DeadLetter]
    assignments: int
    answers: int
    warnings: list[str] = []

    def audit(self, schema: pa.Schema) -> pa.Table:
        """Return the final disposition of every answer, in the order of ``responses.parquet``."""
        ordered = sorted(self.outcomes, key=lambda outcome: outcome.name)
        return pa.concat_tables([schema.empty_table(), *(outcome.table for outcome in ordered)])

    def sources(self) -> dict[str, int]:
        """Count the answers by their source."""
        total: Counter[str] = Counter()
        for outcome in self.outcomes:
            total.update(outcome.table.column("source").to_pylist() if outcome.table is not None else ())
        return dict(sorted(total.items()))

    def decisions(self) -> dict[str, int]:
        """Count the decisions that took effect, by decision."""
        total: Counter[str] = Counter({"accept": 0, "fix": 0, "reject": 0})
        for outcome in self.outcomes:
            total.update(outcome.decisions)
        return dict(sorted(total.items()))


class Results(NamedTuple):
    """The output of a task: ``statistics.json``, the report, and further files by path."""

    statistics: dict[str, Any]
    report: Report
    files: Mapping[str, bytes]
    counts: Mapping[str, int] = {}


class CrowdTask(Generic[OutcomeT]):
    """A kind of crowd task whose answers can be composed.

    Attributes:
      pipeline: the name of the command.
      audit_schema: the schema of ``responses.parquet``.
      explanations: reason id to a sentence that explains it to reviewers and requesters.
      method: the options that affect the result; ``header`` has further entries of ``run.json``.
      output: the output folder.
    """

    pipeline: ClassVar[str]
    audit_schema: ClassVar[pa.Schema]
    explanations: Mapping[str, str]
    method: Mapping[str, str]
    header: Mapping[str, Any] = {}
    output: str

    def settle(self, assignments: Sequence[Assignment], decisions: Decisions) -> Iterator[OutcomeT]:
        """Settle the answers, one service or dialogue at a time."""
        raise NotImplementedError

    def dead(self) -> list[DeadLetter]:
        """Return the dead letters that are not about answers; called after settling."""
        raise NotImplementedError

    def results(self, composed: Composed[OutcomeT]) -> Results:
        """Return the output other than the audit, the review sheet and the dead letters."""
        raise NotImplementedError


def read_answers(sources: Sources, key: bytes) -> Answers:
    """Read all input files of a composition.

    Args:
      sources: the input files.
      key: the key for hashing worker ids.

    Raises:
      InputError: a file is not a reviewer's sheet. A file that is not a response file becomes a dead letter instead.
      DamagedFile: a compressed file is truncated or damaged.
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
    return answers


def settle_all(task: CrowdTask[OutcomeT], answers: Answers) -> Composed[OutcomeT]:
    """Merge and settle the answers.

    Raises:
      RuntimeError: an answer was lost or settled twice.
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
    counts = len(merged.assignments), n_answers
    return Composed(known, dead, *counts, _warnings(merged.assignments))


def _warnings(assignments: Iterable[Assignment]) -> list[str]:
    """Return sentences about times that could not be read, and about assignments without worker ids."""
    unread, anonymous = [], []
    for assignment in assignments:
        unread += [f"{assignment.source}: {text}" for text in assignment.unread]
        anonymous += [] if assignment.worker_hash else [assignment.source]
    sentences = []
    if unread:
        shown = "; ".join(redact(text) for text in unread[:_SHOWN])
        more = f"; and {len(unread) - _SHOWN:,} more" if len(unread) > _SHOWN else ""
        sentences.append(f"{counted(len(unread), 'time')} could not be read, so left empty: {shown}{more}")
    if anonymous:
        sentences.append(
            f"{counted(len(anonymous), 'assignment')} without a WorkerId (first {min(anonymous)}): several answers of "
            "one person count as those of several, and it cannot be checked who has seen what was to be paraphrased"
        )
    return sentences


def _check_nothing_is_lost(
    read: Iterable[Assignment], merged: Merged, ended: Counter[str], settled: Collection[str]
) -> None:
    """Check that each assignment was merged or is a dead letter, and that each answer has exactly one disposition.

    Args:
      read: the assignments as read from the exports.
      merged: the assignments without duplicates.
      ended: the ids of answers in the audit and among dead letters.
      settled: the ids of these answers and of their assignments.

    Raises:
      RuntimeError: an answer or assignment is missing or duplicated.
    """
    kept = {assignment.assignment_id for assignment in merged.assignments}
    if {entry.assignment_id for entry in read} - kept - {letter.key.partition(":")[0] for letter in merged.dead}:
        raise RuntimeError("the counts do not balance for assignments_read")
    if kept - set(settled):
        raise RuntimeError("the counts do not balance for assignments")
    answer_counts = Counter(answer for assignment in merged.assignments for answer in answer_ids(assignment))
    if answer_counts != ended:
        as_many = " (as many, but not the same)" if answer_counts.total() == ended.total() else ""
        raise RuntimeError(f"the counts do not balance for answers_given{as_many}")


def dispositions(outcomes: Iterable[Outcome], kinds: Sequence[str] = ("",)) -> dict[str, int]:
    """Count the answers of some kinds, in total and by disposition."""
    total: Counter[tuple[str, str]] = Counter()
    for outcome in outcomes:
        total.update(outcome.answers)
    counts: dict[str, int] = {name: sum(total[kind, name] for kind in kinds) for name in DISPOSITIONS}
    return {"total": sum(counts.values()), **counts}


def reasons(outcomes: Iterable[Outcome], kinds: Sequence[str] = ("",)) -> dict[str, dict[str, int]]:
    """Count the answers of some kinds by disposition and reason."""
    by_disposition: dict[str, Counter[str]] = {
        name: Counter() for name in ("rejected", "review", "surplus", "duplicate")
    }
    for outcome in outcomes:
        for (kind, disposition, reason), n in outcome.reasons.items():
            if kind in kinds:
                by_disposition[disposition][reason] += n
    return {disposition: dict(sorted(counts.items())) for disposition, counts in by_disposition.items()}


def stage(task: CrowdTask[OutcomeT], composed: Composed[OutcomeT]) -> dict[str, Any]:
    """Write all output into the staging folder that ``files.prepare`` created, and return the manifest."""
    from parapet.schemas.errors import run_header
    from parapet.transforms.storage import files

    reviews: list[ReviewItem] = sorted(
        (item for outcome in composed.outcomes for item in outcome.reviews), key=review_order
    )
    results = task.results(composed)
    if composed.warnings:
        results.statistics["warnings"] = composed.warnings
    writers = [f"{counted(n, 'answer')}: {WRITERS[source]}." for source, n in composed.sources().items()]
    report = msgspec.structs.replace(
        results.report,
        notes=[*results.report.notes, *(f"{text}." for text in composed.warnings)],
        sections=[
            *results.report.sections,
            *([Text(title="Who wrote the answers", paragraphs=writers)] if writers else []),
        ],
    )
    whole: dict[str, bytes | Iterable[bytes]] = {
        "statistics.json": (json.dumps(results.statistics, indent=2) + "\n").encode(),
        "report.html": page(report).encode(),
        "review.csv": review_sheet(reviews, task.explanations),
        "dead_letters.jsonl": (msgspec.json.encode(letter) + b"\n" for letter in composed.dead),
        **dict(review_pages(reviews, task.explanations, command=task.pipeline)),
        **results.files,
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
    """Write ``responses.parquet``."""
    import pyarrow.parquet as pq

    with pq.ParquetWriter(handle, table.schema, compression="zstd") as writer:
        if table.num_rows:
            writer.write_table(table, row_group_size=_ROW_GROUP_SIZE)


def build(pipeline: beam.Pipeline, sources: Sources, task: CrowdTask[OutcomeT]) -> None:
    """Compose the answers in one pipeline step, since all of them fit into memory.

    Raises:
      InputError: a sheet is not a decisions file. This is checked before the pipeline runs.
    """
    import apache_beam as beam

    from parapet.transforms.storage import files

    key = load_worker_key()
    for sheet in sources.decisions:
        read_sheet(sheet)
    files.prepare(task.output, task.pipeline)
    manifest = pipeline | beam.Create([sources], reshuffle=False) | "Compose" >> beam.Map(_compose, task, key)
    manifest | "Publish" >> files.PublishStaged(task.output)


def _compose(sources: Sources, task: CrowdTask[OutcomeT], key: bytes) -> dict[str, Any]:
    return stage(task, settle_all(task, read_answers(sources, key)))
