"""Prediction as a Beam transform: dialogues of all sets to states in the SGD format, and to responses."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial

import apache_beam as beam
import msgspec
from apache_beam.ml.inference.base import RunInference

from parapet.evaluation.dst.files import Dialogue, Frame, Turn
from parapet.evaluation.dst.frames import State
from parapet.evaluation.dst.sets import Set
from parapet.evaluation.models import inference
from parapet.evaluation.models.inference import Chunk, ChunkHandler, Chunks, Place, chunks_of_dialogues
from parapet.evaluation.models.soloist.answering import Said, Soloist
from parapet.evaluation.models.soloist.data import asked_of, read_source
from parapet.evaluation.models.soloist.decoding import Sampling
from parapet.evaluation.models.soloist.parts import NONE
from parapet.evaluation.models.soloist.saving import load
from parapet.schemas.service import Service
from parapet.transforms import files

CHUNK = 8  # dialogues
RESPONSES = "responses"

Counts = list[tuple[str, int]]
Told = tuple[Place, bytes, bytes, Counts]  # dialogues with states as JSON without brackets; responses as JSON lines


class Job(inference.Job, frozen=True, kw_only=True):
    """What is predicted.

    Attributes:
      sampling: how the tokens of responses are chosen.
      reference: the corpus whose searches are the knowledge base, its ``split``, and a ``knowledge_base`` besides.
      sets: by name.
      inputs: (set, path of a file of dialogues, path of its predictions below the output folder).
    """

    sampling: Sampling
    reference: str
    split: str
    knowledge_base: str | None
    sets: dict[str, Set]
    inputs: tuple[tuple[str, str, str], ...]


def handler(job: Job) -> ChunkHandler:
    """How RunInference writes."""
    return ChunkHandler(job.threads, partial(_load, job), partial(written, job))


def _load(job: Job) -> Soloist:
    database = read_source(job.reference, job.split, job.knowledge_base).database
    return load(job.folder, database, job.device, job.batch, job.sampling)


def written(job: Job, model: Soloist, chunk: Chunk) -> Told:
    """The states and responses of a chunk."""
    place, dialogues = chunk
    return told(place, dialogues, job.sets[place[0]].services, model)


class Predict(inference.Prediction):
    """Files of dialogues to files with states and responses, staged."""

    job: Job

    def expand(self, pipeline: beam.Pipeline) -> tuple[beam.PCollection, beam.PCollection]:
        """To (what was written, (name, n) to be summed)."""
        chunks = pipeline | "Chunks" >> Chunks(self.job.inputs, chunks_of_dialogues, CHUNK)
        said = chunks | "Answer" >> RunInference(handler(self.job))
        written = (
            said
            | "By file" >> beam.FlatMap(by_file)
            | "Gather" >> beam.GroupByKey()
            | "Write" >> beam.Map(write, self.job.output)
        )
        asked = chunks | "Asked" >> beam.Map(turns_in)
        answered = said | "Answered" >> beam.FlatMap(lambda one: one[3])
        return written, (asked, answered) | "Counts" >> beam.Flatten()


def turns_in(chunk: Chunk) -> tuple[str, int]:
    """Counts the user turns."""
    return f"asked/{chunk[0][0]}", sum(turn.speaker == "USER" for one in chunk[1] for turn in one.turns)


def told(
    place: Place,
    dialogues: Sequence[Dialogue],
    services: Mapping[str, Service],
    model: Soloist,
) -> Told:
    """What the model says in dialogues.

    Args:
      place: of the chunk.
      dialogues: its dialogues.
      services: of the set's schema, by name.
      model: ready to answer.
    """
    steps = [step for one in dialogues for step in asked_of(one.dialogue_id, _texts(one))]
    answers = iter(model.answers(steps))
    counts: Counter[str] = Counter()
    lines, found = [], []
    for one in dialogues:
        turns = []
        for position, turn in enumerate(one.turns):
            frames: list[Frame] = []
            if turn.speaker == "USER":
                said = next(answers)
                counts["answered"] += 1
                counts["too_long"] += said.long
                frames = [_frame(frame.service, said, services.get(frame.service), counts) for frame in turn.frames]
                if position + 1 < len(one.turns) and one.turns[position + 1].speaker == "SYSTEM":
                    lines.append(_line(one.dialogue_id, position + 1, said))
            turns.append(Turn(turn.speaker, frames, turn.utterance))
        found.append(msgspec.json.encode(Dialogue(one.dialogue_id, turns, one.services)))
    named = [(f"{what}/{place[0]}", n) for what, n in sorted(counts.items()) if n]
    return place, b",\n".join(found), b"".join(lines), named


def _texts(dialogue: Dialogue) -> list[tuple[str, str]]:
    return [(turn.speaker, turn.utterance if isinstance(turn.utterance, str) else "") for turn in dialogue.turns]


def _frame(name: str, said: Said, service: Service | None, counts: Counter[str]) -> Frame:
    """The state of a service. The model may name slots that its schema, perhaps a variant's, does not have."""
    state = said.belief.get(name, State(NONE, [], {}))
    slots = {slot.name for slot in service.slots} if service else set()
    lost = {*state.slot_values, *state.requested_slots} - slots
    counts["frames"] += 1
    counts["unknown_slots"] += len(lost)
    values = {slot: values for slot, values in sorted(state.slot_values.items()) if slot in slots}
    return Frame(
        name, State(state.active_intent, [one for one in sorted(state.requested_slots) if one in slots], values)
    )


def _line(dialogue_id: str, turn: int, said: Said) -> bytes:
    state = {name: of.slot_values for name, of in sorted(said.belief.items())}
    row = {"dialogue_id": dialogue_id, "turn": turn, "response": said.response, "state": state}
    return msgspec.json.encode(row) + b"\n"


def by_file(said: Told) -> Iterator[tuple[str, tuple[str, int, bytes]]]:
    """(a file of the output, (from where, the chunk's number, what it has)), for states and for responses."""
    (name, relative, chunk), states, responses, _ = said
    yield relative, (relative, chunk, states)
    yield f"{RESPONSES}/{name}.jsonl", (relative, chunk, responses)


def write(of_file: tuple[str, Iterable[tuple[str, int, bytes]]], output: str) -> files.Written:
    """Writes a file of dialogues, or one of JSON lines."""
    relative, parts = of_file
    data = [data for _, _, data in sorted(parts) if data]
    if relative.startswith(f"{RESPONSES}/"):
        return files.write_staged(output, relative, b"".join(data))
    return files.write_staged(output, relative, b"[" + b",\n".join(data) + b"]\n")
