"""Workers' judgements of utterances: reads and vets them; majorities, agreement among raters and with the metric."""

import math
import re
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from parapet.evaluation.results import results_of
from parapet.evaluation.sets import ALL
from parapet.evaluation.statistics import REPLICATES, interval, means, quiet, replicated, weights, wilson_interval
from parapet.evaluation.task import FILES, Metrics, Result, Stage, Task, files_of, rows_bytes
from parapet.schemas.decisions import csv_bytes
from parapet.schemas.errors import InputError
from parapet.schemas.rows import RATINGS as RATINGS_SCHEMA
from parapet.schemas.rows import Assignment, DeadLetter, parquet_bytes
from parapet.transforms.crowd.answer_files import TaskKind, distinct
from parapet.transforms.crowd.hits.dialogue_pages import FAITHFUL, FIELD, NATURAL, NO, POINTS, YES
from parapet.transforms.crowd.hits.page import CHECK, Place, RatedItem, read_manifest
from parapet.transforms.crowd.hits.terms import RATINGS
from parapet.transforms.crowd.ingest import Submission, answers_text, merge_assignments, read_answers
from parapet.transforms.crowd.report import WORK_TIMES, dead_letters_note, reasons_table, work_times
from parapet.transforms.crowd.rules import is_too_fast
from parapet.transforms.crowd.task import (
    Answer,
    CrowdTask,
    Outcome,
    answer_columns,
    dispositions,
    reasons,
    unknown,
    without_dead,
)
from parapet.transforms.crowd.worker_ids import load_worker_key, without_ids
from parapet.transforms.report import text
from parapet.transforms.report.numbers import sections_of
from parapet.transforms.report.report import Dot, Dots, Examples, Report, Section, Table, Tile, dialogue_example

_TASK_ID = re.compile(rf"(?P<service>[0-9]{{3,6}}-[0-9a-f]{{8}}):(?P<task>{RATINGS})")

# Reason to its explanation for requesters.
EXPLANATIONS = {
    "assignment_rejected": "The requester has rejected the assignment.",
    "too_fast": "The worker spent less time than reading the page takes.",
    "failed_check": (
        "The worker answered Yes to a check, an utterance of another turn that contains none of the values."
    ),
    "same_rating": "The worker gave the same answer, Yes or No, to all of ten utterances or more.",
    "blank": "The worker chose nothing.",
    "unknown_value": "Is not one of the choices on the page.",
    "repeated": "The worker has rated this utterance before.",
    "not_needed": "Enough workers had rated the utterance before.",
    "check": "Is a check of the worker, which says nothing about the utterances.",
}
SAME_FROM = 10  # least number of utterances

CHOICES = {FAITHFUL: (YES, NO), NATURAL: POINTS}

Votes = tuple[tuple[str, str], ...]
Interval = tuple[float, float]


class Field(msgspec.Struct, frozen=True):
    """The question of a form field, and its utterance."""

    item: RatedItem
    question: str


class Hits(msgspec.Struct, frozen=True):
    """The pages by id, each with its form fields; the utterances in order, without checks; and the raters of each."""

    pages: dict[str, dict[str, Field]]
    items: list[RatedItem]
    raters: int
    naturalness: bool

    @property
    def unit(self) -> str:
        """What is judged: an utterance by all acts of its turn, or a pair of an utterance and one act."""
        return "utterance" if self.items[0].act is None else "pair"


class Rating(Answer, kw_only=True):
    """An answer to a question about an utterance; ``of`` is the form field."""

    assignment: Assignment
    of: Field

    @property
    def place(self) -> Place:
        """The place of its utterance."""
        return self.of.item.place

    @property
    def is_check(self) -> bool:
        """Whether its utterance is a check."""
        return self.of.item.stratum == CHECK

    @property
    def worker(self) -> str:
        """The worker's hash, or the id of an assignment without one."""
        return self.worker_hash or self.assignment.assignment_id

    def row(self) -> dict[str, Any]:
        """Returns the answer's row of ``responses.parquet``, which ``parapet mturk pay --audit`` also reads."""
        item = self.of.item
        places = {"dialogue_id": item.dialogue_id, "turn": item.turn, "act": item.act, "stratum": item.stratum}
        row = {**super().row(), **places, "question": self.of.question}
        del row["canonical"]
        return row


