"""What the small tracker should have done at each step, from the states of a training set."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec
import numpy as np

from evaluation.dst.frames import State
from evaluation.dst.model import Example
from evaluation.dst.values import best_match
from evaluation.models.dst.tiny.steps import CARELESS, EMPTY, Flags, Ints, Track

NEAR = 0.8  # a mention that matches a value so well stands for it, where none matches it wholly
ALTERNATIVES = 4  # of a value in the state before that are kept
KEEP, ANY = 0, 1  # a slot's value stays as it is; any will do


class Target(msgspec.Struct, frozen=True):
    """What is right at each step.

    Attributes:
      before: (step, slot, alternative): the keys of the value before; -1 fills up, also where the text is nowhere.
      fixed: (step, slot, KEEP or ANY); ``values``: (step, slot, listed value); ``mentions``: (step, slot, mention).
      intent_before: at each step; the number of intents stands for none, as in ``intent``; -1 where it is not known.
      requested: (step, slot).
      owners: (slot, mention): whether its text is the slot's value at any step.
      known: of each step, whether there is a frame.
    """

    before: Ints
    fixed: Flags
    values: Flags
    mentions: Flags
    intent_before: Ints
    intent: Ints
    requested: Flags
    known: Flags
    owners: Flags
    accepts: Flags
    offered: Flags

    def findable(self) -> Flags:
        """Of each step and slot, whether any option is right."""
        found: Flags = self.fixed.any(2) | self.values.any(2) | self.mentions.any(2)
        return found


def grouped(asked: Iterable[Example]) -> Iterator[list[int]]:
    """The examples of one dialogue and service, in their order: each history begins as the next one does."""
    open_: dict[tuple[str, str], list[int]] = {}
    last: dict[tuple[str, str], Example] = {}
    for i, one in enumerate(asked):
        place = one.dialogue_id, one.service.service_name
        before = last.get(place)
        if before is not None and not (
            before.service == one.service and one.history[: len(before.history)] == before.history
        ):
            yield open_.pop(place)
        open_.setdefault(place, []).append(i)
        last[place] = one
    yield from open_.values()


def step_of(asked: Example) -> int:
    """The step that an example asks for."""
    return sum(speaker == "USER" for speaker, _ in asked.history) - 1


def target(track: Track, states: Mapping[int, State]) -> Target:
    """What is right for a dialogue.

    Args:
      track: of it.
      states: by step; steps that lack one keep the state before.
    """
    slots, intents = track.schema.service.slots, [one.name for one in track.schema.service.intents]
    shape = track.steps, len(slots)
    before = np.full((*shape, ALTERNATIVES), -1, dtype=np.int32)
    fixed = np.zeros((*shape, 2), dtype=bool)
    values = np.zeros((*shape, track.value_keys.shape[1]), dtype=bool)
    mentions = np.zeros((*shape, len(track.keys)), dtype=bool)
    requested = np.zeros(shape, dtype=bool)
    intent, intent_before = (np.full(track.steps, len(intents), dtype=np.int32) for _ in range(2))
    mention_step = track.step[track.sentence] if len(track.sentence) else track.sentence
    owned = np.zeros((len(slots), len(track.keys)), dtype=bool)
    now = State("NONE", [], {})
    for step in range(track.steps):
        last, now = now, states.get(step, now)
        intent_before[step] = _number(intents, last.active_intent)
        intent[step] = _number(intents, now.active_intent)
        for s, slot in enumerate(slots):
            requested[step, s] = step in states and slot.name in now.requested_slots
            had, has = last.slot_values.get(slot.name, []), now.slot_values.get(slot.name, [])
            keys = [track.key(value) for value in had] or [EMPTY]
            owned[s] |= np.isin(track.keys, [track.key(value) for value in has]) & track.valid[s]
            before[step, s, : len(keys[:ALTERNATIVES])] = keys[:ALTERNATIVES]
            if not has or set(has) & set(had):
                fixed[step, s, KEEP] = bool(has) or not had  # what vanishes is not learned
                continue
            wanted = [track.key(value) for value in has]
            fixed[step, s, ANY] = CARELESS in wanted
            values[step, s] = np.isin(track.value_keys[s], wanted) & (track.value_keys[s] != EMPTY)
            there = track.valid[s] & (mention_step <= step)
            mentions[step, s] = there & np.isin(track.keys, wanted)
            if not (fixed[step, s].any() or values[step, s].any() or mentions[step, s].any()):
                mentions[step, s] = _nearest(track, there, has)
    of_system = ~track.user[track.sentence] if len(track.sentence) else np.zeros(0, dtype=bool)
    accepts = (mentions & of_system).any((1, 2))
    # Whether there is something new to be taken, or the answer to it says nothing.
    had = (before[..., None] == track.keys).any((1, 2))
    new = (of_system & (mention_step == np.arange(track.steps)[:, None]) & ~had & track.valid.any(0)).any(1)
    offered = accepts | new
    return Target(
        before,
        fixed,
        values,
        mentions,
        intent_before,
        intent,
        requested,
        np.array([i in states for i in range(track.steps)]),
        owned,
        accepts,
        offered,
    )


def _number(intents: Sequence[str], name: str) -> int:
    return intents.index(name) if name in intents else len(intents)


def _nearest(track: Track, there: Flags, values: Sequence[str]) -> Flags:
    scores = np.zeros(len(there))
    for m in np.flatnonzero(there):
        scores[m] = best_match(values, track.texts[m])
    best = scores.max(initial=0.0)
    return (scores == best) if best >= NEAR else np.zeros(len(there), dtype=bool)
