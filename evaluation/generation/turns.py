"""The system turns of a corpus: what they are to say, and what was said."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import msgspec
from msgspec import UNSET

from parapet.evaluation.generation.references import Act, pool_key
from parapet.evaluation.generation.words import Kind, kind_of
from parapet.schemas.dialogue import Action, Dialogue, Frame, is_marker
from parapet.schemas.errors import InputError
from parapet.schemas.service import Service

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