class Judged(msgspec.Struct, frozen=True):
    """The judgements of an utterance: question to (worker hash, answer) of the ratings that count.

    Attributes:
      raters: the wanted number of workers.
    """

    item: RatedItem
    votes: dict[str, Votes]
    raters: int

    def majority(self) -> bool | None:
        """Whether more than half of the wanted workers find it faithful; None if neither yes nor no has a majority."""
        for choice, n in zip((YES, NO), self.counts(), strict=True):
            if 2 * n > self.raters:
                return choice == YES
        return None

    def counts(self) -> list[int]:
        """Counts the answers yes and no to whether it is faithful."""
        return [sum(vote == choice for _, vote in self.votes[FAITHFUL]) for choice in (YES, NO)]

    @property
    def naturalness(self) -> float | None:
        """The mean rating, 1 to 5."""
        points = [int(point) for _, point in self.votes[NATURAL]]
        return sum(points) / len(points) if points else None


class RatingTask(CrowdTask[Outcome]):
    """The crowd task of rating utterances.

    All ratings are judged together, since a worker's answers on all pages say how careful the worker was.

    Args:
      hits: the pages that workers saw.
    """

    command = "evaluate_ratings"
    kind = TaskKind((RATINGS,), _TASK_ID, f"PAGE:{RATINGS}", FIELD)
    audit_schema = RATINGS_SCHEMA
    explanations = EXPLANATIONS

    def __init__(self, hits: Hits) -> None:
        self.hits = hits

    def ratings(self, assignments: Iterable[Assignment]) -> Iterator[Rating | DeadLetter]:
        """Yields all ratings, vetted, with their dispositions; and dead letters for unknown pages and fields."""
        ratings: list[Rating] = []
        for assignment in assignments:
            page = self.hits.pages.get(assignment.service_name)
            if page is None:
                reason = f"unknown_page: the HITs have no page {assignment.service_name!r}"
                yield from unknown([Submission(assignment)], reason)
                continue
            for field, answer in assignment.answers.items():
                columns = answer_columns(assignment, field)
                if field in page:
                    texts: dict[str, Any] = {"text": answer.strip(), "canonical": "", "words": ()}
                    rating = Rating(**columns, **texts, assignment=assignment, of=page[field])
                    rating.disposition, rating.reason = "used", ""
                    ratings.append(rating)
                elif answer.strip():
                    shown, reason = answers_text({field: answer}), f"unknown_field: the page has no field {field}"
                    yield DeadLetter("compose", columns["response_id"], reason, shown, assignment.source)
        vet(ratings, self.hits.raters)
        yield from ratings


class Answers(msgspec.Struct, frozen=True):
    """All answers to some pages: each is a rating or a dead letter; ``work`` is the result of :func:`work_times`."""

    hits: Hits
    ratings: list[Rating]
    dead: list[DeadLetter]
    assignments: int
    work: dict[str, dict[str, Any]]

    def judged(self) -> list[Judged]:
        """Returns the judgements of each utterance, in the order of dialogues and turns."""
        used: dict[Place, dict[str, list[tuple[str, str]]]] = defaultdict(lambda: defaultdict(list))
        for rating in self.ratings:
            if rating.disposition == "used":
                used[rating.place][rating.of.question].append((rating.worker, rating.text))
        return [
            Judged(item, {name: tuple(sorted(used[item.place][name])) for name in CHOICES}, self.hits.raters)
            for item in sorted(self.hits.items, key=lambda item: item.place)
        ]

    def why_none(self) -> str:
        """Formats the most frequent reasons why no answer can be used."""
        reasons = Counter(rating.reason for rating in self.ratings if rating.reason)
        reasons += Counter(letter.reason.partition(":")[0] for letter in self.dead)
        return ", ".join(f"{n:,} {reason}" for reason, n in reasons.most_common(3)) or "the files contain none"

    def counts(self) -> dict[str, Any]:
        """Counts workers, assignments, answers by disposition and reason, and dead letters, with the working times."""
        outcome = Outcome(name="")
        outcome.note(self.ratings)
        return {
            "unit": self.hits.unit,
            "raters": self.hits.raters,
            "workers": len({rating.worker_hash for rating in self.ratings} - {""}),
            "assignments": self.assignments,
            "answers": {name: n for name, n in sorted(dispositions([outcome]).items()) if n and name != "total"},
            "reasons": dict(sorted((key, counts) for key, counts in reasons([outcome]).items() if counts)),
            "dead_letters": len(self.dead),
            "work": self.work,
        }

    def files(self, judged: Iterable[Judged]) -> tuple[dict[str, bytes], list[str]]:
        """Makes the files about answers, by path; also returns warnings for the requester."""
        short = _shortfall(self.hits, judged)
        n = len(short) - 1
        warnings = [f"{text.counted(n, self.hits.unit)} with too few ratings, see shortfall.csv"] if n else []
        if self.dead:
            warnings.append(f"{text.counted(len(self.dead), 'record')} could not be used, see dead_letters.jsonl")
        rows = [rating.row() for rating in sorted(self.ratings, key=_row_order)]
        return {
            "responses.parquet": parquet_bytes(pa.Table.from_pylist(rows, RATINGS_SCHEMA)),
            "shortfall.csv": csv_bytes(short[0], short[1:]),
            "dead_letters.jsonl": b"".join(line + b"\n" for line in sorted(map(msgspec.json.encode, self.dead))),
        }, warnings


