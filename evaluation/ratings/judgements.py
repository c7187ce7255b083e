"""What workers say of utterances that they judge: answers, read and vetted as all are, and how far they agree."""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from statistics import NormalDist
from typing import Any, Generic, Literal, TypeVar

import msgspec
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from parapet.evaluation.bootstrap import REPLICATES, interval, means, quiet, replicated, weights
from parapet.evaluation.lines import ALL
from parapet.evaluation.task import Metrics
from parapet.schemas.decisions import csv_bytes
from parapet.schemas.elements import response_id
from parapet.schemas.errors import InputError
from parapet.schemas.layout import as_path
from parapet.schemas.limits import MAX_DIALOGUE_FILE, read_whole
from parapet.schemas.responses import RATINGS as RATINGS_SCHEMA
from parapet.schemas.responses import Assignment, CrowdTask, DeadLetter
from parapet.transforms.crowd.composing import worker_columns
from parapet.transforms.crowd.ingest import TaskKind, distinct, read_responses
from parapet.transforms.crowd.merge import answers_text, merge
from parapet.transforms.crowd.vet import is_too_fast
from parapet.transforms.crowd.worker_ids import without_ids
from parapet.transforms.hits.judged import DECISIVE, FAITHFUL, FIELD, NATURAL, NO, POINTS, SAME, VALUES, YES
from parapet.transforms.hits.page import CHECK, PageRecord, Place, RatedItem, VariedItem
from parapet.transforms.parquet import parquet_bytes
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


Interval = tuple[float, float]

_Z = NormalDist().inv_cdf(0.975)

VALIDATED, INVALID = "#VALIDATED", "#INVALID"
# The groups, and the strata of which they are.
GROUPS: Mapping[str, frozenset[str]] = {
    ALL: frozenset({"faithful", "unfaithful", "invalid"}),
    VALIDATED: frozenset({"faithful", "unfaithful"}),
    "#FAITHFUL": frozenset({"faithful"}),
    "#UNFAITHFUL": frozenset({"unfaithful"}),
    INVALID: frozenset({"invalid"}),
}
Votes = tuple[tuple[str, str], ...]  # (worker hash, answer) of the ratings that count

METRICS = ("agreement", "human_faithful", "naturalness", "fleiss_kappa", "krippendorff_alpha")


class Judged(msgspec.Struct, frozen=True):
    """What people say of an utterance.

    Attributes:
      votes: yes or no.
      natural: the ratings of naturalness.
      majority: whether it is faithful; None where there is no majority.
    """

    item: RatedItem
    votes: Votes
    natural: tuple[int, ...]
    majority: bool | None

    @property
    def agrees(self) -> bool | None:
        """Whether the metric says the same."""
        return None if self.majority is None else self.majority is self.item.faithful

    @property
    def counts(self) -> list[int]:
        """How many found it faithful, and how many not."""
        return [sum(vote == choice for _, vote in self.votes) for choice in (YES, NO)]

    def values(self) -> dict[str, float | None]:
        """Of each metric that is a mean over utterances, the value of this one."""
        return {
            "agreement": None if self.agrees is None else float(self.agrees),
            "human_faithful": None if self.majority is None else float(self.majority),
            "naturalness": sum(self.natural) / len(self.natural) if self.natural else None,
        }


class GroupDetails(msgspec.Struct, frozen=True):
    """What ``details.json`` has of a group.

    Attributes:
      utterances: how many were to be rated; ``majorities`` have one.
      complete: how many have all wanted ratings: those of kappa.
      confusion: metric to majority (``none`` where there is none) to a number.
      intervals: of 95 %, by metric; None where there is none.
    """

    utterances: int
    majorities: int
    complete: int
    confusion: dict[str, dict[str, int]]
    intervals: dict[str, Interval | None]


class Details(msgspec.Struct, frozen=True):
    """``details.json``."""

    raters: int
    workers: int
    assignments: int
    groups: dict[str, GroupDetails]
    answers: dict[str, int]
    reasons: dict[str, dict[str, int]]
    dead_letters: int


