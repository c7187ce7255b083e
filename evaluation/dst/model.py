"""A model of the user's: ``predict(batch)``, or a function, gives a state for every example.

Scores in one process what ``parapet evaluate --task dst`` scores on workers: a set, its references and predictions.

References and predictions are files, as the command takes them, or in memory.
"""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import msgspec

from parapet.evaluation import user_code
from parapet.evaluation.dst.frames import (
    Dialogue,
    Frame,
    PassedOver,
    Predicted,
    ScoreConfig,
    Scored,
    State,
    Turn,
    as_dialogues,
    check_known,
    dialogues_in_memory,
    parse_dialogues,
    predictions_in_memory,
    read_predictions,
    score_dialogues,
)
from parapet.evaluation.dst.sets import Set, originals_of, seen_variants
from parapet.evaluation.sets import ORIGINAL, prediction_files
from parapet.evaluation.user_code import UserCode, make, running
from parapet.schemas.dialogue import Action, check_ids
from parapet.schemas.errors import InputError
from parapet.schemas.layout import TEST, SplitSchemas, as_path, is_there, parse_services
from parapet.schemas.service import Service
from parapet.transforms import plugins
from parapet.transforms.corpora import Corpus, inline, read_file
from parapet.transforms.progress import advance


class Context(msgspec.Struct, frozen=True):
    """A frame without what is to be predicted.

    Attributes:
      service: the schema of the frame's service.
      actions: those of the system; empty in a user turn.
    """

    service: Service
    actions: tuple[Action, ...] = ()


class Example(msgspec.Struct, frozen=True):
    """What a model is asked: the state of a service after a user turn.

    Attributes:
      turn: the position of the user turn, from 0.
      service: the schema of the service.
      history: (speaker, utterance) of all turns so far, the user turn last.
      frames: the frames of each of these turns: the services that it is about, and what the system does.
    """

    dialogue_id: str
    turn: int
    service: Service
    history: tuple[tuple[str, str], ...]
    frames: tuple[tuple[Context, ...], ...] = ()


class Model(Protocol):
    """What ``--model`` names."""

    def predict(self, batch: Sequence[Example]) -> Sequence[Any]:
        """A state for each example: ``{"active_intent", "requested_slots", "slot_values"}``, or such a struct."""
        ...


class UserModel:
    """A model of the user's, or of a plug-in: what it raises is shown as an error of its own.

    Args:
      code: where it is from.
      called: what is called with a batch.
    """

    def __init__(self, code: UserCode, called: Callable[[Sequence[Example]], Any]) -> None:
        self.code, self.called = code, called

    def predict(self, batch: Sequence[Example]) -> Sequence[Any]:
        """The states, in order.

        Raises:
          UserCodeError: the code raised.
          InputError: it returned something else than a list of as many.
        """
        where = _where(batch)
        with running(self.code, f"failed in predict on {where}"):
            states = self.called(batch)
            if isinstance(states, Iterable) and not isinstance(states, str | bytes | Mapping):
                states = list(states)
        if not isinstance(states, list) or len(states) != len(batch):
            got = f"a list of {len(states)}" if isinstance(states, list) else reprlib.repr(states)
            expected = f"expected a list of {len(batch)} states, one for each example; got {got}"
            raise self.code.refused(f"returned something else than states for {where}: {expected}")
        return states


def _where(batch: Sequence[Example]) -> str:
    first, last = batch[0], batch[-1]
    if len(batch) == 1:
        return f"dialogue {first.dialogue_id!r}, turn {first.turn}, service {first.service.service_name!r}"
    until = f"turn {last.turn}" if first.dialogue_id == last.dialogue_id else f"{last.dialogue_id!r} turn {last.turn}"
    until += " ('--batch_size 1' finds the one)"
    return f"the batch of {len(batch)} examples from dialogue {first.dialogue_id!r} turn {first.turn} to {until}"


def load(code: UserCode) -> Model:
    """The model of ``MODULE:NAME`` or ``FILE.py:NAME``, or that of a plug-in, ready to predict.

    Raises:
      InputError: as :func:`check`.
      UserCodeError: its code raises.
    """
    if chosen := plugin_of(code.target):
        return UserModel(UserCode(chosen.plugin.target), plugins.make(chosen, ["predict"]).predict)
    return UserModel(code, make(code, "predict"))