def read_hits(folder: str) -> Hits:
    """Reads the manifest of ``parapet hits --task ratings``. Raises InputError for any other file."""
    pages: dict[str, dict[str, Field]] = {}
    items: dict[Place, RatedItem] = {}
    raters, naturalness = 0, False
    for record in read_manifest(folder):
        if record.task != RATINGS or not record.items:
            reason = "contains tasks of another kind: make them with 'parapet hits --task ratings'"
            raise InputError(reason, folder, "--hits")
        page = pages.setdefault(record.task_id.partition(":")[0], {})
        numbers = dict.fromkeys(field.rpartition("_")[2] for field in record.fields)
        item_of = dict(zip(numbers, record.items, strict=True))
        for field in record.fields:
            question, _, number = field.rpartition("_")
            page[field] = Field(item_of[number], question)
        items |= {item.place: item for item in record.items if item.stratum != CHECK}
        raters = record.assignments
        naturalness = naturalness or any(field.startswith(NATURAL) for field in record.fields)
    if not items:
        raise InputError("contains no utterances to rate", folder, "--hits")
    return Hits(pages, list(items.values()), raters, naturalness)


def judge_ratings(hits: Hits, paths: Sequence[str], encoding: str = "utf-8") -> Answers:
    """Reads and vets batch CSVs and JSON lines.

    Args:
      hits: the pages that workers saw.
      paths: the files.
      encoding: the encoding of files without a byte order mark.
    """
    task, key = RatingTask(hits), load_worker_key()
    dead: list[DeadLetter] = []
    read = (record for path in distinct(paths) for record in read_answers(path, key, encoding, task.kind))
    assignments = list(without_dead(merge_assignments(without_dead(read, dead)), dead))
    ratings = list(without_dead(task.ratings(assignments), dead))
    work = work_times((each.task, each.work_seconds, each.reward) for each in assignments)
    return Answers(hits, ratings, [*map(without_ids, dead)], len(assignments), work)


def vet(ratings: Sequence[Rating], raters: int) -> None:
    """Sets the disposition of each rating. Reasons to reject a whole assignment come before those for single answers.

    Args:
      ratings: the ratings of all assignments.
      raters: the number of workers per utterance; only the first ones count.
    """
    by_assignment: dict[str, list[Rating]] = defaultdict(list)
    for rating in ratings:
        by_assignment[rating.assignment.assignment_id].append(rating)
    same = _same_everywhere(ratings)
    for of_assignment in by_assignment.values():
        reason = _reason_of(of_assignment, same)
        for rating in of_assignment:
            if why := reason or _reason_of_answer(rating):
                rating.disposition, rating.reason = "rejected", why
            elif rating.is_check:
                rating.disposition, rating.reason = "surplus", "check"
    _keep_first(ratings, raters)


def _reason_of(ratings: Sequence[Rating], same: set[str]) -> str | None:
    assignment = ratings[0].assignment
    if assignment.rejected:
        return "assignment_rejected"
    if is_too_fast(assignment, len(ratings)):
        return "too_fast"
    if any(rating.is_check and rating.of.question == FAITHFUL and rating.text == YES for rating in ratings):
        return "failed_check"
    return "same_rating" if assignment.worker_hash in same else None


