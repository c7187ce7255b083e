"""How trackers that fine-tune a checkpoint are trained, and how good one is on frames whose states are known."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import msgspec

from parapet.evaluation.dst.frames import JOINT, Slots, State, score_frame, slots_of
from parapet.evaluation.dst.model import Model
from parapet.evaluation.models.dst.data import Labelled
from parapet.transforms.seeding import stable_hash


def joint_goal_accuracy(model: Model, frames: Sequence[Labelled]) -> float:
    """The mean over all frames whose service has slots, as ``parapet evaluate --task dst`` computes it.

    0 where there are no such frames.
    """
    states = model.predict([frame.asked for frame in frames])
    slots: dict[int, Slots] = {}
    scores = []
    for frame, state in zip(frames, states, strict=True):
        service = frame.asked.service
        if service.slots:
            of_service = slots.setdefault(id(service), slots_of(service))
            values, _ = score_frame(frame.state, msgspec.convert(state, State, from_attributes=True), of_service)
            scores.append(values[JOINT])
    return sum(scores) / len(scores) if scores else 0.0


def some(frames: Sequence[Labelled], most: int, seed: str) -> list[Labelled]:
    """The frames of some dialogues, drawn, as many as make ``most`` frames at most, in their order; at least one.

    Whole dialogues: what a model computes for a turn serves those after it too.

    Args:
      frames: to draw from.
      most: 0 for all.
      seed: of the draw.
    """
    if not most or len(frames) <= most:
        return list(frames)
    sizes = Counter(_dialogue(one) for one in frames)
    chosen: set[tuple[str, str]] = set()
    room = most
    for key in sorted(sizes, key=lambda key: stable_hash(seed, "dev", *key)):
        if sizes[key] <= room or not chosen:
            chosen.add(key)
            room -= sizes[key]
    return [one for one in frames if _dialogue(one) in chosen]


def _dialogue(one: Labelled) -> tuple[str, str]:
    return one.asked.dialogue_id, one.opening
