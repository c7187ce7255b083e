"""The user turns of dialogues under a service, one after the other, and the questions that each raises."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from parapet.evaluation.models.dst.pairs import History, Stretch
from parapet.evaluation.models.dst.sgp.encoding import Questions
from parapet.evaluation.models.dst.sgp.texts import Kind, needed
from parapet.schemas.service import Service

Key = tuple[int, History]  # the service's id, and all that was said until the user turn, with it


class Turn(msgspec.Struct):
    """A user turn under a service.

    Attributes:
      before: the user turn before it; None for the first.
      places: where the turns of the dialogue stand, this one last.
      intent: the number of the question about the active intent.
      slots: of each slot the number of the question, to the module of categorical or free slots.
      transfer: of each slot, the number of the question whether its value was said before.
    """

    service: Service
    before: Key | None
    places: list[Stretch]
    intent: int = -1
    slots: dict[str, int] = {}
    transfer: dict[str, int] = {}

    @property
    def all(self) -> Stretch:
        """The dialogue so far."""
        return Stretch(self.places[0].start, self.places[-1].end)

    @property
    def user(self) -> Stretch:
        """What the user says."""
        return self.places[-1]

    @property
    def past(self) -> Stretch:
        """What was said before that."""
        return Stretch(self.places[0].start, self.user.start)


def last_exchange(turn: Turn, history: History) -> Stretch:
    """What the system said last, and what the user says."""
    before = len(history) > 1 and history[-2][0] != "USER"
    return Stretch(turn.places[-2].start, turn.user.end) if before else turn.user


def user_turns(history: History, service: Service) -> Iterator[Key]:
    """The keys of the user turns so far."""
    for position, (speaker, _) in enumerate(history):
        if speaker == "USER":
            yield id(service), history[: position + 1]


def ask(questions: Questions, turn: Turn, key: Key) -> None:
    """Asks for the intent and for what the user says of each slot."""
    service, where = turn.service, last_exchange(turn, key[1])
    turn.intent = questions.ask("intent", service, None, where, Stretch(0, 0))
    turn.slots = {}
    for slot in service.slots:
        kind: Kind = "categorical" if slot.is_categorical else "free"
        turn.slots[slot.name] = questions.ask(kind, service, slot, where, turn.user)


def ask_for_transfer(questions: Questions, turn: Turn, filled: set[str]) -> None:
    """Asks for the free slots that have no value: whether it was said before, by whomever and of whatever service."""
    wanted = needed(turn.service)
    turn.transfer = {
        slot.name: questions.ask("transfer", turn.service, slot, turn.all, turn.past)
        for slot in turn.service.slots
        if not slot.is_categorical and slot.name in wanted and slot.name not in filled and len(turn.past)
    }
