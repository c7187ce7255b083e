"""Single frames in the outputs: a row for each, as ``parapet compare`` reads them, and those hurt most by variants."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec
import pyarrow as pa

from parapet.evaluation.dst.files import Scored
from parapet.evaluation.dst.frames import METRICS
from parapet.schemas.service import Service
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
_JOINT = METRICS.index("joint_goal_accuracy")


class SlotDifference(msgspec.Struct, frozen=True):
    """A wrong slot as original and variant describe it, with the expected and the predicted values of both."""

    original: str
    original_description: str
    variant: str
    variant_description: str
    reference: str
    predicted: str
    predicted_variant: str


class HurtFrame(msgspec.Struct, frozen=True):
    """A frame under the original's schema and the variant that hurt it most.

    Attributes:
      drop: of joint goal accuracy, from the original to that variant.
      order: decides between equal drops: a hash.
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

    def key(self) -> tuple[float, int, str]:
        """Sorts the worst first."""
        return -self.drop, self.order, self.dialogue_id


def worst_of(
    original: Sequence[Scored],
    variants: Mapping[str, Sequence[Scored]],
    services: Mapping[str, Mapping[str, Service]],
    seed: str,
) -> list[HurtFrame]:
    """The frames of a dialogue that lose, each with its worst variant.

    Args:
      original: its frames.
      variants: the same under each variant.
      services: of every set, ``original`` too.
      seed: of the order between equals.
    """
    found = []
    for i, frame in enumerate(original):
        name, other = min(((name, of[i]) for name, of in variants.items()), key=lambda pair: pair[1].values[_JOINT])
        drop = frame.values[_JOINT] - other.values[_JOINT]
        if drop > 0:
            texts = _texts(frame, other, services["original"][frame.service], services[name][other.service])
            found.append(
                HurtFrame(
                    drop,
                    stable_hash(seed, "example", frame.dialogue_id, str(frame.turn), str(frame.frame)),
                    frame.dialogue_id,
                    frame.turn,
                    frame.utterance,
                    frame.service,
                    name,
                    other.service,
                    frame.values[_JOINT],
                    other.values[_JOINT],
                    texts,
                )
            )
    return found


def worst(examples: Sequence[HurtFrame], shown: int = SHOWN) -> list[HurtFrame]:
    """Those that drop most, no two of one dialogue."""
    by_dialogue: dict[str, HurtFrame] = {}
    for frame in sorted(examples, key=HurtFrame.key):
        by_dialogue.setdefault(frame.dialogue_id, frame)
        if len(by_dialogue) == shown:
            break
    return list(by_dialogue.values())


def _texts(frame: Scored, other: Scored, original: Service, variant: Service) -> tuple[SlotDifference, ...]:
    """Slots of variants are in the order of their originals."""
    names = [slot.name for slot in variant.slots]
    before = {wrong.slot: wrong for wrong in frame.wrong}
    found = []
    for wrong in other.wrong:
        at = names.index(wrong.slot)
        slot = original.slots[at] if at < len(original.slots) else variant.slots[at]
        same = before.get(slot.name)
        found.append(
            SlotDifference(
                slot.name,
                slot.description,
                wrong.slot,
                variant.slots[at].description,
                ", ".join(wrong.reference),
                same.predicted if same else ", ".join(wrong.reference),
                wrong.predicted,
            )
        )
    return tuple(found)
