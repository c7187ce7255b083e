"""The Beam side of ``compose_variations``: answers are joined with the dialogues, and settled dialogue by dialogue."""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from functools import partial
from itertools import islice
from typing import Any, NamedTuple

import apache_beam as beam
import msgspec
import orjson
import pyarrow as pa
from apache_beam.pvalue import TaggedOutput

from parapet.schemas.decisions import Decision
from parapet.schemas.dialogue import Dialogue, typed
from parapet.schemas.dialogue_files import DialogueFile
from parapet.schemas.errors import InputError
from parapet.schemas.responses import Assignment, DeadLetter
from parapet.schemas.rewritings import REWRITINGS
from parapet.transforms.corpora import dialogues_of
from parapet.transforms.counts import Balance, Counts
from parapet.transforms.crowd import audit
from parapet.transforms.crowd.composing import (
    AUDIT,
    LINES,
    REVIEWS,
    SUMMARY,
    CrowdRun,
    Metadata,
    SettleAnswers,
    packed_reviews,
)
from parapet.transforms.crowd.ingest.fields import payload
from parapet.transforms.crowd.merge import add_records, answers_of, decided, lost_ones, settle_fenced, unusable_decision
from parapet.transforms.crowd.reading import (
    COUNTS,
    DEAD_LETTERS,
    SHARDS,
    MergedAnswers,
    dead_letter_key,
    show_progress,
    tag_counts,
    tagged,
    unpack_merged,
)
from parapet.transforms.crowd.summary import INVARIANTS, RECORDED
from parapet.transforms.crowd_variations.report import compose_variations_report
from parapet.transforms.crowd_variations.settle import Outcome, settle_turns
from parapet.transforms.crowd_variations.summary import (
    REWRITTEN_FILE,
    SHORTFALL_FILE,
    Summary,
    other_examples,
    shortfall_lines,
    statistics,
    sum_up,
    summarise,
    used_examples,
)
from parapet.transforms.crowd_variations.tasks import SourceTurn, Task, check_same, place_of, source_turn
from parapet.transforms.crowd_variations.vet import (
    EXPLANATIONS,
    Written,
    is_repeated,
    repeat_key,
    repeated,
    written_by,
)
from parapet.transforms.dead_letters import id_of
from parapet.transforms.fence import Fault, bad_record
from parapet.transforms.progress import expect_dialogues, tracked
from parapet.transforms.runs import RunInfo
from parapet.transforms.sorted_runs import GatheredRuns, Run, RunWritingDoFn, joined, shard_of, sort_key

_WRITTEN_BY = "written_by"
_SUMMARIES = 200  # of dialogues that are held until they are summed up

Found = tuple[str, int, bytes, str]  # file, position in it, the dialogue as JSON, why it cannot be used

_SURROGATE = re.compile("[\ud800-\udfff]")
_packer = msgspec.msgpack.Encoder()
_encode_line = msgspec.json.Encoder().encode


def rewritings_run(output: str, method: Mapping[str, str]) -> CrowdRun:
    """The run of ``compose_variations``; ``method`` has the options that shape the result."""
    return CrowdRun(
        RunInfo("compose_variations", output, method),
        REWRITINGS,
        EXPLANATIONS,
        partial(_metadata, method),
        {REWRITTEN_FILE: b"", SHORTFALL_FILE: b"".join(shortfall_lines([]))},
        (*INVARIANTS, Balance("used", ("rewritten",))),
        (*RECORDED, "rewritten"),
    )


def _metadata(
    method: Mapping[str, str], summaries: Iterable[Summary], dead_letters: int, agreement: dict[str, Any] | None
) -> Metadata:
    summary = sum_up(summaries)
    numbers = statistics(summary, dead_letters, agreement, method)
    return Metadata(numbers, compose_variations_report(numbers, used_examples(summary), other_examples(summary)))


