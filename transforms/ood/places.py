"""Where a foreign utterance may stand: one place for each in-domain user turn, in an order that is drawn."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

import msgspec

from parapet.schemas.dialogue import Dialogue
from parapet.transforms.seeding import stable_hash
from parapet.transforms.touching import domains_of

PLACES = ("append", "between")


class Place(msgspec.Struct, frozen=True, order=True):
    """A place, sorted by its draw.

    Attributes:
      draw: 64 bits, of seed, split, dialogue id and turn; nothing else decides which places are taken.
      split: the folder of the dialogue.
      file: the dialogue file, below the root.
      dialogue: the dialogue's position in the file.
      turn: the position of the user turn that the place belongs to.
      domains: of the dialogue.
    """

    draw: int
    split: str
    file: str
    dialogue: int
    turn: int
    domains: tuple[str, ...]


def user_turns_of(dialogue: Dialogue) -> list[int]:
    """The positions of the user turns."""
    return [t for t, turn in enumerate(dialogue.turns) if turn.speaker == "USER"]


def turns_with_place(dialogue: Dialogue, place: str) -> list[int]:
    """The user turns that have a place; after each, user and system still take turns.

    Args:
      dialogue: the dialogue.
      place: ``append``: a place at the dialogue's end for every user turn, if the system has the last word;
        ``between``: a place after the system's answer to it, if the user goes on after that.
    """
    speakers = [turn.speaker for turn in dialogue.turns]
    users = user_turns_of(dialogue)
    if place == "append":
        return users if speakers and speakers[-1] == "SYSTEM" else []
    return [t for t in users if speakers[t + 1 : t + 3] == ["SYSTEM", "USER"]]


def places_of(dialogue: Dialogue, split: str, file: str, position: int, place: str, seed: str) -> Iterator[Place]:
    """The places of a dialogue."""
    domains = domains_of(dialogue)
    for turn in turns_with_place(dialogue, place):
        draw = stable_hash(seed, "place", split, dialogue.dialogue_id, str(turn))
        yield Place(draw, split, file, position, turn, domains)


def wanted(rate: str, turns: int) -> int:
    """How many turns a rate injects among so many in-domain user turns: the product, rounded, halves up."""
    exact = Fraction(rate) * turns
    return int(exact + Fraction(1, 2))


def set_name(rate: str) -> str:
    """``ood-10`` of ``0.1``."""
    return f"ood-{float(100 * Fraction(rate)):g}"
