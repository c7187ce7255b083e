"""The answers of one service: their canonical forms, the verdicts on them, and which have the same words.

Decides everything about an answer but whether it is drawn: that depends on how many others there are.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Protocol, TypeVar

import msgspec

from parapet.schemas.decisions import Decision
from parapet.schemas.elements import Element, Task, response_id
from parapet.schemas.responses import Assignment, DeadLetter, Disposition
from parapet.transforms.crowd import vet
from parapet.transforms.crowd.ingest.fields import payload
from parapet.transforms.crowd.lexicon import spelling_rank
from parapet.transforms.crowd.merge import no_answer, unusable_decision
from parapet.transforms.naming import Convention, Conventions, join_words, name_words
from parapet.transforms.text import as_description, clean, words


class Entry(msgspec.Struct):
    """One answer on its way to its disposition.

    Attributes:
      canonical: as it would be emitted; ``key`` is its words, empty where nothing is left of it.
      verdict: the automatic one, or the reviewer's rejection.
      disposition: so far; ``surplus`` is a good answer that is not drawn yet.
    """

    response_id: str
    element: Element
    task: Task
    text: str
    canonical: str
    key: tuple[str, ...]
    assignment: Assignment
    decision: Decision | None = None
    verdict: vet.Verdict = vet.PASS
    disposition: Disposition = "surplus"
    reason: str = ""
    variant: int | None = None
    distance: float | None = None

    @property
    def accepted(self) -> bool:
        """Whether a reviewer accepted or fixed it."""
        return self.decision is not None and self.decision.decision != "reject"

    def vetted(self) -> vet.Answer:
        """What the rules look at."""
        return vet.Answer(clean(self.text), self.key, self.task, self.element.name, self.element.description)


def read_answers(
    assignments: Sequence[Assignment],
    elements: Mapping[Task, Sequence[Element]],
    decisions: Mapping[str, Mapping[str, Decision]],
    conventions: Conventions,
    rules: vet.Rules = vet.NO_MORE,
) -> tuple[list[Entry], list[DeadLetter]]:
    """Every answer with the verdict on it, before answers are compared with each other.

    Args:
      assignments: of one service, each once, in order.
      elements: of the service, by task.
      decisions: assignment id to form field to decision.
      conventions: of the corpus's names.
      rules: besides those that are built in.

    Returns:
      The answers, and dead letters for fields that the task does not have.
    """
    by_field: dict[str, dict[str, Element]] = {
        task: {element.field: element for element in of_task} for task, of_task in elements.items()
    }
    seen_both = _not_blind(assignments)
    answers, dead = [], []
    for assignment in assignments:
        known = by_field[assignment.task]
        verdict = vet.vet_assignment(assignment, [field for field in assignment.answers if field in known])
        if not verdict.action and assignment.assignment_id in seen_both:
            verdict = vet.Verdict("review", "not_blind")
        for field, text in sorted(assignment.answers.items()):
            decision = decisions.get(assignment.assignment_id, {}).get(field)
            if field in known:
                entry = _entry(assignment, known[field], text, verdict, decision, conventions, rules)
                if decision is not None and entry.decision is None:
                    dead.append(unusable_decision(decision, "bad_decision: no word is left of the text to be used"))
                answers.append(entry)
            elif text.strip() or decision:
                dead.append(_unknown_position(assignment, field, text, decision))
        if not any(field in known or text.strip() for field, text in assignment.answers.items()):
            dead.append(no_answer(assignment))
    return answers, dead


def _unknown_position(assignment: Assignment, field: str, text: str, decision: Decision | None) -> DeadLetter:
    reason = f"unknown_position: task {assignment.service_name}:{assignment.task} has no field {field}"
    note = f" (decision {decision.decision} of {decision.source} is void too)" if decision else ""
    key = response_id(assignment.assignment_id, field)
    return DeadLetter("compose", key, reason + note, payload(text.strip()), assignment.source)


def _not_blind(assignments: Sequence[Assignment]) -> set[str]:
    """Assignments of workers who did the sibling task before: they have seen what is hidden."""
    first: dict[str, dict[str, int]] = defaultdict(dict)
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


def _entry(
    assignment: Assignment,
    element: Element,
    text: str,
    of_assignment: vet.Verdict,
    decision: Decision | None,
    conventions: Conventions,
    rules: vet.Rules,
) -> Entry:
    task = assignment.task
    assert task in ("names", "descriptions")  # the ingest takes answers to schema tasks only
    convention, original = conventions.of(element.kind), element.text(task)
    text_to_use = decision.text if decision is not None and decision.decision == "fix" else text
    canonical, key = canonical_form(text_to_use, task, convention, original)
    if decision is not None and decision.decision != "reject" and not key:
        decision = None  # of a text without words nothing can be composed
        canonical, key = canonical_form(text, task, convention, original)
    response = response_id(assignment.assignment_id, element.field)
    entry = Entry(response, element, task, text, canonical, key, assignment, decision)
    if decision is not None and decision.decision == "reject":
        entry.verdict = vet.Verdict("reject", f"reviewer: {decision.reason}" if decision.reason else "reviewer")
    elif not entry.accepted:
        of_text = vet.PASS if of_assignment.action == "reject" else vet.vet_answer(entry.vetted(), rules)
        entry.verdict = of_text if of_text.action else of_assignment
    return entry


@lru_cache(maxsize=1 << 15)
def canonical_form(text: str, task: Task, convention: Convention, original: str) -> tuple[str, tuple[str, ...]]:
    """A text as it is emitted, and the words by which answers are the same.

    Args:
      text: as typed.
      task: ``names`` or ``descriptions``.
      convention: of names.
      original: the element's own text.
    """
    text = clean(text)
    if task == "names":
        name = join_words(name_words(text), convention, original)
        # The domain of MultiWOZ's names is added, so "area" for hotel-area is the original and must be seen as such.
        return name, name_words(name) if convention is Convention.DOMAIN_SLOT else name_words(text)
    return as_description(text, original), words(text)


def by_words(answers: Iterable[Entry]) -> dict[tuple[Task, str, str], list[Entry]]:
    """Answers for one element with the same words; those without words each alone."""
    clusters: dict[tuple[Task, str, str], list[Entry]] = defaultdict(list)
    for answer in answers:
        same = answer.canonical if answer.task == "names" else " ".join(answer.key)
        clusters[answer.task, answer.element.field, same or f"\0{answer.response_id}"].append(answer)
    return clusters


class Settled(Protocol):
    """What an answer must have to get its disposition: see :class:`Entry`."""

    response_id: str
    verdict: vet.Verdict
    disposition: Disposition
    reason: str

    @property
    def accepted(self) -> bool:
        """Whether a reviewer accepted or fixed it."""


SettledT = TypeVar("SettledT", bound=Settled)


def settle_cluster(same: list[SettledT], better: Callable[[SettledT], tuple[Any, ...]]) -> None:
    """Gives each of the answers with the same words its disposition; the one that represents them comes first.

    A reviewer judges words, so a rejection holds for all who gave them, unless one of them was accepted. What is
    held is held together; where one passes, the others are its duplicates.

    Args:
      same: the answers.
      better: sort key of the best representative, where verdict and reviewer make no difference.
    """
    reviewer = next((a.verdict for a in same if a.verdict.reason.startswith("reviewer")), None)
    if reviewer is not None and not any(a.accepted for a in same):
        for answer in same:
            if answer.verdict.action != "reject":
                answer.verdict = reviewer
    if len(same) > 1:
        same.sort(key=lambda answer: (_RANK[answer.verdict.action], not answer.accepted, *better(answer)))
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


_RANK = {"": 0, "review": 1, "reject": 2}


def better_spelled(answer: Entry) -> tuple[Any, ...]:
    """Sorts the better spelled of two answers first."""
    return (
        spelling_rank(answer.canonical, answer.key, answer.text) if answer.key else (),
        answer.canonical,
        answer.response_id,
    )
