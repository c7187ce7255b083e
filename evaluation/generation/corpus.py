"""What generation is scored against: system turns with acts, schema words, other values of acts; and predictions."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec
from msgspec import UNSET

from parapet.evaluation import sets
from parapet.evaluation.generation.references import Act, Kind, ServiceWords, kind_of, pool_key, varied_words, words_of
from parapet.evaluation.lines import read_lines
from parapet.evaluation.sets import ORIGINAL
from parapet.schemas.dialogue import Action, Dialogue, Frame, is_marker, read_dialogues
from parapet.schemas.errors import InputError
from parapet.schemas.layout import SINGLE, as_path, is_there, read_root
from parapet.schemas.service import Service
from parapet.transforms.seeding import stable_hash

_ANY = "dontcare"  # said of a value that does not matter

Place = tuple[str, int]  # dialogue id, position of the turn from 0


class SystemTurn(msgspec.Struct, frozen=True):
    """A system turn.

    Attributes:
      turn: its position in the dialogue, from 0.
      previous: the utterance before it, or nothing.
      acts: in the order of frames and actions.
    """

    dialogue_id: str
    turn: int
    utterance: str
    previous: str
    acts: tuple[Act, ...]

    @property
    def place(self) -> Place:
        """By which predictions are found."""
        return self.dialogue_id, self.turn


class Kinds(msgspec.Struct, frozen=True):
    """Of each service, the kind of each slot."""

    of: dict[str, dict[str, Kind]]

    def kind(self, service: str, act: str, slot: str) -> Kind:
        """That of an action's slot; one that the schema lacks is a marker as well."""
        if not slot:
            return "none"
        return "marker" if is_marker(act, slot) else self.of.get(service, {}).get(slot, "marker")


def kinds_of(services: Iterable[Service]) -> Kinds:
    """The kinds of all slots."""
    return Kinds({one.service_name: {slot.name: kind_of(slot) for slot in one.slots} for one in services})


def system_turns(dialogue: Dialogue, kinds: Kinds) -> Iterator[SystemTurn]:
    """The system turns of a dialogue, in order. Raises InputError for a service that the schemas lack."""
    previous = ""
    for position, turn in enumerate(dialogue.turns):
        if turn.speaker == "SYSTEM":
            acts: list[Act] = []
            for i, frame in enumerate(turn.frames):
                _check_service(frame, kinds, f"{dialogue.dialogue_id} turns[{position}].frames[{i}]")
                acts += (_act(frame, action, kinds) for action in _actions(frame))
            yield SystemTurn(dialogue.dialogue_id, position, turn.utterance, previous, tuple(acts))
        previous = turn.utterance


def _check_service(frame: Frame, kinds: Kinds, where: str) -> None:
    if frame.service not in kinds.of:
        raise InputError(f"the schema of the split has no service {frame.service!r}", "", where)


def _actions(frame: Frame) -> list[Action]:
    return [] if frame.actions is UNSET else frame.actions


def _act(frame: Frame, action: Action, kinds: Kinds) -> Act:
    canonical = action.values if action.canonical_values is UNSET else action.canonical_values
    intent = "" if frame.service_call is UNSET else frame.service_call.method
    kind = kinds.kind(frame.service, action.act, action.slot)
    return Act(frame.service, action.act, action.slot, tuple(action.values), tuple(canonical), kind, intent)


class Pools(msgspec.Struct, frozen=True):
    """Of each slot (:func:`pool_key`) the values said for it, each with its canonical form: sorted, different."""

    of: dict[tuple[str, str], tuple[tuple[str, str], ...]]


def pools_of(dialogues: Iterable[Dialogue], services: Mapping[str, Service], kinds: Kinds) -> Pools:
    """The values that users and system say, and those of the schema for categorical slots and intents."""
    found: dict[tuple[str, str], set[tuple[str, str]]] = {}
    for service in services.values():
        for slot in service.slots:
            if kinds.of[service.service_name][slot.name] == "categorical":
                found[service.service_name, slot.name] = {(value, value) for value in slot.possible_values}
        found[pool_key(service.service_name, "intent", "marker")] = {
            (intent.name, intent.name) for intent in service.intents
        }
    for dialogue in dialogues:
        for turn in dialogue.turns:
            for frame in turn.frames:
                for action in _actions(frame):
                    kind = kinds.kind(frame.service, action.act, action.slot)
                    if action.values and kind != "categorical":
                        given = action.values if action.canonical_values is UNSET else action.canonical_values
                        pairs = (
                            (value, form) for value, form in zip(action.values, given, strict=False) if form != _ANY
                        )
                        found.setdefault(pool_key(frame.service, action.slot, kind), set()).update(pairs)
    return Pools({key: tuple(sorted(pairs)) for key, pairs in found.items()})


