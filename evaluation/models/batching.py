"""Batches of examples that differ in length: like with like, so that little is padded."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

POOL = 64  # batches whose examples are sorted by length; of more, the order would be less of a draw


def bucketed(lengths: Tensor, batch: int, generator: torch.Generator) -> Iterator[Tensor]:
    """The batches of an epoch: numbers of examples. Shuffled, sorted by length within pools, the batches shuffled.

    Args:
      lengths: of each example, on the CPU; shape (examples,).
      batch: examples of a batch.
      generator: what draws.
    """
    order = torch.randperm(len(lengths), generator=generator)
    batches = [
        one for pool in order.split(batch * POOL) for one in pool[lengths[pool].argsort(stable=True)].split(batch)
    ]
    for i in torch.randperm(len(batches), generator=generator).tolist():
        yield batches[i]


def by_length(lengths: Sequence[int], batch: int) -> Iterator[list[int]]:
    """Batches where nothing is drawn: numbers of examples, the longest first, so that memory runs out at once."""
    order = sorted(range(len(lengths)), key=lambda i: -lengths[i])
    for start in range(0, len(order), batch):
        yield order[start : start + batch]


class Rows:
    """Rows of token ids in one tensor, gathered and padded without a Python loop over them.

    Args:
      rows: of each example; may be empty.
      device: where the batches are wanted.
    """

    def __init__(self, rows: Sequence[Sequence[int]], device: torch.device | str = "cpu") -> None:
        self.lengths = torch.tensor([len(row) for row in rows], dtype=torch.long)
        self.starts = self.lengths.cumsum(0) - self.lengths
        self.flat = torch.tensor([token for row in rows for token in row], dtype=torch.int32)
        self.device = torch.device(device)

    def padded(self, ids: Tensor, fill: int, left: bool = False) -> tuple[Tensor, Tensor]:
        """Token ids and mask of some rows; both of shape (examples, the longest of them; at least 1).

        Args:
          ids: numbers of rows, on the CPU; shape (examples,).
          fill: the token that pads.
          left: pads on the left.
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
