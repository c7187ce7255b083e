"""Settling: every answer gets a disposition. What schema tasks and rewriting tasks have in common.

Answers with the same words are one; reviewers' decisions outrank the automatic verdicts. Assignments with which
settling raises are dead letters, and the rest is settled without them.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import msgspec
import pyarrow as pa

from parapet.schemas.decisions import Decision
from parapet.schemas.errors import InputError
from parapet.schemas.rows import Assignment, DeadLetter, Disposition
from parapet.transforms.crowd.lexicon import spelling_rank
from parapet.transforms.crowd.merge import Decisions, answer_ids, answers_text, lost, unusable_decision
from parapet.transforms.crowd.review import Neighbours, ReviewItem, review_order
from parapet.transforms.crowd.vet import PASS, Verdict
from parapet.transforms.perturbation.fence import Fault, bad_record

_TRIED_SINGLY = 200  # assignments among which those are sought with which all of them cannot be settled
_RANK = {"": 0, "review": 1, "reject": 2}


class Entry(msgspec.Struct, kw_only=True):
    """One answer on its way to its disposition.

    Attributes:
      text: as typed.
      canonical: as it would be emitted; ``words`` are its words, none where nothing is left of it.
      verdict: the automatic one, or the reviewer's rejection.
      disposition: so far; ``surplus`` is a good answer that is not drawn yet.
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

    @property
    def accepted(self) -> bool:
        """Whether a reviewer accepted or fixed it."""
        return self.decision is not None and self.decision.decision != "reject"

    def spelling(self) -> tuple[Any, ...]:
        """Sorts the better spelled of two answers with the same words first."""
        return spelling_rank(self.canonical, self.words, self.text) if self.words else ()

    def shown(self) -> tuple[str, str, str, str]:
        """What a reviewer sees: the element's id, the task, what the worker saw, and the original."""
        raise NotImplementedError

    def row(self) -> dict[str, Any]:
        """The answer's row in ``responses.parquet``."""
        return {
            "response_id": self.response_id,
            "text": self.text,
            "canonical": self.canonical,
            "disposition": self.disposition,
            "reason": self.reason,
            **worker_columns(self.assignment),
        }


EntryT = TypeVar("EntryT", bound=Entry)


def worker_columns(assignment: Assignment) -> dict[str, Any]:
    """Who did the work and when, as all tables of answers have it."""

    def milliseconds(seconds: int | None) -> int | None:  # Parquet has no seconds
        return None if seconds is None else seconds * 1000

    return {
        "worker_hash": assignment.worker_hash,
        "accept_time": milliseconds(assignment.accept_time),
        "submit_time": milliseconds(assignment.submit_time),
        "work_seconds": assignment.work_seconds,
    }


class Outcome(msgspec.Struct, kw_only=True):
    """What became of the answers about one service or dialogue.

    Attributes:
      name: of the service or dialogue.
      known: whether there is such a service or dialogue.
      audit: a row for each answer; ``table`` has them in the columns of ``responses.parquet``.
      short: what lacks good answers.
      dead: what cannot be used; ``dead_answers`` are the ids of the answers among it.
      answers: the number by kind and disposition; ``reasons`` by kind, disposition and reason. Schema tasks have one
        kind only, ``""``.
      decisions: those that took effect, by word.
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
    """Adds the rows of settled answers, which are in order, and their numbers."""
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
    """An answer as its reviewer wants it; a decision that cannot be carried out is a dead letter.

    Args:
      make: makes the answer of a text.
      text: as typed.
      decision: on it.
      problem: why not even a reviewer can accept an answer; empty where one can.
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
    """Groups (words, answer) by words, and settles each group: its first answer represents it."""
    clusters: dict[str, list[EntryT]] = defaultdict(list)
    for words, entry in answers:
        clusters[words or f"\0{entry.response_id}"].append(entry)
    for same in clusters.values():
        _settle_cluster(same)
    return list(clusters.values())


