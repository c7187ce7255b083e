"""The PTransforms of ``compose_variations``: dialogues and answers joined, settled, written.

Assignments come merged from the stages of ``compose``; all that is about one dialogue is settled as one element.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
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
from parapet.transforms.crowd import audit
from parapet.transforms.crowd.composing import AUDIT, COUNTS, SUMMARY, count, dead, unpack_of
from parapet.transforms.crowd.ingest.fields import payload
from parapet.transforms.crowd.merge import given, unusable_decision
from parapet.transforms.crowd_variations.asked import AskedTurn, Task, asked_turn, check_same, place_of
from parapet.transforms.crowd_variations.settle import settle_turns
from parapet.transforms.crowd_variations.summary import summarise
from parapet.transforms.crowd_variations.vet import Given, given_by, is_repeated, repeated
from parapet.transforms.dead_letters import id_of

REWRITTEN, GIVEN = "rewritten", "given"
FILE = "rewritten.jsonl"

Found = tuple[str, int, bytes, str]  # file, position in it, the dialogue as JSON, why it cannot be used

_SURROGATE = re.compile("[\ud800-\udfff]")
_packer = msgspec.msgpack.Encoder()
_encode_line = msgspec.json.Encoder().encode


class ReadDialogues(beam.DoFn):
    """Dialogue file to (dialogue id, Found) of each dialogue in it; a file that cannot be read is a dead letter."""

    def process(self, file: DialogueFile) -> Iterator[Any]:
        """Reads one file."""
        try:
            for position, raw, plain, dialogue in dialogues_of(file):
                name = id_of(raw, position)
                if not name.isprintable():
                    continue  # never asked: no RequesterAnnotation carries it
                if isinstance(dialogue, InputError):
                    yield name, (file.relative, position, b"", f"{dialogue.where}: {dialogue.reason}")
                else:
                    yield name, (file.relative, position, _packed(raw, plain), "")
        except InputError as error:
            yield from dead([DeadLetter("dialogues", file.relative, f"broken_file: {error}", "", file.relative)])


def _packed(raw: Any, plain: bool) -> bytes:
    """A dialogue as JSON; half surrogates are spaces in it, as they are on the page."""
    if plain:
        with suppress(TypeError):  # whole numbers beyond 64 bits
            return orjson.dumps(raw)
    return _SURROGATE.sub(" ", json.dumps(raw, ensure_ascii=False)).encode()


def by_dialogue(service_name: str, packed: bytes) -> tuple[str, bytes]:
    """What was merged about a turn, under its dialogue's id."""
    return place_of(service_name)[0], packed


class _Joined(msgspec.Struct):
    """All that is about one dialogue, its turns known."""

    turns: list[AskedTurn]
    assignments: list[Assignment]
    decisions: dict[str, dict[str, Decision]]


_unpack = msgspec.msgpack.Decoder(_Joined).decode


class JoinDialogue(beam.DoFn):
    """(dialogue id, {dialogues, responses, tasks}) to (dialogue id, packed _Joined).

    On the side: what each worker gave (GIVEN), dead letters, counts. A dialogue that nobody was asked about gives
    nothing.
    """

    def process(self, element: tuple[str, Mapping[str, Iterable[Any]]]) -> Iterator[Any]:
        """Joins one dialogue."""
        name, groups = element
        found = [unpack_of(batch) for batch in groups["responses"]]
        tasks = [task for of in groups["tasks"] for task in of]
        if not found and not tasks:
            return
        asked = _Asked(name, groups["dialogues"])
        for task in tasks:
            check_same(task, asked.turn(task.turn))
        turns = {task.turn for task in tasks}
        taken: list[Assignment] = []
        decisions = {key: value for of in found for key, value in of.decisions.items()}
        for assignment in (assignment for of in found for assignment in of.assignments):
            yield TaggedOutput(COUNTS, ("assignments_settled", 1))
            turn = asked.turn(place_of(assignment.service_name)[1])
            if isinstance(turn, AskedTurn):
                taken.append(assignment)
                turns.add(turn.turn)
                continue
            of_assignment = decisions.pop(assignment.assignment_id, {})
            yield TaggedOutput(COUNTS, ("decisions_settled", len(of_assignment)))
            yield TaggedOutput(COUNTS, ("answers_dead", given(assignment)))
            yield from dead(_unusable(assignment, of_assignment.values(), turn))
        known = {position: asked.turn(position) for position in turns}
        sentences = {position: turn for position, turn in known.items() if isinstance(turn, AskedTurn)}
        yield name, _packer.encode(_Joined(list(sentences.values()), taken, decisions))
        written = (
            (one.worker_hash, text, sentences[place_of(one.service_name)[1]].utterance)
            for one in taken
            for text in one.answers.values()
        )
        for of_worker in given_by(written):
            yield TaggedOutput(GIVEN, of_worker)


