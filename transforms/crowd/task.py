"""A kind of crowd task, an answer to one, and what became of the answers; for schemas, rewritten turns and ratings.

Each answer ends with a disposition. A kind of task says what its tasks are about (a service, a turn, a page), vets
the answers about one of these, and chooses those that are used. :mod:`.vet`, :mod:`.rank` and :mod:`.compose` are the
Beam transforms of the tasks that paraphrase schemas. :class:`WriteComposition` writes what all kinds of tasks have: the
audit of every answer, the review pages, the report, and the files of the task itself.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import reduce
from itertools import chain
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

import apache_beam as beam
import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
from apache_beam.transforms.window import GlobalWindow
from apache_beam.utils.windowed_value import WindowedValue

from parapet.schemas import errors, layout
from parapet.schemas.rows import DISPOSITIONS, WRITERS, AnswerSource, Assignment, DeadLetter, Disposition
from parapet.schemas.service import response_id
from parapet.transforms.core import files
from parapet.transforms.crowd import answer_files, ingest, lexicon, rules, worker_ids
from parapet.transforms.crowd.report import (
    WORK_TIMES,
    ReviewItem,
    Work,
    neighbours,
    review_order,
    review_pages,
    review_sheet,
    work_times,
)
from parapet.transforms.report.numbers import sections_of
from parapet.transforms.report.report import Report, Text, page
from parapet.transforms.report.text import counted

_SHOWN = 3  # examples in a warning
_RANK = {"": 0, "review": 1, "reject": 2}


class Answer(msgspec.Struct, kw_only=True, array_like=True):
    """A worker's answer in a form field.

    Attributes:
      text: the text as typed.
      canonical: the text as it would be written to the output. ``words`` are its words; empty if nothing is left of it.
      decision: a reviewer's decision; empty if there is none.
      verdict: that of the rules, or a reviewer's rejection.
      disposition: ``surplus`` is a good answer that has not been chosen yet.
      same_answers: the number of answers with the same words, on the one that stands for them; 0 on the others.
      flags: ids of all rules that apply, if the answer is held for review.
      doubt: lower for answers that are less likely to mean what they should.
    """

    response_id: str
    text: str
    canonical: str
    words: tuple[str, ...]
    worker_hash: str
    accept_time: int | None
    submit_time: int | None
    work_seconds: int | None
    source: AnswerSource
    keystrokes: int | None
    pastes: int | None
    seconds: float | None
    decision: str = ""
    verdict: rules.Verdict = rules.PASS
    disposition: Disposition = "surplus"
    reason: str = "not_drawn"
    same_answers: int = 0
    flags: tuple[str, ...] = ()
    doubt: float = 0.0

    @property
    def accepted(self) -> bool:
        """Whether a reviewer accepted or fixed the answer."""
        return self.decision in ("accept", "fix")

    @property
    def kind(self) -> str:
        """Returns the kind by which answers are counted."""
        return ""

    def same(self) -> str:
        """Returns the key that answers with the same words share."""
        return " ".join(self.words)

    def spelling(self) -> tuple[Any, ...]:
        """Returns a sort key that puts the better spelled of two answers with the same words first."""
        return lexicon.spelling_rank(self.canonical, self.words, self.text) if self.words else ()

    def shown(self) -> tuple[str, str, str, str]:
        """Returns what a reviewer sees: the element's id, the task, what the worker saw, and the original."""
        raise NotImplementedError

    def row(self) -> dict[str, Any]:
        """Returns the answer's row of ``responses.parquet``."""
        names = ("response_id", "text", "canonical", "disposition", "reason", "worker_hash", "work_seconds", "source")
        return {
            **{name: getattr(self, name) for name in (*names, "keystrokes", "pastes", "seconds")},
            "accept_time": self.accept_time and self.accept_time * 1000,  # Parquet has no unit of seconds
            "submit_time": self.submit_time and self.submit_time * 1000,
        }


AnswerT = TypeVar("AnswerT", bound=Answer)
RecordT = TypeVar("RecordT")
OutcomeT = TypeVar("OutcomeT", bound="Outcome")