def _reason_of_answer(rating: Rating) -> str | None:
    if not rating.text:
        return "blank"
    return None if rating.text in CHOICES[rating.of.question] else "unknown_value"


def _same_everywhere(ratings: Iterable[Rating]) -> set[str]:
    """Returns the hashes of workers who gave the same answer to all of at least ``SAME_FROM`` utterances."""
    answers: dict[str, list[str]] = defaultdict(list)
    for rating in ratings:
        if rating.of.question == FAITHFUL and rating.text in (YES, NO):
            answers[rating.worker_hash].append(rating.text)
    return {worker for worker, texts in answers.items() if worker and len(texts) >= SAME_FROM and len(set(texts)) == 1}


def _keep_first(ratings: Iterable[Rating], raters: int) -> None:
    """Keeps, for each utterance and question, one rating per worker and the first ``raters`` workers."""
    taken: dict[tuple[Place, str], set[str]] = defaultdict(set)
    for rating in sorted(ratings, key=_order):
        if rating.disposition != "used":
            continue
        workers = taken[rating.place, rating.of.question]
        if rating.worker in workers:
            rating.disposition, rating.reason = "duplicate", "repeated"
        elif len(workers) == raters:
            rating.disposition, rating.reason = "surplus", "not_needed"
        else:
            workers.add(rating.worker)


def _order(rating: Rating) -> tuple[bool, int, str]:
    return rating.submit_time is None, rating.submit_time or 0, rating.assignment.assignment_id


def _row_order(rating: Rating) -> tuple[Place, str, str]:
    return rating.place, rating.assignment.assignment_id, rating.response_id


def _shortfall(hits: Hits, judged: Iterable[Judged]) -> list[Sequence[str]]:
    """Makes the rows of ``shortfall.csv`` for ``parapet mturk topup``: one for each utterance that lacks ratings."""
    fields = {
        field.item.place: (page_id, name)
        for page_id, page in hits.pages.items()
        for name, field in page.items()
        if field.question == FAITHFUL and field.item.stratum != CHECK
    }
    rows: list[list[str]] = []
    for judgement in judged:
        if (n := len(judgement.votes[FAITHFUL])) < hits.raters:
            place = judgement.item.place
            page_id, field = fields[place]
            rows.append([page_id, ":".join(map(str, place)), RATINGS, field, str(n), str(hits.raters)])
    return [("service_name", "element_id", "task", "field", "have", "need"), *sorted(rows)]


def summed_up(judged: Sequence[Judged], seed: str) -> tuple[dict[str, float | None], dict[str, Interval | None], int]:
    """Returns (means and agreement, 95 % intervals, number of fully rated utterances, used for kappa) of utterances.

    Args:
      judged: at least one utterance.
      seed: the seed of the bootstrap over dialogues.
    """
    metrics: dict[str, float | None] = {}
    intervals: dict[str, Interval | None] = {}
    values = [_values(judgement) for judgement in judged]
    for name in values[0]:
        known = [
            (judgement.item.dialogue_id, value)
            for judgement, row in zip(judged, values, strict=True)
            if (value := row[name]) is not None
        ]
        metrics[name] = sum(value for _, value in known) / len(known) if known else None
        if name == "naturalness":
            statistic = [dialogue_id for dialogue_id, _ in known], [value for _, value in known]
            intervals[name] = interval(means(replicated(seed, [statistic]))[:, 0])
        else:
            intervals[name] = wilson_interval(sum(value == 1 for _, value in known), len(known))
    raters = judged[0].raters
    complete = [judgement for judgement in judged if len(judgement.votes[FAITHFUL]) == raters > 1]
    counts = [judgement.counts() for judgement in complete]
    kappa = fleiss_kappa(counts)
    drawn = {
        dialogue: weights(seed, dialogue, REPLICATES)
        for dialogue in {judgement.item.dialogue_id for judgement in complete}
    }
    of_complete = np.array([drawn[judgement.item.dialogue_id] for judgement in complete])
    labels = [
        (worker, judgement.item.place, answer) for judgement in judged for worker, answer in judgement.votes[FAITHFUL]
    ]
    metrics["fleiss_kappa"], metrics["krippendorff_alpha"] = kappa, krippendorff_alpha(labels)
    intervals["fleiss_kappa"] = None if kappa is None else interval(_kappas(np.asarray(counts), of_complete))
    return metrics, intervals, len(complete)


