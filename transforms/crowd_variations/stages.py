"""The Beam side of ``compose_variations``: answers are joined with the dialogues, and settled dialogue by dialogue."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

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
from parapet.transforms.crowd.composing import AUDIT, FILES, SUMMARY, CrowdRun, Metadata
from parapet.transforms.crowd.ingest.fields import payload
from parapet.transforms.crowd.merge import answer_count, unusable_decision
from parapet.transforms.crowd.reading import (
    COUNTS,
    DEAD_LETTERS,
    show_progress,
    tag_counts,
    tag_dead_letters,
    unpack_merged,
)
from parapet.transforms.crowd.summary import INVARIANTS, RECORDED
from parapet.transforms.crowd_variations.report import compose_variations_report
from parapet.transforms.crowd_variations.settle import settle_turns
from parapet.transforms.crowd_variations.summary import (
    REWRITTEN_FILE,
    Summary,
    other_examples,
    shortfall_csv,
    statistics,
    summarise,
    used_examples,
)
from parapet.transforms.crowd_variations.tasks import SourceTurn, Task, check_same, place_of, source_turn
from parapet.transforms.crowd_variations.vet import EXPLANATIONS, Written, is_repeated, repeated, written_by
from parapet.transforms.dead_letters import id_of
from parapet.transforms.progress import expect_dialogues, tracked
from parapet.transforms.runs import RunInfo

_REWRITTEN, _WRITTEN_BY = "rewritten", "written_by"

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
        (*INVARIANTS, Balance("used", ("rewritten",))),
        (*RECORDED, "rewritten"),
    )


def _metadata(
    method: Mapping[str, str], summaries: Iterable[Summary], dead_letters: int, agreement: dict[str, Any] | None
) -> Metadata:
    summaries = list(summaries)
    numbers = statistics(summaries, dead_letters, agreement, method)
    return Metadata(
        numbers,
        compose_variations_report(numbers, used_examples(summaries), other_examples(summaries)),
        [item for summary in summaries for item in summary.reviews],
        shortfall_csv(missing for summary in summaries for missing in summary.short),
    )


class SettleDialogues(beam.PTransform):
    """(place of a turn, packed MergedBatch) to rewritten turns, audit, summaries, dead letters and counts.

    Args:
      files: of the dialogues.
      tasks: of the folders of ``hits``, by dialogue; may be empty.
      seed: of the draw among good answers.
    """

    def __init__(self, files: Sequence[DialogueFile], tasks: Mapping[str, Sequence[Task]], seed: int) -> None:
        super().__init__()
        self.files, self.tasks, self.seed = list(files), sorted(tasks.items()), seed

    def expand(self, merged: beam.PCollection) -> dict[str, beam.PCollection]:
        """The outputs by name, as :class:`parapet.transforms.crowd.composing.ComposeAnswers` takes them."""
        pipeline = merged.pipeline
        expect_dialogues(self.files)
        dialogues = (
            pipeline
            | "Dialogue files" >> beam.Create(self.files)
            | "Read dialogues" >> beam.ParDo(_ReadDialogues()).with_outputs(DEAD_LETTERS, main="dialogues")
        )
        joined = (
            {
                "dialogues": dialogues.dialogues,
                "responses": merged | "Of dialogue" >> beam.MapTuple(_by_dialogue),
                "tasks": pipeline | "Tasks" >> beam.Create(self.tasks, reshuffle=False),
            }
            | "By dialogue" >> beam.CoGroupByKey()
            | "Join" >> beam.ParDo(_JoinDialogue()).with_outputs(DEAD_LETTERS, COUNTS, _WRITTEN_BY, main="dialogues")
        )
        repeats = joined[_WRITTEN_BY] | "By worker" >> beam.GroupByKey() | "Repeated" >> beam.FlatMapTuple(_repeated_by)
        settled = joined.dialogues | "Settle dialogue" >> beam.ParDo(
            _SettleDialogue(self.seed), beam.pvalue.AsDict(repeats)
        ).with_outputs(_REWRITTEN, AUDIT, SUMMARY, DEAD_LETTERS, COUNTS)
        rewritten = (
            pipeline
            | "One file" >> beam.Create([None], reshuffle=False)
            | "Rewritten" >> beam.Map(_rewritten_file, beam.pvalue.AsList(settled[_REWRITTEN]))
        )
        dead_letters = [step[DEAD_LETTERS] for step in (dialogues, joined, settled)]
        return {
            FILES: rewritten,
            AUDIT: settled[AUDIT],
            SUMMARY: settled[SUMMARY],
            DEAD_LETTERS: dead_letters | "Unusable answers and dialogues" >> beam.Flatten(),
            COUNTS: (joined[COUNTS], settled[COUNTS]) | "Counts of settling" >> beam.Flatten(),
        }


class _ReadDialogues(beam.DoFn):
    """Dialogue file to (dialogue id, Found) of each dialogue in it; a file that cannot be read is a dead letter."""

    def process(self, file: DialogueFile) -> Iterator[Any]:
        try:
            for position, raw, plain, dialogue in tracked(dialogues_of(file), "dialogues"):
                name = id_of(raw, position)
                if not name.isprintable():
                    continue  # has no HITs: no RequesterAnnotation carries it
                if isinstance(dialogue, InputError):
                    yield name, (file.relative, position, b"", f"{dialogue.where}: {dialogue.reason}")
                else:
                    yield name, (file.relative, position, _packed(raw, plain), "")
        except InputError as error:
            broken = DeadLetter("dialogues", file.relative, f"broken_file: {error}", "", file.relative)
            yield from tag_dead_letters([broken])


def _packed(raw: Any, plain: bool) -> bytes:
    """A dialogue as JSON; half surrogates are spaces in it, as they are on the page."""
    if plain:
        with suppress(TypeError):  # whole numbers beyond 64 bits
            return orjson.dumps(raw)
    return _SURROGATE.sub(" ", json.dumps(raw, ensure_ascii=False)).encode()


def _by_dialogue(service_name: str, packed: bytes) -> tuple[str, bytes]:
    """What was merged about a turn, under its dialogue's id."""
    return place_of(service_name)[0], packed


