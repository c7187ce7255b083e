"""From files to submissions: read answers, count each assignment once, and join it with reviewers' decisions.

An assignment counts once, whatever number of exports contain it (CSV and API, before and after approval). Answers with
the same words count once, too, which :func:`parapet.transforms.crowd.task.merge_equal_answers` does once they are
vetted: of two answers with the same words, one may be misspelled or accepted by a reviewer.

Each transform of the crowd road gives dead letters as a second output, see :class:`WithDeadLetters`.
"""

from __future__ import annotations

import logging
from collections import defaultdict, namedtuple
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import apache_beam as beam
import msgspec
from apache_beam.pvalue import TaggedOutput

from parapet.schemas import limits
from parapet.schemas.decisions import Decision
from parapet.schemas.errors import InputError
from parapet.schemas.rows import Assignment, DeadLetter
from parapet.schemas.service import response_id
from parapet.transforms.crowd import answer_files, worker_ids
from parapet.transforms.crowd.answer_files import SCHEMA_TASKS, Sources, TaskKind, distinct, payload

DEAD_LETTERS = "dead_letters"


class WithDeadLetters(beam.PTransform):
    """A transform that gives its records and, as a second output, ``parapet.schemas.rows.DeadLetter``.

    Without :meth:`with_outputs` it gives its records, and each dead letter is a warning.

    Attributes:
      main: the name of the records among the outputs.
    """

    main: str

    def outputs(self, records: Any) -> Any:
        """Returns the outputs by name."""
        raise NotImplementedError

    def expand(self, records: Any) -> beam.PCollection:
        """Returns the records."""
        outputs = self.outputs(records)
        _ = outputs.dead_letters | "Warn" >> beam.Map(
            lambda letter: logging.warning("%s: %s: %s", letter.source, letter.key, letter.reason)
        )
        return getattr(outputs, self.main)

    def with_outputs(self) -> beam.PTransform:
        """Returns the transform with all of its outputs, by name."""
        return _AllOutputs(self)

    def gathered(self, records: beam.PCollection, *dead: beam.PCollection[DeadLetter]) -> Any:
        """Returns the outputs by name: the records, and the dead letters of all steps."""
        letters = dead | "All dead letters" >> beam.Flatten()
        named: Any = namedtuple  # mypy wants the names of fields as literals
        return named("Outputs", (self.main, DEAD_LETTERS))(records, letters)

    def apart(self, function: Callable[[Any], Iterable[Any]], *tags: str) -> beam.PTransform:
        """Returns a step that calls a function on each element, and separates its dead letters from its records."""
        return beam.FlatMap(lambda element: tagged(function(element))).with_outputs(DEAD_LETTERS, *tags, main=self.main)


class _AllOutputs(beam.PTransform):
    def __init__(self, transform: WithDeadLetters) -> None:
        super().__init__(transform.label)
        self.transform = transform

    def expand(self, records: Any) -> Any:
        return self.transform.outputs(records)


def tagged(records: Iterable[Any]) -> Iterator[Any]:
    """Yields the records, with dead letters, in which worker ids are masked, tagged for their own output."""
    for record in records:
        yield TaggedOutput(DEAD_LETTERS, worker_ids.without_ids(record)) if isinstance(record, DeadLetter) else record


class Group(beam.PTransform):
    """Groups the records of one or more collections by key: key to a list of records for each collection.

    They are exchanged as MessagePack, since Beam would pickle them, which takes ten times as long.

    Args:
      types: the type of the records of each collection.
      by: for each collection, a function from an element to (key, record); by default, elements are such pairs.
    """

    def __init__(self, *types: type, by: Sequence[Callable[[Any], tuple[str, Any]] | None] = ()) -> None:
        super().__init__()
        self.types, self.by = types, by or [None] * len(types)

    def expand(self, collections: beam.PCollection | Iterable[beam.PCollection]) -> beam.PCollection:
        """Returns a PCollection of (key, lists)."""
        collections = [collections] if isinstance(collections, beam.PCollection) else collections
        encoded = [
            elements | f"Encode {i}" >> beam.Map(_encode, i, by).with_output_types(tuple[str, tuple[int, bytes]])
            for i, (elements, by) in enumerate(zip(collections, self.by, strict=True))
        ]
        together = encoded | beam.Flatten() if len(encoded) > 1 else encoded[0]
        return together | beam.GroupByKey() | "Decode" >> beam.Map(_decode, self.types)


