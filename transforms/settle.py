"""Settles one service: which answers are used in which variant, and what became of every other answer.

The whole of SGD-X's section 2.3 for one service: normalise, vet, apply the reviewers' decisions, deduplicate, draw
five, rank, compose. Pure: assignments and decisions in, an :class:`Outcome` out.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import msgspec

from schemas.decisions import Decision
from schemas.elements import TASKS, VARIANTS, Element, Task, elements_of, response_id
from schemas.responses import Assignment, AuditRow, DeadLetter, Disposition
from schemas.service import parse_service
from transforms import vet
from transforms.dedupe import spelling_rank
from transforms.distance import Method
from transforms.naming import Convention, join_words, name_words
from transforms.rank import Candidates, assign_names, ranked
from transforms.review import ReviewItem
from transforms.select import draw, most_diverse
from transforms.text import as_description, clean, words
from transforms.variants import compose_variant

NEEDED = len(VARIANTS)


class Settings(msgspec.Struct, frozen=True):
    """What shapes the result, the same for every service.

    Attributes:
      slots, intents: the corpus's conventions of names.
      method: distances, stopwords, lemmas.
      seed: of the draw.
      selection: ``random`` or ``diverse``.
      allow_partial: compose services whose elements are short of answers, repeating what there is.
    """

    slots: Convention = Convention.SNAKE
    intents: Convention = Convention.CAMEL
    method: Method = Method()
    seed: int = 0
    selection: str = "random"
    allow_partial: bool = False


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


class _Answer(msgspec.Struct):
    """One answer on its way to its disposition."""

    response_id: str
    element: Element
    task: Task
    text: str
    canonical: str
    key: tuple[str, ...]
    assignment: Assignment
    verdict: vet.Verdict = vet.PASS
    decided: bool = False
    disposition: Disposition = "surplus"
    reason: str = ""
    variant: int | None = None
    distance: float | None = None


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
    answers = _read_answers(sorted(assignments, key=lambda a: a.assignment_id), elements, decisions, settings, outcome)
    clusters: dict[tuple[Task, str], list[list[_Answer]]] = defaultdict(list)
    for (task, field, _), same in _by_words(answers).items():
        clusters[task, field].append(same)
        _settle_cluster(same)
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
    outcome.reviews = _review_items(clusters)
    outcome.audit = [
        _audit_row(answer) for answer in sorted(answers, key=lambda a: (a.element.id, a.task, a.response_id))
    ]
    return outcome


# --- answers -------------------------------------------------------------------------------------------------------


def _read_answers(
    assignments: Iterable[Assignment],
    elements: Mapping[Task, list[Element]],
    decisions: Mapping[str, Mapping[str, Decision]],
    settings: Settings,
    outcome: Outcome,
) -> list[_Answer]:
    by_field = {task: {element.field: element for element in found} for task, found in elements.items()}
    assignments = list(assignments)
    seen_both = _not_blind(assignments)
    answers = []
    for assignment in assignments:
        known = by_field[assignment.task]
        verdict = vet.vet_assignment(assignment, [field for field in assignment.answers if field in known])
        if not verdict.action and assignment.assignment_id in seen_both:
            verdict = vet.Verdict("review", "not_blind")
        for field, text in sorted(assignment.answers.items()):
            decision = decisions.get(assignment.assignment_id, {}).get(field)
            if field in known:
                answers.append(_answer(assignment, known[field], text, verdict, decision, settings, outcome))
            elif text.strip() or decision:
                outcome.dead.append(_unknown_position(assignment, field, text, decision))
    return answers


def _unknown_position(assignment: Assignment, field: str, text: str, decision: Decision | None) -> DeadLetter:
    reason = f"unknown_position: task {assignment.service_name}:{assignment.task} has no field {field}"
    note = f" (decision {decision.decision} of {decision.source} is void too)" if decision else ""
    key = response_id(assignment.assignment_id, field)
    return DeadLetter("compose", key, reason + note, text.strip()[:2_000], assignment.source)


def _not_blind(assignments: Sequence[Assignment]) -> set[str]:
    """Assignments of workers who did the sibling task before: they have seen what is hidden."""
    first: dict[str, dict[Task, int]] = defaultdict(dict)
    for a in assignments:
        if a.worker_hash:
            when = a.submit_time or 0
            first[a.worker_hash][a.task] = min(when, first[a.worker_hash].get(a.task, when))
    return {
        a.assignment_id
        for a in assignments
        for task, when in first.get(a.worker_hash, {}).items()
        if task != a.task and when <= (a.submit_time or 0)
    }


def _answer(
    assignment: Assignment,
    element: Element,
    text: str,
    verdict: vet.Verdict,
    decision: Decision | None,
    settings: Settings,
    outcome: Outcome,
) -> _Answer:
    if decision is not None:
        outcome.decisions[decision.decision] = outcome.decisions.get(decision.decision, 0) + 1
    wanted = decision.text if decision is not None and decision.decision == "fix" else text
    canonical, key = canonical_form(
        wanted, assignment.task, _convention(element, settings), element.text(assignment.task)
    )
    answer = _Answer(
        response_id(assignment.assignment_id, element.field), element, assignment.task, text, canonical, key, assignment
    )
    if decision is not None and decision.decision == "reject":
        answer.verdict = vet.Verdict("reject", f"reviewer: {decision.reason}" if decision.reason else "reviewer")
    elif decision is not None and key:
        answer.decided = True
    else:
        # A decision cannot make something of an answer that has no words.
        answer.verdict = verdict if verdict.action == "reject" else _vet_text(answer)
        if not answer.verdict.action:
            answer.verdict = verdict
    return answer


def _vet_text(answer: _Answer) -> vet.Verdict:
    return vet.vet_answer(_vetted(answer))


def _vetted(answer: _Answer) -> vet.Answer:
    return vet.Answer(clean(answer.text), answer.key, answer.task, answer.element.name, answer.element.description)


def _convention(element: Element, settings: Settings) -> Convention:
    return settings.intents if element.kind == "intent" else settings.slots


@lru_cache(maxsize=1 << 18)
def canonical_form(text: str, task: Task, convention: Convention, original: str) -> tuple[str, tuple[str, ...]]:
    """A text as it is emitted, and the words by which answers are the same.

    Args:
      text: as given.
      task: what was asked.
      convention: of names.
      original: the element's own text.
    """
    text = clean(text)
    if task == "names":
        parts = name_words(text)
        return join_words(parts, convention, original), parts
    return as_description(text, original), words(text)


# --- duplicates ----------------------------------------------------------------------------------------------------


def _by_words(answers: Iterable[_Answer]) -> dict[tuple[Task, str, str], list[_Answer]]:
    """Answers for one element with the same words; those without words each alone."""
    clusters: dict[tuple[Task, str, str], list[_Answer]] = defaultdict(list)
    for answer in answers:
        same = answer.canonical if answer.task == "names" else " ".join(answer.key)
        clusters[answer.task, answer.element.field, same or f"\0{answer.response_id}"].append(answer)
    return clusters


def _settle_cluster(same: list[_Answer]) -> None:
    """Gives each of the answers with the same words its disposition; the one that stands for them comes first.

    A reviewer judges words, so a rejection holds for all who gave them, unless one of them was accepted. What is
    held is held together; where one passes, the others are its duplicates.
    """
    reviewer = next((a.verdict for a in same if a.verdict.reason.startswith("reviewer")), None)
    if reviewer is not None and not any(a.decided for a in same):
        for answer in same:
            if answer.verdict.action != "reject":
                answer.verdict = reviewer
    same.sort(key=_better)
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


def _better(answer: _Answer) -> tuple[Any, ...]:
    return (
        {"": 0, "review": 1, "reject": 2}[answer.verdict.action],
        not answer.decided,
        spelling_rank(answer.canonical, answer.key, answer.text) if answer.key else (),
        answer.canonical,
        answer.response_id,
    )


# --- the five ------------------------------------------------------------------------------------------------------


def _take(
    elements: Mapping[Task, list[Element]],
    good: Mapping[tuple[Task, str], list[_Answer]],
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
    if missing | collided and settings.allow_partial:
        for place in missing | collided:
            element = next(e for e in elements[place[0]] if e.field == place[1])
            candidates[place].original = element.text(place[0])
        assigned = assign_names(list(names.values()), NEEDED)
    _note_short(outcome, elements, candidates, missing, collided, settings)
    taken: dict[tuple[Task, str], list[str]] = {}
    for place, found in candidates.items():
        if place[0] == "names" and found.key in assigned:
            taken[place] = assigned[found.key]
        elif place[0] == "descriptions" and (len(found.texts) >= NEEDED or settings.allow_partial):
            five = found.texts[:NEEDED]
            texts = ranked(five, found.distances[:NEEDED])
            taken[place] = texts + [texts[-1] if texts else found.original] * (NEEDED - len(texts))
    return taken if taken.keys() == candidates.keys() else None


def _candidates(element: Element, task: Task, answers: list[_Answer], settings: Settings) -> Candidates:
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
    settings: Settings,
) -> None:
    for task in TASKS:
        for element in elements[task]:
            place = (task, element.field)
            if place in missing | collided:
                have = len(candidates[place].texts)
                filled = VARIANTS[min(have, NEEDED) if place in missing else 0 :] if settings.allow_partial else ()
                reason = "too_few" if place in missing else "name_collision"
                outcome.short.append(Short(element.id, task, element.field, have, 0, reason, tuple(filled)))


def _count_in_review(outcome: Outcome, clusters: Mapping[tuple[Task, str], list[list[_Answer]]]) -> None:
    for short in outcome.short:
        found = clusters.get((short.task, short.form_field), [])
        short.in_review = sum(same[0].disposition == "review" for same in found)


def _dispose(
    good: Mapping[tuple[Task, str], list[_Answer]], taken: Mapping[tuple[Task, str], list[str]] | None
) -> None:
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


def _review_items(clusters: Mapping[tuple[Task, str], list[list[_Answer]]]) -> list[ReviewItem]:
    items = []
    for found in clusters.values():
        for same in found:
            best = same[0]
            if best.disposition == "review":
                neighbours: list[tuple[str, str]] = [
                    (other[0].canonical, other[0].disposition) for other in found if other is not same
                ]
                # Workers whose neighbours were rejected as copies need not be shown those again and again.
                told = sorted({pair for pair in neighbours if pair[1] != "rejected"})
                reasons = Counter([best.reason, *vet.flags(_vetted(best))])
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
                        neighbours=told,
                    )
                )
    return sorted(items, key=lambda item: (item.element_id, item.task, item.response_id))


def _audit_row(answer: _Answer) -> AuditRow:
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
