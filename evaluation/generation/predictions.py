"""Predicted utterances of system turns: JSON lines, a folder in the SGD format, or the corpus's own."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from parapet.evaluation.generation.corpus import Place, SystemTurn
from parapet.evaluation.lines import read_lines
from parapet.schemas.dialogue import read_dialogues
from parapet.schemas.errors import InputError
from parapet.schemas.layout import as_path, dialogue_files, is_there

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
    """

    dialogue_id: str
    turn: int
    utterance: str
    candidates: tuple[Candidate, ...] | None = None


def read_predictions(path: str, split: str, turns: Sequence[SystemTurn]) -> dict[Place, Prediction]:
    """A prediction for each of the turns, neither more nor less.

    Args:
      path: of JSON lines, of a folder with dialogues as ``SPLIT/dialogues_001.json`` or without the split, or
        ``reference``.
      split: the folder of dialogues.
      turns: those to be predicted.

    Raises:
      InputError: a file cannot be read, a turn has no prediction, or two, or is not the system's.
    """
    if path == REFERENCE:
        return {turn.place: Prediction(turn.dialogue_id, turn.turn, turn.utterance) for turn in turns}
    place = as_path(path)
    if not is_there(place):
        raise InputError("there is no such file or folder", path, "--predictions")
    predictions: dict[Place, Prediction] = {}
    known = {turn.place for turn in turns}
    rows = _of_folder(place, split) if place.is_dir() else _lines(path)
    for file, where, prediction in rows:
        key = prediction.dialogue_id, prediction.turn
        if key not in known:
            raise InputError(_unknown(prediction, known, split), file, where)
        if key in predictions:
            raise InputError(f"dialogue {prediction.dialogue_id!r} turn {prediction.turn} appears twice", file, where)
        predictions[key] = prediction
    missing = [turn for turn in turns if turn.place not in predictions]
    if missing:
        first = f"dialogue {missing[0].dialogue_id!r} turn {missing[0].turn}"
        more = f"; {len(missing):,} are missing in all" if len(missing) > 1 else ""
        raise InputError(f"there is no prediction for {first}{more}", path, "--predictions")
    return predictions


def _unknown(prediction: Prediction, known: set[Place], split: str) -> str:
    turns = sorted(turn for dialogue_id, turn in known if dialogue_id == prediction.dialogue_id)
    if not turns:
        return f"{split or 'the reference'} has no dialogue {prediction.dialogue_id!r}"
    listed = ", ".join(str(turn) for turn in turns[:6]) + (", ..." if turns[6:] else "")
    place = f"turn {prediction.turn} of {prediction.dialogue_id!r}"
    return f"{place} is not a turn of the system, which has {listed} (user turns count)"


def _lines(path: str) -> Iterator[tuple[str, str, Prediction]]:
    for number, one in read_lines(path, Prediction):
        where = f"line {number}"
        if one.candidates is not None:
            if not one.candidates:
                raise InputError("the list of candidates is empty: leave it out, or give some", path, where)
            if not all(math.isfinite(candidate.score) for candidate in one.candidates):
                raise InputError("a candidate's score is not a finite number", path, where)
        yield path, where, one


def _of_folder(folder: Path, split: str) -> Iterator[tuple[str, str, Prediction]]:
    files = dialogue_files(folder, split) if split else []
    files = files or dialogue_files(folder, "")
    if not files:
        expected = f"{split}/dialogues_001.json" if split else "dialogues_001.json"
        raise InputError(f"no dialogues here: expected {expected} and so on", folder, "--predictions")
    for path in files:
        for i, dialogue in enumerate(read_dialogues(path)):
            for position, turn in enumerate(dialogue.turns):
                if turn.speaker == "SYSTEM":
                    where = f"[{i}].turns[{position}]"
                    yield str(path), where, Prediction(dialogue.dialogue_id, position, turn.utterance)