def check(code: UserCode) -> None:
    """Looks at what ``--model`` names, without making it unless it is a plug-in's.

    Raises:
      InputError: there is no such module, name or plug-in, it has no ``predict``, or takes other arguments.
      UserCodeError: its module raises while it is imported.
    """
    if chosen := plugin_of(code.target):
        if code.arguments:
            raise InputError(f"not for a plug-in, which takes {chosen.plugin.name}=ARGUMENT", f"{code.flag}_args")
        plugins.make(chosen, ["predict"])
    elif ":" not in code.target:
        reason = f"{code.target!r}: expected MODULE:NAME, FILE.py:NAME or the name of a plug-in"
        raise InputError(f"{reason}; {plugins.told(plugins.MODELS)}", code.flag)
    else:
        user_code.check(code, "predict")


def plugin_of(named: str) -> plugins.Chosen | None:
    """The plug-in that ``--model`` names, if it does."""
    return plugins.find(plugins.MODELS, named, "--model")


def examples(dialogue: Dialogue, services: Mapping[str, Service]) -> Iterator[Example]:
    """An example for every frame of every user turn, in order.

    Raises:
      InputError: a user turn has a frame of a service that is not in the schemas.
    """
    history: list[tuple[str, str]] = []
    frames: list[tuple[Context, ...]] = []
    for position, turn in enumerate(dialogue.turns):
        history.append((turn.speaker, turn.utterance if isinstance(turn.utterance, str) else ""))
        frames.append(
            tuple(
                Context(services[frame.service], tuple(frame.actions or ()) if turn.speaker == "SYSTEM" else ())
                for frame in turn.frames
                if frame.service in services
            )
        )
        if turn.speaker == "USER":
            for frame in turn.frames:
                service = services.get(frame.service)
                if service is None:
                    where = f"{dialogue.dialogue_id} turns[{position}] {frame.service}"
                    raise InputError("the schemas of the reference do not have this service", "", where)
                yield Example(dialogue.dialogue_id, position, service, tuple(history), tuple(frames))


def predicted(
    model: Model, references: Sequence[Dialogue], services: Mapping[str, Service], batch_size: int, named: str
) -> dict[str, Dialogue]:
    """What a model predicts for the dialogues of a file.

    Raises:
      InputError: it gives another number of states than asked, or something that is no state; or a dialogue has a
        frame of a service that is not in the schemas.
    """
    asked = [one for reference in references for one in examples(reference, services)]
    last = {one.dialogue_id: i for i, one in enumerate(asked)}  # the position of each dialogue's last example
    states: list[State] = []
    for at in range(0, len(asked), batch_size):
        batch = asked[at : at + batch_size]
        states += [_state(*pair, named) for pair in zip(model.predict(batch), batch, strict=True)]
        advance(sum(last[one.dialogue_id] == i for i, one in enumerate(batch, at)), "dialogues")
    found = {
        of.dialogue_id: Dialogue(of.dialogue_id, [Turn(turn.speaker, []) for turn in of.turns]) for of in references
    }
    for one, state in zip(asked, states, strict=True):
        found[one.dialogue_id].turns[one.turn].frames.append(Frame(one.service.service_name, state))
    return found


def _state(given: Any, of: Example, named: str) -> State:
    try:
        return msgspec.convert(given, State, from_attributes=True)
    except msgspec.ValidationError as error:
        expected = '{"active_intent": TEXT, "requested_slots": [SLOT, ...], "slot_values": {SLOT: [VALUE, ...], ...}}'
        reason = f"{named}: predict returned something that is not a state: {error}. Expected {expected}"
        where = f"dialogue {of.dialogue_id!r}, turn {of.turn}, service {of.service.service_name!r}"
        raise InputError(f"{reason}; got {reprlib.repr(given)}", "--model", where) from None


BATCH = 64  # examples that a tracker gets at a time


class References(msgspec.Struct):
    """A set with its dialogues.

    Attributes:
      of: its services.
      split: whose dialogues; nothing where they are in memory.
      dialogues: all of them.
      originals: its names of services to the original's, where they differ.
    """

    of: Set
    split: str
    dialogues: list[Dialogue]
    originals: dict[str, str] = {}


