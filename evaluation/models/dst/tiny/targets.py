"""What the small tracker should have done at each step, from the states of a training set."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec
import numpy as np

from parapet.evaluation.dst.frames import State, best_match
from parapet.evaluation.dst.model import Example
from parapet.evaluation.models.dst.tiny.steps import CARELESS, EMPTY, Flags, Ints, Track

KEEP, ANY = 0, 1  # options of a slot: its value stays as it is, any will do
NO_INTENT = "NONE"
_NEAR = 0.8  # a mention that matches a value this well counts as it, where none matches it fully
_ALTERNATIVES = 4  # of a value before that are kept


class Target(msgspec.Struct, frozen=True):
    """What is right at each step.

    Attributes:
      before: (step, slot, alternative): the keys of the value before; -1 fills up, and is the key of a text that is
        nowhere.
      fixed: (step, slot, KEEP or ANY).
      values, mentions: (step, slot, listed value) and (step, slot, mention); all that say the value are right.
      intent_before, intent: of each step; the number of intents means none.
      requested: (step, slot).
      known: of each step, whether there is a frame.
      owners: (slot, mention): whether it says the slot's value of any step.
      offered, accepts: of each step, whether the system named something new, and whether that is taken.
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
    offered: Flags
    accepts: Flags

    def lost(self) -> int:
        """How many changes have no option that is right."""
        return int((~(self.fixed.any(2) | self.values.any(2) | self.mentions.any(2))).sum())


def grouped(asked: Iterable[Example]) -> Iterator[list[int]]:
    """The numbers of the examples of one dialogue and service, in their order: each history continues the last."""
    found: dict[tuple[str, str], list[int]] = {}
    last: dict[tuple[str, str], Example] = {}
    for i, one in enumerate(asked):
        place = one.dialogue_id, one.service.service_name
        before = last.get(place)
        if before is not None and not _goes_on(before, one):
            yield found.pop(place)
        found.setdefault(place, []).append(i)
        last[place] = one
    yield from found.values()


def _goes_on(before: Example, one: Example) -> bool:
    same = before.service is one.service or before.service == one.service
    return same and one.history[: len(before.history)] == before.history


def step_of(asked: Example) -> int:
    """The step that an example asks for."""
    return sum(speaker == "USER" for speaker, _ in asked.history) - 1


def target(track: Track, states: Mapping[int, State]) -> Target:
    """What is right for a dialogue.

    Args:
      track: of it.
      states: by step; at a step that lacks one, all stays.
    """
    service = track.schema.service
    steps, slots, mentions = track.steps, len(service.slots), len(track.keys)
    found = Target(
        before=np.full((steps, slots, _ALTERNATIVES), -1, dtype=np.int32),
        fixed=_no(steps, slots, 2),
        values=_no(steps, slots, track.value_keys.shape[1]),
        mentions=_no(steps, slots, mentions),
        intent_before=np.zeros(steps, dtype=np.int32),
        intent=np.zeros(steps, dtype=np.int32),
        requested=_no(steps, slots),
        known=np.array([step in states for step in range(steps)]),
        owners=_no(slots, mentions),
        offered=_no(steps),
        accepts=_no(steps),
    )
    intents = [one.name for one in service.intents]
    now = State(NO_INTENT, [], {})
    for step in range(steps):
        last, now = now, states.get(step, now)
        found.intent_before[step], found.intent[step] = (_number(intents, one.active_intent) for one in (last, now))
        for s, slot in enumerate(service.slots):
            found.requested[step, s] = step in states and slot.name in now.requested_slots
            had, has = last.slot_values.get(slot.name, []), now.slot_values.get(slot.name, [])
            _change(found, track, step, s, had, has)
    _acceptance(found, track)
    return found


def _change(found: Target, track: Track, step: int, s: int, had: Sequence[str], has: Sequence[str]) -> None:
    """What is right for a slot at a step."""
    keys = [track.key(value) for value in had[:_ALTERNATIVES]] or [EMPTY]
    found.before[step, s, : len(keys)] = keys
    wanted = [track.key(value) for value in has]
    says = np.isin(track.keys, wanted) & track.valid[s]
    found.owners[s] |= says
    if not has or set(has) & set(had):
        found.fixed[step, s, KEEP] = bool(has) or not had  # that a value vanishes is not learned
        return
    there = track.valid[s] & (track.mention_steps() <= step)
    found.fixed[step, s, ANY] = CARELESS in wanted
    found.values[step, s] = np.isin(track.value_keys[s], wanted) & (track.value_keys[s] != EMPTY)
    found.mentions[step, s] = says & there
    if not (found.fixed[step, s].any() or found.values[step, s].any() or found.mentions[step, s].any()):
        found.mentions[step, s] = _nearest(track, there, has)


def _nearest(track: Track, there: Flags, values: Sequence[str]) -> Flags:
    scores = np.array(
        [best_match(values, text) if here else 0.0 for text, here in zip(track.texts, there, strict=True)]
    )
    near: Flags = (scores >= _NEAR) & (scores == scores.max(initial=0.0))
    return near


def _acceptance(found: Target, track: Track) -> None:
    """What the user makes of what the system named."""
    of_system = ~track.user[track.sentence]
    found.accepts[:] = (found.mentions & of_system).any((1, 2))
    # What is in the state already says nothing, whatever the answer.
    had = (found.before[..., None] == track.keys).any((1, 2))
    now = track.mention_steps() == np.arange(track.steps)[:, None]
    found.offered[:] = found.accepts | (now & of_system & ~had & track.valid.any(0)).any(1)


def _number(intents: Sequence[str], name: str) -> int:
    return intents.index(name) if name in intents else len(intents)


def _no(*shape: int) -> Flags:
    return np.zeros(shape, dtype=bool)
