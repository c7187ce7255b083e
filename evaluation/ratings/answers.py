"""From the answers of workers to judgements that count: read as all crowd answers are, vetted, each worker's once."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, Generic, Literal, TypeVar

import msgspec
import pyarrow as pa

from parapet.schemas.decisions import csv_bytes
from parapet.schemas.errors import InputError
from parapet.schemas.layout import as_path
from parapet.schemas.limits import MAX_DIALOGUE_FILE, read_whole
from parapet.schemas.rows import RATINGS as RATINGS_SCHEMA
from parapet.schemas.rows import Assignment, CrowdTask, DeadLetter, parquet_bytes
from parapet.schemas.service import response_id
from parapet.transforms.crowd.ingest.fields import TaskKind
from parapet.transforms.crowd.ingest.files import distinct, read_responses
from parapet.transforms.crowd.merge import answers_text, merge
from parapet.transforms.crowd.settle import worker_columns
from parapet.transforms.crowd.vet import is_too_fast
from parapet.transforms.crowd.worker_ids import without_ids
from parapet.transforms.hits.judged import DECISIVE, FAITHFUL, FIELD, NATURAL, NO, POINTS, SAME, VALUES, YES
from parapet.transforms.hits.records import CHECK, PageRecord, Place, RatedItem, VariedItem
from parapet.transforms.text import counted


def judged_tasks(task: CrowdTask) -> TaskKind:
    """The pages of ``ratings`` or ``validity``."""
    task_id = re.compile(rf"(?P<service>[0-9]{{3,6}}-[0-9a-f]{{8}}):(?P<task>{task})")
    return TaskKind((task,), task_id, f"PAGE:{task}", FIELD)


# Reason to what a requester should know of it.
EXPLANATIONS = {
    "assignment_rejected": "The requester has rejected the assignment.",
    "too_fast": "The worker spent less time than reading the page takes.",
    "failed_check": "The worker answered Yes to a check: the utterance of another turn, which says none of the values.",
    "same_rating": "The worker answered Yes, or No, to each of ten utterances or more.",
    "blank": "Nothing was chosen.",
    "unknown_value": "Not one of the choices of the page.",
    "repeated": "The worker has rated this utterance before.",
    "not_needed": "As many workers as were wanted had rated the utterance before.",
    "check": "A check, which says something of the worker and nothing of the utterances.",
}
SAME_FROM = 10  # utterances

CHOICES = {FAITHFUL: (YES, NO), SAME: (YES, NO), VALUES: (YES, NO), NATURAL: POINTS}

Item = TypeVar("Item", RatedItem, VariedItem)


class Field(msgspec.Struct, frozen=True):
    """What a form field asks about which utterance."""

    item: RatedItem | VariedItem
    question: str


class Hits(msgspec.Struct, Generic[Item], frozen=True):
    """The pages by id, each of form fields, the utterances in order, checks aside, and how many workers judge each."""

    task: CrowdTask
    pages: dict[str, dict[str, Field]]
    items: list[Item]
    raters: int
    naturalness: bool

    @property
    def decisive(self) -> str:
        """The first question about each utterance."""
        return DECISIVE[self.task]


class Rating(msgspec.Struct):
    """One answer and what becomes of it: a row of ``responses.parquet``."""

    assignment: Assignment
    field: str
    of: Field
    text: str
    disposition: Literal["used", "surplus", "duplicate", "rejected"] = "used"
    reason: str = ""

    @property
    def place(self) -> Place:
        """The utterance that it is about."""
        return self.of.item.place

    @property
    def is_check(self) -> bool:
        """Whether it is about a check."""
        return self.of.item.stratum == CHECK


class Answers(msgspec.Struct, frozen=True):
    """All that was answered: every answer is a rating, or in a dead letter."""

    ratings: list[Rating]
    dead: list[DeadLetter]
    assignments: int


def read_hits(folder: str, task: CrowdTask) -> Hits[Any]:
    """Reads the manifest of ``parapet hits`` with pages of a task. Raises InputError where it is none."""
    path = as_path(folder) / "manifest.jsonl"
    try:
        lines = read_whole(path, MAX_DIALOGUE_FILE).splitlines()
    except InputError as error:
        raise InputError(f"no folder of 'parapet hits': {error.reason}", path, "--hits") from None
    pages: dict[str, dict[str, Field]] = {}
    items: dict[Place, RatedItem | VariedItem] = {}
    raters, naturalness = 0, False
    for number, line in enumerate(lines, 1):
        try:
            record = msgspec.json.decode(line, type=PageRecord)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise InputError(f"not a manifest of 'parapet hits': {error}", path, f"row {number}") from None
        of_record = record.judged
        if record.task != task or not of_record:
            raise InputError(f"has other tasks: make them with 'parapet hits --task {task}'", path, "--hits")
        page = pages.setdefault(record.task_id.partition(":")[0], {})
        try:
            page.update(_fields(record.fields, of_record, DECISIVE[task]))
        except ValueError:
            reason = "not a manifest of 'parapet hits': fields and items do not match"
            raise InputError(reason, path, f"row {number}") from None
        items |= {item.place: item for item in of_record if item.stratum != CHECK}
        raters = record.assignments
        naturalness = naturalness or any(field.startswith(NATURAL) for field in record.fields)
    if not items:
        raise InputError("has no utterance to be rated", path, "--hits")
    return Hits(task, pages, list(items.values()), raters, naturalness)


def _fields(
    fields: Sequence[str], items: Sequence[RatedItem | VariedItem], decisive: str
) -> Iterator[tuple[str, Field]]:
    """What each field asks. Raises ValueError where those of each item do not begin with the decisive one."""
    of_items = [list(group) for _, group in groupby(fields, lambda field: field.rpartition("_")[2])]
    for of_item, item in zip(of_items, items, strict=True):
        if of_item[0].rpartition("_")[0] != decisive:
            raise ValueError(of_item[0])
        for field in of_item:
            yield field, Field(item, field.rpartition("_")[0])


def read_answers(paths: Sequence[str], hits: Hits[Item], key: bytes, encoding: str = "utf-8") -> Answers:
    """Reads batch CSVs and JSON lines, and vets what is in them.

    Args:
      paths: the files.
      hits: the pages that workers saw.
      key: for the workers' hashes.
      encoding: of files without a byte order mark.
    """
    tasks = judged_tasks(hits.task)
    records = [record for path in distinct(paths) for record in read_responses(path, key, encoding, tasks)]
    merged = merge([record for record in records if isinstance(record, Assignment)], [])
    dead: list[DeadLetter] = [record for record in records if isinstance(record, DeadLetter)] + merged.dead
    ratings: list[Rating] = []
    for assignment in merged.assignments:
        page = hits.pages.get(assignment.service_name)
        if page is None:
            reason = f"unknown_page: the HITs have no page {assignment.service_name!r}"
            shown, key_of = answers_text(assignment.answers), assignment.assignment_id
            dead.append(DeadLetter("compose", key_of, reason, shown, assignment.source))
            continue
        for field, text in assignment.answers.items():
            if field in page:
                ratings.append(Rating(assignment, field, page[field], text.strip()))
            elif text.strip():
                reason = f"unknown_field: the page has no field {field}"
                key_of, shown = response_id(assignment.assignment_id, field), answers_text({field: text})
                dead.append(DeadLetter("compose", key_of, reason, shown, assignment.source))
    vet(ratings, hits.raters)
    return Answers(ratings, [*map(without_ids, dead)], len(merged.assignments))


def vet(ratings: Sequence[Rating], raters: int) -> None:
    """Sets the disposition of each rating: what rejects a whole assignment comes first, then what concerns one answer.

    Args:
      ratings: of all assignments.
      raters: how many workers rate an utterance; of more, those who were first count.
    """
    by_assignment: dict[str, list[Rating]] = defaultdict(list)
    for rating in ratings:
        by_assignment[rating.assignment.assignment_id].append(rating)
    same = _same_everywhere(ratings)
    for of_assignment in by_assignment.values():
        reason = _reason_of(of_assignment, same)
        for rating in of_assignment:
            why = reason or _reason_of_answer(rating)
            if why:
                rating.disposition, rating.reason = "rejected", why
            elif rating.is_check:
                rating.disposition, rating.reason = "surplus", "check"
    _keep_first(ratings, raters)


def _reason_of(ratings: Sequence[Rating], same: set[str]) -> str:
    assignment = ratings[0].assignment
    if assignment.rejected:
        return "assignment_rejected"
    if is_too_fast(assignment, len(ratings)):
        return "too_fast"
    if any(rating.is_check and rating.of.question in DECISIVE.values() and rating.text == YES for rating in ratings):
        return "failed_check"
    return "same_rating" if assignment.worker_hash in same else ""


def _reason_of_answer(rating: Rating) -> str:
    if not rating.text:
        return "blank"
    return "" if rating.text in CHOICES[rating.of.question] else "unknown_value"


def _same_everywhere(ratings: Iterable[Rating]) -> set[str]:
    """The hashes of workers who gave one answer to all utterances, of which they had ``SAME_FROM`` or more."""
    given: dict[str, list[str]] = defaultdict(list)
    for rating in ratings:
        if rating.of.question in DECISIVE.values() and rating.text in (YES, NO):
            given[rating.assignment.worker_hash].append(rating.text)
    return {worker for worker, texts in given.items() if worker and len(texts) >= SAME_FROM and len(set(texts)) == 1}


def _keep_first(ratings: Iterable[Rating], raters: int) -> None:
    """Of each utterance and question one rating of a worker counts, and so many as were wanted, the first ones."""
    taken: dict[tuple[Place, str], set[str]] = defaultdict(set)
    for rating in sorted(ratings, key=_order):
        if rating.disposition != "used":
            continue
        workers = taken[rating.place, rating.of.question]
        worker = rating.assignment.worker_hash or rating.assignment.assignment_id
        if worker in workers:
            rating.disposition, rating.reason = "duplicate", "repeated"
        elif len(workers) == raters:
            rating.disposition, rating.reason = "surplus", "not_needed"
        else:
            workers.add(worker)


def _order(rating: Rating) -> tuple[bool, int, str]:
    submitted = rating.assignment.submit_time
    return submitted is None, submitted or 0, rating.assignment.assignment_id


def responses_bytes(ratings: Iterable[Rating]) -> bytes:
    """``responses.parquet``, which ``parapet mturk pay --audit`` reads, too."""
    rows = [
        {
            "response_id": response_id(rating.assignment.assignment_id, rating.field),
            "dialogue_id": rating.of.item.dialogue_id,
            "turn": rating.of.item.turn,
            "stratum": rating.of.item.stratum,
            "question": rating.of.question,
            "text": rating.text,
            "disposition": rating.disposition,
            "reason": rating.reason,
            **worker_columns(rating.assignment),
        }
        for rating in sorted(ratings, key=_row_order)
    ]
    return parquet_bytes(pa.Table.from_pylist(rows, RATINGS_SCHEMA))


def _row_order(rating: Rating) -> tuple[str, int, str, str, str]:
    item = rating.of.item
    return item.dialogue_id, item.turn, item.place[0], rating.assignment.assignment_id, rating.field


def why_none(answers: Answers) -> str:
    """Why no answer can be used: the most frequent reasons."""
    reasons = Counter(rating.reason for rating in answers.ratings if rating.reason)
    reasons += Counter(letter.reason.partition(":")[0] for letter in answers.dead)
    return ", ".join(f"{n:,} {reason}" for reason, n in reasons.most_common(3)) or "the files hold none"


def answer_counts(answers: Answers) -> dict[str, Any]:
    """How many workers and assignments there are, answers by disposition and by reason, and dead letters."""
    reasons: dict[str, Counter[str]] = defaultdict(Counter)
    for rating in answers.ratings:
        if rating.reason:
            reasons[rating.disposition][rating.reason] += 1
    return {
        "workers": len({rating.assignment.worker_hash for rating in answers.ratings if rating.assignment.worker_hash}),
        "assignments": answers.assignments,
        "answers": dict(sorted(Counter(rating.disposition for rating in answers.ratings).items())),
        "reasons": {disposition: dict(sorted(of.items())) for disposition, of in sorted(reasons.items())},
        "dead_letters": len(answers.dead),
    }


def answer_warnings(short: int, answers: Answers) -> list[str]:
    """What the requester should look at; ``short`` is how many utterances lack ratings."""
    warnings = [f"{counted(short, 'utterance')} short of ratings, see shortfall.csv"] if short else []
    if answers.dead:
        warnings.append(f"not used: {counted(len(answers.dead), 'record')}, see dead_letters.jsonl")
    return warnings


def answer_files(hits: Hits[Item], answers: Answers, votes: Mapping[Place, int]) -> dict[str, bytes]:
    """The files about answers, by path.

    Args:
      hits: the pages.
      answers: all of them.
      votes: how many workers have answered the decisive question about each utterance, of those that lack some.
    """
    return {
        "responses.parquet": responses_bytes(answers.ratings),
        "shortfall.csv": _shortfall(hits, votes),
        "dead_letters.jsonl": b"".join(line + b"\n" for line in sorted(map(msgspec.json.encode, answers.dead))),
    }


def _shortfall(hits: Hits[Item], votes: Mapping[Place, int]) -> bytes:
    """``shortfall.csv`` as ``parapet mturk topup`` reads it: a row for each utterance that lacks ratings."""
    fields = {
        field.item.place: (page_id, name)
        for page_id, page in hits.pages.items()
        for name, field in page.items()
        if field.question == hits.decisive and field.item.stratum != CHECK
    }
    rows = []
    for place, n in votes.items():
        page_id, field = fields[place]
        element_id = ":".join(str(part) for part in place if part != "")
        rows.append([page_id, element_id, hits.task, field, str(n), str(hits.raters)])
    return csv_bytes(("service_name", "element_id", "task", "field", "have", "need"), sorted(rows))
