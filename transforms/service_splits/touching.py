"""Which services a dialogue touches, and a dialogue without what it does not touch."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import msgspec

from schemas.dialogue import Dialogue, Frame
from schemas.errors import InputError
from schemas.service import Service
from transforms.corpora import domain_of

DOMAIN, SERVICE = "domain", "service"
NO_INTENT = "NONE"


class Used(msgspec.Struct, frozen=True):
    """The services of a dialogue, sorted.

    Attributes:
      touched: that it names, or that a frame says something of.
      idle: others of its frames: MultiWOZ 2.2 has a frame for every service in every user turn, mostly empty.
    """

    touched: tuple[str, ...]
    idle: tuple[str, ...]


def used_by(dialogue: Dialogue, services: Mapping[str, Service]) -> Used:
    """The services of a dialogue.

    Args:
      dialogue: the dialogue.
      services: of its split, by name.

    Raises:
      InputError: it has a service that its split's schema lacks.
    """
    of_frames = {frame.service for turn in dialogue.turns for frame in turn.frames}
    said_of = {frame.service for turn in dialogue.turns for frame in turn.frames if not is_idle(frame)}
    touched = {*dialogue.services, *said_of}
    for service in sorted(touched | of_frames):
        if service not in services:
            raise InputError(f"unknown_service: {service!r} is not in the split's schema")
    return Used(tuple(sorted(touched)), tuple(sorted(of_frames - touched)))


def is_idle(frame: Frame) -> bool:
    """Whether a frame says nothing of its service: no values, no acts, no intent, no call."""
    state = frame.state or None
    stated = state and (state.active_intent != NO_INTENT or state.slot_values or state.requested_slots)
    return not (frame.slots or frame.actions or stated or frame.service_call or frame.service_results)


def without(raw: dict[str, Any], services: Collection[str]) -> dict[str, Any]:
    """A dialogue without the frames of some services, which say nothing of them.

    Args:
      raw: as its file has it; it is left as it is.
      services: whose frames are left out.
    """
    turns = [
        {**turn, "frames": [frame for frame in turn["frames"] if frame["service"] not in services]}
        for turn in raw["turns"]
    ]
    return {**raw, "turns": turns}


def group_of(service: str, by: str) -> str:
    """What a service is held out with: the services of its domain, or itself alone."""
    return domain_of(service) if by == DOMAIN else service