class _Joined(msgspec.Struct):
    """All that is about one dialogue, its turns known."""

    turns: list[SourceTurn]
    assignments: list[Assignment]
    decisions: dict[str, dict[str, Decision]]


_unpack = msgspec.msgpack.Decoder(_Joined).decode


class _JoinDialogue(beam.DoFn):
    """(dialogue id, {dialogues, responses, tasks}) to (dialogue id, packed _Joined).

    On the side: what each worker wrote, dead letters, counts. A dialogue without tasks and answers gives nothing.
    """

    def process(self, element: tuple[str, Mapping[str, Iterable[Any]]]) -> Iterator[Any]:
        name, groups = element
        answers = unpack_merged(groups["responses"])
        tasks = [task for of_dialogue in groups["tasks"] for task in of_dialogue]
        if not answers.assignments and not tasks:
            return
        source = _Source(name, groups["dialogues"])
        for task in tasks:
            check_same(task, source.turn(task.turn))
        positions = {task.turn for task in tasks}
        usable: list[Assignment] = []
        for assignment in answers.assignments:
            yield from tag_counts(Counts.named(assignments_settled=1))
            turn = source.turn(place_of(assignment.service_name)[1])
            if isinstance(turn, SourceTurn):
                usable.append(assignment)
                positions.add(turn.turn)
                continue
            decisions = answers.decisions.pop(assignment.assignment_id, {})
            yield from tag_counts(Counts.named(decisions_settled=len(decisions), answers_dead=answer_count(assignment)))
            yield from tag_dead_letters(_unusable(assignment, decisions.values(), turn))
        sources = {at: turn for at in positions if isinstance(turn := source.turn(at), SourceTurn)}
        yield name, _packer.encode(_Joined(list(sources.values()), usable, answers.decisions))
        written = (
            (assignment.worker_hash, text, sources[place_of(assignment.service_name)[1]].utterance)
            for assignment in usable
            for text in assignment.answers.values()
        )
        for of_worker in written_by(written):
            yield TaggedOutput(_WRITTEN_BY, of_worker)


class _Source:
    """The turns of a dialogue, read when they are needed."""

    def __init__(self, name: str, found: Iterable[Found]) -> None:
        self.name, self.found = name, sorted(found)
        self._turns: dict[int, SourceTurn | str] = {}
        self._dialogue: Dialogue | str | None = None

    def turn(self, position: int) -> SourceTurn | str:
        """A turn that was to be rewritten, or why it cannot have been."""
        if position not in self._turns:
            dialogue = self._dialogue = self._read() if self._dialogue is None else self._dialogue
            self._turns[position] = dialogue if isinstance(dialogue, str) else source_turn(dialogue, position)
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


class _SettleDialogue(beam.DoFn):
    """(dialogue id, packed _Joined) to its outcome, on several outputs.

    Args:
      seed: of the draws.
    """

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.seed = seed

    def process(self, element: tuple[str, bytes], repeats: Mapping[str, int]) -> Iterator[TaggedOutput]:
        name, packed = element
        joined = _unpack(packed)
        assignments: dict[int, list[Assignment]] = defaultdict(list)
        for assignment in joined.assignments:
            assignments[place_of(assignment.service_name)[1]].append(assignment)
        outcome = settle_turns(
            joined.turns,
            assignments,
            joined.decisions,
            self.seed,
            lambda worker, answer: is_repeated(worker, answer, repeats),
        )
        counts = Counts.named(
            decisions_settled=sum(map(len, joined.decisions.values())),
            answers_audited=sum(bool(row["text"].strip()) for row in outcome.audit),
            used=sum(row["disposition"] == "used" for row in outcome.audit),
            rewritten=len(outcome.rewritten),
        )
        yield from tag_counts(counts)
        yield TaggedOutput(_REWRITTEN, (name, b"".join(_encode_line(turn) + b"\n" for turn in outcome.rewritten)))
        yield TaggedOutput(AUDIT, (name, audit.pack_table(pa.Table.from_pylist(outcome.audit, REWRITINGS))))
        yield TaggedOutput(SUMMARY, summarise(outcome, len(joined.turns)))
        yield from tag_dead_letters(outcome.dead)
        for row in outcome.audit:
            show_progress(row["disposition"], 1)


def _rewritten_file(_: None, parts: Iterable[tuple[str, bytes]]) -> tuple[str, bytes]:
    """``rewritten.jsonl``: the lines of all dialogues, in the order of the ids."""
    return REWRITTEN_FILE, b"".join(lines for _, lines in sorted(parts))


def _repeated_by(worker: str, written: Iterable[Sequence[Written]]) -> Iterator[tuple[str, int]]:
    """(key, 1) of what a worker repeated."""
    for key in repeated(worker, written):
        yield key, 1
