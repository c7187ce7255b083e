"""The active intents of dialogues: of each frame, and the one that a user turn with several is about; and its acts."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping

import msgspec

from parapet.evaluation.dst.sets import originals_of
from parapet.schemas.dialogue import Dialogue, Frame, Turn
from parapet.schemas.service import Service
from parapet.transforms.touching import services_in_turns

NONE = "NONE"  # the active intent where there is none

# In a schema's words: service to intent to what it is called in another schema.
Renamed = Mapping[str, Mapping[str, str]]


class UserTurn(msgspec.Struct, frozen=True):
    """A turn of the user's.

    Attributes:
      turn: its position in the dialogue, from 0.
      intent: the one that it is about, and its ``service``; both empty where no frame has a state.
      frames: the active intent of each service that has a state.
      acts: its dialogue acts, each once, in alphabetical order, joined by ``+``; empty where it has none.
    """

    turn: int
    utterance: str
    intent: str
    service: str
    frames: dict[str, str]
    acts: str = ""


def user_turns(dialogue: Dialogue, renamed: Renamed) -> Iterator[UserTurn]:
    """The user turns of a dialogue; ``renamed`` says how its intents are to be called."""
    for position, (turn, services) in enumerate(zip(dialogue.turns, services_in_turns(dialogue), strict=True)):
        if turn.speaker == "USER":
            frames = {}
            for frame in turn.frames:
                if frame.state:
                    intent = frame.state.active_intent or NONE
                    frames[frame.service] = renamed.get(frame.service, {}).get(intent, intent)
            active = frame_of(turn.frames, services)
            service = active.service if active else ""
            yield UserTurn(position, turn.utterance, frames.get(service, ""), service, frames, acts_of(turn))


def acts_of(turn: Turn) -> str:
    """The dialogue acts of a turn as one label: ``INFORM+INFORM_INTENT``; empty where it has none."""
    return "+".join(sorted({action.act for frame in turn.frames for action in frame.actions or ()}))


def frame_of(frames: Iterable[Frame], services: Collection[str]) -> Frame | None:
    """The frame whose active intent is the turn's, or None where there is no state.

    Of several services in a turn the one whose intent the user names in it; else one that the turn speaks of, and that
    has an intent; of several the last, which is the one that the user turns to.

    Args:
      frames: of the turn; idle ones may have intents that persist.
      services: those that the turn speaks of.
    """
    stated = [frame for frame in frames if frame.state]
    return max(enumerate(stated), key=lambda one: (*_rank(one[1], services), one[0]), default=(0, None))[1]


def _rank(frame: Frame, services: Collection[str]) -> tuple[bool, bool, bool]:
    named = any(action.act == "INFORM_INTENT" for action in frame.actions or ())
    active = bool(frame.state) and frame.state.active_intent not in ("", NONE)  # type: ignore[union-attr]
    return named, frame.service in services, active


def renamed_intents(
    variant: str, services: Mapping[str, Service], originals: Mapping[str, Service]
) -> dict[str, dict[str, str]]:
    """The intents of a variant to their names in the original, where they have the same position.

    Args:
      variant: its name.
      services: of the variant's schema, by name.
      originals: of the original's.
    """
    found = {}
    for name, original in originals_of(variant, services, originals).items():
        mine, its = services[name].intents, originals[original].intents if original in originals else []
        if len(mine) == len(its):
            found[name] = {one.name: other.name for one, other in zip(mine, its, strict=True) if one.name != other.name}
    return found
