"""Merges what several exports have of an assignment, and two reviewers' decisions; joins decisions with responses."""

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
      assignments: each once, in the order of their ids; all of them answer something.
      decisions: assignment id to form field to decision.
      dead: what cannot be used.
    """

    assignments: list[Assignment]
    decisions: Decisions
    dead: list[DeadLetter]


def merge(read: Sequence[Assignment], decisions: Iterable[Decision]) -> Merged:
    """Each assignment once, each decision with its response.

    Args:
      read: assignments as the exports have them, with all copies of each.
      decisions: of all reviewers.
    """
    assignments, conflicts = merge_assignments(read)
    settled, contradictions = settle_decisions(decisions)
    without = [no_answer(assignment) for assignment in assignments if not assignment.answers]
    assignments = [assignment for assignment in assignments if assignment.answers]
    known, unknown = unknown_decisions(settled, assignments, conflicts)
    return Merged(assignments, known, [*conflicts, *without, *contradictions, *unknown])


def answers_text(answers: Mapping[str, str]) -> str:
    """Answers for the payload of a dead letter."""
    return payload(", ".join(f"{field}={text}" for field, text in sorted(answers.items()) if text))


def lost(assignment: Assignment, error: InputError, stage: str) -> list[DeadLetter]:
    """The dead letters of an assignment that cannot be used: one for each answer, so that none of them is lost."""
    texts = {field: text.strip() for field, text in sorted(assignment.answers.items()) if text.strip()}
    return [
        DeadLetter(stage, response_id(assignment.assignment_id, field), error.reason, payload(text), assignment.source)
        for field, text in texts.items()
    ] or [DeadLetter(stage, assignment.assignment_id, error.reason, "", assignment.source)]


def answer_ids(assignment: Assignment) -> list[str]:
    """The ids of the answers that are not blank; blank cells may be fields that the form did not have."""
    return [response_id(assignment.assignment_id, field) for field, text in assignment.answers.items() if text.strip()]


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
        f"conflicting_assignment: the same id has different answers ({difference}){where}",
        answers_text(version.answers),
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
        platform=min(version.platform for version in versions),
        keystrokes={field: n for version in versions for field, n in version.keystrokes.items()},
        pastes={field: n for version in versions for field, n in version.pastes.items()},
        seconds={field: n for version in versions for field, n in version.seconds.items()},
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
) -> tuple[Decisions, list[DeadLetter]]:
    """Groups decisions by assignment id; one on a response that does not exist is a dead letter.

    Args:
      decisions: by response id.
      assignments: those that are used.
      conflicting: the dead letters of those that are not.
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
    """The dead letter of a decision that does not take effect."""
    shown = payload(f"decision={decision.decision}, text={decision.text}, reason={decision.reason}")
    return DeadLetter("decisions", decision.response_id, reason, shown, decision.source)


ADJUDICATE_COLUMNS = (
    *COLUMNS,
    *(f"{who}_{what}" for who in ("first", "second") for what in ("decision", "text", "reason", "reviewer")),
)


class Agreement(msgspec.Struct):
    """How far two reviewers agree.

    Attributes:
      items: answers that both judged.
      disagreements: how many of them need adjudication; two fixes with different texts are one.
      cohen_kappa: over the words accept, reject and fix on the answers that both judged, -1 to 1; the text of a fix
        is not part of it. None where it is undefined.
      krippendorff_alpha: the same words, nominal, at most 1. None where it is undefined.
      undefined: why the two are None, else ``""``.
    """

    items: int
    disagreements: int
    cohen_kappa: float | None = None
    krippendorff_alpha: float | None = None
    undefined: str = ""


class Disagreement(msgspec.Struct):
    """One answer on which the two differ."""

    response_id: str
    first: Decision
    second: Decision


class MergedSheets(msgspec.Struct):
    """Two reviewers' sheets in one; every list is in the order of the response ids.

    Attributes:
      agreed: same decision from both; for a fix, the same text.
      single: judged by one of them only; taken unchanged.
      adjudicate: judged differently; nothing is decided about these.
    """

    agreed: list[Decision]
    single: list[Decision]
    adjudicate: list[Disagreement]
    agreement: Agreement

    @property
    def decisions(self) -> list[Decision]:
        """What can be applied: agreed and single."""
        return sorted(self.agreed + self.single, key=lambda decision: decision.response_id)


def merge_reviewers(first: Iterable[Decision], second: Iterable[Decision]) -> MergedSheets:
    """Merges the decisions of two reviewers. Where one of them decided an answer twice, the first decision counts."""
    a, b = _by_id(first), _by_id(second)
    both = sorted(a.keys() & b.keys())
    agreed = [_joined(a[key], b[key]) for key in both if _same(a[key], b[key])]
    adjudicate = [Disagreement(key, a[key], b[key]) for key in both if not _same(a[key], b[key])]
    single = [(a | b)[key] for key in sorted(a.keys() ^ b.keys())]
    agreement = _agreement([(key, a[key].decision, b[key].decision) for key in both])
    agreement.disagreements = len(adjudicate)
    return MergedSheets(agreed, single, adjudicate, agreement)


def adjudicate_csv(disagreements: Iterable[Disagreement]) -> bytes:
    """The sheet of a third reviewer: both decisions beside empty columns. Filled in, it is a decisions file."""
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
    """The decision of both, with what either of them gave as reason."""

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
        [("first", key, one) for key, one, _ in items] + [("second", key, two) for key, _, two in items]
    )
    return Agreement(len(items), 0, float(task.kappa()), float(task.alpha()))


def _sheet_row(disagreement: Disagreement) -> list[str]:
    row = [disagreement.response_id, "", "", "", ""]
    for decision in (disagreement.first, disagreement.second):
        row += [decision.decision, decision.text, decision.reason, decision.reviewer]
    return row