def _encode(element: Any, i: int, by: Callable[[Any], tuple[str, Any]] | None) -> tuple[str, tuple[int, bytes]]:
    key, record = element if by is None else by(element)
    return key, (i, msgspec.msgpack.encode(record))


def _decode(group: tuple[str, Iterable[tuple[int, bytes]]], types: tuple[type, ...]) -> tuple[str, tuple[Any, ...]]:
    lists: tuple[list[Any], ...] = tuple([] for _ in types)
    decoders: list[Any] = [msgspec.msgpack.Decoder(record) for record in types]
    for i, data in group[1]:
        lists[i].append(decoders[i].decode(data))
    return group[0], lists


def read_answers(
    path: str, key: bytes, encoding: str = "utf-8", kind: TaskKind = SCHEMA_TASKS
) -> Iterator[Assignment | DeadLetter]:
    """Reads the assignments of a file, and a dead letter for each record that cannot be used.

    Args:
      path: the file; CSV or JSON is detected by its first character.
      key: the key for hashing worker ids.
      encoding: of a file without a byte order mark.
      kind: the kind of tasks whose answers are accepted.

    Raises:
      InputError: so many rows cannot be used that this is no file of answers; raised before the end of the file.
      DamagedFile: a compressed file is truncated or damaged.
    """
    good, bad, first = 0, 0, ""
    for record in answer_files.read_responses(path, key, encoding, kind):
        yield record
        if isinstance(record, Assignment):
            good += 1
        elif not record.reason.startswith("unknown_field"):  # a field of a row that is used
            bad, first = bad + 1, first or f"{record.source}: {record.reason}"
            if bad > max(limits.MAX_BAD_ROWS, good):
                raise InputError(f"{bad:,} of the first {bad + good:,} rows cannot be used (first {first})", path)


def as_assignments(record: Assignment | Mapping[str, Any], key: bytes) -> Iterator[Assignment | DeadLetter]:
    """Reads a record from anywhere: a dict as in the lines of ``parapet collect`` or the rows of a batch CSV."""
    if isinstance(record, Assignment):
        yield record
    else:
        yield from answer_files.read_row(record, key, "a record")


class ReadAnswers(WithDeadLetters):
    """Reads files with the answers of workers.

    The result is a PCollection of ``parapet.schemas.rows.Assignment``: the form that one worker has filled in.
    ``with_outputs()`` has ``assignments`` and ``dead_letters``.

    Args:
      paths: the files. One that is given twice is read once.
      worker_key: the key with which worker ids are hashed; by default that of the commands, ``PARAPET_WORKER_KEY`` or
        the key file.
      encoding: of files without a byte order mark.
      kind: the kind of tasks; by default those that paraphrase schemas.

    Raises:
      InputError: a file does not exist, or there is no such encoding.

    Example:
      >>> import apache_beam as beam, parapet
      >>> from parapet.schemas.layout import sample_root
      >>> names = str(sample_root() / "crowd" / "names.csv")
      >>> with beam.Pipeline() as pipeline:
      ...     answers = pipeline | parapet.beam.ReadAnswers([names])
      ...     _ = answers | beam.combiners.Count.Globally() | beam.Map(print)
      60
    """

    main = "assignments"

    def __init__(
        self,
        paths: str | Path | Sequence[str | Path],
        worker_key: bytes | str | None = None,
        *,
        encoding: str = "utf-8",
        kind: TaskKind = SCHEMA_TASKS,
    ) -> None:
        super().__init__()
        files = [paths] if isinstance(paths, str | Path) else paths
        sources = Sources([str(path) for path in files], encoding=encoding)
        sources.check("")
        self.paths = distinct(sources.responses)
        key = worker_ids.load_worker_key() if worker_key is None else worker_key
        self.key = key.encode() if isinstance(key, str) else key
        self.encoding, self.kind = encoding, kind

    def outputs(self, pipeline: beam.Pipeline) -> beam.DoOutputsTuple:
        """Returns ``assignments`` and ``dead_letters``."""
        how = (self.key, self.encoding, self.kind)
        return (
            pipeline | "Files" >> beam.Create(self.paths) | "Read" >> self.apart(lambda path: read_answers(path, *how))
        )


def answers_text(answers: Mapping[str, str]) -> str:
    """Formats answers for the payload of a dead letter."""
    return payload(", ".join(f"{field}={text}" for field, text in sorted(answers.items()) if text))


def answer_ids(assignment: Assignment) -> list[str]:
    """Returns the ids of the non-blank answers; blank cells may be fields that the form did not have."""
    return [response_id(assignment.assignment_id, field) for field, text in assignment.answers.items() if text.strip()]


