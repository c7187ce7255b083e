"""Rows of ``speech_errors``: each user turn of a set, its transcript and its slots."""

from __future__ import annotations

import pyarrow as pa

SPAN = pa.struct(
    [
        pa.field("service", pa.string(), nullable=False),
        pa.field("slot", pa.string(), nullable=False),
        pa.field("value", pa.string(), nullable=False),  # as the original utterance has it
        pa.field("start", pa.int64(), nullable=False),
        pa.field("exclusive_end", pa.int64(), nullable=False),
        pa.field("status", pa.string(), nullable=False),  # kept | lost
        pa.field("heard_start", pa.int64()),  # in the new utterance; null where the value is lost
        pa.field("heard_exclusive_end", pa.int64()),
    ]
)

# Sorted by dialogue, as its file has them, and turn.
ASR_TURNS = pa.schema(
    [
        pa.field("dialogue_id", pa.string(), nullable=False),
        pa.field("turn", pa.int32(), nullable=False),  # position in the dialogue, from 0
        pa.field("status", pa.string(), nullable=False),  # heard | not_spoken | failed
        pa.field("reason", pa.string(), nullable=False),  # why it has no transcript; else empty
        pa.field("original", pa.string(), nullable=False),  # the original utterance
        pa.field("utterance", pa.string(), nullable=False),  # as the set has it
        pa.field("spoken", pa.string(), nullable=False),  # the spoken form: the reference
        pa.field("hypothesis", pa.string(), nullable=False),  # the transcript
        pa.field(
            "alignment", pa.string(), nullable=False
        ),  # reference>hypothesis, see parapet.transforms.speech.alignment
        pa.field("words", pa.int32(), nullable=False),
        pa.field("substitutions", pa.int32(), nullable=False),
        pa.field("deletions", pa.int32(), nullable=False),
        pa.field("insertions", pa.int32(), nullable=False),
        pa.field("wer", pa.float64()),  # of this turn; null without a transcript
        pa.field("voice", pa.string(), nullable=False),
        pa.field("noise", pa.string(), nullable=False),
        pa.field("snr", pa.float64()),  # dB; null without a transcript
        pa.field("audio_sha256", pa.string(), nullable=False),  # of the samples that were recognised
        pa.field("seconds", pa.float64()),
        pa.field("slots", pa.list_(pa.field("item", SPAN, nullable=False)), nullable=False),
    ]
)
