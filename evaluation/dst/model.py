"""A model of the user's: ``predict(batch)``, or a function, gives a state for every example."""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

import msgspec

from parapet.evaluation import user_code
from parapet.evaluation.dst.files import Dialogue, Frame, Turn
from parapet.evaluation.dst.frames import State
from parapet.evaluation.user_code import UserCode, make, running
from parapet.schemas.dialogue import Action
from parapet.schemas.errors import InputError
from parapet.schemas.service import Service
from parapet.transforms import plugins
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
