"""Predicted utterances of system turns: JSON lines, a folder in the SGD format, or the corpus's own."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from parapet.evaluation import sets
from parapet.evaluation.generation.corpus import Place, SystemTurn
from parapet.evaluation.lines import read_lines
from parapet.schemas.dialogue import read_dialogues
from parapet.schemas.errors import InputError
from parapet.schemas.layout import as_path, is_there

REFERENCE = "reference"  # in place of a file: the corpus's own system turns


class Candidate(msgspec.Struct, frozen=True):
    """One of several utterances, and its likelihood or the like: more is better."""

    utterance: str
    score: float


class Prediction(msgspec.Struct, frozen=True):
    """What a system says in a turn.

    Attributes:
      turn: its position in the dialogue, from 0; user turns count.
      utterance: the system's choice.
      candidates: of an ensemble, to be ranked by how faithful they are; may be left out.
      set: the name of its set, where one file has the predictions for several.
    """

    dialogue_id: str
    turn: int
    utterance: str
    candidates: tuple[Candidate, ...] | None = None
    set: str = ""


def read_predictions(
    predictions: str, split: str, turns: Mapping[str, Sequence[SystemTurn]]
) -> dict[str, dict[Place, Prediction]]:
    """Of each set a prediction for each of its turns, neither more nor less.

    Args:
      predictions: JSON lines, a folder with those of each set, or with dialogues in the SGD format; or ``reference``.
      split: whose dialogues.
      turns: by set, those to be predicted.

    Raises:
      InputError: a file cannot be read, a turn has no prediction, or two, or is not the system's.
    """
    if predictions == REFERENCE:
        return {
            name: {turn.place: Prediction(turn.dialogue_id, turn.turn, turn.utterance) for turn in of}
            for name, of in turns.items()
        }
    if not is_there(predictions):
        raise InputError("there is no such file or folder", predictions, "--predictions")
    utterances: dict[str, dict[str, dict[int, str]]] = {name: {} for name in turns}
    for name, of in turns.items():
        for turn in of:
            utterances[name].setdefault(turn.dialogue_id, {})[turn.turn] = turn.utterance
    read = _read if as_path(predictions).is_dir() else _lines
    rows = sets.read_predictions(predictions, split, list(turns), read, (".json", ".jsonl"))
    return sets.match_turns(rows, utterances, predictions)


def predicted_variants(predictions: str, split: str, variants: Sequence[str]) -> list[str]:
    """The variants that something was predicted for: all of them, or none.

    A file and ``reference`` are the original's; of a file whose rows have sets, those that are named.

    Raises:
      InputError: some variants have predictions, and others none.
    """
    if predictions == REFERENCE or not is_there(predictions):
        return []
    if as_path(predictions).is_dir():
        places = [as_path(predictions) / name for name in variants]
        if any(is_there(place) or is_there(place.with_name(f"{place.name}.jsonl")) for place in places):
            for name in variants:
                sets.prediction_files(predictions, split, name)
            return list(variants)
        return []
    named = {row.set for _, row in _lines(predictions)}
    return [name for name in variants if name in named]


def _read(path: str) -> Iterator[tuple[str, Prediction]]:
    """The rows of a file in a folder: JSON lines, or dialogues, whose system turns are the predictions."""
    if path.endswith(".jsonl"):
        yield from _lines(path)
        return
    for i, dialogue in enumerate(read_dialogues(path)):
        for position, turn in enumerate(dialogue.turns):
            if turn.speaker == "SYSTEM":
                yield f"[{i}].turns[{position}]", Prediction(dialogue.dialogue_id, position, turn.utterance)


def _lines(path: str) -> Iterator[tuple[str, Prediction]]:
    for number, one in read_lines(path, Prediction):
        where = f"line {number}"
        if one.candidates is not None:
            if not one.candidates:
                raise InputError("the list of candidates is empty: leave it out, or give some", path, where)
            if not all(math.isfinite(candidate.score) for candidate in one.candidates):
                raise InputError("a candidate's score is not a finite number", path, where)
        yield where, one