def judge(hits: Hits[RatedItem], ratings: Iterable[Rating]) -> list[Judged]:
    """The majority on each utterance, in the order of dialogues and turns."""
    votes = votes_of(ratings)
    found = []
    for item in in_order(hits.items):
        of_item = votes[item.place, FAITHFUL]
        natural = tuple(sorted(int(point) for _, point in votes[item.place, NATURAL]))
        found.append(Judged(item, of_item, natural, majority(of_item, hits.raters)))
    return found


def in_order(items: Iterable[Item]) -> list[Item]:
    """Utterances in the order of dialogues and turns."""
    return sorted(items, key=lambda item: (item.dialogue_id, item.turn, item.place))


def votes_of(ratings: Iterable[Rating]) -> dict[tuple[Place, str], Votes]:
    """(worker, answer) of the ratings that count, by utterance and question; nothing where there are none."""
    used: dict[tuple[Place, str], list[tuple[str, str]]] = defaultdict(list)
    for rating in ratings:
        if rating.disposition == "used":
            worker = rating.assignment.worker_hash or rating.assignment.assignment_id
            used[rating.place, rating.of.question].append((worker, rating.text))
    return defaultdict(tuple, {of: tuple(sorted(votes)) for of, votes in used.items()})


def majority(votes: Votes, raters: int) -> bool | None:
    """Whether more than half of the wanted workers say yes; None where neither yes nor no has so many."""
    answers = [answer for _, answer in votes]
    for choice in (YES, NO):
        if 2 * answers.count(choice) > raters:
            return choice == YES
    return None


class Agreement(msgspec.Struct, frozen=True):
    """How far workers agree with one another on a question.

    Attributes:
      complete: how many utterances have all wanted ratings: those of ``observed`` and ``fleiss_kappa``.
      observed: the mean share of the pairs of workers who give the same answer to one.
    """

    complete: int
    observed: float | None
    fleiss_kappa: float | None
    kappa_interval: Interval | None
    krippendorff_alpha: float | None


def agreement_of(votes: Sequence[tuple[Place, Votes]], raters: int, seed: str) -> Agreement:
    """How far workers agree, with the interval of kappa over dialogues.

    Args:
      votes: of each utterance.
      raters: how many workers were wanted.
      seed: of the bootstrap.
    """
    complete = [(place, of) for place, of in votes if len(of) == raters and raters > 1]
    counts = [[sum(answer == choice for _, answer in of) for choice in (YES, NO)] for _, of in complete]
    drawn = {place[1]: weights(seed, place[1], REPLICATES) for place, _ in complete}
    kappa = fleiss_kappa(counts)
    of_complete = np.array([drawn[place[1]] for place, _ in complete])
    alike = [sum(n * (n - 1) for n in of) / (raters * (raters - 1)) for of in counts]
    return Agreement(
        len(complete),
        sum(alike) / len(alike) if alike else None,
        kappa,
        None if kappa is None else fleiss_interval(counts, of_complete),
        krippendorff_alpha([(worker, place, answer) for place, of in votes for worker, answer in of]),
    )


def evaluate(judged: Sequence[Judged], hits: Hits[RatedItem], seed: str) -> tuple[Metrics, dict[str, GroupDetails]]:
    """(``metrics.json``, details) of each group that has utterances."""
    metrics: Metrics = {}
    details = {}
    for name, strata in GROUPS.items():
        if group := [one for one in judged if one.item.stratum in strata]:
            metrics[name], details[name] = _of_group(group, hits.raters, seed)
            if not hits.naturalness:
                del metrics[name]["naturalness"]
                del details[name].intervals["naturalness"]
    return metrics, details


def _of_group(group: Sequence[Judged], raters: int, seed: str) -> tuple[dict[str, float | None], GroupDetails]:
    among = agreement_of([(one.item.place, one.votes) for one in group], raters, seed)
    decided = [one for one in group if one.majority is not None]
    agreeing, faithful = sum(bool(one.agrees) for one in decided), sum(bool(one.majority) for one in decided)
    natural = [(one.item.dialogue_id, value) for one in group if (value := one.values()["naturalness"]) is not None]
    values: dict[str, float | None] = {
        "agreement": agreeing / len(decided) if decided else None,
        "human_faithful": faithful / len(decided) if decided else None,
        "naturalness": sum(value for _, value in natural) / len(natural) if natural else None,
        "fleiss_kappa": among.fleiss_kappa,
        "krippendorff_alpha": among.krippendorff_alpha,
    }
    intervals = {
        "agreement": wilson_interval(agreeing, len(decided)),
        "human_faithful": wilson_interval(faithful, len(decided)),
        "naturalness": mean_interval(natural, seed),
        "fleiss_kappa": among.kappa_interval,
    }
    confusion: dict[str, Counter[str]] = {word: Counter() for word in ("faithful", "unfaithful")}
    for one in group:
        confusion[verdict(one.item.faithful)][verdict(one.majority)] += 1
    return values, GroupDetails(
        len(group), len(decided), among.complete, {name: dict(of) for name, of in confusion.items()}, intervals
    )