def answer_columns(assignment: Assignment, field: str) -> dict[str, Any]:
    """Returns what an answer takes from its assignment: its id, worker, times, source, and how the field was typed."""
    return {
        "response_id": response_id(assignment.assignment_id, field),
        "source": assignment.platform,
        **{name: getattr(assignment, name) for name in ("worker_hash", "accept_time", "submit_time", "work_seconds")},
        **{name: getattr(assignment, name).get(field) for name in ("keystrokes", "pastes", "seconds")},
    }


def apply_decision(
    make: Callable[[str], AnswerT], submission: ingest.Submission, field: str, problem: Callable[[AnswerT], str]
) -> tuple[AnswerT, list[DeadLetter]]:
    """Makes an answer, with the reviewer's decision on it; one that cannot be carried out becomes a dead letter.

    Args:
      make: creates the answer for a text.
      submission: the form with the answer.
      field: the form field.
      problem: returns why not even a reviewer can accept an answer, or an empty string.
    """
    text, decision = submission.assignment.answers[field], submission.decisions.get(field)
    answer = make(decision.text if decision is not None and decision.decision == "fix" else text)
    if decision is None:
        return answer, []
    if decision.decision == "reject":
        answer.verdict = rules.Verdict("reject", f"reviewer: {decision.reason}" if decision.reason else "reviewer")
    elif why := problem(answer):
        return make(text), [ingest.unusable_decision(decision, f"bad_decision: {why}")]
    answer.decision = decision.decision
    return answer, []


def merge_equal_answers(answers: Iterable[AnswerT]) -> list[AnswerT]:
    """Gives each answer to one element a disposition, and returns those that stand for all with the same words.

    A reviewer judges words, so a rejection applies to all workers who gave them, unless one of their answers was
    accepted. Answers that need a review are held together. If one answer passes, the others are its duplicates.
    """
    groups: dict[str, list[AnswerT]] = defaultdict(list)
    for answer in answers:
        groups[answer.same() or f"\0{answer.response_id}"].append(answer)
    return [_merge(same) for same in groups.values()]


def _merge(same: list[AnswerT]) -> AnswerT:
    reviewer = next((a.verdict for a in same if a.verdict.reason.startswith("reviewer")), None)
    if reviewer is not None and not any(a.accepted for a in same):
        for answer in same:
            if answer.verdict.action != "reject":
                answer.verdict = reviewer
    if len(same) > 1:
        same.sort(key=lambda a: (_RANK[a.verdict.action], not a.accepted, a.spelling(), a.canonical, a.response_id))
    best = same[0]
    best.same_answers = len(same)
    for answer in same:
        if (action := answer.verdict.action) == "reject":
            answer.disposition, answer.reason = "rejected", answer.verdict.reason
        elif answer is best and not action:
            answer.disposition, answer.reason = "surplus", "not_drawn"
        elif best.verdict.action == "review":
            answer.disposition, answer.reason = "review", answer.verdict.reason
        else:
            answer.disposition, answer.reason = "duplicate", f"duplicate_of: {best.response_id}"
    return best


class Outcome(msgspec.Struct, kw_only=True):
    """What became of the answers about one service, turn or page, without the answers themselves.

    Attributes:
      name: of the service or page, or the place of the turn.
      short: the elements or turns that need more good answers.
      answers: the number of answers by kind and disposition; ``reasons`` by kind, disposition and reason.
      sources: the number of answers by source; ``decisions`` of reviewers' decisions that took effect.
    """

    name: str
    reviews: list[ReviewItem] = []
    short: list[Any] = []
    answers: Counter[tuple[str, str]] = msgspec.field(default_factory=Counter)
    reasons: Counter[tuple[str, str, str]] = msgspec.field(default_factory=Counter)
    sources: Counter[str] = msgspec.field(default_factory=Counter)
    decisions: Counter[str] = msgspec.field(default_factory=Counter)

    def counts(self) -> dict[str, int]:
        """Returns further counts for ``run.json``."""
        return {}

    def note(self, answers: Sequence[Answer], places: Iterable[Sequence[Answer]] = ()) -> None:
        """Counts the answers, and lists those that are held.

        Args:
          answers: all answers, with their final dispositions.
          places: for each element and task, the answers that stand for those with the same words.
        """
        for answer in answers:
            self.answers[answer.kind, answer.disposition] += 1
            self.sources[answer.source] += 1
            if answer.decision:
                self.decisions[answer.decision] += 1
            if answer.reason:
                self.reasons[answer.kind, answer.disposition, answer.reason.partition(":")[0]] += 1
        self.reviews = sorted((item for distinct in places for item in review_items(distinct)), key=review_order)


