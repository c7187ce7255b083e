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
    found: dict[str, dict[Place, Prediction]] = {name: {} for name in turns}
    known = {name: {turn.place for turn in of} for name, of in turns.items()}
    read = _read if as_path(predictions).is_dir() else _lines
    for placed in sets.read_predictions(predictions, split, list(turns), read, (".json", ".jsonl")):
        row = placed.row
        key = row.dialogue_id, row.turn
        if key not in known[placed.set]:
            raise placed.error(_unknown(row, known[placed.set], split))
        if key in found[placed.set]:
            raise placed.error(f"dialogue {row.dialogue_id!r} turn {row.turn} appears twice")
        found[placed.set][key] = row
    for name, of in turns.items():
        missing = [turn for turn in of if turn.place not in found[name]]
        if missing:
            reason = f"there is no prediction for dialogue {missing[0].dialogue_id!r} turn {missing[0].turn}"
            reason += f" of {name}" if len(turns) > 1 else ""
            more = f"; {len(missing):,} are missing in all" if len(missing) > 1 else ""
            raise InputError(reason + more, predictions, "--predictions")
    return found


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


def _unknown(prediction: Prediction, known: set[Place], split: str) -> str:
    turns = sorted(turn for dialogue_id, turn in known if dialogue_id == prediction.dialogue_id)
    if not turns:
        return f"{split or 'the reference'} has no dialogue {prediction.dialogue_id!r}"
    listed = ", ".join(str(turn) for turn in turns[:6]) + (", ..." if turns[6:] else "")
    place = f"turn {prediction.turn} of {prediction.dialogue_id!r}"
    return f"{place} is not a turn of the system, which has {listed} (user turns count)"


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