class SettleDialogues(SettleAnswers):
    """Settles answers dialogue by dialogue; ``lines`` are the rewritten turns, and those that are still missing.

    Args:
      files: of the dialogues.
      tasks: of the folders of ``hits``, by dialogue; may be empty.
      seed: of the draw among good answers.
      output: as of SettleAnswers.
    """

    def __init__(
        self, files: Sequence[DialogueFile], tasks: Mapping[str, Sequence[Task]], seed: int, output: str
    ) -> None:
        super().__init__(output)
        self.files, self.tasks, self.seed = list(files), sorted(tasks.items()), seed

    @staticmethod
    def about(service_name: str) -> str:
        """The dialogue."""
        return place_of(service_name)[0]

    def expand(self, merged: beam.PCollection) -> dict[str, beam.PCollection]:
        """The outputs by name."""
        pipeline, output = merged.pipeline, self.output
        expect_dialogues(self.files)
        dialogues = (
            pipeline
            | "Dialogue files" >> beam.Create(self.files)
            | "Read dialogues" >> beam.ParDo(_ReadDialogues(output)).with_outputs(DEAD_LETTERS, main="dialogues")
        )
        tasks = [(shard_of(sort_key(name), SHARDS), (name, of_dialogue)) for name, of_dialogue in self.tasks]
        found = (
            {
                "dialogues": dialogues.dialogues,
                "answers": merged,
                "tasks": pipeline | "Tasks" >> beam.Create(tasks, reshuffle=False),
            }
            | "By dialogue" >> beam.CoGroupByKey()
            | "Join"
            >> beam.ParDo(_JoinDialogues(output)).with_outputs(DEAD_LETTERS, COUNTS, _WRITTEN_BY, main="dialogues")
        )
        repeats = found[_WRITTEN_BY] | "By worker" >> beam.GroupByKey() | "Repeated" >> beam.ParDo(_Repeated(output))
        settled = (
            {"dialogues": found.dialogues, "repeats": repeats}
            | "With repeated answers" >> beam.CoGroupByKey()
            | "Settle dialogue"
            >> beam.ParDo(_SettleDialogues(output, self.seed)).with_outputs(
                AUDIT, REVIEWS, LINES, SUMMARY, DEAD_LETTERS, COUNTS
            )
        )
        dead_letters = [step[DEAD_LETTERS] for step in (dialogues, found, settled)]
        return {
            **{name: settled[name] for name in (AUDIT, REVIEWS, LINES, SUMMARY)},
            DEAD_LETTERS: dead_letters | "Unusable answers and dialogues" >> beam.Flatten(),
            COUNTS: (found[COUNTS], settled[COUNTS]) | "Counts of settling" >> beam.Flatten(),
        }


class _ReadDialogues(RunWritingDoFn):
    """Dialogue file to (shard, run of packed Found by dialogue id); a file that cannot be read is a dead letter."""

    def process(self, file: DialogueFile) -> Iterator[Any]:
        gathered = GatheredRuns(self.runs)
        for name, found in self._dialogues(file):
            if isinstance(found, DeadLetter):
                yield from tagged([(DEAD_LETTERS, self.runs.write([(dead_letter_key(found), b"")]))])
            else:
                key = sort_key(name)
                yield from gathered.add(shard_of(key, SHARDS), key, _packer.encode(found))
        yield from gathered.flush()

    def _dialogues(self, file: DialogueFile) -> Iterator[tuple[str, Found | DeadLetter]]:
        try:
            for position, raw, plain, dialogue in tracked(dialogues_of(file), "dialogues"):
                name = id_of(raw, position)
                if not name.isprintable():
                    continue  # has no HITs: no RequesterAnnotation carries it
                if isinstance(dialogue, InputError):
                    yield name, (file.relative, position, b"", f"{dialogue.where}: {dialogue.reason}")
                    continue
                try:
                    packed, problem = _packed(raw, plain), ""
                except Exception as error:
                    packed, problem = b"", bad_record(error).reason
                yield name, (file.relative, position, packed, problem)
        except Exception as error:
            bad = bad_record(error)
            reason = bad.reason if isinstance(bad, Fault) else f"broken_file: {bad}"
            yield "", DeadLetter("dialogues", file.relative, reason, "", file.relative)


def _packed(raw: Any, plain: bool) -> bytes:
    """A dialogue as JSON; half surrogates are spaces in it, as they are on the page."""
    if plain:
        with suppress(TypeError):  # whole numbers beyond 64 bits
            return orjson.dumps(raw)
    return _SURROGATE.sub(" ", json.dumps(raw, ensure_ascii=False)).encode()


class _Joined(msgspec.Struct):
    """All that is about one dialogue, its turns known."""

    turns: list[SourceTurn]
    assignments: list[Assignment]
    decisions: dict[str, dict[str, Decision]]


_unpack = msgspec.msgpack.Decoder(_Joined).decode
_unpack_found = msgspec.msgpack.Decoder(Found).decode
_unpack_written = msgspec.msgpack.Decoder(tuple[str, list[Written]]).decode


