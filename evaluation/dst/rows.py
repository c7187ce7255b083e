"""Single frames in the outputs: a row for each, as ``parapet compare`` reads them, and those hurt most by variants."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec
import pyarrow as pa

from parapet.evaluation.dst.files import Scored
from parapet.evaluation.dst.frames import JOINT, METRICS, Wrong
from parapet.evaluation.dst.sets import Plan
from parapet.evaluation.sets import ORIGINAL
from parapet.schemas.service import Slot
from parapet.transforms.seeding import stable_hash

WRONG = pa.struct(
    [
        pa.field("slot", pa.string(), nullable=False),
        pa.field("reference", pa.list_(pa.field("item", pa.string(), nullable=False)), nullable=False),
        pa.field("predicted", pa.string(), nullable=False),  # empty where the slot was not predicted
        pa.field("score", pa.float64(), nullable=False),
    ]
)

# Sorted as the reference's files are.
FRAMES = pa.schema(
    [
        pa.field("set", pa.string(), nullable=False),  # original, v1, ...
        pa.field("dialogue_id", pa.string(), nullable=False),
        pa.field("turn", pa.int32(), nullable=False),  # position in the dialogue, from 0
        pa.field("frame", pa.int32(), nullable=False),  # position in the turn, from 0
        pa.field("service", pa.string(), nullable=False),  # as the set names it
        pa.field("original_service", pa.string(), nullable=False),
        pa.field("seen", pa.bool_(), nullable=False),  # whether the set's training schema has it
        *(pa.field(name, pa.float64()) for name in METRICS),  # null where a frame has none
        pa.field("wrong", pa.list_(pa.field("item", WRONG, nullable=False)), nullable=False),
    ]
)


def table(
    name: str, dialogues: Iterable[Sequence[Scored]], originals: Mapping[str, str], seen: frozenset[str]
) -> pa.Table:
    """A file's frames of one set."""
    frames = [frame for of in dialogues for frame in of]
    columns: dict[str, list[object]] = {
        "set": [name] * len(frames),
        "dialogue_id": [frame.dialogue_id for frame in frames],
        "turn": [frame.turn for frame in frames],
        "frame": [frame.frame for frame in frames],
        "service": [frame.service for frame in frames],
        "original_service": [originals.get(frame.service, frame.service) for frame in frames],
        "seen": [frame.service in seen for frame in frames],
        "wrong": [
            [{"slot": w.slot, "reference": list(w.reference), "predicted": w.predicted, "score": w.score} for w in one]
            for one in (frame.wrong for frame in frames)
        ],
    }
    for i, metric in enumerate(METRICS):
        columns[metric] = [None if (value := frame.values[i]) != value else value for frame in frames]
    return pa.table(columns, schema=FRAMES)


SHOWN = 12

# What is wrong with a slot: it is active and was not predicted, its value is another, or it is not active.
ERRORS = ("not_predicted", "wrong_value", "not_active")


def error_of(wrong: Wrong) -> str:
    """Which of ERRORS it is."""
    if not wrong.reference:
        return "not_active"
    return "wrong_value" if wrong.predicted else "not_predicted"


class SlotDifference(msgspec.Struct, frozen=True):
    """A slot that is right under the original and wrong under the variant, as both describe it.

    Attributes:
      reference: its values, of which one was predicted under the original; empty where the slot is not active.
      predicted_variant: the value under the variant; empty where it was not predicted.
    """

    original: str
    original_description: str
    variant: str
    variant_description: str
    reference: str
    predicted_variant: str


class HurtFrame(msgspec.Struct, frozen=True):
    """A frame under the original's schema and the variant that hurt it most.

    Attributes:
      drop: of joint goal accuracy, from the original to that variant.
      order: decides between equal drops: a hash.
      seen: whether the training schema has the service.
    """

    drop: float
    order: int
    dialogue_id: str
    turn: int
    utterance: str
    service: str
    variant: str
    variant_service: str
    accuracy: float
    variant_accuracy: float
    slots: tuple[SlotDifference, ...]
    seen: bool | None = None

    def key(self) -> tuple[float, int, str]:
        """Sorts the worst first."""
        return -self.drop, self.order, self.dialogue_id