def merge_assignments(assignments: Iterable[Assignment]) -> Iterator[Assignment | DeadLetter]:
    """Merges the copies of each assignment, in the order of ids."""
    copies: dict[str, list[Assignment]] = defaultdict(list)
    for assignment in assignments:
        copies[assignment.assignment_id].append(assignment)
    for _, of_id in sorted(copies.items()):
        yield from merge_copies(of_id)


def merge_copies(copies: Iterable[Assignment]) -> Iterator[Assignment | DeadLetter]:
    """Merges the copies of one assignment. Copies that contradict each other all become dead letters.

    Different assignments with the same id cannot be distinguished by their response ids, so none of them is used.
    """
    versions = sorted(copies, key=lambda assignment: (assignment.source, repr(assignment)))
    if difference := _difference(versions):
        yield from (_conflict(version, difference, versions) for version in versions)
        return
    assignment = _merge(versions)
    yield assignment if assignment.answers else no_answer(assignment)


def no_answer(assignment: Assignment) -> DeadLetter:
    """The dead letter of an assignment that answers nothing, so that its worker can still be paid."""
    reason = "no_answer: the form was submitted without any answer"
    return DeadLetter("settle", assignment.assignment_id, reason, "", assignment.source)


def _difference(versions: Sequence[Assignment]) -> str:
    """Returns where two exports contradict each other, or an empty string. A missing field or worker does not count."""
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
    times, typed = ("accept_time", "submit_time", "work_seconds"), ("keystrokes", "pastes", "seconds")
    measured: dict[str, Any] = {name: _first(getattr(version, name) for version in versions) for name in times}
    for name in typed:
        measured[name] = {field: n for version in versions for field, n in getattr(version, name).items()}
    return Assignment(
        versions[0].assignment_id,
        versions[0].service_name,
        versions[0].task,
        next((version.worker_hash for version in versions if version.worker_hash), ""),
        {field: "" for version in knowing for field in version.answers}
        | {field: text for version in versions for field, text in version.answers.items() if text},
        asked=any(version.asked for version in versions),
        reward=next((version.reward for version in versions if version.reward is not None), None),
        rejected=any(version.rejected for version in versions),
        source=min(version.source for version in versions),
        platform=min(version.platform for version in versions),
        unread=tuple(dict.fromkeys(text for version in versions for text in version.unread)),
        **measured,
    )


def _first(values: Iterable[int | None]) -> int | None:
    return min((value for value in values if value is not None), default=None)


def _by_id(assignment: Assignment) -> tuple[str, Assignment]:
    return assignment.assignment_id, assignment


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
        """Returns ``assignments`` and ``dead_letters``."""
        copies = assignments | "Copies" >> Group(Assignment, by=[_by_id])
        return copies | "Merge" >> self.apart(lambda group: merge_copies(group[1][0]))


class Submission(msgspec.Struct):
    """An assignment, and the decisions on its answers by form field."""

    assignment: Assignment
    decisions: dict[str, Decision] = {}


def merge_decisions(decisions: Iterable[Decision]) -> tuple[list[Decision], list[DeadLetter]]:
    """Returns one decision for each response. Contradicting decisions all become dead letters."""
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
    """Joins assignments with the decisions on them; those on a response that does not exist become dead letters."""
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
    """Returns the dead letter of a decision that has no effect."""
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
            answer_files.read_sheet(sheet)

    def outputs(self, assignments: beam.PCollection[Assignment]) -> Any:
        """Returns ``submissions`` and ``dead_letters``."""
        if not self.sheets and not self.records:
            nothing = assignments.pipeline | beam.Create([], reshuffle=False)
            return self.gathered(assignments | beam.Map(Submission), nothing)
        sheets = assignments.pipeline | "Sheets" >> beam.Create(self.sheets, reshuffle=False)
        read = sheets | "Read" >> self.apart(lambda sheet: chain.from_iterable(answer_files.read_sheet(sheet)))
        records = assignments.pipeline | "Records" >> beam.Create(self.records, reshuffle=False)
        decisions = (read.submissions, records) | beam.Flatten()
        by = [_by_id, lambda decision: (decision.response_id.rpartition(":")[0], decision)]
        groups = (assignments, decisions) | "By id" >> Group(Assignment, Decision, by=by)
        joined = groups | "Join" >> self.apart(lambda group: join_decisions(*group[1]))
        return self.gathered(joined.submissions, read.dead_letters, joined.dead_letters)