def of_corpus(corpus: Corpus, split: str | None, name: str) -> References:
    """The references of a corpus.

    Args:
      corpus: the corpus.
      split: whose dialogues; None: ``test``, or the only one that has any.
      name: of the set.

    Raises:
      InputError: there is no such split, or something in it cannot be read.
    """
    if split is None:
        splits = list(dict.fromkeys(one for one in corpus.splits if corpus.files_of(one)))
        split = TEST if TEST in splits or not splits else splits[0]
        if split not in splits or (split != TEST and len(splits) > 1):
            raise InputError(f"of which split? there are dialogues of {', '.join(splits) or 'none'}", "split")
    dialogues: list[Dialogue] = []
    for file in (inline(corpus, file) for file in corpus.files_of(split)):
        dialogues += parse_dialogues(read_file(file), file.path or file.relative)
    seen = frozenset(_names(corpus, "train")) if "train" in corpus.splits else frozenset()
    services = {service.service_name: service for of in _schemas(corpus, split) for service in of.services}
    original = getattr(corpus, "original", None)
    originals = {}
    if isinstance(original, Corpus):
        originals = originals_of(name, services, _names(original, split))
        seen = seen_variants(originals, _names(original, "train"))
    return References(Set(name, "other", services, seen), split, dialogues, originals)


def _schemas(corpus: Corpus, split: str) -> list[SplitSchemas]:
    return [of for of, name in zip(corpus.folders.values(), corpus.splits, strict=True) if name == split]


def _names(corpus: Corpus, split: str) -> list[str]:
    return [service.service_name for of in _schemas(corpus, split) for service in of.services]


def of_dialogues(dialogues: Iterable[Any], schemas: Iterable[Any], name: str) -> References:
    """The references of dialogues and services that are dicts in SGD's form. Raises InputError where they are not."""
    parsed = parse_services(list(schemas), "schemas", "schemas")
    if parsed.bad:
        raise parsed.bad[0].error
    of = Set(name, "other", {service.service_name: service for service in parsed.services}, frozenset())
    return References(of, "", dialogues_in_memory(dialogues, "references"))


def score(references: References, predictions: Any, config: ScoreConfig) -> tuple[list[list[Scored]], PassedOver]:
    """Scores the frames of each dialogue.

    Args:
      references: of the set.
      predictions: the place of files, dialogues or lines in memory, a corpus, or a tracker.
      config: how frames are scored.

    Returns:
      The frames of each dialogue; and what ``config.official`` has passed over.

    Raises:
      InputError: as ``score_dialogues`` has it; or a dialogue is predicted that the references lack.
    """
    passed_over = PassedOver()
    check_ids((dialogue.dialogue_id for dialogue in references.dialogues), "references")
    by_id, path = _predictions(references, predictions)
    if not config.official:
        check_known(references.dialogues, by_id, path)
    slots = references.of.slots()
    return list(score_dialogues(references.dialogues, by_id, slots, config, path, passed_over)), passed_over


def _predictions(references: References, predictions: Any) -> tuple[dict[str, Dialogue], str]:
    """What was predicted, by dialogue id, and its place for messages."""
    if callable(predictions) or callable(getattr(predictions, "predict", None)):
        tracker = _Tracker(predictions)
        services = references.of.services
        return predicted(tracker, references.dialogues, services, BATCH, tracker.name), tracker.name
    if isinstance(predictions, Corpus):
        predictions = predictions.dialogues(references.split or None)
    place = "predictions"
    if isinstance(predictions, str | Path):
        place, name = str(predictions), references.of.name
        files = prediction_files(place, references.split, name if is_there(as_path(place) / name) else ORIGINAL)
        place = place if len(files) > 1 else next(iter(files.values()))
        rows: list[Predicted] = [row for path in files.values() for row in read_predictions(path)]
    else:
        rows = predictions_in_memory(predictions, place)
    return as_dialogues(references.dialogues, rows, place), place


class _Tracker:
    """A tracker, or a function, that must give as many states as it is asked for. Its own errors are its own."""

    def __init__(self, tracker: Any) -> None:
        self.name = getattr(tracker, "__name__", type(tracker).__name__)
        if isinstance(tracker, type):
            raise InputError(f"{self.name} is a class: give an object of it, {self.name}()", "predictions")
        self.called = getattr(tracker, "predict", tracker)

    def predict(self, batch: Sequence[Example]) -> Sequence[Any]:
        """The states, in order. Raises InputError where they are others than a list of as many."""
        states = self.called(batch)
        if not isinstance(states, Iterable) or isinstance(states, str | bytes | Mapping):
            raise InputError(f"{self.name} gave {type(states).__name__}: expected a list of states", "predictions")
        states = list(states)
        if len(states) != len(batch):
            raise InputError(f"{self.name} gave {len(states)} states for {len(batch)} examples", "predictions")
        return states