_NO_WORD = re.compile(r"[\W_]+")


def tampered(act: Act, pools: Pools, *drawn_by: str) -> Act | None:
    """The act with each value replaced by another of the slot's.

    A boolean says the opposite. Others are drawn by hash from the values of the slot in the corpus, for categorical
    slots from those of the schema. Two ways to say one value are one value.

    Args:
      act: the act.
      pools: the values of all slots.
      drawn_by: what the draw depends on: seed, dialogue, turn, position.

    Returns:
      None where there is nothing to replace, or nothing to replace it by.
    """
    if not act.states:
        return None
    if act.is_boolean:
        other = ("False" if act.is_true else "True",)
        return msgspec.structs.replace(act, values=other, canonical=other)
    taken = {_plain(one) for one in (*act.values, *act.canonical)}
    chosen: list[tuple[str, str]] = []
    for i in range(len(act.values)):
        one = _draw(pools.of.get(act.pool, ()), taken, stable_hash(*drawn_by, act.slot, str(i)))
        if one is None:
            return None
        chosen.append(one)
        taken |= {_plain(form) for form in one}
    values, canonical = zip(*chosen, strict=True)
    return msgspec.structs.replace(act, values=values, canonical=canonical)


def _draw(pool: Sequence[tuple[str, str]], taken: set[str], number: int) -> tuple[str, str] | None:
    """The first free value from a place on that the number gives."""
    for i in range(len(pool)):
        value, canonical = pool[(number + i) % len(pool)]
        if _plain(value) and _plain(value) not in taken and _plain(canonical) not in taken:
            return value, canonical
    return None


def _plain(value: str) -> str:
    return _NO_WORD.sub(" ", value.casefold()).strip()


class Corpus(msgspec.Struct, frozen=True):
    """What utterances are scored against.

    Attributes:
      name: of the split.
      turns: the system turns, by dialogue id and position.
      words: of each service, for the original and each variant.
      pools: the values of each slot.
      seen: the services of the training schema; None where there is none.
    """

    name: str
    turns: tuple[SystemTurn, ...]
    words: dict[str, dict[str, ServiceWords]]
    pools: Pools
    seen: frozenset[str] | None


def read(root: str | Path, split: str, variants: Mapping[str, Path] = {}) -> Corpus:
    """Reads a split.

    Args:
      root: the corpus.
      split: whose dialogues; a corpus without splits is read whole.
      variants: folders of schema variants, by name.

    Raises:
      InputError: a file or dialogue that cannot be read, an id that appears twice, a service without a schema, no
        act of the system in the whole split, a variant that does not match.
    """
    dialogues = list(sets.read_dialogues(root, split))
    schemas = {one.split: one for one in read_root(root, leave_out_bad=True)}
    services = (schemas[SINGLE] if SINGLE in schemas else schemas[split]).services
    by_name = {service.service_name: service for service in services}
    kinds = kinds_of(services)
    turns: list[SystemTurn] = []
    for path, dialogue in dialogues:
        try:
            turns += system_turns(dialogue, kinds)
        except InputError as error:
            raise InputError(error.reason, path, error.where) from None
    if not any(turn.acts for turn in turns):
        raise InputError("no system turn has an action: there is nothing that utterances should say", root, split)
    used = {act.service for turn in turns for act in turn.acts}
    words = {ORIGINAL: {name: words_of(service) for name, service in by_name.items()}}
    for name, place in variants.items():
        words[name] = varied_words((by_name[one] for one in sorted(used)), read_root(place, leave_out_bad=True), name)
    train = schemas.get("train")
    seen = frozenset(service.service_name for service in train.services) if train is not None else None
    ordered = sorted(turns, key=lambda turn: turn.place)
    return Corpus(split, tuple(ordered), words, pools_of((dialogue for _, dialogue in dialogues), by_name, kinds), seen)


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
