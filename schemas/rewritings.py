"""Rewritten user turns of the crowd: the accepted ones, and the audit of every answer."""

from __future__ import annotations

from typing import Literal, get_args

import msgspec
import pyarrow as pa

Kind = Literal["paraphrase", "typos", "verbose", "simple"]
KINDS: tuple[Kind, ...] = get_args(Kind)


class RewrittenTurn(msgspec.Struct, frozen=True):
    """A line of ``rewritten.jsonl``, as ``language_variations --rewritten`` takes it.

    Attributes:
      turn: the position in the dialogue's turns, from 0.
      source: the response id.
    """

    dialogue_id: str
    turn: int
    kind: Kind
    utterance: str
    source: str


_VALUES = pa.list_(
    pa.struct(
        [
            pa.field("service", pa.string(), nullable=False),
            pa.field("slot", pa.string(), nullable=False),
            pa.field("value", pa.string(), nullable=False),
            pa.field("start", pa.int32(), nullable=False),
            pa.field("exclusive_end", pa.int32(), nullable=False),
            pa.field("new_start", pa.int32()),
            pa.field("new_exclusive_end", pa.int32()),
        ]
    )
)
_TIME = pa.timestamp("ms", tz="UTC")

# A row for every answer: ``responses.parquet`` of ``compose_variations``.
REWRITINGS = pa.schema(
    [
        pa.field("response_id", pa.string(), nullable=False),
        pa.field("dialogue_id", pa.string(), nullable=False),
        pa.field("turn", pa.int32(), nullable=False),
        pa.field("kind", pa.string(), nullable=False),
        pa.field("original", pa.string(), nullable=False),
        pa.field("text", pa.string(), nullable=False),
        pa.field("canonical", pa.string(), nullable=False),
        pa.field("disposition", pa.string(), nullable=False),
        pa.field("reason", pa.string(), nullable=False),
        pa.field("values", _VALUES, nullable=False),
        pa.field("worker_hash", pa.string(), nullable=False),
        pa.field("accept_time", _TIME),
        pa.field("submit_time", _TIME),
        pa.field("work_seconds", pa.int64()),
    ]
)
