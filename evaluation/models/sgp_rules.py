"""The inputs and options of the modules, the memory of a dialogue, and the rules that turn decisions into states."""

import re
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Literal, NamedTuple

import msgspec

from parapet.evaluation.dst.frames import State
from parapet.evaluation.dst.model import Context, Example
from parapet.schemas.service import Service, Slot
from parapet.transforms.report.text import name_words

# The authors' names. "combine" predicts values of categorical and free slots and requested slots; "copy_slot" whether
# the user accepts a value offered by the system; "cross_copy" whether a slot takes the value of another service's slot.
Kind = Literal["intents", "combine", "copy_slot", "cross_copy"]


KINDS: tuple[Kind, ...] = ("intents", "combine", "copy_slot", "cross_copy")


DONTCARE = "dontcare"


NONE = "NONE"


START = State(NONE, [], {})


# Options of "combine"; a categorical slot's possible values follow.
NULL, ANY, FIRST_VALUE = 0, 1, 2


# The context feature of a module (SGD-X, Figure 2) is a sum of these; that of "intents" marks the previous intent.
GIVEN, REQUESTED = 1, 2  # of "combine": the system mentioned a value earlier; it has just asked for one


REQUIRED, OPTIONAL, HAD_VALUE, SUCCEEDED = 1, 2, 4, 8  # of "copy_slot" and "cross_copy"


FEATURES: dict[Kind, int] = {"intents": 2, "combine": 4, "copy_slot": 4, "cross_copy": 16}


# Predictions count only above these probabilities; for a span, above this sum of the probabilities of its ends.
CONFIDENT: dict[str, float] = {"option": 0.8, "span": 1.0, "requested": 0.9, "copy_slot": 0.85, "cross_copy": 0.9}


class Schema(msgspec.Struct, frozen=True):
    """The second part of an input.

    Attributes:
      head: texts of the question.
      options: the possible answers.
      context: the text before the utterances.
      mark: the text after the utterances.
    """

    head: tuple[str, ...]
    options: tuple[str, ...] = ()
    context: str = ""
    mark: str = ""


def intents_of(service: Service, same_services: bool) -> Schema:
    """Makes the input for "intents": all intents, and none.

    Args:
      service: the service.
      same_services: whether the user turn is about the same services as the previous one.
    """
    named = tuple(f"{intent.description} # {_words(intent.name)}" for intent in service.intents)
    return Schema((), (*named, "none"), "keep" if same_services else "jump")


def slot_of(slot: Slot) -> Schema:
    """Makes the input for "combine"."""
    lead = "sort" if slot.is_categorical else "tag"
    values = slot.possible_values if slot.is_categorical else ()
    return Schema((f"{lead} # {_described(slot)}",), ("null", "do not care", *values), mark="null")


def copy_of(service: Service, slot: Slot) -> Schema:
    """Makes the input for "copy_slot"."""
    return Schema((slot.description,), context=f"api : {service.description}")


def cross_of(slot: Slot, other: Slot) -> Schema:
    """Makes the input for "cross_copy": whether ``slot`` takes the value of ``other``."""
    return Schema((_described(slot), _described(other)))


def _described(slot: Slot) -> str:
    return f"{_words(slot.name)} # {slot.description}"


def _words(name: str) -> str:
    return " ".join(name_words(name))


def needed(service: Service) -> set[str]:
    """Returns the slots that an intent takes, as only these have values; all slots if no intent takes any."""
    taken = {name for intent in service.intents for name in (*intent.required_slots, *intent.optional_slots)}
    return taken or {slot.name for slot in service.slots}


def role_of(slot: str, intent: str, service: Service) -> int:
    """Returns the part of the context feature that tells whether an intent takes a slot."""
    for taking in service.intents:
        if taking.name == intent:
            return REQUIRED * (slot in taking.required_slots) + OPTIONAL * (slot in taking.optional_slots)
    return 0


class Decision(msgspec.Struct, frozen=True):
    """A module's decision on a row.

    Attributes:
      option: the number of the best option; for "combine" ``NULL`` if it is not confident.
      span: the first and the last token in the user's utterance; None without a span.
      yes: whether the slot is requested, or a value copied.
      score: the logit of ``yes``.
    """

    option: int = NULL
    span: tuple[int, int] | None = None
    yes: bool = False
    score: float = 0.0


def intent_name(service: Service, option: int) -> str:
    """Returns the intent of an option of "intents"."""
    return service.intents[option].name if option < len(service.intents) else NONE


