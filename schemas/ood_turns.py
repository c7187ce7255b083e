"""Rows of ``ood``: each user turn of a set, with the label in_domain or ood."""

from __future__ import annotations

import pyarrow as pa

# Sorted by dialogue, as its file has them, and turn.
OOD_TURNS = pa.schema(
    [
        pa.field("dialogue_id", pa.string(), nullable=False),
        pa.field("turn", pa.int32(), nullable=False),  # position in the new dialogue, from 0
        pa.field("original_turn", pa.int32()),  # position in the original; null where the turn was injected
        pa.field("label", pa.string(), nullable=False),  # in_domain | ood
        pa.field("source", pa.string()),  # file and place of the foreign utterance; null where in_domain
        pa.field("utterance", pa.string(), nullable=False),
        pa.field("fallback", pa.string()),  # what the system answers to it; null where in_domain
    ]
)
