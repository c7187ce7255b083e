"""Merges what several exports have of an assignment, and joins it with the reviewers' decisions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

import msgspec

from parapet.schemas.decisions import Decision
from parapet.schemas.elements import response_id
from parapet.schemas.errors import InputError
from parapet.schemas.responses import Assignment, DeadLetter
from parapet.transforms.counts import Counts, Identities
from parapet.transforms.crowd.ingest.fields import payload
from parapet.transforms.fence import Fault, bad_record

_IDENTITIES = Identities("crowd")
_TRIED_SINGLY = 200  # assignments among which those are sought with which all of them cannot be settled

Outcome = TypeVar("Outcome")


class Merged(msgspec.Struct):
    """Assignments and the decisions on them, ready to be settled.

    Attributes:
      assignments: each once, in the order of their ids; all of them answer something.
      decisions: assignment id to form field to decision.
      dead: what cannot be used.
      counts: of assignments, answers and decisions, for the invariants.
    """

    assignments: list[Assignment]
    decisions: dict[str, dict[str, Decision]]
    dead: list[DeadLetter]
    counts: Counts


def merge(read: Sequence[Assignment], decisions: Iterable[Decision]) -> Merged:
    """Each assignment once, each decision with its response.

    Args:
      read: assignments as the exports have them, with all copies of each.
      decisions: of all reviewers, on these assignments.
    """
    assignments, conflicts = merge_assignments(read)
    settled, contradictions = settle_decisions(decisions)
    without = [no_answer(assignment) for assignment in assignments if not assignment.answers]
    assignments = [assignment for assignment in assignments if assignment.answers]
    known, unknown = unknown_decisions(settled, assignments, conflicts)
    counts = Counts()
    add_records(counts, "assignments_merged", (assignment.assignment_id for assignment in read))
    add_records(counts, "assignments", (assignment.assignment_id for assignment in assignments))
    add_records(counts, "answers_given", (name for assignment in assignments for name in answers_of(assignment)))
    add_records(counts, "decisions", decided(known))
    return Merged(assignments, known, [*conflicts, *without, *contradictions, *unknown], counts)


def merge_fenced(read: Sequence[Assignment], decisions: Sequence[Decision]) -> Merged:
    """As :func:`merge`; where that raises, each assignment is merged alone: one that raises is a dead letter."""
    try:
        return merge(read, decisions)
    except Exception as error:
        bad_record(error, is_private=True)
    versions: dict[str, tuple[list[Assignment], list[Decision]]] = {}
    for assignment in read:
        versions.setdefault(assignment.assignment_id, ([], []))[0].append(assignment)
    for decision in decisions:
        versions.setdefault(decision.response_id.rpartition(":")[0], ([], []))[1].append(decision)
    every = Merged([], {}, [], Counts())
    for _, (of_assignment, on_it) in sorted(versions.items()):
        try:
            merged = merge(of_assignment, on_it)
        except Exception as error:
            bad = bad_record(error, is_private=True)
            dead = [letter for one in of_assignment for letter in lost(one, bad, "settle")]
            dead += [unusable_decision(decision, bad.reason) for decision in on_it]
            merged = Merged([], {}, dead, Counts())
            add_records(merged.counts, "assignments_merged", (one.assignment_id for one in of_assignment))
        every.assignments += merged.assignments
        every.decisions |= merged.decisions
        every.dead += merged.dead
        every.counts.update(merged.counts)
    return every


def settle_fenced(
    settle: Callable[[Sequence[Assignment]], Outcome], assignments: Sequence[Assignment]
) -> tuple[Outcome, dict[str, InputError]]:
    """Settles those assignments that can be.

    Args:
      settle: settles some assignments; must change nothing.
      assignments: of one service or dialogue.

    Returns:
      What ``settle`` gave, and the errors of the assignments with which it raised, by id.

    Raises:
      InputError: it raises one: of a vetting rule that fails, which would fail on other answers, too.
      Exception: it raises without any assignment, too.
    """
    try:
        return settle(assignments), {}
    except Exception as error:
        bad = bad_record(error, is_private=True)
        if not isinstance(bad, Fault):
            raise
    if len(assignments) > _TRIED_SINGLY:
        return settle([]), {assignment.assignment_id: bad for assignment in assignments}
    kept: list[Assignment] = []
    errors: dict[str, InputError] = {}
    for assignment in assignments:
        try:
            settle([*kept, assignment])
        except Exception as error:
            errors[assignment.assignment_id] = bad_record(error, is_private=True)
        else:
            kept.append(assignment)
    return settle(kept), errors


def lost(assignment: Assignment, error: InputError, stage: str = "compose") -> list[DeadLetter]:
    """The dead letters of an assignment that cannot be used: one for each answer, so that none of them is lost."""
    texts = {field: text.strip() for field, text in sorted(assignment.answers.items()) if text.strip()}
    return [
        DeadLetter(stage, response_id(assignment.assignment_id, field), error.reason, payload(text), assignment.source)
        for field, text in texts.items()
    ] or [DeadLetter(stage, assignment.assignment_id, error.reason, "", assignment.source)]


def lost_ones(
    assignments: Iterable[Assignment],
    decisions: Mapping[str, Mapping[str, Decision]],
    errors: Mapping[str, InputError],
) -> tuple[list[DeadLetter], Counts]:
    """The dead letters of assignments that cannot be settled and of the decisions on them, and their counts."""
    dead, counts = [], Counts()
    for assignment in assignments:
        if (error := errors.get(assignment.assignment_id)) is not None:
            on_it = decisions.get(assignment.assignment_id, {})
            dead += lost(assignment, error)
            dead += [unusable_decision(decision, error.reason) for decision in on_it.values()]
            add_records(counts, "assignments_settled", [assignment.assignment_id])
            add_records(counts, "answers_dead", answers_of(assignment))
            add_records(counts, "decisions_settled", decided({assignment.assignment_id: on_it}))
    return dead, counts


def answers_of(assignment: Assignment) -> list[str]:
    """The ids of the answers that are not blank; blank cells may be fields that the form did not have."""
    return [response_id(assignment.assignment_id, field) for field, text in assignment.answers.items() if text.strip()]


def decided(decisions: Mapping[str, Mapping[str, Decision]]) -> list[str]:
    """The ids of the responses that decisions are on."""
    return [response_id(assignment_id, field) for assignment_id, fields in decisions.items() for field in fields]


def add_records(counts: Counts, name: str, ids: Iterable[str]) -> None:
    """Counts assignments or answers, with their identities."""
    n = total = 0
    for one in ids:
        n, total = n + 1, total + _IDENTITIES.of(one)
    counts.add(name, n, id=total)


def merge_assignments(assignments: Iterable[Assignment]) -> tuple[list[Assignment], list[DeadLetter]]:
    """Each assignment once, by id. Exports that contradict each other go to the dead letters, all of them.

    The same assignment may be in several exports (CSV and API, before and after approval): reading it again changes
    nothing. Two different ones with one id cannot be distinguished by their response ids, so neither is used.
    """
    by_id: dict[str, list[Assignment]] = defaultdict(list)
    for assignment in assignments:
        by_id[assignment.assignment_id].append(assignment)
    merged, dead = [], []
    for _, versions in sorted(by_id.items()):
        if len(versions) > 1:
            versions.sort(key=_order)
        difference = _difference(versions)
        if difference:
            dead += [_conflict(version, difference, versions) for version in versions]
        else:
            merged.append(_merge(versions))
    return merged, dead


def no_answer(assignment: Assignment) -> DeadLetter:
    """The dead letter of an assignment that answers nothing, so that its worker can still be paid."""
    reason = "no_answer: the form was submitted without an answer to anything that it asked"
    return DeadLetter("settle", assignment.assignment_id, reason, "", assignment.source)


def _order(assignment: Assignment) -> tuple[str, str]:
    return assignment.source, repr(assignment)


def _difference(versions: Sequence[Assignment]) -> str:
    """What two exports contradict each other in, or nothing. A field that one of them lacks contradicts nothing."""
    texts: dict[str, str] = {}
    for version in versions:
        if (version.service_name, version.task) != (versions[0].service_name, versions[0].task):
            return "task"
        if version.worker_hash != versions[0].worker_hash:
            return "worker"
        for field, text in sorted(version.answers.items()):
            if texts.setdefault(field, text) != text:
                return field
    return ""


def _conflict(version: Assignment, difference: str, versions: Sequence[Assignment]) -> DeadLetter:
    others = sorted({other.source for other in versions} - {version.source})
    where = f"; see {', '.join(others)}" if others else ""
    return DeadLetter(
        "settle",
        version.assignment_id,
        f"conflicting_assignment: the id stands for different answers ({difference}){where}",
        payload(", ".join(f"{field}={text}" for field, text in sorted(version.answers.items()) if text)),
        version.source,
    )


def _merge(versions: Sequence[Assignment]) -> Assignment:
    if len(versions) == 1:
        return versions[0]
    # A version that knows what the form asked has the right blanks.
    knowing = [version for version in versions if version.asked] or versions
    return Assignment(
        versions[0].assignment_id,
        versions[0].service_name,
        versions[0].task,
        versions[0].worker_hash,
        {field: "" for version in knowing for field in version.answers}
        | {field: text for version in versions for field, text in version.answers.items() if text},
        asked=any(version.asked for version in versions),
        accept_time=_first(version.accept_time for version in versions),
        submit_time=_first(version.submit_time for version in versions),
        work_seconds=_first(version.work_seconds for version in versions),
        rejected=any(version.rejected for version in versions),
        source=min(version.source for version in versions),
    )


def _first(values: Iterable[int | None]) -> int | None:
    return min((value for value in values if value is not None), default=None)


def settle_decisions(decisions: Iterable[Decision]) -> tuple[dict[str, Decision], list[DeadLetter]]:
    """One decision for each response. Contradicting ones are all dead letters."""
    by_id: dict[str, list[Decision]] = defaultdict(list)
    for decision in decisions:
        by_id[decision.response_id].append(decision)
    settled, dead = {}, []
    for response, several in sorted(by_id.items()):
        # By content, not by source: the names of the sheets do not show in the result.
        several.sort(key=lambda decision: (decision.reason, decision.reviewer, decision.source))
        if len({_content(decision) for decision in several}) == 1:
            settled[response] = several[0]
        else:
            where = ", ".join(decision.source for decision in several)
            dead += [unusable_decision(decision, f"contradicting_decisions: see {where}") for decision in several]
    return settled, dead


def _content(decision: Decision) -> tuple[str, str]:
    # The text counts for a fix only; a reviewer who changes his mind may leave one behind.
    return decision.decision, decision.text if decision.decision == "fix" else ""


def unknown_decisions(
    decisions: dict[str, Decision], assignments: Sequence[Assignment], conflicting: Iterable[DeadLetter] = ()
) -> tuple[dict[str, dict[str, Decision]], list[DeadLetter]]:
    """Groups decisions by assignment id; one on a response that does not exist is a dead letter.

    Args:
      decisions: by response id.
      assignments: those that are used.
      conflicting: those that are not, because exports contradict each other.
    """
    answers = {assignment.assignment_id: assignment.answers for assignment in assignments}
    left_out = {letter.key for letter in conflicting}
    known: dict[str, dict[str, Decision]] = defaultdict(dict)
    dead = []
    for response, decision in sorted(decisions.items()):
        assignment_id, _, field = response.rpartition(":")
        if field in answers.get(assignment_id, ()):
            known[assignment_id][field] = decision
        elif assignment_id in left_out:
            dead.append(unusable_decision(decision, "unused_response: its assignment is a conflicting_assignment"))
        else:
            reason = "unknown_response: no answer of the given files has this response_id"
            dead.append(unusable_decision(decision, reason))
    return dict(known), dead


def unusable_decision(decision: Decision, reason: str) -> DeadLetter:
    """The dead letter of a decision that does not take effect."""
    shown = payload(f"decision={decision.decision}, text={decision.text}, reason={decision.reason}")
    return DeadLetter("decisions", decision.response_id, reason, shown, decision.source)
