"""Count each assignment once, whatever number of exports contain it (CSV and API, before and after approval).

Answers with the same words count once, too, which :func:`parapet.transforms.crowd.task.merge_equal_answers` does once
they are vetted: of two answers with the same words, one may be misspelled or accepted by a reviewer.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

import apache_beam as beam

from parapet.schemas.rows import Assignment, DeadLetter
from parapet.schemas.service import response_id
from parapet.transforms.crowd.answer_files import payload
from parapet.transforms.crowd.outputs import Group, WithDeadLetters


def answers_text(answers: Mapping[str, str]) -> str:
    """Format answers for the payload of a dead letter."""
    return payload(", ".join(f"{field}={text}" for field, text in sorted(answers.items()) if text))


def answer_ids(assignment: Assignment) -> list[str]:
    """Return the ids of the non-blank answers; blank cells may be fields that the form did not have."""
    return [response_id(assignment.assignment_id, field) for field, text in assignment.answers.items() if text.strip()]


def merge_assignments(assignments: Iterable[Assignment]) -> Iterator[Assignment | DeadLetter]:
    """Merge the copies of each assignment, in the order of ids."""
    copies: dict[str, list[Assignment]] = defaultdict(list)
    for assignment in assignments:
        copies[assignment.assignment_id].append(assignment)
    for _, of_id in sorted(copies.items()):
        yield from merge_copies(of_id)


def merge_copies(copies: Iterable[Assignment]) -> Iterator[Assignment | DeadLetter]:
    """Merge the copies of one assignment. Copies that contradict each other all become dead letters.

    Different assignments with the same id cannot be distinguished by their response ids, so none of them is used.
    """
    versions = sorted(copies, key=_order)
    if difference := _difference(versions):
        yield from (_conflict(version, difference, versions) for version in versions)
        return
    assignment = _merge(versions)
    yield assignment if assignment.answers else no_answer(assignment)


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
        reward=next((version.reward for version in versions if version.reward is not None), None),
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


class Dedupe(WithDeadLetters):
    """Merges the copies of each assignment.

    The result is a PCollection of ``parapet.schemas.rows.Assignment``. ``with_outputs()`` has ``assignments`` and
    ``dead_letters``: copies that contradict each other, and assignments without any answer.

    Example:
      >>> import apache_beam as beam, parapet
      >>> from parapet.schemas.layout import sample_root
      >>> names = str(sample_root() / "crowd" / "names.csv")
      >>> with beam.Pipeline() as pipeline:
      ...     answers = pipeline | parapet.beam.ReadAnswers([names])
      ...     twice = (answers, answers) | beam.Flatten()
      ...     _ = twice | parapet.beam.Dedupe() | beam.combiners.Count.Globally() | beam.Map(print)
      60
    """

    main = "assignments"

    def outputs(self, assignments: beam.PCollection[Assignment]) -> beam.DoOutputsTuple:
        """Return ``assignments`` and ``dead_letters``."""
        copies = assignments | "Copies" >> Group(Assignment, by=[by_id])
        return copies | "Merge" >> self.apart(lambda group: merge_copies(group[1][0]))


def by_id(assignment: Assignment) -> tuple[str, Assignment]:
    """Return the assignment with its id as the key."""
    return assignment.assignment_id, assignment
