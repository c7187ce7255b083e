"""From the answers of workers to ratings that count: read as all crowd answers are, vetted, each worker's once."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal

import msgspec
import pyarrow as pa

from parapet.schemas.elements import response_id
from parapet.schemas.errors import InputError
from parapet.schemas.layout import as_path
from parapet.schemas.responses import RATINGS as RATINGS_SCHEMA
from parapet.schemas.responses import Assignment, DeadLetter
from parapet.transforms.crowd.ingest.fields import TaskKind, payload
from parapet.transforms.crowd.ingest.files import distinct, read_responses
from parapet.transforms.crowd.merge import merge
from parapet.transforms.crowd.vet import is_too_fast
from parapet.transforms.hits.ratings import FAITHFUL, FIELD, NATURAL, NO, POINTS, YES
from parapet.transforms.hits.records import PageRecord, RatedItem
from parapet.transforms.hits.terms import RATINGS
from parapet.transforms.parquet import parquet_bytes

RATING_TASKS = TaskKind(
    (RATINGS,),
    re.compile(r"(?P<service>[0-9]{3,6}-[0-9a-f]{8}):(?P<task>ratings)"),
    "PAGE:ratings",
    FIELD,
)

# Reason to what a requester should know of it.
EXPLANATIONS = {
    "assignment_rejected": "The requester has rejected the assignment.",
    "too_fast": "The worker spent less time than reading the page takes.",
    "failed_check": "The worker found a check faithful: the utterance of another turn, which says none of the values.",
    "same_rating": "The worker answered Yes, or No, to each of ten utterances or more.",
    "blank": "Nothing was chosen.",
    "unknown_value": "Not one of the choices of the page.",
    "repeated": "The worker has rated this utterance before.",
    "not_needed": "As many workers as were wanted had rated the utterance before.",
    "check": "A check, which says something of the worker and nothing of the system.",
}
SAME_FROM = 10  # utterances

CHOICES = {FAITHFUL: (YES, NO), NATURAL: POINTS}

Place = tuple[str, int]  # dialogue id, turn


class Field(msgspec.Struct, frozen=True):
    """What a form field asks about which utterance."""

    item: RatedItem
    question: str


class Page(msgspec.Struct, frozen=True):
    """A page of ``parapet hits --task ratings``, all of its parts: form field to what it asks."""

    fields: dict[str, Field]


class Hits(msgspec.Struct, frozen=True):
    """The pages by id, the utterances in order, checks aside, and how many workers rate each."""

    pages: dict[str, Page]
    items: list[RatedItem]
    raters: int
    naturalness: bool


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
        """The turn that it is about."""
        return self.of.item.dialogue_id, self.of.item.turn

    @property
    def is_check(self) -> bool:
        """Whether it is about a check."""
        return self.of.item.stratum == "check"


class Answers(msgspec.Struct, frozen=True):
    """All that was answered: every answer is a rating, or in a dead letter."""

    ratings: list[Rating]
    dead: list[DeadLetter]
    assignments: int


def read_hits(folder: str) -> Hits:
    """Reads the manifest of ``parapet hits --task ratings``. Raises InputError where it is none."""
    path = as_path(folder) / "manifest.jsonl"
    try:
        lines = path.read_bytes().splitlines()
    except OSError as error:
        raise InputError(f"no folder of 'parapet hits': {error.strerror or error}", path, "--hits") from None
    pages: dict[str, Page] = {}
    items: dict[Place, RatedItem] = {}
    raters, naturalness = 0, False
    for number, line in enumerate(lines, 1):
        try:
            record = msgspec.json.decode(line, type=PageRecord)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise InputError(f"not a manifest of 'parapet hits': {error}", path, f"row {number}") from None
        if record.task != RATINGS or not record.items:
            raise InputError("has other tasks: make them with 'parapet hits --task ratings'", path, "--hits")
        if not _fits(record):
            raise InputError("not a manifest of 'parapet hits': fields and items do not match", path, f"row {number}")
        page = pages.setdefault(record.task_id.partition(":")[0], Page({}))
        page.fields.update(_fields(record))
        items |= {(item.dialogue_id, item.turn): item for item in record.items if item.stratum != "check"}
        raters = record.assignments
        naturalness = naturalness or any(field.startswith(NATURAL) for field in record.fields)
    if not items:
        raise InputError("has no utterance to be rated", path, "--hits")
    return Hits(pages, list(items.values()), raters, naturalness)


def _fits(record: PageRecord) -> bool:
    """Whether there are as many fields for each item, the first of which asks whether it is faithful."""
    each, rest = divmod(len(record.fields), len(record.items or ()))
    return each > 0 and not rest and all(field.startswith(f"{FAITHFUL}_") for field in record.fields[::each])


def _fields(record: PageRecord) -> Iterator[tuple[str, Field]]:
    items = record.items or []
    each = len(record.fields) // len(items)
    for i, field in enumerate(record.fields):
        yield field, Field(items[i // each], field.partition("_")[0])


def read_answers(paths: Sequence[str], hits: Hits, key: bytes, encoding: str = "utf-8") -> Answers:
    """Reads batch CSVs and JSON lines, and vets what is in them.

    Args:
      paths: the files.
      hits: the pages that workers saw.
      key: for the workers' hashes.
      encoding: of files without a byte order mark.
    """
    records = [record for path in distinct(paths) for record in read_responses(path, key, encoding, RATING_TASKS)]
    merged = merge([record for record in records if isinstance(record, Assignment)], [])
    dead = [record for record in records if isinstance(record, DeadLetter)] + merged.dead
    ratings: list[Rating] = []
    for assignment in merged.assignments:
        page = hits.pages.get(assignment.service_name)
        if page is None:
            reason = f"unknown_page: the HITs have no page {assignment.service_name!r}"
            dead.append(_dead(assignment, assignment.assignment_id, reason, assignment.answers))
            continue
        for field, text in assignment.answers.items():
            if field in page.fields:
                ratings.append(Rating(assignment, field, page.fields[field], text.strip()))
            elif text.strip():
                reason = f"unknown_field: the page has no field {field}"
                dead.append(_dead(assignment, response_id(assignment.assignment_id, field), reason, {field: text}))
    vet(ratings, hits.raters)
    return Answers(ratings, dead, len(merged.assignments))


def _dead(assignment: Assignment, key: str, reason: str, answers: Mapping[str, str]) -> DeadLetter:
    shown = ", ".join(f"{field}={text}" for field, text in sorted(answers.items()) if text)
    return DeadLetter("compose", key, reason, payload(shown), assignment.source)


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
    if any(rating.is_check and rating.of.question == FAITHFUL and rating.text == YES for rating in ratings):
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
        if rating.of.question == FAITHFUL and rating.text in CHOICES[FAITHFUL]:
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
            "worker_hash": rating.assignment.worker_hash,
            "accept_time": _milliseconds(rating.assignment.accept_time),
            "submit_time": _milliseconds(rating.assignment.submit_time),
            "work_seconds": rating.assignment.work_seconds,
        }
        for rating in sorted(ratings, key=lambda rating: (rating.place, rating.assignment.assignment_id, rating.field))
    ]
    return parquet_bytes(pa.Table.from_pylist(rows, RATINGS_SCHEMA))


def _milliseconds(seconds: int | None) -> int | None:
    return None if seconds is None else seconds * 1000