def fleiss_kappa(counts: Sequence[Sequence[int]]) -> float | None:
    """Computes Fleiss' kappa (Fleiss 1971): agreement beyond chance between raters, with equally many for each item.

    Args:
      counts: for each item, the number of raters who chose each category; all items have the same sum, 2 or more.

    Returns:
      At most 1; 0 is chance. None if undefined: there are no items, or all ratings are the same category.
    """
    if not len(counts):
        return None
    (kappa,) = _kappas(np.asarray(counts), np.ones((len(counts), 1)))
    return float(kappa) if math.isfinite(kappa) else None


def _kappas(counts: NDArray[np.int64], weights: NDArray[np.int64] | NDArray[np.float64]) -> NDArray[np.float64]:
    """Computes kappa in each replicate, from counts (items, categories) and weights (items, replicates)."""
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
    """Computes Krippendorff's alpha for nominal labels, with any number of raters for each item.

    Args:
      labels: (rater, item, label), one for each rater and item. Items with one rater are ignored.

    Returns:
      At most 1; None if undefined: no item has two raters, or all labels are the same.
    """
    raters: dict[Hashable, int] = {}
    for _, item, _ in labels:
        raters[item] = raters.get(item, 0) + 1
    paired = [label for label in labels if raters[label[1]] > 1]
    if len({label for _, _, label in paired}) < 2:
        return None
    from nltk.metrics.agreement import AnnotationTask

    return float(AnnotationTask(paired).alpha())


EXAMPLES = 30

METRICS = {
    "agreement": "agreement",
    "human_faithful": "judged faithful",
    "naturalness": "naturalness",
    "fleiss_kappa": "Fleiss' kappa",
    "krippendorff_alpha": "Krippendorff's alpha",
}
VALIDATED, INVALID = "#VALIDATED", "#INVALID"
# The groups, and their strata.
GROUPS: Mapping[str, frozenset[str]] = {
    ALL: frozenset({"faithful", "unfaithful", "invalid"}),
    VALIDATED: frozenset({"faithful", "unfaithful"}),
    "#FAITHFUL": frozenset({"faithful"}),
    "#UNFAITHFUL": frozenset({"unfaithful"}),
    INVALID: frozenset({"invalid"}),
}
LABELS = {
    ALL: "all",
    VALIDATED: "validated",
    "#FAITHFUL": "validated, metric: faithful",
    "#UNFAITHFUL": "validated, metric: unfaithful",
    INVALID: "not validated",
}
TERMS = {
    "Majority": "What more than half of the wanted workers say about an utterance; undefined if too few ratings count.",
    "Agreement": "The share of utterances with a majority of which majority and metric say the same. The interval is "
    "Wilson's, of 95 %.",
    "Judged faithful": "The share of utterances with a majority that it finds faithful.",
    "Fleiss' kappa": "Agreement of the workers beyond chance (Fleiss 1971), over utterances with all wanted ratings: 1 "
    "is full agreement, 0 is chance. Where nearly all utterances are of one kind, as in the "
    "two halves of the validated ones, it is near 0, too.",
    "Krippendorff's alpha": "The same over all utterances with two ratings or more.",
    "Naturalness": "The mean over utterances of their mean rating, 1 to 5.",
    "Validated": "The ground truth entails a reference of every act, and none with other values.",
}
OUTPUTS = {
    "responses.parquet": "a row for every answer, what became of it and why",
    "shortfall.csv": "utterances that lack ratings, for `parapet mturk topup`",
    "dead_letters.jsonl": "input that could not be read, with file, place and reason",
}


Intervals = dict[tuple[str, str], Interval | None]  # by group and metric


class GroupDetails(msgspec.Struct, frozen=True):
    """The part of ``details.json`` for a group.

    Attributes:
      utterances: the number of utterances to rate; ``majorities`` is the number of those with a majority.
      complete: the number of utterances with all wanted ratings, used for kappa.
      confusion: metric to majority (``none`` without one) to a number.
    """

    utterances: int
    majorities: int
    complete: int
    confusion: dict[str, dict[str, int]]


