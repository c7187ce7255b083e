"""Prediction as a Beam transform: system turns of all sets through a model, to lines with what it says."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any

import apache_beam as beam
import msgspec
from apache_beam.ml.inference.base import KeyedModelHandler, RunInference

from parapet.evaluation.generation.corpus import SystemTurn
from parapet.evaluation.generation.predictions import Candidate
from parapet.evaluation.models.generation.decoding import Said, Search, Speaker
from parapet.evaluation.models.generation.ranking import chosen, merged, read_candidates, scorer_of
from parapet.evaluation.models.generation.saving import load
from parapet.evaluation.models.generation.sources import Asked, Source, turns_of
from parapet.evaluation.models.inference import ChunkHandler, Chunks, Prediction
from parapet.schemas.errors import InputError
from parapet.transforms import files

CHUNK = 64  # dialogues

Place = tuple[int, int, int]  # which set, which file of it, which chunk of that
PREDICTIONS = "predictions"


class Reranker(msgspec.Struct, frozen=True):
    """Who chooses among candidates.

    Attributes:
      scorer: ``lexical`` or ``nli``; ``folder`` the model of the latter, ``batch`` the pairs that it gets at a time.
      others: folders of predictions whose candidates are taken too.
    """

    scorer: str
    folder: str = ""
    batch: int = 32
    others: tuple[str, ...] = ()


class Job(msgspec.Struct, frozen=True):
    """What is predicted.

    Attributes:
      output: the output folder.
      model: its name.
      folder: where it is; ``checkpoint`` the T5 that its prefixes are for.
      device: ``auto``, ``cpu`` or ``cuda``.
      threads: of torch, in each worker.
      search: how utterances are looked for.
      sets: what for.
      reranker: chooses among candidates; None for the most likely.
    """

    output: str
    model: str
    folder: str
    checkpoint: str | None
    device: str
    threads: int
    search: Search
    sets: tuple[Source, ...]
    reranker: Reranker | None


class Spoken(msgspec.Struct, frozen=True):
    """A turn, and what the model says in it; None where it has no act."""

    turn: SystemTurn
    said: Said | None


class Lines(msgspec.Struct, frozen=True):
    """A chunk's predictions.

    Attributes:
      data: JSON lines.
      counts: by what is counted.
    """

    data: bytes
    counts: dict[str, int]


def handler(job: Job) -> ChunkHandler:
    """How RunInference speaks."""
    return ChunkHandler(job.threads, partial(_load, job), spoken)


def _load(job: Job) -> Speaker:
    from parapet.evaluation.models.devices import device_of

    return Speaker(load(job.folder, job.model, job.checkpoint, device_of(job.device)), job.search)


def spoken(model: Speaker, chunk: Sequence[Asked]) -> list[Spoken]:
    """What a model says in each turn of a chunk."""
    from parapet.evaluation.models.devices import enough_memory

    with enough_memory("lower --batch_size, --beams or --candidates"):
        said = iter(model.say([one.text for one in chunk if one.text]))
    return [Spoken(one.turn, next(said) if one.text else None) for one in chunk]


class Predict(Prediction):
    """Sets to files of predictions, staged."""

    job: Job

    def expand(self, pipeline: beam.Pipeline) -> tuple[beam.PCollection, beam.PCollection]:
        """To (what was written, (name, n) to be summed)."""
        named = [(number, file) for number, one in enumerate(self.job.sets) for file in range(len(one.files))]
        chunks = pipeline | "Chunks" >> Chunks(named, chunks_of, self.job)
        lines = (
            chunks
            | "Say" >> RunInference(KeyedModelHandler(handler(self.job)))
            | "Lines" >> beam.Map(lines_of, self.job)
        )
        gathered = lines | "By set" >> beam.Map(lambda one: (one[0][0], one)) | "Gather" >> beam.GroupByKey()
        written = gathered | "Write" >> beam.Map(write, self.job)
        turns = chunks | "Turns" >> beam.Map(
            lambda one, job: (f"turns/{job.sets[one[0][0]].name}", len(one[1])), self.job
        )
        counts = lines | "Predicted" >> beam.FlatMap(counts_in, self.job)
        return written, (turns, counts) | "Counts" >> beam.Flatten()


def chunks_of(file: tuple[int, int], job: Job) -> Iterator[tuple[Place, tuple[Asked, ...]]]:
    """The system turns of a file, some dialogues at a time. Raises InputError where it cannot be read."""
    number, which = file
    dialogues = list(turns_of(job.sets[number], which))
    for first in range(0, max(len(dialogues), 1), CHUNK):  # of an empty one too: its set has a file of predictions
        some = dialogues[first : first + CHUNK]
        yield (number, which, first // CHUNK), tuple(one for of_dialogue in some for one in of_dialogue)


def lines_of(spoken: tuple[Place, Sequence[Spoken]], job: Job) -> tuple[Place, Lines]:
    """The rows of a chunk, as ``parapet evaluate --task generation`` takes them."""
    place, turns = spoken
    source = job.sets[place[0]]
    candidates = {one.turn.place: _candidates(one, source, job) for one in turns}
    first = {key: some[0].utterance for key, some in candidates.items()}
    best = first
    if job.reranker is not None:
        of = job.reranker
        scorer = scorer_of(of.scorer, of.folder, of.batch)
        best = chosen([one.turn for one in turns], candidates, source.words, scorer)
    rows = [_row(one, best[one.turn.place], candidates[one.turn.place], job) for one in turns]
    told = [one.said for one in turns if one.said is not None]
    counts = {
        "said": len(turns),
        "without_acts": len(turns) - len(told),
        "cut_templates": sum(one.cut for one in told),
        "without_end": sum(one.endless for one in told),
        "reranked": sum(best[key] != first[key] for key in first),
    }
    return place, Lines(b"".join(msgspec.json.encode(row) + b"\n" for row in rows), counts)


def _candidates(one: Spoken, source: Source, job: Job) -> tuple[Candidate, ...]:
    """Those of the model and of others; of a turn without acts, of which there is nothing to say, silence."""
    if one.said is None:
        return (Candidate("", 0.0),)
    others = job.reranker.others if job.reranker is not None else ()
    return merged(one.said.candidates, *(_others(folder, source.name, one.turn) for folder in others))


def _others(folder: str, name: str, turn: SystemTurn) -> tuple[Candidate, ...]:
    path = files.join(folder, f"{name}.jsonl")
    found = read_candidates(path).get(turn.place)
    if found is None:
        raise InputError(f"there is no prediction for dialogue {turn.dialogue_id!r} turn {turn.turn}", path, "--also")
    return found


def _row(one: Spoken, utterance: str, candidates: Sequence[Candidate], job: Job) -> dict[str, Any]:
    row: dict[str, Any] = {"dialogue_id": one.turn.dialogue_id, "turn": one.turn.turn, "utterance": utterance}
    return {**row, "candidates": list(candidates)} if job.search.candidates else row


def counts_in(one: tuple[Place, Lines], job: Job) -> Iterator[tuple[str, int]]:
    """Those of a chunk, by set."""
    place, lines = one
    for what, n in lines.counts.items():
        if n or what == "said":
            yield f"{what}/{job.sets[place[0]].name}", n


def write(of_set: tuple[int, Iterable[tuple[Place, Lines]]], job: Job) -> files.Written:
    """Writes the predictions of a set, in the order of its files."""
    number, lines = of_set
    data = b"".join(one.data for _, one in sorted(lines, key=lambda one: one[0]))
    return files.write_staged(job.output, relative_of(job.sets[number].name), data)


def relative_of(name: str) -> str:
    """The file of a set's predictions, below the output folder."""
    return f"{PREDICTIONS}/{name}.jsonl"
