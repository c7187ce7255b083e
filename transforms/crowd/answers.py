"""The answers of one service: their canonical forms and the verdicts on them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import lru_cache, partial
from typing import Any

from parapet.schemas.rows import Assignment, DeadLetter
from parapet.schemas.service import Element, Task, response_id
from parapet.transforms.crowd import vet
from parapet.transforms.crowd.ingest.fields import payload
from parapet.transforms.crowd.merge import Decisions, no_answer
from parapet.transforms.crowd.settle import Entry, Outcome, decided
from parapet.transforms.text import Convention, Conventions, as_description, clean, join_words, name_words, words


class ElementAnswer(Entry, kw_only=True):
    """An answer about an element of a schema; ``variant`` is the one that uses it."""

    element: Element
    task: Task
    variant: int | None = None
    distance: float | None = None

    def vetted(self) -> vet.Answer:
        """What the rules look at."""
        return vet.Answer(clean(self.text), self.words, self.task, self.element.name, self.element.description)

    def shown(self) -> tuple[str, str, str, str]:
        """The element, the task, its prompt, and the text that was hidden from the worker."""
        return self.element.id, self.task, self.element.prompt(self.task), self.element.text(self.task)

    def same(self) -> str:
        """What is the same of answers that are duplicates."""
        return self.canonical if self.task == "names" else " ".join(self.words)

    def row(self) -> dict[str, Any]:
        """A row of ``responses.parquet``."""
        return {
            **super().row(),
            "element_id": self.element.id,
            "field": "name" if self.task == "names" else "description",
            "variant": self.variant,
            "distance": self.distance,
        }


def read_answers(
    assignments: Sequence[Assignment],
    elements: Mapping[Task, Sequence[Element]],
    decisions: Decisions,
    conventions: Conventions,
    rules: vet.Rules,
    outcome: Outcome,
) -> list[ElementAnswer]:
    """Every answer with the verdict on it, before answers are compared with each other.

    Args:
      assignments: of one service, each once, in order.
      elements: of the service, by task.
      decisions: on the answers.
      conventions: of the corpus's names.
      rules: besides those that are built in.
      outcome: gets the dead letters of fields that the task does not have, and of decisions without effect.
    """
    by_field: dict[str, dict[str, Element]] = {
        task: {element.field: element for element in of_task} for task, of_task in elements.items()
    }
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
                make = partial(_entry, assignment, known[field], conventions.of(known[field].kind), text)
                entry, dead = decided(make, text, decision, _problem)
                outcome.dead += dead
                if entry.decision is None:
                    of_text = vet.PASS if verdict.action == "reject" else vet.vet_answer(entry.vetted(), rules)
                    entry.verdict = of_text if of_text.action else verdict
                answers.append(entry)
            elif text.strip() or decision:
                reason = f"unknown_position: task {assignment.service_name}:{assignment.task} has no field {field}"
                note = f" (decision {decision.decision} of {decision.source} is void too)" if decision else ""
                key = response_id(assignment.assignment_id, field)
                outcome.dead.append(DeadLetter("compose", key, reason + note, payload(text.strip()), assignment.source))
                outcome.dead_answers += [key] if text.strip() else []
        if not any(field in known or text.strip() for field, text in assignment.answers.items()):
            outcome.dead.append(no_answer(assignment))
    return answers


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


def _problem(entry: ElementAnswer) -> str:
    return "" if entry.words else "no word is left of the text to be used"


def _entry(
    assignment: Assignment, element: Element, convention: Convention, text: str, text_to_use: str
) -> ElementAnswer:
    task = assignment.task
    assert task in ("names", "descriptions")  # the ingest takes answers to schema tasks only
    canonical, words = canonical_form(text_to_use, task, convention, element.text(task))
    return ElementAnswer(
        response_id=response_id(assignment.assignment_id, element.field),
        text=text,
        canonical=canonical,
        words=words,
        assignment=assignment,
        element=element,
        task=task,
    )


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