def mean_interval(values: Sequence[tuple[str, float]], seed: str) -> Interval | None:
    """The bootstrap interval of 95 % of the mean of (dialogue, value)."""
    statistic = [dialogue_id for dialogue_id, _ in values], [value for _, value in values]
    return interval(means(replicated(seed, [statistic]))[:, 0])


def verdict(faithful: bool | None) -> str:
    """The word for what metric or majority say."""
    return "none" if faithful is None else "faithful" if faithful else "unfaithful"


def fleiss_kappa(counts: Sequence[Sequence[int]]) -> float | None:
    """Fleiss' kappa (Fleiss 1971): agreement beyond chance of any raters, as many for each item.

    Args:
      counts: of each item, how many raters chose each category; the sums of all items are the same, 2 or more.

    Returns:
      At most 1; 0 is chance. None where it is not defined: no item, or all raters chose one category throughout.
    """
    if not len(counts):
        return None
    (kappa,) = _kappas(np.asarray(counts), np.ones((len(counts), 1)))
    return float(kappa) if math.isfinite(kappa) else None


def fleiss_interval(counts: Sequence[Sequence[int]], weights: NDArray[np.int64]) -> Interval | None:
    """The bootstrap interval of 95 % of Fleiss' kappa.

    Args:
      counts: as of :func:`fleiss_kappa`.
      weights: how often each item counts in each replicate: shape (items, replicates), see
        :func:`parapet.evaluation.bootstrap.weights`.
    """
    return interval(_kappas(np.asarray(counts), weights)) if len(counts) else None


def _kappas(counts: NDArray[np.int64], weights: NDArray[np.int64] | NDArray[np.float64]) -> NDArray[np.float64]:
    """Kappa in each replicate: counts (items, categories) and weights (items, replicates) to (replicates,)."""
    raters = counts.sum(axis=1)
    if len(set(raters.tolist())) > 1 or raters[0] < 2:
        raise ValueError("every item needs the same number of raters, 2 or more")
    n = int(raters[0])
    alike = (counts * (counts - 1)).sum(axis=1) / (n * (n - 1))
    with quiet():
        total = weights.sum(axis=0)
        observed = (alike @ weights) / total
        shares = (counts.T @ weights) / (n * total)
        expected = (shares**2).sum(axis=0)
        kappas: NDArray[np.float64] = (observed - expected) / (1 - expected)
    return kappas


def krippendorff_alpha(labels: Sequence[tuple[str, Hashable, str]]) -> float | None:
    """Krippendorff's alpha for nominal labels, which takes any number of raters for each item.

    Args:
      labels: (rater, item, label), one for each rater and item. Items with one rater say nothing.

    Returns:
      At most 1; None where it is not defined: no item has two raters, or all labels are the same.
    """
    raters: dict[Hashable, int] = {}
    for _, item, _ in labels:
        raters[item] = raters.get(item, 0) + 1
    paired = [label for label in labels if raters[label[1]] > 1]
    if len({label for _, _, label in paired}) < 2:
        return None
    from nltk.metrics.agreement import AnnotationTask

    return float(AnnotationTask(paired).alpha())


def wilson_interval(right: int, n: int) -> Interval | None:
    """The interval of 95 % of a share (Wilson 1927), which holds for small samples and shares near 0 and 1, too."""
    if not n:
        return None
    share, z2 = right / n, _Z * _Z
    middle = (share + z2 / (2 * n)) / (1 + z2 / n)
    half = _Z / (1 + z2 / n) * math.sqrt(share * (1 - share) / n + z2 / (4 * n * n))
    return max(0.0, middle - half), min(1.0, middle + half)
