"""Rows of ``language_variations``: what became of each user turn of a set."""

from __future__ import annotations

import pyarrow as pa

OPERATION = pa.struct(
    [
        pa.field("kind", pa.string(), nullable=False),  # omission, opener, politeness, ...
        pa.field("start", pa.int32(), nullable=False),  # in the original
        pa.field("end", pa.int32(), nullable=False),
        pa.field("before", pa.string(), nullable=False),
        pa.field("after", pa.string(), nullable=False),
    ]
)

SLOT = pa.struct(
    [
        pa.field("service", pa.string(), nullable=False),
        pa.field("slot", pa.string(), nullable=False),
        pa.field("value", pa.string(), nullable=False),  # as the original utterance has it
        pa.field("start", pa.int32(), nullable=False),
        pa.field("exclusive_end", pa.int32(), nullable=False),
        pa.field("new_value", pa.string(), nullable=False),  # as the set has it: another with --perturb_values only
        pa.field("new_start", pa.int32(), nullable=False),
        pa.field("new_exclusive_end", pa.int32(), nullable=False),
    ]
)

# Sorted by dialogue, as its file has them, and turn.
PERTURBED_TURNS = pa.schema(
    [
        pa.field("dialogue_id", pa.string(), nullable=False),
        pa.field("turn", pa.int32(), nullable=False),  # position in the dialogue, from 0
        pa.field("status", pa.string(), nullable=False),  # varied | unchanged
        pa.field("reason", pa.string(), nullable=False),  # why it is unchanged; empty where it was varied
        pa.field("original", pa.string(), nullable=False),  # the utterance as it was
        pa.field("utterance", pa.string(), nullable=False),  # as the set has it
        # Whose words: rules, back_translation:PIVOT, or what a file of rewritten turns names; empty where unchanged.
        pa.field("source", pa.string(), nullable=False),
        # In order, apart: what stands in the original before, between and behind them moves by what they add or take.
        pa.field("operations", pa.list_(pa.field("item", OPERATION, nullable=False)), nullable=False),
        pa.field("env", pa.int8(), nullable=False),  # the smallest Env set that has it varied, from 1; 0: none
        pa.field("slots", pa.list_(pa.field("item", SLOT, nullable=False)), nullable=False),
    ]
)