class Notes(msgspec.Struct):
    """What a composition counts and warns of, over all assignments.

    Attributes:
      counts: ``assignments``, ``answers`` with a text, ``vetted`` answers, ``unread`` times, and ``anonymous``
        assignments, without a worker's id.
      unread: the first times that could not be read.
      anonymous: the place of the first assignment without a worker's id.
      work: how long assignments took, and their rewards.
    """

    counts: Counter[str] = msgspec.field(default_factory=Counter)
    unread: list[str] = []
    anonymous: list[str] = []
    work: list[Work] = []

    def add(self, assignment: Assignment) -> None:
        """Notes an assignment."""
        self.counts.update(assignments=1, answers=len(ingest.answer_ids(assignment)), unread=len(assignment.unread))
        self.work.append((assignment.task, assignment.work_seconds, assignment.reward))
        if assignment.unread:
            self.unread = _first(_SHOWN, self.unread, [f"{assignment.source}: {text}" for text in assignment.unread])
        if not assignment.worker_hash:
            self.counts["anonymous"] += 1
            self.anonymous = _first(1, self.anonymous, [assignment.source])

    def merged(self, other: Notes) -> Notes:
        """Returns the notes of both."""
        anonymous = _first(1, self.anonymous, other.anonymous)
        unread = _first(_SHOWN, self.unread, other.unread)
        return Notes(self.counts + other.counts, unread, anonymous, self.work + other.work)

    def warnings(self) -> list[str]:
        """Returns sentences about times that could not be read, and about assignments without worker ids."""
        sentences = []
        if n := self.counts["unread"]:
            shown = "; ".join(map(worker_ids.redact, self.unread))
            more = f"; and {n - _SHOWN:,} more" if n > _SHOWN else ""
            sentences.append(f"{counted(n, 'time')} could not be read, so left empty: {shown}{more}")
        if n := self.counts["anonymous"]:
            sentences.append(
                f"{counted(n, 'assignment')} without a WorkerId (first {self.anonymous[0]}): several answers of one "
                "person count as those of several, and it cannot be checked who has seen what was to be paraphrased"
            )
        return sentences


def _first(n: int, *lists: Iterable[str]) -> list[str]:
    return sorted(chain(*lists))[:n]


def review_items(distinct: Sequence[Answer]) -> list[ReviewItem]:
    """Lists the answers to one element that are held for review, each standing for those with the same words."""
    held = [answer for answer in distinct if answer.disposition == "review"]
    most = min((answer.doubt for answer in held), default=0.0)
    shown = [(answer.canonical, answer.disposition) for answer in distinct]
    items = []
    for answer in held:
        beside, more = neighbours(shown, (answer.canonical, answer.disposition))
        reasons = list(dict.fromkeys([answer.reason, *answer.flags]))
        texts, doubt = (answer.text, answer.canonical, reasons), (most, answer.doubt)
        items.append(ReviewItem(answer.response_id, *answer.shown(), *texts, answer.same_answers, beside, more, doubt))
    return items


class Results(NamedTuple):
    """The output of a task about the whole batch: ``statistics.json``, the report, and further files by path."""

    statistics: dict[str, Any]
    report: Report
    files: Mapping[str, bytes]


