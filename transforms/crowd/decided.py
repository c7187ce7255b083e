"""Reviewers' decisions: merge them, and join them with the assignments that they are about."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import apache_beam as beam
import msgspec

from parapet.schemas.decisions import Decision
from parapet.schemas.rows import Assignment, DeadLetter
from parapet.transforms.crowd.answer_files import distinct, payload, read_sheet
from parapet.transforms.crowd.dedupe import by_id
from parapet.transforms.crowd.outputs import Group, WithDeadLetters


class Submission(msgspec.Struct):
    """An assignment, and the decisions on its answers by form field."""

    assignment: Assignment
    decisions: dict[str, Decision] = {}


def merge_decisions(decisions: Iterable[Decision]) -> tuple[list[Decision], list[DeadLetter]]:
    """Return one decision for each response. Contradicting decisions all become dead letters."""
    by_response: dict[str, list[Decision]] = defaultdict(list)
    for decision in decisions:
        by_response[decision.response_id].append(decision)
    merged, dead = [], []
    for _, several in sorted(by_response.items()):
        # Sorted by content, not by source, so that the sheets' names do not affect the result.
        several.sort(key=lambda decision: (decision.reason, decision.reviewer, decision.source))
        if len({_content(decision) for decision in several}) == 1:
            merged.append(several[0])
        else:
            where = ", ".join(decision.source for decision in several)
            dead += [unusable_decision(decision, f"contradicting_decisions: see {where}") for decision in several]
    return merged, dead


def _content(decision: Decision) -> tuple[str, str]:
    # The text only counts for a fix; a reviewer may leave one behind after a change of mind.
    return decision.decision, decision.text if decision.decision == "fix" else ""


def join_decisions(
    assignments: Iterable[Assignment], decisions: Iterable[Decision]
) -> Iterator[Submission | DeadLetter]:
    """Join assignments with the decisions on them; those on a response that does not exist become dead letters."""
    by_assignment: dict[str, dict[str, Decision]] = defaultdict(dict)
    merged, contradictions = merge_decisions(decisions)
    yield from contradictions
    for decision in merged:
        assignment_id, _, field = decision.response_id.rpartition(":")
        by_assignment[assignment_id][field] = decision
    for assignment in assignments:
        on_it = by_assignment.pop(assignment.assignment_id, {})
        known = {field: decision for field, decision in on_it.items() if field in assignment.answers}
        yield Submission(assignment, known)
        yield from (_unknown(decision) for field, decision in on_it.items() if field not in known)
    yield from (_unknown(decision) for on_it in by_assignment.values() for decision in on_it.values())


def _unknown(decision: Decision) -> DeadLetter:
    reason = "unknown_response: no answer that can be used has this response_id; see the other dead letters"
    return unusable_decision(decision, reason)


def unusable_decision(decision: Decision, reason: str) -> DeadLetter:
    """Return the dead letter of a decision that has no effect."""
    shown = payload(f"decision={decision.decision}, text={decision.text}, reason={decision.reason}")
    return DeadLetter("decisions", decision.response_id, reason, shown, decision.source)


class JoinDecisions(WithDeadLetters):
    """Joins a PCollection of assignments with reviewers' decisions, to one of :class:`Submission`.

    Args:
      decisions: sheets, or records.

    Raises:
      InputError: a sheet is not a decisions file.
    """

    main = "submissions"

    def __init__(self, decisions: str | Path | Decision | Iterable[str | Path | Decision] | None) -> None:
        super().__init__()
        some = [decisions] if isinstance(decisions, str | Path | Decision) else list(decisions or ())
        self.sheets = distinct(str(sheet) for sheet in some if not isinstance(sheet, Decision))
        self.records = [decision for decision in some if isinstance(decision, Decision)]
        for sheet in self.sheets:
            read_sheet(sheet)

    def outputs(self, assignments: beam.PCollection[Assignment]) -> Any:
        """Return ``submissions`` and ``dead_letters``."""
        if not self.sheets and not self.records:
            nothing = assignments.pipeline | beam.Create([], reshuffle=False)
            return self.gathered(assignments | beam.Map(Submission), nothing)
        sheets = assignments.pipeline | "Sheets" >> beam.Create(self.sheets, reshuffle=False)
        read = sheets | "Read" >> self.apart(lambda sheet: chain.from_iterable(read_sheet(sheet)))
        records = assignments.pipeline | "Records" >> beam.Create(self.records, reshuffle=False)
        decisions = (read.submissions, records) | beam.Flatten()
        groups = (assignments, decisions) | "By id" >> Group(Assignment, Decision, by=[by_id, _by_assignment])
        joined = groups | "Join" >> self.apart(lambda group: join_decisions(*group[1]))
        return self.gathered(joined.submissions, read.dead_letters, joined.dead_letters)


def _by_assignment(decision: Decision) -> tuple[str, Decision]:
    return decision.response_id.rpartition(":")[0], decision
