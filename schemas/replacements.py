"""Rows of ``unseen_entities``: what became of each value of each slot of a dialogue."""

from __future__ import annotations

import pyarrow as pa

_TEXTS = pa.list_(pa.field("item", pa.string(), nullable=False))

# Sorted by dialogue, as its file has them; then service, slot, canonical form.
REPLACEMENTS = pa.schema(
    [
        pa.field("dialogue_id", pa.string(), nullable=False),
        pa.field("service", pa.string(), nullable=False),
        pa.field("slot", pa.string(), nullable=False),
        pa.field("kind", pa.string(), nullable=False),  # city, date, ...; see docs/unseen_entities.md
        pa.field("status", pa.string(), nullable=False),  # replaced | kept
        pa.field("reason", pa.string(), nullable=False),  # why it was kept; empty where it was replaced
        pa.field("value", _TEXTS, nullable=False),  # every way in which it is written besides the canonical form
        pa.field("replacement", _TEXTS, nullable=False),  # what stands for these, each once
        pa.field("canonical", pa.string(), nullable=False),
        pa.field("canonical_replacement", pa.string(), nullable=False),  # empty where it was kept
        pa.field("unseen", pa.bool_(), nullable=False),  # replaced by what training does not have
        # Places replaced. What several slots share, unmarked, counts for the first.
        pa.field("utterances", pa.int32(), nullable=False),
        pa.field("spans", pa.int32(), nullable=False),  # those of them that a span marks
        pa.field("state", pa.int32(), nullable=False),
        pa.field("actions", pa.int32(), nullable=False),
        pa.field("service_call", pa.int32(), nullable=False),
        pa.field("results", pa.int32(), nullable=False),
    ]
)
