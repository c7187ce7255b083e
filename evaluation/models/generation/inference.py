"""Generates utterances for the acts of system turns, and reranks candidates by faithfulness, for any generator."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, NamedTuple, Protocol

import msgspec

from parapet.evaluation.generation.corpus import Candidate, Place, Prediction, SystemTurn
from parapet.evaluation.generation.lexical import Lexical
from parapet.evaluation.generation.scoring import Cached, Nli, Scorer, choose
from parapet.evaluation.models import inference
from parapet.evaluation.models.generation.data import Source, TurnTemplate, turns_of
from parapet.evaluation.models.inference import Answers, Part
from parapet.evaluation.models.saving import device_of, enough_memory
from parapet.evaluation.sets import read_lines
from parapet.schemas.errors import InputError
from parapet.transforms.core import files


class Search(msgspec.Struct, frozen=True):
    """The settings of the search for utterances.

    Attributes:
      batch_size: templates at a time.
      beams: the number of beams; 1 is greedy search.
      candidates: the number of best utterances to return; 0 for the best only, without a score.
    """

    batch_size: int
    beams: int
    candidates: int


class Generated(msgspec.Struct, frozen=True):
    """The output of a model for a template.

    Attributes:
      candidates: distinct utterances, the most likely first; at least one.
      cut: whether the beginning of the template was cut off.
      unfinished: whether the first candidate did not end within the maximum number of tokens.
      refused: whether there is no answer, because a request was refused.
    """

    candidates: tuple[Candidate, ...]
    cut: bool
    unfinished: bool
    refused: bool = False


@functools.cache
def scorer_of(name: str, folder: str, batch: int) -> Scorer:
    """Makes the scorer, ``lexical`` or ``nli`` with a model in a folder; cached in each process."""
    return Lexical() if name == "lexical" else Nli(folder, batch)


@functools.lru_cache(maxsize=8)
def read_candidates(path: str) -> dict[Place, tuple[Candidate, ...]]:
    """Reads the candidates in a file of predictions, by turn. Raises InputError if it cannot be read or has none."""
    candidates = {}
    for number, prediction in read_lines(path, Prediction):
        if prediction.candidates is None:
            reason = "has no candidates: 'parapet predict' writes them with --candidates"
            raise InputError(reason, path, f"line {number}")
        candidates[prediction.dialogue_id, prediction.turn] = prediction.candidates
    return candidates


def merged(*systems: Sequence[Candidate]) -> tuple[Candidate, ...]:
    """Merges candidates of several systems, the most likely first; of equal utterances, the most likely is kept."""
    best: dict[str, Candidate] = {}
    for candidate in (candidate for system in systems for candidate in system):
        if candidate.utterance not in best or candidate.score > best[candidate.utterance].score:
            best[candidate.utterance] = candidate
    return tuple(sorted(best.values(), key=lambda candidate: (-candidate.score, candidate.utterance)))


CHUNK = 64  # dialogues


PREDICTIONS = "predictions"


class Reranker(msgspec.Struct, frozen=True):
    """The settings of the choice among candidates.

    Attributes:
      scorer: ``lexical`` or ``nli``.
      folder, batch_size: for ``nli``: its model, and pairs of texts at a time.
      others: outputs of ``parapet predict`` whose candidates are added.
    """

    scorer: str
    folder: str = ""
    batch_size: int = 32
    others: tuple[str, ...] = ()


class SourceFile(NamedTuple):
    """A file of a set, both by number."""

    set: int
    file: int


class Turns(NamedTuple):
    """Some system turns of a file; ``number`` is that of the chunk."""

    source: SourceFile
    number: int
    turns: tuple[TurnTemplate, ...]


class Generating(Protocol):
    """The interface of a generator: a T5, or a language model."""

    def generate(self, texts: Sequence[str]) -> list[Generated]:
        """Generates utterances for each text of acts."""
        ...


class Job(inference.Job[SourceFile, Turns, Generating], frozen=True, kw_only=True):
    """A prediction of utterances.

    Attributes:
      checkpoint: the T5 that the model's prefixes belong to.
      search: the settings of the search.
      sets: the sets whose system turns are predicted; ``split`` is their split.
      reranker: chooses among candidates; None for the most likely.
    """

    unit: ClassVar[str] = "turns"

    checkpoint: str | None = None
    search: Search
    sets: tuple[Source, ...]
    split: str
    reranker: Reranker | None = None

    def sources(self) -> Sequence[SourceFile]:
        """Lists the files of all sets."""
        return [SourceFile(i, file) for i, source in enumerate(self.sets) for file in range(len(source.files))]

    def chunks(self, file: SourceFile) -> Iterator[Turns]:
        """Yields chunks of the system turns of a file. Raises InputError if it cannot be read."""
        dialogues = list(turns_of(self.sets[file.set], file.file))
        # An empty file has a chunk, too, so that its set gets a file of predictions.
        for first in range(0, max(len(dialogues), 1), CHUNK):
            turns = tuple(turn for dialogue in dialogues[first : first + CHUNK] for turn in dialogue)
            yield Turns(file, first // CHUNK, turns)

    def asked(self, chunk: Turns) -> dict[str, int]:
        """Counts the system turns."""
        return {f"turns/{self.sets[chunk.source.set].name}": len(chunk.turns)}

    def load(self) -> Generating:
        """Loads the model."""
        from parapet.evaluation.models.generation.net import load

        return load(self.folder, self.model, self.checkpoint, device_of(self.device), self.search)

    def answer(self, model: Generating, chunk: Turns) -> Answers:
        """Encodes an utterance for each turn as JSON lines; with a reranker, the most faithful candidate."""
        source = self.sets[chunk.source.set]
        with enough_memory(self.batch_size):
            outputs = iter(model.generate([turn.text for turn in chunk.turns if turn.text]))
        generated = {turn.turn.place: next(outputs) if turn.text else None for turn in chunk.turns}
        turns = [turn.turn for turn in chunk.turns]
        candidates = {turn.place: self._candidates(turn, generated[turn.place], source) for turn in turns}
        first = {place: some[0].utterance for place, some in candidates.items()}
        best = first
        if self.reranker is not None:
            scorer = scorer_of(self.reranker.scorer, self.reranker.folder, self.reranker.batch_size)
            best = choose(turns, candidates, source.words, Cached(scorer))
        refused = {place for place, act in generated.items() if act is not None and act.refused}
        data = b"".join(
            self._line(turn, best[turn.place], candidates[turn.place], turn.place in refused) for turn in turns
        )
        with_acts = [turn_result for turn in turns if (turn_result := generated[turn.place]) is not None]
        counts = {
            "without_acts": len(turns) - len(with_acts),
            "cut_templates": sum(act.cut for act in with_acts),
            "without_template": sum(not turn.whole for turn in chunk.turns) if source.templates else 0,
            "without_end": sum(act.unfinished for act in with_acts),
            "reranked": sum(best[place] != first[place] for place in first),
        }
        named = {f"{kind}/{source.name}": n for kind, n in counts.items() if n}
        part = Part(relative_of(source.name, self.split), (*chunk.source, chunk.number), data)
        return Answers([part], {f"said/{source.name}": len(turns), **named})

    def _candidates(self, turn: SystemTurn, generated: Generated | None, source: Source) -> tuple[Candidate, ...]:
        """Returns the candidates of the model and of other systems; an empty utterance for a turn without acts."""
        if generated is None:
            return (Candidate("", 0.0),)
        others = self.reranker.others if self.reranker is not None else ()
        paths = (files.join(folder, relative_of(source.name, self.split)) for folder in others)
        return merged(generated.candidates, *(_others(path, turn) for path in paths))

    def _line(self, turn: SystemTurn, utterance: str, candidates: Sequence[Candidate], refused: bool) -> bytes:
        row: dict[str, Any] = {"dialogue_id": turn.dialogue_id, "turn": turn.turn, "utterance": utterance}
        row |= {"refused": True} if refused else {}
        if self.search.candidates:
            row["candidates"] = list(candidates)
        return msgspec.json.encode(row) + b"\n"


def _others(path: str, turn: SystemTurn) -> tuple[Candidate, ...]:
    candidates = read_candidates(path).get(turn.place)
    if candidates is None:
        raise InputError(f"there is no prediction for dialogue {turn.dialogue_id!r} turn {turn.turn}", path, "--also")
    return candidates


def relative_of(name: str, split: str) -> str:
    """Returns the file of a set's predictions, below the output folder."""
    return f"{PREDICTIONS}/{name}/{split}/utterances.jsonl"