class _JoinDialogues(RunWritingDoFn):
    """(shard, {dialogues, answers, tasks}) to (shard, run of packed _Joined by dialogue id).

    On the side: what each worker wrote, dead letters, counts. A dialogue without tasks and answers gives nothing.
    """

    def process(self, element: tuple[str, Mapping[str, Iterable[Any]]]) -> Iterator[Any]:
        shard, groups = element
        gathered = GatheredRuns(self.runs)
        tasks = dict(groups["tasks"])
        for name, (dialogues, packed) in joined(groups["dialogues"], groups["answers"]):
            answers, of_dialogue = unpack_merged(packed), tasks.pop(name, [])
            if answers.assignments or of_dialogue:
                yield from self._dialogue(shard, _Source(name, dialogues), answers, of_dialogue, gathered)
        for name, of_dialogue in tasks.items():
            yield from self._dialogue(shard, _Source(name, []), unpack_merged([]), of_dialogue, gathered)
        yield from _outputs(gathered.flush())

    def _dialogue(
        self, shard: str, source: _Source, answers: MergedAnswers, tasks: Iterable[Task], gathered: GatheredRuns
    ) -> Iterator[Any]:
        for task in tasks:
            check_same(task, source.turn(task.turn))
        positions = {task.turn for task in tasks}
        usable: list[Assignment] = []
        counts = Counts()
        add_records(counts, "assignments_settled", (assignment.assignment_id for assignment in answers.assignments))
        for assignment in answers.assignments:
            turn = source.turn(place_of(assignment.service_name)[1])
            if isinstance(turn, SourceTurn):
                usable.append(assignment)
                positions.add(turn.turn)
                continue
            decisions = answers.decisions.pop(assignment.assignment_id, {})
            add_records(counts, "decisions_settled", decided({assignment.assignment_id: decisions}))
            add_records(counts, "answers_dead", answers_of(assignment))
            for letter in _unusable(assignment, decisions.values(), turn):
                yield from _outputs(gathered.add(DEAD_LETTERS, dead_letter_key(letter)))
        yield from tag_counts(counts)
        sources = {at: turn for at in positions if isinstance(turn := source.turn(at), SourceTurn)}
        packed = _packer.encode(_Joined(list(sources.values()), usable, answers.decisions))
        yield from _outputs(gathered.add(shard, sort_key(source.name), packed))
        written = (
            (assignment.worker_hash, text, sources[place_of(assignment.service_name)[1]].utterance)
            for assignment in usable
            for text in assignment.answers.values()
        )
        for worker, of_worker in written_by(written):
            key = sort_key(worker)
            group = f"{_WRITTEN_BY} {shard_of(key, SHARDS)}"
            yield from _outputs(gathered.add(group, key, _packer.encode((shard, of_worker))))


def _outputs(runs: Iterable[tuple[str, Run]]) -> Iterator[Any]:
    """Runs by shard; those of dead letters and of what workers wrote for their own outputs."""
    for group, run in runs:
        output, _, of_worker = group.partition(" ")
        if of_worker:
            yield TaggedOutput(output, (of_worker, run))
        else:
            yield TaggedOutput(group, run) if group == DEAD_LETTERS else (group, run)


class _Repeated(RunWritingDoFn):
    """(shard of workers, runs of what they wrote) to (shard of dialogues, run of keys of what they repeated)."""

    def process(self, element: tuple[str, Iterable[Run]]) -> Iterator[tuple[str, Run]]:
        gathered = GatheredRuns(self.runs)
        for worker, (packed,) in joined(element[1]):
            written = [_unpack_written(part) for part in packed]
            keys = set(repeated(worker, (pairs for _, pairs in written)))
            for shard, key in {(shard, repeat_key(worker, text)) for shard, pairs in written for text, _ in pairs}:
                if key in keys:
                    yield from gathered.add(shard, sort_key(key))
        yield from gathered.flush()


class _Source:
    """The turns of a dialogue, read when they are needed."""

    def __init__(self, name: str, found: Iterable[bytes]) -> None:
        self.name, self.found = name, sorted(map(_unpack_found, found))
        self._turns: dict[int, SourceTurn | str] = {}
        self._dialogue: Dialogue | str | None = None

    def turn(self, position: int) -> SourceTurn | str:
        """A turn that was to be rewritten, or why it cannot have been."""
        if position not in self._turns:
            try:
                dialogue = self._dialogue = self._read() if self._dialogue is None else self._dialogue
                self._turns[position] = dialogue if isinstance(dialogue, str) else source_turn(dialogue, position)
            except Exception as error:
                self._turns[position] = bad_record(error).reason
        return self._turns[position]

    def _read(self) -> Dialogue | str:
        if not self.found:
            return f"unknown_dialogue: the corpus has no dialogue {self.name!r} in this split"
        # Of dialogues that share an id, 'parapet hits' asks about the first.
        file, _, data, problem = self.found[0]
        return f"bad_dialogue: {self.name} of {file}: {problem}" if problem else typed(json.loads(data))


def _unusable(assignment: Assignment, decisions: Iterable[Decision], why: str) -> Iterator[DeadLetter]:
    answers = ", ".join(f"{field}={text}" for field, text in sorted(assignment.answers.items()) if text)
    yield DeadLetter("compose", assignment.assignment_id, why, payload(answers), assignment.source)
    for decision in decisions:
        yield unusable_decision(decision, f"unused_response: {why.partition(': ')[2]}")