class CrowdTask(Generic[OutcomeT]):
    """A kind of crowd task whose answers can be composed.

    Attributes:
      command: the name of the command that composes its answers.
      kind: the ids of its tasks, and the fields of its forms.
      audit_schema: the schema of ``responses.parquet``.
      explanations: reason id to a sentence that explains it to reviewers and requesters.
      method: the options that affect the result; ``header`` has further entries of ``run.json``.
      output: the output folder.
    """

    command: ClassVar[str]
    kind: ClassVar[answer_files.TaskKind]
    audit_schema: ClassVar[pa.Schema]
    explanations: Mapping[str, str]
    method: Mapping[str, str]
    header: Mapping[str, Any] = {}
    output: str = ""

    def results(self, outcomes: Sequence[OutcomeT], dead: Sequence[DeadLetter]) -> Results:
        """Returns the output about the whole batch, given the outcomes in the order of names and all dead letters."""
        raise NotImplementedError


def all_end(
    submissions: Sequence[ingest.Submission], records: Iterable[AnswerT | DeadLetter]
) -> Iterator[AnswerT | DeadLetter]:
    """Yields the vetted answers and dead letters, and checks that each answer of the submissions is in exactly one.

    Raises:
      RuntimeError: an answer is missing or duplicated.
    """
    open_answers = {s.assignment.assignment_id: {*ingest.answer_ids(s.assignment)} for s in submissions}
    ended: Counter[str] = Counter()
    for record in records:
        if isinstance(record, Answer):
            ended.update([record.response_id] if record.text.strip() else ())
        elif record.stage != "decisions":
            ended.update(open_answers.get(record.key, [record.key]))
        yield record
    given = Counter(answer for answers in open_answers.values() for answer in answers)
    if given != Counter({answer: n for answer, n in ended.items() if answer in given}):
        raise RuntimeError("the counts do not balance for answers_given")


def without_dead(records: Iterable[RecordT | DeadLetter], dead: list[DeadLetter]) -> Iterator[RecordT]:
    """Yields the records that are no dead letters, and appends those that are to ``dead``."""
    for record in records:
        if isinstance(record, DeadLetter):
            dead.append(record)
        else:
            yield record


@contextmanager
def judging(name: str) -> Iterator[None]:
    """Names the service or turn if judging its answers fails unexpectedly, which is a bug."""
    try:
        yield
    except errors.InputError:  # a vetting rule of a plug-in failed
        raise
    except Exception as error:
        raise RuntimeError(f"the answers about {name} could not be judged: {type(error).__name__}") from error


def unknown(submissions: Iterable[ingest.Submission], reason: str) -> list[DeadLetter]:
    """Returns the dead letters of answers about a service or turn that does not exist, and of their decisions."""
    void = f"unused_response: {reason.partition(': ')[2]}"
    dead = []
    for submission in submissions:
        assignment = submission.assignment
        dead += [ingest.unusable_decision(decision, void) for decision in submission.decisions.values()]
        shown = ingest.answers_text(assignment.answers)
        dead.append(DeadLetter("compose", assignment.assignment_id, reason, shown, assignment.source))
    return dead