def value_of(slot: Slot, said: Decision, span: str) -> str:
    """Returns the value that "combine" predicts, or "". A requested categorical slot has no value in that turn.

    Args:
      slot: the slot.
      said: the module's decision.
      span: the text of its span.
    """
    if slot.is_categorical and said.yes:
        return ""
    if said.option == ANY:
        return DONTCARE
    if slot.is_categorical:
        return slot.possible_values[said.option - FIRST_VALUE] if said.option >= FIRST_VALUE else ""
    return span


def next_state(
    before: State, service: Service, intent: str, requested: Iterable[str], *values: Mapping[str, str]
) -> State:
    """Updates the state by a user turn; only slots that an intent takes have values.

    Args:
      before: the state after the previous turn.
      service: the service.
      intent: the active intent.
      requested: the requested slots.
      values: slot to value: first those of the user's turn; then others, for slots that have no value yet.
    """
    user_value, *copied = values
    wanted = needed(service)
    merged = {name: list(held) for name, held in before.slot_values.items()}
    merged |= {name: [value] for name, value in user_value.items()}
    for source in copied:
        merged |= {name: [value] for name, value in source.items() if name not in merged}
    return State(intent, list(requested), {name: held for name, held in merged.items() if name in wanted})


Exchange = tuple[str, str]  # the system's last utterance, empty for none, and the user's


class Turn(NamedTuple):
    """A user turn: its position in the dialogue, from 0, the utterances, and the services that it is about."""

    position: int
    exchange: Exchange
    services: tuple[Service, ...]


class Given(NamedTuple):
    """A value that the system mentioned for a slot, and its act."""

    value: str
    act: str


class Source(msgspec.Struct, frozen=True):
    """A slot of another service, with its equivalent values."""

    service: str
    slot: Slot
    values: list[str]


class Memory:
    """The memory of a dialogue so far.

    Attributes:
      states: by service.
      system: the system's last utterance.
    """

    def __init__(self) -> None:
        self.states: dict[str, State] = {}
        self.system = ""
        self._services: dict[str, Service] = {}
        self._given: dict[str, dict[str, Given]] = {}
        self._requested: dict[str, set[str]] = {}
        self._values: dict[str, dict[str, list[str]]] = {}  # by service and slot, from either speaker
        self._succeeded: set[str] = set()
        self._last: frozenset[str] = frozenset()  # services of the last user turn

    def hear(self, utterance: str, frames: Iterable[Context]) -> None:
        """Adds a system turn."""
        self.system = utterance
        for frame in frames:
            name = frame.service.service_name
            self._services[name] = frame.service
            self._requested[name] = set()
            given_slots, values = self._given.setdefault(name, {}), self._values.setdefault(name, {})
            for action in frame.actions:
                if action.act in ("OFFER", "INFORM", "CONFIRM") and action.values:
                    given_slots[action.slot] = Given(action.values[0], action.act)
                    values[action.slot] = list(action.values)
                elif action.act == "REQUEST" and len(action.values) == 1:
                    given_slots[action.slot] = Given(action.values[0], action.act)
                elif action.act == "REQUEST":
                    self._requested[name].add(action.slot)
                elif action.act == "NOTIFY_SUCCESS":
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
        """Returns the last state of a service."""
        return self.states.get(service.service_name, START)

    def goes_on(self, services: Iterable[Service]) -> bool:
        """Whether a turn is about the same services as the last user turn."""
        return frozenset(service.service_name for service in services) == self._last

    def given(self, service: Service, slot: Slot) -> Given | None:
        """Returns the value that the system mentioned last for a slot."""
        return self._given.get(service.service_name, {}).get(slot.name)

    def combine_feature(self, service: Service, slot: Slot) -> int:
        """Returns the context feature of "combine"."""
        requested = slot.name in self._requested.get(service.service_name, ())
        return GIVEN * (self.given(service, slot) is not None) + REQUESTED * requested

    def copy_questions(self, service: Service, filled: Container[str]) -> Iterator[Slot]:
        """Yields slots without a value for which the system offered one, except for values that only answer a question.

        Args:
          service: the service.
          filled: slots with a value.
        """
        wanted = needed(service)
        for slot in service.slots:
            is_given = self.given(service, slot)
            if is_given and is_given.act != "INFORM" and slot.name in wanted and slot.name not in filled:
                yield slot

    def cross_questions(self, service: Service, filled: Container[str]) -> Iterator[tuple[Slot, Source]]:
        """Yields free slots without a value, paired with slots of other services that have one."""
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
        """Whether a slot ever had a value, from either speaker."""
        return slot.name in self._values.get(service.service_name, {})

    def cross_feature(self, service: Service, slot: Slot, intent: str, source: Source) -> int:
        """Returns the context feature of "cross_copy"."""
        history = HAD_VALUE * self.had_value(service, slot) + SUCCEEDED * (source.service in self._succeeded)
        return role_of(slot.name, intent, service) + history


