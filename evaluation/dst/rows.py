"""The rows of a set: every frame with its metrics, as ``parapet compare`` reads them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import pyarrow as pa

from parapet.evaluation.dst.files import Scored
from parapet.evaluation.dst.frames import METRICS

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
