"""Examples as tensors: batches of similar length, padded rows, and histories cut to a model's limit."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

import torch
from torch import Tensor

POOL = 64  # batches whose examples are sorted by length; with more, the order would be less random


def bucketed(lengths: Tensor, batch: int, generator: torch.Generator) -> Iterator[Tensor]:
    """Yields the batches of an epoch: numbers of examples, shuffled, sorted by length within pools, then batched.

    Args:
      lengths: the length of each example, on the CPU; shape (examples,).
      batch: examples in a batch.
      generator: the random generator.
    """
    order = torch.randperm(len(lengths), generator=generator)
    batches = [
        batch_ids
        for pool in order.split(batch * POOL)
        for batch_ids in pool[lengths[pool].argsort(stable=True)].split(batch)
    ]
    for i in torch.randperm(len(batches), generator=generator).tolist():
        yield batches[i]


def by_length(lengths: Sequence[int], batch: int) -> Iterator[list[int]]:
    """Yields batches in a fixed order: numbers of examples, the longest first, so that memory runs out at once."""
    order = sorted(range(len(lengths)), key=lambda i: -lengths[i])
    for start in range(0, len(order), batch):
        yield order[start : start + batch]


class Rows:
    """Rows of token ids in one tensor, gathered and padded without a Python loop over them.

    Args:
      rows: the token ids of each example; may be empty.
      device: the device of the batches.
    """

    def __init__(self, rows: Sequence[Sequence[int]], device: torch.device | str = "cpu") -> None:
        self.lengths = torch.tensor([len(row) for row in rows], dtype=torch.long)
        self.starts = self.lengths.cumsum(0) - self.lengths
        self.flat = torch.tensor([token for row in rows for token in row], dtype=torch.int32)
        self.device = torch.device(device)

    def padded(self, ids: Tensor, fill: int, left: bool = False) -> tuple[Tensor, Tensor]:
        """Returns token ids and mask of some rows; both of shape (examples, the longest of them; at least 1).

        Args:
          ids: numbers of rows, on the CPU; shape (examples,).
          fill: the padding token.
          left: whether to pad on the left.
        """
        lengths = self.lengths[ids]
        width = max(1, int(lengths.max())) if len(ids) else 1
        columns = torch.arange(width)
        offsets = columns - (width - lengths)[:, None] if left else columns.expand(len(ids), width)
        mask = (offsets >= 0) & (offsets < lengths[:, None])
        tokens = torch.full((len(ids), width), fill, dtype=torch.long)
        places = (self.starts[ids][:, None] + offsets)[mask]
        tokens[mask] = self.flat[places].long()
        return tokens.to(self.device, non_blocking=True), mask.long().to(self.device, non_blocking=True)


# Rounding errors of logits in single precision are far smaller, and differences between them usually far larger.
DOUBT = 1e-2


Decision = TypeVar("Decision")


# Rows to (decision, margin by which the best choice beats the next).
Decide = Callable[[Sequence[int]], Iterable[tuple[Decision, float]]]


def settled(batches: Iterable[Sequence[int]], decide: Decide[Decision]) -> list[Decision]:
    """Returns the decision of each row, in the order of their numbers.

    Close decisions are repeated in a batch of their own.

    Args:
      batches: numbers of rows; together all of them.
      decide: computes a batch.
    """
    decisions: dict[int, Decision] = {}
    for numbers in batches:
        for number, (decision, margin) in zip(numbers, decide(numbers), strict=True):
            if len(numbers) > 1 and not margin >= DOUBT:
                ((decision, _),) = decide([number])
            decisions[number] = decision
    return [decisions[number] for number in sorted(decisions)]


History = tuple[tuple[str, str], ...]  # (speaker, utterance) of each turn


Stretch = tuple[int, int]  # the position of some tokens: the first one, and the one behind the last


class Tokens:
    """Concatenated tokens of texts."""

    def __init__(self) -> None:
        self.flat = array("i")

    def add(self, ids: Iterable[int]) -> Stretch:
        """Appends tokens; returns their position."""
        start = len(self.flat)
        self.flat.extend(ids)
        return start, len(self.flat)


class Pairs:
    """Rows of a dialogue and a schema, to be taken in batches.

    Args:
      tokens: the store of tokens.
      rows: (dialogue, schema) of each row.
      limit: the maximum number of tokens in a row. Dialogues are cut on the left; schemas are never cut, and may exceed
        the limit.
      first: the token that each row begins with, if any.
    """

    def __init__(
        self, tokens: Tokens, rows: Sequence[tuple[Stretch, Stretch]], limit: int, first: int | None = None
    ) -> None:
        self.flat = torch.tensor(tokens.flat, dtype=torch.int32)
        self.first = first
        self.lead = int(first is not None)  # number of tokens before the dialogue
        places = torch.tensor([(*dialogue, *schema) for dialogue, schema in rows], dtype=torch.long).view(-1, 4)
        starts, self.ends, self.schemas, schema_ends = places.unbind(1)
        self.widths = schema_ends - self.schemas
        room = (limit - self.lead - self.widths).clamp(min=0)
        self.starts = torch.maximum(starts, self.ends - room)
        self.cut = int((self.starts > starts).sum())
        self.stretches = self.ends - self.starts  # lengths of the dialogues
        self.lengths = self.lead + self.stretches + self.widths

    def __len__(self) -> int:
        return len(self.lengths)

    def padded(self, ids: Tensor, fill: int) -> tuple[Tensor, Tensor]:
        """Returns token ids and mask of some rows; both of shape (rows, the longest of them).

        Args:
          ids: numbers of rows, on the CPU; shape (rows,).
          fill: the padding token.
        """
        columns = torch.arange(int(self.lengths[ids].max())) - self.lead
        own = self.stretches[ids][:, None]
        places = torch.where(
            columns < own, self.starts[ids][:, None] + columns, self.schemas[ids][:, None] - own + columns
        )
        mask = columns < self.lengths[ids][:, None] - self.lead
        tokens = self.flat[places.clamp(0, len(self.flat) - 1)].long().masked_fill(~mask, fill)
        if self.first is not None:
            tokens[:, 0] = self.first
        return tokens, mask.long()

    def decisions(self, batch: int, decide: Decide[Decision]) -> list[Decision]:
        """Returns the decision of each row, which does not depend on its batch."""
        return settled(list(by_length(self.lengths.tolist(), batch)), decide)
