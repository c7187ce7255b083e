"""Merge several exports of the same assignment and two reviewers' decisions, and join decisions with responses."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from parapet.schemas.decisions import COLUMNS, Decision, csv_bytes
from parapet.schemas.errors import InputError
from parapet.schemas.rows import Assignment, DeadLetter
from parapet.schemas.service import response_id
from parapet.transforms.crowd.ingest import payload
from parapet.transforms.reports.text import clean
from parapet.transforms.running.fence import bad_record

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


def lost(assignment: Assignment, error: InputError, stage: str) -> list[DeadLetter]:
    """Return the dead letters of an unusable assignment, one for each answer, so that all are counted."""
    texts = {field: text.strip() for field, text in sorted(assignment.answers.items()) if text.strip()}
    return [
        DeadLetter(stage, response_id(assignment.assignment_id, field), error.reason, payload(text), assignment.source)
        for field, text in texts.items()
    ] or [DeadLetter(stage, assignment.assignment_id, error.reason, "", assignment.source)]


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
        try:
            if difference := _difference(versions):
                dead += [_conflict(version, difference, versions) for version in versions]
            else:
                merged.append(_merge(versions))
        except Exception as error:
            bad = bad_record(error, is_private=True)
            dead += [letter for version in versions for letter in lost(version, bad, "settle")]
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
        platform=min((version.platform for version in versions), key=lambda name: (name != "practice", name)),
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


ADJUDICATE_COLUMNS = (
    *COLUMNS,
    *(
        f"{reviewer}_{column}"
        for reviewer in ("first", "second")
        for column in ("decision", "text", "reason", "reviewer")
    ),
)


class Agreement(msgspec.Struct):
    """The agreement of two reviewers.

    Attributes:
      items: the number of answers that both judged.
      disagreements: how many of them need adjudication, including two fixes with different texts.
      cohen_kappa: kappa of accept, reject and fix on the answers that both judged, -1 to 1; the text of a fix is
        ignored. None if undefined.
      krippendorff_alpha: nominal alpha of the same decisions, at most 1. None if undefined.
      undefined: why the two are None, else an empty string.
    """

    items: int
    disagreements: int
    cohen_kappa: float | None = None
    krippendorff_alpha: float | None = None
    undefined: str = ""


class Disagreement(msgspec.Struct):
    """An answer on which the two reviewers differ."""

    response_id: str
    first: Decision
    second: Decision


class MergedSheets(msgspec.Struct):
    """Two merged reviewers' sheets; every list is in the order of the response ids.

    Attributes:
      agreed: answers with the same decision from both and, for a fix, the same text.
      single: answers that only one of them judged; taken unchanged.
      adjudicate: answers that they judged differently; not decided yet.
    """

    agreed: list[Decision]
    single: list[Decision]
    adjudicate: list[Disagreement]
    agreement: Agreement

    @property
    def decisions(self) -> list[Decision]:
        """Return the decisions that can be applied: agreed and single."""
        return sorted(self.agreed + self.single, key=lambda decision: decision.response_id)


def merge_reviewers(first: Iterable[Decision], second: Iterable[Decision]) -> MergedSheets:
    """Merge the decisions of two reviewers. If a reviewer decided an answer twice, the first decision counts."""
    a, b = _by_id(first), _by_id(second)
    both = sorted(a.keys() & b.keys())
    agreed = [_joined(a[key], b[key]) for key in both if _same(a[key], b[key])]
    adjudicate = [Disagreement(key, a[key], b[key]) for key in both if not _same(a[key], b[key])]
    single = [(a | b)[key] for key in sorted(a.keys() ^ b.keys())]
    agreement = _agreement([(key, a[key].decision, b[key].decision) for key in both])
    agreement.disagreements = len(adjudicate)
    return MergedSheets(agreed, single, adjudicate, agreement)


def adjudicate_csv(disagreements: Iterable[Disagreement]) -> bytes:
    """Return the sheet for a third reviewer: both decisions beside empty columns. Filled in, it is a decisions file."""
    return csv_bytes(ADJUDICATE_COLUMNS, (_sheet_row(disagreement) for disagreement in disagreements))


def _by_id(decisions: Iterable[Decision]) -> dict[str, Decision]:
    by_id: dict[str, Decision] = {}
    for decision in decisions:
        by_id.setdefault(decision.response_id, decision)
    return by_id


def _same(one: Decision, two: Decision) -> bool:
    if one.decision != two.decision:
        return False
    return one.decision != "fix" or clean(one.text) == clean(two.text)


def _joined(one: Decision, two: Decision) -> Decision:
    """Join two equal decisions, with the reasons of both."""

    def both(field: str, between: str) -> str:
        return between.join(dict.fromkeys(value for d in (one, two) if (value := getattr(d, field))))

    text = one.text if one.decision == "fix" else ""
    return Decision(
        one.response_id, one.decision, text, both("reason", "; "), both("reviewer", ", "), both("source", ", ")
    )


def _agreement(items: list[tuple[str, str, str]]) -> Agreement:
    if not items:
        return Agreement(0, 0, undefined="no answer was judged by both reviewers")
    labels = {label for _, *pair in items for label in pair}
    if len(labels) == 1:
        # Agreement cannot be distinguished from chance here; some tools print 1, others divide by zero.
        return Agreement(
            len(items),
            0,
            undefined=f"both reviewers always said {labels.pop()!r}, so agreement beyond chance is not defined",
        )
    # nltk takes a third of a second to import, and most runs have one reviewer.
    from nltk.metrics.agreement import AnnotationTask

    task = AnnotationTask(
        [("first", key, decision) for key, decision, _ in items] + [("second", key, two) for key, _, two in items]
    )
    return Agreement(len(items), 0, float(task.kappa()), float(task.alpha()))


def _sheet_row(disagreement: Disagreement) -> list[str]:
    row = [disagreement.response_id, "", "", "", ""]
    for decision in (disagreement.first, disagreement.second):
        row += [decision.decision, decision.text, decision.reason, decision.reviewer]
    return row
