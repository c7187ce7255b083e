"""Dialogues that a domain's sets may have: whose they are, which slots occur in them, in an order that is drawn."""

from __future__ import annotations

import hashlib

import msgspec

from parapet.schemas.dialogue import Dialogue, Frame, is_marker
from parapet.transforms.corpora import domain_of
from parapet.transforms.seeding import stable_hash
from parapet.transforms.touching import Used

TRAIN, TEST = "train", "test"


class Candidate(msgspec.Struct, frozen=True, order=True):
    """A dialogue that a domain may have, sorted by its draw.

    Attributes:
      draw: 64 bits of seed, domain and dialogue id.
      dialogue_id: its id.
      file: its file, below the root.
      position: its position there.
      digest: of all that is said in it; dialogues with the same are the same.
      services: that it touches, lists, or has idle frames of: its set's schema has them.
      slots: element ids (``Restaurants_1/slot/city``) of the domain's slots that occur in it.
      turns: of the user.
      alone: it touches no other domain.
    """

    draw: int
    dialogue_id: str
    file: str
    position: int
    digest: str
    services: tuple[str, ...]
    slots: tuple[str, ...]
    turns: int
    alone: bool


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


def candidates_of(dialogue: Dialogue, used: Used, rule: Rule, file: str, position: int) -> list[tuple[str, Candidate]]:
    """(domain, candidate) of a dialogue, for each of the wanted domains that it touches.

    Args:
      dialogue: the dialogue.
      used: its services.
      rule: what is wanted.
      file: its file, below the root.
      position: its position there.
    """
    touched = {domain_of(service) for service in used.touched}
    return [
        (domain, _candidate(dialogue, domain, used, len(touched) == 1, file, position, rule.seed))
        for domain in sorted(touched.intersection(rule.domains))
    ]


def _candidate(
    dialogue: Dialogue, domain: str, used: Used, alone: bool, file: str, position: int, seed: str
) -> Candidate:
    frames = [frame for turn in dialogue.turns for frame in turn.frames if domain_of(frame.service) == domain]
    said = "\0".join(turn.utterance for turn in dialogue.turns)
    return Candidate(
        draw=stable_hash(seed, "few_shot", domain, dialogue.dialogue_id),
        dialogue_id=dialogue.dialogue_id,
        file=file,
        position=position,
        digest=hashlib.sha256(said.encode("utf-8", "surrogatepass")).hexdigest(),
        services=tuple(used.all),
        slots=tuple(sorted({slot for frame in frames for slot in slots_of(frame)})),
        turns=sum(turn.speaker == "USER" for turn in dialogue.turns),
        alone=alone,
    )


def slots_of(frame: Frame) -> set[str]:
    """Element ids of the slots that a frame speaks of: in spans, actions, the state, a service call."""
    names = {span.slot for span in frame.slots}
    names |= {one.slot for one in frame.actions or [] if one.slot and not is_marker(one.act, one.slot)}
    if frame.state:
        names |= {*frame.state.slot_values, *frame.state.requested_slots}
    if frame.service_call:
        names |= set(frame.service_call.parameters)
    return {f"{frame.service}/slot/{name}" for name in names}
