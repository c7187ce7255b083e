"""Dialogue acts as user and system exchange them, and how a turn's acts are said."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

import msgspec

from parapet.transforms.reminders.phrases import Pattern, Value, templates
from parapet.transforms.seeding import SeededRng
from parapet.transforms.simulation.turns import Line, act, joined

USER, SYSTEM = "USER", "SYSTEM"
COUNTED = ("none", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")


class Act(msgspec.Struct, frozen=True):
    """A dialogue act.

    Attributes:
      name: as SGD calls it.
      slot: or nothing.
      value: of the slot; none where it is asked for.
      note: what tells it from others of its name when it is said: ``deny``, ``again``.
    """

    name: str
    slot: str = ""
    value: Value | None = None
    note: str = ""

    @property
    def key(self) -> str:
        """How ``templates.toml`` calls it."""
        note = self.note or (self.slot if self.name == "REQUEST" else "")
        return f"{self.name}:{note}" if note else self.name

    def as_action(self) -> dict[str, Any]:
        """As a frame of SGD has it."""
        if self.value is None:
            return act(self.name, self.slot)
        return act(self.name, self.slot, self.value.said, canonical=[self.value.canonical])


def say(speaker: str, acts: Sequence[Act], intent: str, rng: SeededRng) -> Line:
    """One of the ways in which a turn's acts can be said.

    Args:
      speaker: ``USER`` or ``SYSTEM``.
      acts: of the turn, in the order in which they are said.
      intent: what the turn is about.
      rng: which way.
    """
    return joined(*(_line(patterns, part, rng) for part, patterns in parts_of(speaker, acts, intent)))


def parts_of(speaker: str, acts: Sequence[Act], intent: str) -> Iterator[tuple[Sequence[Act], list[Pattern]]]:
    """The acts of a turn cut into parts, each with the patterns that say it: the longest part first that has some.

    Raises:
      LookupError: an act that no pattern says.
    """
    at = 0
    while at < len(acts):
        for end in range(len(acts), at, -1):
            part = acts[at:end]
            keys = tuple(dict.fromkeys(one.key for one in part))
            patterns = _patterns(speaker, keys, frozenset(values_of(part)), intent)
            if patterns:
                yield part, patterns
                at = end
                break
        else:
            raise LookupError(f"no pattern of {speaker} says {acts[at:]} of {intent}")


@cache
def _patterns(speaker: str, keys: tuple[str, ...], slots: frozenset[str], intent: str) -> list[Pattern]:
    """The patterns that say these acts and slots, and no others."""
    texts = templates().texts[speaker]
    # One sentence says what is wanted, and its values.
    key = " ".join(one for one in keys if one != "INFORM" or keys[0] != "INFORM_INTENT")
    return [one for one in texts.get(f"{key} @{intent}", texts.get(key, ())) if one.says(slots)]


def _line(patterns: Sequence[Pattern], acts: Sequence[Act], rng: SeededRng) -> Line:
    count = next((one.value.canonical for one in acts if one.slot == "count" and one.value), "")
    return rng.choice(patterns).line(values_of(acts), COUNTED[int(count)] if count else "")


def values_of(acts: Sequence[Act]) -> dict[str, Value]:
    """Slot to the value that acts have for it."""
    return {one.slot: one.value for one in acts if one.value is not None and one.slot not in ("intent", "count")}