Groups = dict[str, GroupDetails]


def agrees(judgement: Judged) -> bool | None:
    """Whether majority and metric agree on an utterance; None without a majority."""
    majority = judgement.majority()
    return None if majority is None else majority is judgement.item.faithful


def verdict(faithful: bool | None) -> str:
    """Returns the word for the verdict of metric or majority."""
    return "none" if faithful is None else "faithful" if faithful else "unfaithful"


def _values(judgement: Judged) -> dict[str, float | None]:
    """Returns the utterance's value for each metric that is a mean over utterances."""
    agreeing, faithful = (None if word is None else float(word) for word in (agrees(judgement), judgement.majority()))
    return {"agreement": agreeing, "human_faithful": faithful, "naturalness": judgement.naturalness}


def evaluate(judged: Sequence[Judged], naturalness: bool, seed: str) -> tuple[Metrics, Intervals, Groups]:
    """Computes (``metrics.json``, 95 % intervals, details) of each group that has utterances."""
    metrics: Metrics = {}
    intervals: Intervals = {}
    details: Groups = {}
    for name, strata in GROUPS.items():
        group = [judgement for judgement in judged if judgement.item.stratum in strata]
        if not group:
            continue
        values, intervals_of_group, complete = summed_up(group, seed)
        if not naturalness:
            del values["naturalness"], intervals_of_group["naturalness"]
        metrics[name] = values
        intervals |= {(name, metric): interval for metric, interval in intervals_of_group.items()}
        confusion: dict[str, Counter[str]] = {word: Counter() for word in ("faithful", "unfaithful")}
        for judgement in group:
            confusion[verdict(judgement.item.faithful)][verdict(judgement.majority())] += 1
        decided = sum(judgement.majority() is not None for judgement in group)
        details[name] = GroupDetails(len(group), decided, complete, {word: {**of} for word, of in confusion.items()})
    return metrics, intervals, details


def report(
    judged: Sequence[Judged], metrics: Metrics, intervals: Intervals, groups: Groups, counts: Mapping[str, Any]
) -> Report:
    """Makes the report: agreement by group, utterances or pairs on which people and the metric differ, answers."""
    validated, answers, unit = metrics.get(VALIDATED, {}), counts["answers"], counts["unit"]
    tiles = {"agreement": "agreement, validated", "fleiss_kappa": "Fleiss' kappa, validated"}
    sections: list[Section] = [
        Dots(
            title="Agreement with the metric",
            note="How often the majority of the workers says what the metric says.",
            dots=[
                Dot(LABELS[name], values["agreement"], *(intervals[name, "agreement"] or ()))
                for name, values in metrics.items()
            ],
        ),
        Table(
            title="Agreement",
            columns=["sample", *(METRICS[name] for name in metrics[ALL]), f"{unit}s", "with a majority"],
            rows=[
                [
                    LABELS[name],
                    *(_shown(metric, value) for metric, value in values.items()),
                    *(f"{n:,}" for n in (groups[name].utterances, groups[name].majorities)),
                ]
                for name, values in metrics.items()
            ],
            numbers_in="results.parquet",
        ),
        _differences(judged, unit),
        reasons_table(counts["reasons"], EXPLANATIONS, "Answers that do not count"),
        *sections_of(counts, WORK_TIMES),
    ]
    missing = groups[ALL].utterances - groups[ALL].majorities
    notes = [f"{text.counted(missing, unit)} without a majority: see `shortfall.csv`."] if missing else []
    return Report(
        command="evaluate",
        title="Human evaluation",
        headline=f"People and the metric agree on {text.percent(validated.get('agreement'))} of validated {unit}s",
        lead=f"{text.counted(len(judged), unit)}, each rated by {text.counted(counts['raters'], 'worker')}; "
        f"{answers.get('used', 0):,} of {sum(answers.values()):,} answers count.",
        tiles=[
            *(Tile(label, _shown(metric, validated.get(metric))) for metric, label in tiles.items()),
            Tile("judged faithful", text.percent(metrics[ALL]["human_faithful"])),
        ],
        sections=sections,
        terms=TERMS,
        notes=[*notes, *dead_letters_note(counts["dead_letters"])],
        links={**FILES, **OUTPUTS},
    )