class Loss(NamedTuple):
    """A frame under the original and under a variant, and the slots that are right only under the original."""

    before: Scored
    variant: str
    after: Scored
    slots: list[Wrong]


# A variant's service and slot -> the original's slot, and the variant's.
SlotPairs = Mapping[tuple[str, str], tuple[Slot, Slot]]


def slot_pairs(plan: Plan, variant: str) -> dict[tuple[str, str], tuple[Slot, Slot]]:
    """The slots of a variant with those of the original, which are in the same order."""
    originals = plan.sets[ORIGINAL].services
    return {
        (name, slot.name): (before, slot)
        for name, service in plan.sets[variant].services.items()
        if (original := originals.get(plan.originals[name])) is not None
        for before, slot in zip(original.slots, service.slots, strict=False)
    }


def losses(dialogues: Iterable[Sequence[Sequence[Scored]]], pairs: Mapping[str, SlotPairs]) -> Iterator[Loss]:
    """The frames with slots that are right under the original and wrong under a variant.

    Args:
      dialogues: of each, its frames under the original and then under each variant.
      pairs: of each variant.
    """
    for original, *variants in dialogues:
        for name, frames in zip(pairs, variants, strict=True):
            for before, after in zip(original, frames, strict=True):
                if after.wrong:
                    already = {wrong.slot for wrong in before.wrong}
                    found = [(wrong, pairs[name].get((after.service, wrong.slot))) for wrong in after.wrong]
                    slots = [wrong for wrong, pair in found if pair is not None and pair[0].name not in already]
                    if slots:
                        yield Loss(before, name, after, slots)


def worst_of(found: Iterable[Loss], pairs: Mapping[str, SlotPairs], seen: frozenset[str], seed: str) -> list[HurtFrame]:
    """The frames in which joint goal accuracy drops most, each with its worst variant; one of a dialogue.

    Args:
      found: the frames that lose slots.
      pairs: of each variant.
      seen: the original's services that train has.
      seed: of the order between equals.
    """
    by_dialogue: dict[str, tuple[tuple[float, int, str], Loss]] = {}
    for loss in found:
        before, drop = loss.before, loss.before.values[JOINT] - loss.after.values[JOINT]
        at = by_dialogue.get(before.dialogue_id)
        if drop > 0 and (at is None or -drop <= at[0][0]):
            order = stable_hash(seed, "example", before.dialogue_id, str(before.turn), str(before.frame))
            key = -drop, order, loss.variant
            if at is None or key < at[0]:
                by_dialogue[before.dialogue_id] = key, loss
    hurt = sorted(by_dialogue.values(), key=lambda one: (*one[0][:2], one[1].before.dialogue_id))
    return [
        _hurt(loss, order, pairs[loss.variant], loss.before.service in seen) for (_, order, _), loss in hurt[:SHOWN]
    ]


def _hurt(loss: Loss, order: int, pairs: SlotPairs, seen: bool) -> HurtFrame:
    before, variant, after, slots = loss
    joint = before.values[JOINT], after.values[JOINT]
    texts = tuple(_difference(wrong, *pairs[after.service, wrong.slot]) for wrong in slots)
    return HurtFrame(
        joint[0] - joint[1], order, before.dialogue_id, before.turn, before.utterance, before.service, variant,
        after.service, *joint, texts, seen,
    )  # fmt: skip


def _difference(wrong: Wrong, original: Slot, variant: Slot) -> SlotDifference:
    texts = original.name, original.description, variant.name, variant.description
    return SlotDifference(*texts, ", ".join(wrong.reference), wrong.predicted)


def worst(examples: Iterable[HurtFrame]) -> list[HurtFrame]:
    """Those of several files that drop most. A dialogue is in one file."""
    return sorted(examples, key=HurtFrame.key)[:SHOWN]