def frames_of(example: Example) -> tuple[tuple[Context, ...], ...]:
    """Returns the frames of each turn. If an example has none, each user turn is assumed to be about its service."""
    user = (Context(example.service),)
    return example.frames or tuple(user if speaker == "USER" else () for speaker, _ in example.history)


def follow(example: Example, memory: Memory) -> Iterator[Turn]:
    """Yields the user turns up to an example, and adds the system turns between to the memory.

    Callers add the states.
    """
    for position, ((speaker, utterance), frames) in enumerate(zip(example.history, frames_of(example), strict=True)):
        if speaker != "USER":
            memory.hear(utterance, frames)
        else:
            yield Turn(position, (memory.system, utterance), tuple(frame.service for frame in frames))


def longest_of(examples: Sequence[Example]) -> tuple[list[Example], list[int]]:
    """Returns the examples that no other example continues, and for each example the index of its continuation."""
    longest: list[Example] = []
    numbers = [0] * len(examples)
    by_start: dict[tuple[str, str], list[int]] = {}
    for i in sorted(range(len(examples)), key=lambda i: -len(examples[i].history)):
        example = examples[i]
        frames, length = frames_of(example), len(example.history)
        known = by_start.setdefault((example.dialogue_id, example.history[0][1]), [])
        for number in known:
            other = longest[number]
            if other.history[:length] == example.history and frames_of(other)[:length] == frames:
                numbers[i] = number
                break
        else:
            numbers[i] = len(longest)
            known.append(len(longest))
            longest.append(example)
    return longest, numbers


class Label(msgspec.Struct, frozen=True):
    """The right answer of "combine" for a slot.

    Attributes:
      option: the number of the right option.
      place: the characters of the value in the user's utterance; None if it is not there.
      requested: whether the user asks for the slot.
      origin: ``user`` for a value in the user's utterance, ``system`` for one that the system mentioned, on which
        "combine" is not trained, ``other`` for one that another service may have; empty if the turn does not change the
        value.
    """

    option: int = NULL
    place: tuple[int, int] | None = None
    requested: bool = False
    origin: str = ""


def intent_label(service: Service, state: State) -> int:
    """Returns the option of the active intent."""
    names = [intent.name for intent in service.intents]
    return names.index(state.active_intent) if state.active_intent in names else len(names)


def new_values(slot: Slot, before: State, after: State) -> list[str]:
    """Returns the equivalent values that a turn gives a slot; none if the slot keeps its value."""
    values = after.slot_values.get(slot.name, [])
    return [] if set(values) & set(before.slot_values.get(slot.name, [])) else values


def slot_label(service: Service, slot: Slot, memory: Memory, state: State, utterance: str) -> Label:
    """Makes the label for "combine".

    Args:
      service: the service.
      slot: the slot.
      memory: the memory before the user turn.
      state: the state after it.
      utterance: the user's utterance.
    """
    requested = slot.name in state.requested_slots
    values = new_values(slot, memory.state(service), state)
    if not values:
        return Label(requested=requested)
    if values[0] == DONTCARE:
        return Label(ANY, None, requested, "user")
    place = None if slot.is_categorical else found_last(values, utterance)
    if place:
        return Label(NULL, place, requested, "user")
    is_given = memory.given(service, slot)
    if is_given and is_given.value in values and not (slot.is_categorical and is_given.act == "REQUEST"):
        return Label(requested=requested, origin="system")
    if slot.is_categorical and values[0] in slot.possible_values:
        return Label(FIRST_VALUE + slot.possible_values.index(values[0]), None, requested, "user")
    return Label(requested=requested, origin="other")


def found_last(values: Sequence[str], utterance: str) -> tuple[int, int] | None:
    """Finds the last occurrence of equivalent values in an utterance, and there the longest."""
    places = [
        (match.end(), match.end() - match.start(), match.start())
        for value in values
        if value
        for match in _pattern(value).finditer(utterance)
    ]
    if not places:
        return None
    end, _, begin = max(places)
    return begin, end


@lru_cache(maxsize=1 << 14)
def _pattern(value: str) -> re.Pattern[str]:
    """Returns a pattern that matches the value as whole words, ignoring case."""
    return re.compile(rf"(?<!\w){re.escape(value)}(?!\w)", re.IGNORECASE)
