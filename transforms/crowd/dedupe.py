"""Merge several exports of the same assignment, and join decisions with responses."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from parapet.schemas.decisions import Decision
from parapet.schemas.rows import Assignment, DeadLetter
from parapet.schemas.service import response_id
from parapet.transforms.crowd.answer_files import payload

Decisions = dict[str, dict[str, Decision]]  # assignment id to form field to decision


class Merged(msgspec.Struct):
    """Assignments and the decisions on them, ready to be settled.

    Attributes:
      assignments: without duplicates, in the order of their ids; each has an answer.
      decisions: assignment id to form field to decision.
      dead: the dead letters of records that cannot be used.
    """

    assignments: list[Assignment]
    decisions: Decisions
    dead: list[DeadLetter]


def merge(read: Sequence[Assignment], decisions: Iterable[Decision]) -> Merged:
    """Merge copies of assignments and join each decision with its response.

    Args:
      read: the assignments as read from the exports, including copies.
      decisions: the decisions of all reviewers.
    """
    assignments, conflicts = merge_assignments(read)
    settled, contradictions = settle_decisions(decisions)
    without = [no_answer(assignment) for assignment in assignments if not assignment.answers]
    assignments = [assignment for assignment in assignments if assignment.answers]
    known, unknown = unknown_decisions(settled, assignments, conflicts)
    return Merged(assignments, known, [*conflicts, *without, *contradictions, *unknown])


def answers_text(answers: Mapping[str, str]) -> str:
    """Format answers for the payload of a dead letter."""
    return payload(", ".join(f"{field}={text}" for field, text in sorted(answers.items()) if text))


def answer_ids(assignment: Assignment) -> list[str]:
    """Return the ids of the non-blank answers; blank cells may be fields that the form did not have."""
    return [response_id(assignment.assignment_id, field) for field, text in assignment.answers.items() if text.strip()]


def merge_assignments(assignments: Iterable[Assignment]) -> tuple[list[Assignment], list[DeadLetter]]:
    """Merge the copies of each assignment. Exports that contradict each other all become dead letters.

    The same assignment may be in several exports (CSV and API, before and after approval); reading it again changes
    nothing. Different assignments with the same id cannot be distinguished by their response ids, so none of them is
    used.
    """
    by_id: dict[str, list[Assignment]] = defaultdict(list)
    for assignment in assignments:
        by_id[assignment.assignment_id].append(assignment)
    merged, dead = [], []
    for _, versions in sorted(by_id.items()):
        if len(versions) > 1:
            versions.sort(key=_order)
        if difference := _difference(versions):
            dead += [_conflict(version, difference, versions) for version in versions]
        else:
            merged.append(_merge(versions))
    return merged, dead


def no_answer(assignment: Assignment) -> DeadLetter:
    """The dead letter of an assignment that answers nothing, so that its worker can still be paid."""
    reason = "no_answer: the form was submitted without any answer"
    return DeadLetter("settle", assignment.assignment_id, reason, "", assignment.source)


def _order(assignment: Assignment) -> tuple[str, str]:
    return assignment.source, repr(assignment)


def _difference(versions: Sequence[Assignment]) -> str:
    """Return where two exports contradict each other, or an empty string. A missing field or worker does not count."""
    texts: dict[str, str] = {}
    worker = next((version.worker_hash for version in versions if version.worker_hash), "")
    for version in versions:
        if (version.service_name, version.task) != (versions[0].service_name, versions[0].task):
            return "task"
        if version.worker_hash and version.worker_hash != worker:
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
        f"conflicting_assignment: the same id has different answers ({difference}){where}",
        answers_text(version.answers),
        version.source,
    )


def _merge(versions: Sequence[Assignment]) -> Assignment:
    if len(versions) == 1:
        return versions[0]
    # Prefer versions that list the fields of the form: only their blanks are certain to be unanswered fields.
    knowing = [version for version in versions if version.asked] or versions
    return Assignment(
        versions[0].assignment_id,
        versions[0].service_name,
        versions[0].task,
        next((version.worker_hash for version in versions if version.worker_hash), ""),
        {field: "" for version in knowing for field in version.answers}
        | {field: text for version in versions for field, text in version.answers.items() if text},
        asked=any(version.asked for version in versions),
        accept_time=_first(version.accept_time for version in versions),
        submit_time=_first(version.submit_time for version in versions),
        work_seconds=_first(version.work_seconds for version in versions),
        rejected=any(version.rejected for version in versions),
        source=min(version.source for version in versions),
        platform=min(version.platform for version in versions),
        unread=tuple(dict.fromkeys(text for version in versions for text in version.unread)),
        keystrokes={field: n for version in versions for field, n in version.keystrokes.items()},
        pastes={field: n for version in versions for field, n in version.pastes.items()},
        seconds={field: n for version in versions for field, n in version.seconds.items()},
    )


def _first(values: Iterable[int | None]) -> int | None:
    return min((value for value in values if value is not None), default=None)


def settle_decisions(decisions: Iterable[Decision]) -> tuple[dict[str, Decision], list[DeadLetter]]:
    """Merge the decisions on each response. Contradicting decisions all become dead letters."""
    by_id: dict[str, list[Decision]] = defaultdict(list)
    for decision in decisions:
        by_id[decision.response_id].append(decision)
    settled, dead = {}, []
    for response, several in sorted(by_id.items()):
        # Sorted by content, not by source, so that the sheets' names do not affect the result.
        several.sort(key=lambda decision: (decision.reason, decision.reviewer, decision.source))
        if len({_content(decision) for decision in several}) == 1:
            settled[response] = several[0]
        else:
            where = ", ".join(decision.source for decision in several)
            dead += [unusable_decision(decision, f"contradicting_decisions: see {where}") for decision in several]
    return settled, dead


def _content(decision: Decision) -> tuple[str, str]:
    # The text only counts for a fix; a reviewer may leave one behind after a change of mind.
    return decision.decision, decision.text if decision.decision == "fix" else ""


def unknown_decisions(
    decisions: dict[str, Decision], assignments: Sequence[Assignment], conflicting: Iterable[DeadLetter] = ()
) -> tuple[Decisions, list[DeadLetter]]:
    """Group decisions by assignment id; a decision on a response that does not exist becomes a dead letter.

    Args:
      decisions: the decisions by response id.
      assignments: the assignments that are used.
      conflicting: the dead letters of the assignments that are not used.
    """
    answers = {assignment.assignment_id: assignment.answers for assignment in assignments}
    left_out = {letter.key.partition(":")[0]: letter.reason for letter in conflicting}
    known: Decisions = defaultdict(dict)
    dead = []
    for response, decision in sorted(decisions.items()):
        assignment_id, _, field = response.rpartition(":")
        if field in answers.get(assignment_id, ()):
            known[assignment_id][field] = decision
            continue
        reason = left_out.get(assignment_id, "unknown_response: no answer in the given files has this response_id")
        if reason.startswith("conflicting_assignment"):
            reason = "unused_response: its assignment is a conflicting_assignment"
        dead.append(unusable_decision(decision, reason))
    return dict(known), dead


def unusable_decision(decision: Decision, reason: str) -> DeadLetter:
    """Return the dead letter of a decision that has no effect."""
    shown = payload(f"decision={decision.decision}, text={decision.text}, reason={decision.reason}")
    return DeadLetter("decisions", decision.response_id, reason, shown, decision.source)
