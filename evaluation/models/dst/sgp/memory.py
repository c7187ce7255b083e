"""What a dialogue has said of slots so far, and which questions that leaves: in training and in prediction alike."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec

from parapet.evaluation.dst.frames import State
from parapet.evaluation.dst.model import Context, Example
from parapet.evaluation.models.dst.sgp.rules import (
    DONTCARE,
    GIVEN,
    HAD_VALUE,
    REQUESTED,
    START,
    SUCCEEDED,
    needed,
    role_of,
)
from parapet.schemas.service import Service, Slot

Exchange = tuple[str, str]  # the system's last utterance, empty for none, and the user's


class Turn(NamedTuple):
    """A user turn: its position in the dialogue, from 0, and the services that it is about."""

    position: int
    exchange: Exchange
    services: tuple[Service, ...]


class Given(NamedTuple):
    """A value that the system gave a slot, and in which act."""

    value: str
    act: str


class Source(msgspec.Struct, frozen=True):
    """A slot of another service, with its equal values."""

    service: str
    slot: Slot
    values: list[str]


class Memory:
    """What a dialogue has said so far.

    Attributes:
      states: by service.
      system: what the system has just said.
    """

    def __init__(self) -> None:
        self.states: dict[str, State] = {}
        self.system = ""
        self._services: dict[str, Service] = {}
        self._given: dict[str, dict[str, Given]] = {}
        self._requested: dict[str, set[str]] = {}
        self._values: dict[str, dict[str, list[str]]] = {}  # by service and slot, whoever said them
        self._succeeded: set[str] = set()
        self._last: frozenset[str] = frozenset()  # services of the last user turn

    def hear(self, utterance: str, frames: Iterable[Context]) -> None:
        """Adds a turn of the system."""
        self.system = utterance
        for frame in frames:
            name = frame.service.service_name
            self._services[name] = frame.service
            self._requested[name] = set()
            given, values = self._given.setdefault(name, {}), self._values.setdefault(name, {})
            for one in frame.actions:
                if one.act in ("OFFER", "INFORM", "CONFIRM") and one.values:
                    given[one.slot] = Given(one.values[0], one.act)
                    values[one.slot] = list(one.values)
                elif one.act == "REQUEST" and len(one.values) == 1:
                    given[one.slot] = Given(one.values[0], one.act)
                elif one.act == "REQUEST":
                    self._requested[name].add(one.slot)
                elif one.act == "NOTIFY_SUCCESS":
                    self._succeeded.add(name)

    def conclude(self, states: Mapping[str, State], services: Sequence[Service]) -> None:
        """Adds the states after a user turn, by service."""
        for service in services:
            name = service.service_name
            self._services[name], self.states[name] = service, states[name]
            self._values.setdefault(name, {}).update(states[name].slot_values)
        self._last = frozenset(service.service_name for service in services)
        self.system = ""

    def state(self, service: Service) -> State:
        """The last one of a service."""
        return self.states.get(service.service_name, START)

    def goes_on(self, services: Iterable[Service]) -> bool:
        """Whether a turn is about the same services as the last user turn."""
        return frozenset(service.service_name for service in services) == self._last

    def given(self, service: Service, slot: Slot) -> Given | None:
        """The value that the system gave a slot last."""
        return self._given.get(service.service_name, {}).get(slot.name)

    def combine_feature(self, service: Service, slot: Slot) -> int:
        """The context feature of "combine"."""
        requested = slot.name in self._requested.get(service.service_name, ())
        return GIVEN * (self.given(service, slot) is not None) + REQUESTED * requested

    def copy_questions(self, service: Service, filled: Container[str]) -> Iterator[Slot]:
        """The slots without a value to which the system gave one; not as an answer, which the user only asked for.

        Args:
          service: of the slots.
          filled: slots with a value.
        """
        wanted = needed(service)
        for slot in service.slots:
            given = self.given(service, slot)
            if given and given.act != "INFORM" and slot.name in wanted and slot.name not in filled:
                yield slot

    def cross_questions(self, service: Service, filled: Container[str]) -> Iterator[tuple[Slot, Source]]:
        """The free slots without a value, and the slots of other services with one."""
        wanted = needed(service)
        sources = [
            Source(name, slot, values[slot.name])
            for name, values in self._values.items()
            if name != service.service_name
            for slot in self._services[name].slots
            if values.get(slot.name, [DONTCARE])[0] != DONTCARE
        ]
        for slot in service.slots:
            if not slot.is_categorical and slot.name in wanted and slot.name not in filled:
                for source in sources:
                    yield slot, source

    def had_value(self, service: Service, slot: Slot) -> bool:
        """Whether anybody gave a slot a value."""
        return slot.name in self._values.get(service.service_name, {})

    def cross_feature(self, service: Service, slot: Slot, intent: str, source: Source) -> int:
        """The context feature of "cross_copy"."""
        history = HAD_VALUE * self.had_value(service, slot) + SUCCEEDED * (source.service in self._succeeded)
        return role_of(slot.name, intent, service) + history


def frames_of(example: Example) -> tuple[tuple[Context, ...], ...]:
    """The frames of each turn; where an example has none, each user turn is about its service."""
    user = (Context(example.service),)
    return example.frames or tuple(user if speaker == "USER" else () for speaker, _ in example.history)


def follow(example: Example, memory: Memory) -> Iterator[Turn]:
    """The user turns up to an example, the system's turns between them heard. The caller concludes each."""
    for position, ((speaker, utterance), frames) in enumerate(zip(example.history, frames_of(example), strict=True)):
        if speaker != "USER":
            memory.hear(utterance, frames)
        else:
            yield Turn(position, (memory.system, utterance), tuple(frame.service for frame in frames))


def longest_of(examples: Sequence[Example]) -> tuple[list[Example], list[int]]:
    """The examples that no other continues, and for each example the number of the one that continues it, or is it."""
    longest: list[Example] = []
    numbers = [0] * len(examples)
    by_start: dict[tuple[str, str], list[int]] = {}
    for i in sorted(range(len(examples)), key=lambda i: -len(examples[i].history)):
        one = examples[i]
        frames, length = frames_of(one), len(one.history)
        known = by_start.setdefault((one.dialogue_id, one.history[0][1]), [])
        for number in known:
            other = longest[number]
            if other.history[:length] == one.history and frames_of(other)[:length] == frames:
                numbers[i] = number
                break
        else:
            numbers[i] = len(longest)
            known.append(len(longest))
            longest.append(one)
    return longest, numbers
