"""Dialogues that a domain's sets may have: whose they are, which slots occur in them, in an order that is drawn."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

import msgspec

from schemas.dialogue import Dialogue, Frame
from schemas.errors import InputError
from schemas.service import Service
from transforms.corpora import domain_of, hashed
from transforms.ood.places import domains_of

TRAIN, TEST = "train", "test"


class Candidate(msgspec.Struct, frozen=True, order=True):
    """A dialogue that a domain may have, sorted by its draw.

    Attributes:
      draw: 64 bits of seed, domain and dialogue id.
      dialogue_id: its id.
      file: its file, below the root.
      position: its position there.
      digest: of all that is said in it; dialogues with the same are the same.
      services: that it uses.
      slots: element ids (``Restaurants_1/slot/city``) of the domain's slots that occur in it.
      turns: of the user.
    """

    draw: int
    dialogue_id: str
    file: str
    position: int
    digest: str
    services: tuple[str, ...]
    slots: tuple[str, ...]
    turns: int


class Rule(msgspec.Struct, frozen=True):
    """What is wanted.

    Attributes:
      domains: the domains.
      sizes: of the training sets, ascending.
      test: dialogues of a test.
      train_split: where training dialogues come from.
      test_split: where those of the tests come from.
      multi_domain: dialogues that touch other domains too may be taken.
      seed: of all that is drawn.
    """

    domains: tuple[str, ...]
    sizes: tuple[int, ...]
    test: int
    train_split: str
    test_split: str
    multi_domain: bool
    seed: str

    def domains_for(self, dialogue: Dialogue) -> list[str]:
        """The domains that may have a dialogue."""
        touched = domains_of(dialogue)
        return [] if len(touched) > 1 and not self.multi_domain else [one for one in touched if one in self.domains]


def check_services(dialogue: Dialogue, services: Mapping[str, Service]) -> None:
    """Raises InputError where a dialogue uses a service that its split's schema lacks."""
    for service in services_of(dialogue):
        if service not in services:
            raise InputError(f"unknown_service: {service!r} is not in the split's schema")


def services_of(dialogue: Dialogue) -> tuple[str, ...]:
    """The services of a dialogue and its frames, sorted."""
    of_frames = {frame.service for turn in dialogue.turns for frame in turn.frames}
    return tuple(sorted({*dialogue.services, *of_frames}))


def candidate(dialogue: Dialogue, domain: str, file: str, position: int, seed: str) -> Candidate:
    """A dialogue as a domain's candidate."""
    frames = [frame for turn in dialogue.turns for frame in turn.frames if domain_of(frame.service) == domain]
    said = "\0".join(turn.utterance for turn in dialogue.turns)
    return Candidate(
        draw=hashed(seed, "few_shot", domain, dialogue.dialogue_id),
        dialogue_id=dialogue.dialogue_id,
        file=file,
        position=position,
        digest=hashlib.sha256(said.encode("utf-8", "surrogatepass")).hexdigest(),
        services=services_of(dialogue),
        slots=tuple(sorted({slot for frame in frames for slot in slots_of(frame)})),
        turns=sum(turn.speaker == "USER" for turn in dialogue.turns),
    )


def slots_of(frame: Frame) -> set[str]:
    """Element ids of the slots that a frame speaks of: in spans, actions, the state, a service call."""
    names = {span.slot for span in frame.slots}
    names |= {action.slot for action in frame.actions or [] if action.slot not in ("", "intent", "count")}
    if frame.state:
        names |= {*frame.state.slot_values, *frame.state.requested_slots}
    if frame.service_call:
        names |= set(frame.service_call.parameters)
    return {f"{frame.service}/slot/{name}" for name in names}