class _SettleDialogues(RunWritingDoFn):
    """(shard, {its dialogues, what workers repeated}) to the outcomes of the dialogues, on several outputs.

    Args:
      output: below which runs are written.
      seed: of the draws.
    """

    def __init__(self, output: str, seed: int) -> None:
        super().__init__(output)
        self.seed = seed

    def process(self, element: tuple[str, Mapping[str, Iterable[Run]]]) -> Iterator[TaggedOutput]:
        _, groups = element
        gathered = GatheredRuns(self.runs)
        repeats = {key for key, _ in joined(groups["repeats"])}
        summaries, counts = [sum_up([])], Counts()
        for name, (packed,) in joined(groups["dialogues"]):
            for part in map(_unpack, packed):
                settle_all = partial(self._of_dialogue, name, part, repeats)
                try:
                    of_dialogue, errors = settle_fenced(settle_all, part.assignments)
                except Exception as error:  # of the dialogue, whatever was answered
                    of_dialogue, bad = None, bad_record(error, is_private=True)
                    if not isinstance(bad, Fault):
                        raise
                    errors = {assignment.assignment_id: bad for assignment in part.assignments}
                    letter = DeadLetter("compose", name, bad.reason, "", "")
                    yield from _tagged(gathered.add(DEAD_LETTERS, dead_letter_key(letter)))
                dead, of_lost = lost_ones(part.assignments, part.decisions, errors)
                # They were counted as settled when they were joined.
                counts.update({key: n for key, n in of_lost.items() if not key.name.startswith("assignments")})
                for letter in dead:
                    yield from _tagged(gathered.add(DEAD_LETTERS, dead_letter_key(letter)))
                if of_dialogue is None:
                    continue
                summaries.append(of_dialogue.summary)
                counts.update(of_dialogue.counts)
                show_progress(of_dialogue.dispositions)
                for output, key, content in of_dialogue.records:
                    yield from _tagged(gathered.add(output, key, content))
            if len(summaries) >= _SUMMARIES:
                summaries = [sum_up(summaries)]
        yield from _tagged(gathered.flush())
        yield from tag_counts(counts)
        yield TaggedOutput(SUMMARY, sum_up(summaries))

    def _of_dialogue(
        self, name: str, joined: _Joined, repeats: Set[str], assignments: Sequence[Assignment]
    ) -> _OfDialogue:
        by_turn: dict[int, list[Assignment]] = defaultdict(list)
        for assignment in assignments:
            by_turn[place_of(assignment.service_name)[1]].append(assignment)
        decisions = {one.assignment_id: joined.decisions.get(one.assignment_id, {}) for one in assignments}
        outcome = settle_turns(
            joined.turns, by_turn, decisions, self.seed, lambda worker, answer: is_repeated(worker, answer, repeats)
        )
        counts = Counts()
        used = (row["response_id"] for row in outcome.audit if row["disposition"] == "used")
        add_records(counts, "decisions_settled", decided(decisions))
        add_records(counts, "answers_audited", (row["response_id"] for row in outcome.audit if row["text"].strip()))
        add_records(counts, "used", used)
        add_records(counts, "rewritten", (turn.source for turn in outcome.rewritten))
        return _OfDialogue(
            summarise(outcome, len(joined.turns)),
            counts,
            Counter(row["disposition"] for row in outcome.audit),
            list(_records(name, outcome)),
        )


class _OfDialogue(NamedTuple):
    """What is written of a dialogue."""

    summary: Any
    counts: Counts
    dispositions: Mapping[str, int]
    records: list[tuple[str, bytes, bytes]]


def _records(name: str, outcome: Outcome) -> Iterator[tuple[str, bytes, bytes]]:
    """(output, sort key, content) of a dialogue."""
    key = sort_key(name)
    yield REWRITTEN_FILE, key, b"".join(_encode_line(turn) + b"\n" for turn in outcome.rewritten)
    yield SHORTFALL_FILE, key, b"".join(islice(shortfall_lines(outcome.short), 1, None))
    yield AUDIT, key, audit.pack_table(pa.Table.from_pylist(outcome.audit, REWRITINGS))
    for record in packed_reviews(outcome.reviews):
        yield REVIEWS, *record
    for letter in outcome.dead:
        yield DEAD_LETTERS, dead_letter_key(letter), b""


def _tagged(runs: Iterable[tuple[str, Run]]) -> Iterator[TaggedOutput]:
    """Runs for their outputs; those of lines with the path of the file."""
    for output, run in runs:
        lines = output in (REWRITTEN_FILE, SHORTFALL_FILE)
        yield TaggedOutput(LINES, (output, run)) if lines else TaggedOutput(output, run)