def total(counts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """Adds up counts by name, in the order of names."""
    sums: Counter[str] = Counter()
    for some in counts:
        sums.update(some)
    return dict(sorted(sums.items()))


def dispositions(outcomes: Iterable[Outcome], kinds: Sequence[str] = ("",)) -> dict[str, int]:
    """Counts the answers of some kinds, in total and by disposition."""
    sums = sum((outcome.answers for outcome in outcomes), Counter[tuple[str, str]]())
    counts: dict[str, int] = {name: sum(sums[kind, name] for kind in kinds) for name in DISPOSITIONS}
    return {"total": sum(counts.values()), **counts}


def reasons(outcomes: Iterable[Outcome], kinds: Sequence[str] = ("",)) -> dict[str, dict[str, int]]:
    """Counts the answers of some kinds by disposition and reason."""
    by_disposition: dict[str, Counter[str]] = {
        name: Counter() for name in ("rejected", "review", "surplus", "duplicate")
    }
    for outcome in outcomes:
        for (kind, disposition, reason), n in outcome.reasons.items():
            if kind in kinds:
                by_disposition[disposition][reason] += n
    return {disposition: dict(sorted(counts.items())) for disposition, counts in by_disposition.items()}


AUDIT = "responses.parquet"
_ROW_GROUP_SIZE = 1 << 16


def batch_files(
    task: CrowdTask[Any], outcomes: Sequence[Outcome], dead: Sequence[DeadLetter], notes: Notes
) -> Iterator[tuple[str, bytes | Iterable[bytes]]]:
    """Yields (path, content) of statistics, report, review sheet and pages, dead letters and the task's own files.

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
    letters = sorted(map(worker_ids.without_ids, dead), key=msgspec.json.encode)
    results = task.results(sorted(outcomes, key=lambda outcome: outcome.name), letters)
    results.statistics["work"] = work_times(notes.work)
    if warnings := notes.warnings():
        results.statistics["warnings"] = warnings
    writers = [
        f"{counted(n, 'answer')}: {WRITERS[source]}." for source, n in total(o.sources for o in outcomes).items()
    ]
    report = msgspec.structs.replace(
        results.report,
        notes=[*results.report.notes, *(f"{text}." for text in warnings)],
        sections=[
            *results.report.sections,
            *sections_of(results.statistics, WORK_TIMES),
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
    """Returns the rows of some answers in the columns of ``responses.parquet``."""
    return pa.Table.from_pylist([answer.row() for answer in answers], schema)


def write_audit(output: str, tables: Iterable[pa.Table], schema: pa.Schema) -> files.Written:
    """Writes ``responses.parquet`` into staging from tables of one or more rows, which are gathered into row groups."""
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
        """Converts a PCollection of (outcome, answers) to the manifest."""
        if (vetted := self.vetted) is None:
            vetted = outcomes | "All answers" >> beam.FlatMap(lambda pair: pair[1])
        nothing = outcomes.pipeline | "No files" >> beam.Create([], reshuffle=False)
        whole = [
            outcomes | "Part" >> beam.Map(_write_part, self.task.output, self.task.audit_schema),
            self.assignments | "Notes" >> beam.ParDo(_Note()),
            vetted | "Vetted" >> beam.combiners.Count.Globally(),
            self.dead | "Dead letters" >> beam.Flatten(),
            [nothing, *self.written] | "Written" >> beam.Flatten(),
        ]
        once = outcomes.pipeline | "Once" >> beam.Create([self.task], reshuffle=False)
        manifest = once | "Whole batch" >> beam.Map(_write_batch, *map(beam.pvalue.AsList, whole))
        return manifest | "Publish" >> files.PublishStaged(self.task.output)


class _Note(beam.DoFn):
    """Adds up notes on the assignments of a bundle."""

    def start_bundle(self) -> None:
        self.notes = Notes()

    def process(self, element: Assignment) -> None:
        self.notes.add(element)

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
    vetted: Sequence[int],
    dead: Sequence[DeadLetter],
    written: Sequence[files.Written],
) -> dict[str, Any]:
    """Writes the files about all answers into staging, and returns the manifest."""
    folder = files.join(task.output, layout.STAGING)
    parts = sorted(parts, key=lambda part: part[1].name)
    data = (files.read_bytes(files.join(folder, path)) for path, _ in parts)
    tables = (pa.ipc.open_stream(part).read_all() for part in data)
    total_notes = reduce(Notes.merged, notes, Notes())
    total_notes.counts.update(vetted=sum(vetted))
    return stage_batch(task, tables, [outcome for _, outcome in parts], dead, total_notes, written)


def stage_batch(
    task: CrowdTask[Any],
    tables: Iterable[pa.Table],
    outcomes: Sequence[Outcome],
    dead: Sequence[DeadLetter],
    notes: Notes,
    written: Sequence[files.Written] = (),
) -> dict[str, Any]:
    """Writes all files but those in ``written`` into staging, and returns the manifest.

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
    header = {**errors.run_header(task.command, task.method), **task.header}
    return files.manifest_of(header, {name: n for name, n in sorted(counts.items()) if n}, [*batch, *written])
