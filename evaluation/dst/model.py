"""A model of the user's: a Python class whose ``predict(batch)`` gives a state for every example."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import msgspec

from parapet.evaluation.dst.files import Dialogue, Frame, Turn
from parapet.evaluation.dst.frames import State
from parapet.schemas.errors import InputError
from parapet.schemas.service import Service
from parapet.transforms import plugins


class Example(msgspec.Struct, frozen=True):
    """What a model is asked: the state of a service after a user turn.

    Attributes:
      turn: the position of the user turn, from 0.
      service: the schema of the service.
      history: (speaker, utterance) of all turns so far, the user turn last.
    """

    dialogue_id: str
    turn: int
    service: Service
    history: tuple[tuple[str, str], ...]


class Model(Protocol):
    """What ``--model`` names."""

    def predict(self, batch: Sequence[Example]) -> Sequence[Any]:
        """A state for each example: ``{"active_intent", "requested_slots", "slot_values"}``, or such a struct."""
        ...


def load(named: str) -> Model:
    """The model of ``package.module:Class`` or ``file.py:Class``, made without arguments; or that of a plug-in.

    Raises:
      InputError: there is no such module, class or plug-in, or it has no ``predict``.
    """
    if chosen := plugin_of(named):
        return plugins.make(chosen, ["predict"])  # type: ignore[no-any-return]
    place, colon, name = named.rpartition(":")
    if not colon or not place or not name:
        reason = f"{named!r}: expected MODULE:CLASS, FILE.py:CLASS or the name of a plug-in"
        raise InputError(f"{reason}; {plugins.told(plugins.MODELS)}", "--model")
    try:
        module = _of_file(Path(place)) if place.endswith(".py") else importlib.import_module(place)
        made = getattr(module, name)()
    except (ImportError, AttributeError, FileNotFoundError, SyntaxError, TypeError) as error:
        raise InputError(f"{named} cannot be loaded: {error}", "--model") from None
    if not callable(getattr(made, "predict", None)):
        raise InputError(f"{named} has no method predict(batch)", "--model")
    return made  # type: ignore[no-any-return]


def plugin_of(named: str) -> plugins.Chosen | None:
    """The plug-in that ``--model`` names, if it does."""
    return plugins.find(plugins.MODELS, named, "--model")


def _of_file(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is no Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


def examples(dialogue: Dialogue, services: Mapping[str, Service]) -> Iterator[Example]:
    """An example for every frame of every user turn, in order."""
    history: list[tuple[str, str]] = []
    for position, turn in enumerate(dialogue.turns):
        history.append((turn.speaker, turn.utterance if isinstance(turn.utterance, str) else ""))
        if turn.speaker == "USER":
            for frame in turn.frames:
                yield Example(dialogue.dialogue_id, position, services[frame.service], tuple(history))


def predicted(
    model: Model, references: Sequence[Dialogue], services: Mapping[str, Service], batch_size: int, named: str
) -> dict[str, Dialogue]:
    """What a model predicts for the dialogues of a file.

    Raises:
      InputError: it gives another number of states than asked, or something that is no state.
    """
    asked = [one for reference in references for one in examples(reference, services)]
    states: list[State] = []
    for at in range(0, len(asked), batch_size):
        batch = asked[at : at + batch_size]
        given = model.predict(batch)
        if len(given) != len(batch):
            raise InputError(f"{named}: predict gave {len(given)} states for {len(batch)} examples", "--model")
        states += [_state(one, asked_for, named) for one, asked_for in zip(given, batch, strict=True)]
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
        where = f"{of.dialogue_id} turn {of.turn} {of.service.service_name}"
        raise InputError(f"{named}: predict gave what is no state: {error}", "--model", where) from None