def _shown(metric: str, value: float | None) -> str:
    return text.percent(value) if metric in ("agreement", "human_faithful") else text.number(value, 2)


def _differences(judged: Iterable[Judged], unit: str) -> Examples:
    """Lists utterances or pairs on which metric and majority differ, the clearest majorities first."""
    wrong = [judgement for judgement in judged if agrees(judgement) is False]
    wrong.sort(key=lambda judgement: (judgement.item.stratum == "invalid", -max(judgement.counts())))
    examples = []
    for judgement in wrong[:EXAMPLES]:
        item, (yes, no) = judgement.item, judgement.counts()
        lines = {"before": item.previous, "utterance": item.utterance, "metric": verdict(item.faithful)}
        lines["workers"] = f"{yes} faithful, {no} unfaithful"
        shown = [*lines.items()]
        shown[1:1] = [("has to", act.text) for act in item.acts]
        place = f"dialogue {item.dialogue_id}, turn {item.turn}"
        examples.append(dialogue_example(f"{place}, not validated" if item.stratum == "invalid" else place, shown))
    note = f"{len(examples):,} of {text.counted(len(wrong), unit)}."
    return Examples(title="Where people and the metric differ", note=note, examples=examples)


class Ratings(Task[Answers], frozen=True, kw_only=True):
    """The task of ``parapet evaluate --task ratings``.

    Attributes:
      hits: the folder of ``parapet hits --task ratings``.
      responses: batch CSVs and JSON lines.
      encoding: the encoding of responses without a byte order mark.
      seed: the seed of the bootstrap.
    """

    name = "evaluate_ratings"

    hits: str
    responses: tuple[str, ...]
    encoding: str = "utf-8"
    seed: str = "0"

    def inputs(self) -> dict[str, str | None]:
        """Returns the pages, and the files of answers."""
        return {"hits": self.hits, **{f"responses/{i}": path for i, path in enumerate(self.responses, 1)}}

    def read(self) -> Answers:
        """Reads pages and answers. Raises InputError if they cannot be used."""
        return judge_ratings(read_hits(self.hits), self.responses, self.encoding)

    def score(self, inputs: Answers, stage: Stage) -> Result:
        """Computes majorities, and the agreement of workers and metric. Raises InputError if no rating can be used."""
        hits, judged = inputs.hits, inputs.judged()
        if not any(judgement.votes[FAITHFUL] for judgement in judged):
            raise InputError(f"no rating can be used: {inputs.why_none()}", ", ".join(self.responses))
        metrics, intervals, groups = evaluate(judged, hits.naturalness, self.seed)
        counts = inputs.counts()
        files, warnings = inputs.files(judged)
        sizes = {name: group.utterances for name, group in groups.items()}
        page = report(judged, metrics, intervals, groups, counts)
        results = results_of("ratings", metrics, sizes, intervals=intervals)
        return Result(
            files=files | files_of(metrics, results, {**counts, "groups": groups}, _rows(judged), page),
            summary=[
                f"{name}: agreement with the metric {text.percent(values['agreement'])}, Fleiss' kappa "
                f"{text.number(values['fleiss_kappa'], 2)}, over {text.counted(sizes[name], hits.unit)}"
                for name, values in metrics.items()
            ],
            options={"raters": hits.raters, "naturalness": hits.naturalness, "seed": self.seed},
            counts={"utterances": len(judged), "assignments": inputs.assignments, "ratings": len(inputs.ratings)},
            warnings=warnings,
        )


def _rows(judged: Sequence[Judged]) -> bytes:
    values = [_values(judgement) for judgement in judged]
    return rows_bytes(
        [("", judgement.item.dialogue_id, judgement.item.turn) for judgement in judged],
        {name: [row[name] for row in values] for name in ("agreement", "human_faithful", "naturalness")},
        {
            "stratum": [judgement.item.stratum for judgement in judged],
            "metric": [verdict(judgement.item.faithful) for judgement in judged],
            "majority": [verdict(judgement.majority()) for judgement in judged],
            "votes": ["/".join(map(str, judgement.counts())) for judgement in judged],
            "acts": ["; ".join(act.text for act in judgement.item.acts) for judgement in judged],
            "utterance": [judgement.item.utterance for judgement in judged],
        },
    )
