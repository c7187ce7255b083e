"""Settles one service: which answers are used in which variant, and what becomes of every other answer.

The whole of SGD-X's section 2.3 for one service: normalise, vet, apply the reviewers' decisions, deduplicate, draw
five, rank, compose. Pure: assignments and decisions in, an :class:`Outcome` out, and the counts that prove that none
of them was lost.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from parapet.schemas.decisions import Decision
from parapet.schemas.elements import TASKS, VARIANTS, Element, Task, elements_of
from parapet.schemas.responses import Assignment, AuditRow, DeadLetter
from parapet.schemas.service import parse_service
from parapet.transforms.counts import Counts
from parapet.transforms.crowd import vet
from parapet.transforms.crowd.answers import Entry, better_spelled, by_words, read_answers, settle_cluster
from parapet.transforms.crowd.ingest.fields import payload
from parapet.transforms.crowd.merge import add_records, answers_of, decided, unusable_decision
from parapet.transforms.crowd.rank import Candidates, assign_names, draw, most_diverse, ranked
from parapet.transforms.crowd.review import Neighbours, ReviewItem, review_order
from parapet.transforms.crowd.vet import rules_of
from parapet.transforms.distance import Method
from parapet.transforms.naming import Conventions
from parapet.transforms.variants.names import compose_variant

NEEDED = len(VARIANTS)


class Settings(msgspec.Struct, frozen=True):
    """What shapes the result, the same for every service.

    Attributes:
      conventions: of the corpus's names.
      method: distances, stopwords, lemmas.
      seed: of the draw.
      selection: ``random`` or ``diverse``.
      allow_partial: compose services whose elements have fewer than five good answers, but one at least: they repeat.
      vetting_rules: of plug-ins, by name.
    """

    conventions: Conventions = Conventions()
    method: Method = Method()
    seed: int = 0
    selection: str = "random"
    allow_partial: bool = False
    vetting_rules: tuple[str, ...] = ()


class Short(msgspec.Struct):
    """An element with fewer than five good answers.

    Attributes:
      form_field: ``slot_3``.
      have: good answers; ``in_review`` more are held.
      filled: the variants that repeat an answer or the original, where the service was composed all the same.
      reason: ``too_few``, or ``name_collision`` where five would be there if names did not collide.
    """

    element_id: str
    task: Task
    form_field: str
    have: int
    in_review: int
    reason: str = "too_few"
    filled: tuple[int, ...] = ()


class Outcome(msgspec.Struct):
    """What became of one service. ``variants`` is empty where it was not composed."""

    service_name: str
    audit: list[AuditRow] = []
    variants: list[dict[str, Any]] = []
    reviews: list[ReviewItem] = []
    short: list[Short] = []
    dead: list[DeadLetter] = []
    decisions: dict[str, int] = {}


class Settled(msgspec.Struct):
    """What became of the answers to one service's tasks.

    Attributes:
      outcome: None where no schema has the service.
      dead: what cannot be used.
      counts: of assignments, answers and decisions, for the invariants.
    """

    outcome: Outcome | None
    dead: list[DeadLetter]
    counts: Counts


def settle(
    name: str,
    raw: Mapping[str, Any] | None,
    assignments: Sequence[Assignment],
    decisions: Mapping[str, Mapping[str, Decision]],
    settings: Settings,
    left_out: frozenset[str] = frozenset(),
) -> Settled:
    """Settles the answers to one service's tasks, and counts them.

    Args:
      name: the service's, as its tasks have it.
      raw: the service as its schema file has it; None where no schema has it.
      assignments: its assignments, each once.
      decisions: assignment id to form field to decision.
      settings: of the run.
      left_out: names of services whose schemas are bad.
    """
    counts = Counts()
    add_records(counts, "decisions_settled", decided(decisions))
    if raw is None:
        dead = unknown_service(name, assignments, decisions, left_out)
        add_records(counts, "assignments_settled", (assignment.assignment_id for assignment in assignments))
        add_records(counts, "answers_dead", (name for assignment in assignments for name in answers_of(assignment)))
        return Settled(None, dead, counts)
    outcome = settle_service(raw, assignments, decisions, settings)
    unusable = (letter.key for letter in outcome.dead if letter.stage == "compose" and letter.payload)
    add_records(counts, "answers_audited", (row.response_id for row in outcome.audit if row.text.strip()))
    add_records(counts, "answers_dead", unusable)
    add_records(counts, "assignments_settled", accounted_for(assignments, outcome))
    return Settled(outcome, outcome.dead, counts)


def unknown_service(
    name: str,
    assignments: Sequence[Assignment],
    decisions: Mapping[str, Mapping[str, Decision]],
    left_out: frozenset[str],
) -> list[DeadLetter]:
    """Dead letters of the answers to a service that no schema has, and of the decisions on them."""
    reason = f"unknown_service: no schema has a service {name!r}"
    if name in left_out:
        reason = f"unknown_service: {name!r} was left out as a bad_service"
    void = f"unused_response: {reason.partition(': ')[2]}"
    of_decisions = [unusable_decision(decision, void) for found in decisions.values() for decision in found.values()]
    return of_decisions + [
        DeadLetter(
            "compose",
            a.assignment_id,
            reason,
            payload(", ".join(f"{field}={text}" for field, text in sorted(a.answers.items()) if text)),
            a.source,
        )
        for a in assignments
    ]


def accounted_for(assignments: Iterable[Assignment], outcome: Outcome) -> set[str]:
    """The ids of those assignments that have a row in the audit, or a dead letter of their own or of an answer."""
    keys = {row.response_id for row in outcome.audit} | {letter.key for letter in outcome.dead}
    ids = keys | {key.rpartition(":")[0] for key in keys}
    return {assignment.assignment_id for assignment in assignments} & ids


def settle_service(
    raw: Mapping[str, Any],
    assignments: Sequence[Assignment],
    decisions: Mapping[str, Mapping[str, Decision]],
    settings: Settings,
) -> Outcome:
    """Settles one service.

    Args:
      raw: the service as its schema file has it.
      assignments: its assignments, each once.
      decisions: assignment id to form field to decision.
      settings: of the run.
    """
    service = parse_service(raw)
    outcome = Outcome(service.service_name)
    elements = {task: elements_of(service, task) for task in TASKS}
    assignments = sorted(assignments, key=lambda a: a.assignment_id)
    rules = rules_of(settings.vetting_rules)
    answers, outcome.dead = read_answers(assignments, elements, decisions, settings.conventions, rules)
    outcome.decisions = dict(Counter(a.decision.decision for a in answers if a.decision is not None))
    clusters: dict[tuple[Task, str], list[list[Entry]]] = defaultdict(list)
    for (task, field, _), same in by_words(answers).items():
        clusters[task, field].append(same)
        settle_cluster(same, better_spelled)
    good = {place: [same[0] for same in found if same[0].disposition == "surplus"] for place, found in clusters.items()}
    taken = _take(elements, good, settings, outcome)
    _count_in_review(outcome, clusters)
    if taken is not None:
        outcome.variants = [
            compose_variant(
                raw,
                k,
                {field: texts[k - 1] for (task, field), texts in taken.items() if task == "names"},
                {field: texts[k - 1] for (task, field), texts in taken.items() if task == "descriptions"},
            )
            for k in VARIANTS
        ]
    _dispose(good, taken)
    outcome.reviews = _review_items(clusters, rules)
    outcome.audit = [
        _audit_row(answer) for answer in sorted(answers, key=lambda a: (a.element.id, a.task, a.response_id))
    ]
    return outcome


# --- the five ------------------------------------------------------------------------------------------------------


def _take(
    elements: Mapping[Task, list[Element]],
    good: Mapping[tuple[Task, str], list[Entry]],
    settings: Settings,
    outcome: Outcome,
) -> dict[tuple[Task, str], list[str]] | None:
    """The five texts of every element from near to far, or None where the service cannot be composed.

    Sets the distance of every good answer, and notes elements that are short.
    """
    candidates = {
        (task, element.field): _candidates(element, task, good.get((task, element.field), []), settings)
        for task in TASKS
        for element in elements[task]
    }
    names = {place: found for place, found in candidates.items() if place[0] == "names"}
    assigned = assign_names(list(names.values()), NEEDED)
    missing = {place for place, found in candidates.items() if len(found.texts) < NEEDED}
    collided = {place for place, found in names.items() if found.key not in assigned} - missing
    # An element without answers cannot be completed by repeating any.
    partial = settings.allow_partial and all(found.texts for found in candidates.values())
    if missing | collided and partial:
        for place in missing | collided:
            element = next(e for e in elements[place[0]] if e.field == place[1])
            candidates[place].original = element.text(place[0])
        assigned = assign_names(list(names.values()), NEEDED)
    _note_short(outcome, elements, candidates, missing, collided, partial)
    taken: dict[tuple[Task, str], list[str]] = {}
    for place, found in candidates.items():
        if place[0] == "names" and found.key in assigned:
            taken[place] = assigned[found.key]
        elif place[0] == "descriptions" and (len(found.texts) >= NEEDED or partial):
            texts = ranked(found.texts[:NEEDED], found.distances[:NEEDED])
            taken[place] = texts + texts[-1:] * (NEEDED - len(texts))
    return taken if taken.keys() == candidates.keys() else None


def _candidates(element: Element, task: Task, answers: list[Entry], settings: Settings) -> Candidates:
    metric = settings.method.metric(task)
    original = element.text(task)
    texts = draw([a.canonical for a in answers], settings.seed, element.id, task)
    if settings.selection == "diverse":
        texts = most_diverse(texts, NEEDED, metric)
    for answer in answers:
        answer.distance = float(metric(original, answer.canonical))
    distance = {answer.canonical: answer.distance or 0.0 for answer in answers}
    return Candidates(element.id, texts, [distance[text] for text in texts])


def _note_short(
    outcome: Outcome,
    elements: Mapping[Task, list[Element]],
    candidates: Mapping[tuple[Task, str], Candidates],
    missing: set[tuple[Task, str]],
    collided: set[tuple[Task, str]],
    partial: bool,
) -> None:
    for task in TASKS:
        for element in elements[task]:
            place = (task, element.field)
            if place in missing | collided:
                have = len(candidates[place].texts)
                filled = VARIANTS[min(have, NEEDED) if place in missing else 0 :] if partial else ()
                reason = "too_few" if place in missing else "name_collision"
                outcome.short.append(Short(element.id, task, element.field, have, 0, reason, tuple(filled)))


def _count_in_review(outcome: Outcome, clusters: Mapping[tuple[Task, str], list[list[Entry]]]) -> None:
    for short in outcome.short:
        found = clusters.get((short.task, short.form_field), [])
        short.in_review = sum(same[0].disposition == "review" for same in found)


def _dispose(good: Mapping[tuple[Task, str], list[Entry]], taken: Mapping[tuple[Task, str], list[str]] | None) -> None:
    """Good answers become used ones, or stay surplus with the reason why."""
    for place, answers in good.items():
        for answer in answers:
            if taken is None:
                answer.reason = "service_incomplete"
            elif answer.canonical in taken[place]:
                # A repeated answer counts for the first variant that it fills.
                answer.variant = taken[place].index(answer.canonical) + 1
                answer.disposition, answer.reason = "used", ""


# --- what is written ------------------------------------------------------------------------------------------------


def _review_items(clusters: Mapping[tuple[Task, str], list[list[Entry]]], rules: vet.Rules) -> list[ReviewItem]:
    items = []
    for found in clusters.values():
        held = [same for same in found if same[0].disposition == "review"]
        neighbours = Neighbours((same[0].canonical, same[0].disposition) for same in found if held)
        for same in held:
            best = same[0]
            shown, more = neighbours.of(best.canonical, best.disposition)
            reasons = Counter([best.reason, *vet.flags(best.vetted(), rules)])
            items.append(
                ReviewItem(
                    response_id=best.response_id,
                    element_id=best.element.id,
                    task=best.task,
                    prompt=best.element.prompt(best.task),
                    original=best.element.text(best.task),
                    text=best.text,
                    canonical=best.canonical,
                    reasons=list(reasons),
                    same_answers=len(same),
                    neighbours=shown,
                    more_neighbours=more,
                )
            )
    return sorted(items, key=review_order)


def _audit_row(answer: Entry) -> AuditRow:
    return AuditRow(
        answer.response_id,
        answer.element.id,
        "name" if answer.task == "names" else "description",
        answer.text,
        answer.canonical,
        answer.disposition,
        answer.reason,
        answer.variant,
        answer.distance,
        answer.assignment.worker_hash,
        answer.assignment.accept_time,
        answer.assignment.submit_time,
        answer.assignment.work_seconds,
    )
