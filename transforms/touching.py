"""Which services a dialogue touches, turn by turn, and a dialogue without those that it does not touch.

SGD has frames only of the services that a turn is about. MultiWOZ 2.2 (Zang et al. 2020) has a frame of every service
in every user turn: most are idle, and those of earlier services keep their values and often their intent. So neither a
frame nor the dialogue's own list says what a dialogue is about; what its frames say does.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import msgspec

from parapet.schemas.dialogue import Dialogue, Frame, State
from parapet.schemas.errors import InputError
from parapet.schemas.service import Service
from parapet.transforms.corpora import domain_of

NO_INTENT = "NONE"


class Used(msgspec.Struct, frozen=True):
    """The services of a dialogue, sorted.

    Attributes:
      touched: those that a frame says something of, see :func:`touched_in_turns`.
      idle: others that it lists, or has frames of.
    """

    touched: tuple[str, ...]
    idle: tuple[str, ...]

    @property
    def all(self) -> list[str]:
        """Touched or idle: the services that a schema for the dialogue needs, sorted."""
        return sorted((*self.touched, *self.idle))


def touched_in_turns(dialogue: Dialogue) -> list[tuple[str, ...]]:
    """The services that each turn touches, in the order of its frames.

    A frame touches its service where it has a span, an action, a call or its results, a requested slot, or a state
    other than that of the service's previous frame: other values, or an intent that was not active. A state that
    merely persists was touched before. The dialogue's own list of services does not count: it may have all.
    """
    states: dict[str, State] = {}
    touched = []
    for turn in dialogue.turns:
        touched.append(
            tuple(dict.fromkeys(frame.service for frame in turn.frames if _touches(frame, states.get(frame.service))))
        )
        states.update((frame.service, frame.state) for frame in turn.frames if frame.state)
    return touched


def services_in_turns(dialogue: Dialogue) -> list[tuple[str, ...]]:
    """The services that each turn speaks of: those that it touches, else those of the last turn that touched some.

    Before the first such turn they are that turn's; in a dialogue that touches none they are those of the turn's
    frames, or those that the dialogue lists.
    """
    touched = touched_in_turns(dialogue)
    current = next(filter(None, touched), ())
    spoken_of = []
    for turn, services in zip(dialogue.turns, touched, strict=True):
        current = services or current
        named = current or [frame.service for frame in turn.frames] or dialogue.services
        spoken_of.append(tuple(dict.fromkeys(named)))
    return spoken_of


def touched_services(dialogue: Dialogue) -> tuple[str, ...]:
    """The services that a dialogue touches, sorted; of one without any frame those that it lists."""
    if not any(turn.frames for turn in dialogue.turns):
        return tuple(sorted(set(dialogue.services)))
    return tuple(sorted({service for services in touched_in_turns(dialogue) for service in services}))


def domains_of(dialogue: Dialogue) -> tuple[str, ...]:
    """The domains of the services that a dialogue touches, sorted: ``Restaurants`` of ``Restaurants_2``."""
    return tuple(sorted({domain_of(service) for service in touched_services(dialogue)}))


def used_by(dialogue: Dialogue, services: Mapping[str, Service]) -> Used:
    """The services of a dialogue.

    Args:
      dialogue: the dialogue.
      services: of its split, by name.

    Raises:
      InputError: it has a service that its split's schema lacks.
    """
    named = {*dialogue.services, *(frame.service for turn in dialogue.turns for frame in turn.frames)}
    for service in sorted(named):
        if service not in services:
            raise InputError(f"unknown_service: {service!r} is not in the split's schema")
    touched = touched_services(dialogue)
    return Used(touched, tuple(sorted(named.difference(touched))))


def without(raw: dict[str, Any], services: Collection[str]) -> dict[str, Any]:
    """A dialogue without some services that it does not touch: neither their frames, nor their names in its list.

    Args:
      raw: as its file has it; it is left as it is.
      services: those that are left out.
    """
    turns = [
        {**turn, "frames": [frame for frame in turn["frames"] if frame["service"] not in services]}
        for turn in raw["turns"]
    ]
    return {**raw, "services": [name for name in raw["services"] if name not in services], "turns": turns}


def _touches(frame: Frame, before: State | None) -> bool:
    if frame.slots or frame.actions or frame.service_call or frame.service_results:
        return True
    if not frame.state:
        return False
    values, intent = (before.slot_values, before.active_intent) if before else ({}, NO_INTENT)
    return bool(
        frame.state.requested_slots
        or frame.state.slot_values != values
        or frame.state.active_intent not in (NO_INTENT, "", intent)
    )