class _Asked:
    """The turns of a dialogue, read when they are needed."""

    def __init__(self, name: str, found: Iterable[Found]) -> None:
        self.name, self.found = name, sorted(found)
        self._turns: dict[int, AskedTurn | str] = {}
        self._dialogue: Dialogue | str | None = None

    def turn(self, position: int) -> AskedTurn | str:
        """A turn that was asked about, or why it cannot have been."""
        if position not in self._turns:
            dialogue = self._dialogue = self._read() if self._dialogue is None else self._dialogue
            self._turns[position] = dialogue if isinstance(dialogue, str) else asked_turn(dialogue, position)
        return self._turns[position]

    def _read(self) -> Dialogue | str:
        if not self.found:
            return f"unknown_dialogue: the corpus has no dialogue {self.name!r} in this split"
        # Where an id stands twice, the first was asked about.
        file, _, data, problem = self.found[0]
        return f"bad_dialogue: {self.name} of {file}: {problem}" if problem else typed(json.loads(data))


def _unusable(assignment: Assignment, decisions: Iterable[Decision], why: str) -> Iterator[DeadLetter]:
    shown = ", ".join(f"{field}={text}" for field, text in sorted(assignment.answers.items()) if text)
    yield DeadLetter("compose", assignment.assignment_id, why, payload(shown), assignment.source)
    for decision in decisions:
        yield unusable_decision(decision, f"unused_response: {why.partition(': ')[2]}")


class SettleDialogues(beam.DoFn):
    """(dialogue id, packed _Joined) to its outcome, parted into what goes where.

    Args:
      seed: of the draws.
    """

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.seed = seed

    def process(self, element: tuple[str, bytes], repeats: Mapping[str, int]) -> Iterator[TaggedOutput]:
        """Settles one dialogue."""
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
        yield TaggedOutput(COUNTS, ("decisions_settled", sum(map(len, joined.decisions.values()))))
        yield TaggedOutput(COUNTS, ("answers_audited", sum(bool(row["text"].strip()) for row in outcome.audit)))
        yield TaggedOutput(COUNTS, ("used", sum(row["disposition"] == "used" for row in outcome.audit)))
        yield TaggedOutput(COUNTS, ("rewritten", len(outcome.rewritten)))
        yield TaggedOutput(REWRITTEN, (name, b"".join(_encode_line(one) + b"\n" for one in outcome.rewritten)))
        yield TaggedOutput(AUDIT, (name, audit.pack_table(pa.Table.from_pylist(outcome.audit, REWRITINGS))))
        yield TaggedOutput(SUMMARY, summarise(outcome, len(joined.turns)))
        yield from dead(outcome.dead)
        for row in outcome.audit:
            count(row["disposition"], 1)


def rewritten_file(_: Any, parts: Iterable[tuple[str, bytes]]) -> tuple[str, bytes]:
    """``rewritten.jsonl``: the lines of all dialogues, those in the order of their ids."""
    return FILE, b"".join(lines for _, lines in sorted(parts))


def tasks_of(tasks: Mapping[str, Sequence[Task]]) -> list[tuple[str, list[Task]]]:
    """(dialogue id, its tasks)."""
    return [(name, list(of)) for name, of in sorted(tasks.items())]


def repeated_by(worker: str, given: Iterable[Sequence[Given]]) -> Iterator[tuple[str, int]]:
    """(key, 1) of what a worker repeated."""
    for key in repeated(worker, given):
        yield key, 1