def _settle_cluster(same: list[EntryT]) -> None:
    """Gives each of the answers with the same words its disposition; the one that represents them comes first.

    A reviewer judges words, so a rejection holds for all who gave them, unless one of them was accepted. What is
    held is held together; where one passes, the others are its duplicates.
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
    """One answer for each group of the same words that passed."""
    return [same[0] for same in clusters if same[0].disposition == "surplus"]


def review_items(
    groups: Iterable[Sequence[Sequence[EntryT]]], flags: Callable[[EntryT], Iterable[str]]
) -> list[ReviewItem]:
    """What is held for review, in order.

    Args:
      groups: for each element and task, its answers in groups of the same words.
      flags: every reason that applies to an answer.
    """
    items = []
    for clusters in groups:
        held = [same for same in clusters if same[0].disposition == "review"]
        neighbours = Neighbours((same[0].canonical, same[0].disposition) for same in clusters if held)
        for same in held:
            best = same[0]
            beside, more = neighbours.of(best.canonical, best.disposition)
            reasons = list(dict.fromkeys([best.reason, *flags(best)]))
            texts = best.text, best.canonical, reasons
            items.append(ReviewItem(best.response_id, *best.shown(), *texts, len(same), beside, more))
    return sorted(items, key=review_order)


def unknown(outcome: Outcome, reason: str, assignments: Iterable[Assignment], decisions: Decisions) -> None:
    """Adds the dead letters of assignments about something that does not exist, and of the decisions on them."""
    void = f"unused_response: {reason.partition(': ')[2]}"
    for assignment in assignments:
        on_it = decisions.get(assignment.assignment_id, {})
        outcome.dead += [unusable_decision(decision, void) for decision in on_it.values()]
        shown = answers_text(assignment.answers)
        outcome.dead.append(DeadLetter("compose", assignment.assignment_id, reason, shown, assignment.source))
        outcome.dead_answers += answer_ids(assignment)


def settle_fenced(
    blank: OutcomeT,
    assignments: Sequence[Assignment],
    decisions: Decisions,
    settle: Callable[[Sequence[Assignment], Decisions], OutcomeT],
    source: str,
) -> OutcomeT:
    """Settles the answers about one service or dialogue, without those assignments with which that raises.

    Args:
      blank: the outcome where it raises without any, too.
      assignments: about it, each once.
      decisions: on their answers, and others.
      settle: settles some assignments; must change nothing.
      source: where the service or dialogue is, for its dead letter.

    Raises:
      InputError: settling raises one: of a vetting rule that fails, which would fail on other answers, too.
    """

    def settled(chosen: Sequence[Assignment]) -> OutcomeT:
        ids = (assignment.assignment_id for assignment in chosen)
        return settle(chosen, {key: decisions[key] for key in ids if key in decisions})

    errors: dict[str, InputError] = {}
    try:
        try:
            outcome = settled(assignments)
        except Exception as error:
            errors = _culprits(_fault(error), assignments, settled)
            outcome = settled([one for one in assignments if one.assignment_id not in errors])
    except Exception as error:  # whatever was answered
        bad = _fault(error)
        errors = {assignment.assignment_id: bad for assignment in assignments}
        outcome = blank
        outcome.dead = [DeadLetter("compose", blank.name, bad.reason, "", source)]
    for assignment in assignments:
        if (bad_assignment := errors.get(assignment.assignment_id)) is not None:
            on_it = decisions.get(assignment.assignment_id, {}).values()
            outcome.dead += lost(assignment, bad_assignment, "compose")
            outcome.dead += [unusable_decision(decision, bad_assignment.reason) for decision in on_it]
            outcome.dead_answers += answer_ids(assignment)
    return outcome


def _fault(error: Exception) -> InputError:
    """The dead letter's error of a fault; anything else goes on as it was raised."""
    bad = bad_record(error, is_private=True)
    if not isinstance(bad, Fault):
        raise error
    return bad


def _culprits(
    bad: InputError, assignments: Sequence[Assignment], settled: Callable[[Sequence[Assignment]], object]
) -> dict[str, InputError]:
    if len(assignments) > _TRIED_SINGLY:
        return {assignment.assignment_id: bad for assignment in assignments}
    kept: list[Assignment] = []
    errors: dict[str, InputError] = {}
    for assignment in assignments:
        try:
            settled([*kept, assignment])
        except Exception as error:
            errors[assignment.assignment_id] = bad_record(error, is_private=True)
        else:
            kept.append(assignment)
    return errors
