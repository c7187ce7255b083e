"""Makes one assignment of what several exports say about it, and joins it with the reviewers' decisions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

from schemas.decisions import Decision
from schemas.responses import Assignment, DeadLetter


def merge_assignments(assignments: Iterable[Assignment]) -> tuple[list[Assignment], list[DeadLetter]]:
    """Each assignment once, by id. Exports that contradict each other go to the dead letters, all of them.

    The same assignment may stand in several exports (CSV and API, before and after approval): ingesting it again
    changes nothing. Two different ones under one id cannot be told apart by their response ids, so neither is used.
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


def _order(assignment: Assignment) -> tuple[str, str]:
    return assignment.source, repr(assignment)


def _difference(versions: Sequence[Assignment]) -> str:
    first = versions[0]
    given = {field: text for field, text in first.answers.items() if text}
    for other in versions[1:]:
        if (other.service_name, other.task) != (first.service_name, first.task):
            return "task"
        if other.worker_hash != first.worker_hash:
            return "worker"
        theirs = {field: text for field, text in other.answers.items() if text}
        for field in sorted(given.keys() | theirs.keys()):
            if given.get(field) != theirs.get(field):
                return field
    return ""


def _conflict(version: Assignment, difference: str, versions: Sequence[Assignment]) -> DeadLetter:
    others = sorted({other.source for other in versions} - {version.source})
    where = f"; see {', '.join(others)}" if others else ""
    return DeadLetter(
        "settle",
        version.assignment_id,
        f"conflicting_assignment: the id stands for different answers ({difference}){where}",
        ", ".join(f"{field}={text}" for field, text in sorted(version.answers.items()) if text)[:2_000],
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
        {field: text for version in knowing for field, text in version.answers.items()},
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
    """One decision for each response. Contradicting ones are dead letters, all of them: none of them decides."""
    by_id: dict[str, list[Decision]] = defaultdict(list)
    for decision in decisions:
        by_id[decision.response_id].append(decision)
    settled, dead = {}, []
    for response, several in sorted(by_id.items()):
        several.sort(key=lambda decision: decision.source)
        if len({_says(decision) for decision in several}) == 1:
            settled[response] = several[0]
        else:
            where = ", ".join(decision.source for decision in several)
            dead += [_bad_decision(decision, f"contradicting_decisions: see {where}") for decision in several]
    return settled, dead


def _says(decision: Decision) -> tuple[str, str]:
    # The text counts for a fix only; a reviewer who changes his mind may leave one behind.
    return decision.decision, decision.text if decision.decision == "fix" else ""


def unknown_decisions(
    decisions: dict[str, Decision], assignments: Sequence[Assignment]
) -> tuple[dict[str, dict[str, Decision]], list[DeadLetter]]:
    """Parts decisions by assignment id; one for a response that is not there is a dead letter."""
    answers = {assignment.assignment_id: assignment.answers for assignment in assignments}
    known: dict[str, dict[str, Decision]] = defaultdict(dict)
    dead = []
    for response, decision in sorted(decisions.items()):
        assignment_id, _, field = response.rpartition(":")
        if field in answers.get(assignment_id, ()):
            known[assignment_id][field] = decision
        else:
            dead.append(_bad_decision(decision, "unknown_response: no answer of the given files has this response_id"))
    return dict(known), dead


def _bad_decision(decision: Decision, reason: str) -> DeadLetter:
    payload = f"decision={decision.decision}, text={decision.text}, reason={decision.reason}"
    return DeadLetter("decisions", decision.response_id, reason, payload[:2_000], decision.source)
