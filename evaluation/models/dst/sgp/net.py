"""The modules: an encoder each, or one for all, and small heads on it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from parapet.evaluation.models.dst.sgp.encoding import Batch
from parapet.evaluation.models.dst.sgp.rules import KINDS, Kind

NEVER = -1e9  # the score of what cannot be
LONGEST = 32  # tokens of a value at most


class Scores(NamedTuple):
    """What a module says, in single precision.

    Attributes:
      options: of each option; shape (rows, options).
      starts, ends: of each token, as where a value begins and ends; shape (rows, width).
      requested: whether the user asks for the slot, above 0 if so; shape (rows,).
    """

    options: Tensor
    starts: Tensor
    ends: Tensor
    requested: Tensor


class Heads(nn.Module):
    """On an encoder of ``size``."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.option = nn.Sequential(nn.Linear(size, size), nn.GELU(), nn.Linear(size, 1))
        self.span = nn.Linear(size, 2)
        self.requested = nn.Linear(size, 1)

    def forward(self, hidden: Tensor, batch: Batch) -> Scores:
        """The scores; ``hidden`` has shape (rows, width, size)."""
        begins, ends = batch.options.unbind(-1)
        sums = F.pad(hidden.float().cumsum(1), (0, 0, 1, 0))
        rows = torch.arange(len(hidden), device=hidden.device)[:, None]
        means = (sums[rows, ends] - sums[rows, begins]) / (ends - begins).clamp(min=1)[..., None]
        options = self.option(means).squeeze(-1).float().masked_fill(ends == 0, NEVER)
        spans = self.span(hidden).float().masked_fill(~batch.open[..., None], NEVER)
        return Scores(options, spans[..., 0], spans[..., 1], self.requested(hidden[:, 0]).squeeze(-1).float())


class Modules(nn.Module):
    """All four.

    Args:
      encoders: BERT-like, one for each of ``KINDS`` or one for all.
    """

    def __init__(self, encoders: Sequence[Any]) -> None:
        super().__init__()
        self.encoders = nn.ModuleList(encoders)
        self.heads = nn.ModuleDict({kind: Heads(encoders[0].config.hidden_size) for kind in KINDS})
        # RoBERTa has one type of token, DistilBERT none.
        self.typed = getattr(encoders[0].config, "type_vocab_size", 0) > 1

    def forward(self, kind: Kind, batch: Batch) -> Scores:
        """What a module says of a batch."""
        encoder = self.encoders[KINDS.index(kind) if len(self.encoders) > 1 else 0]
        types = {"token_type_ids": batch.types} if self.typed else {}
        hidden = encoder(input_ids=batch.tokens, attention_mask=batch.mask, **types).last_hidden_state
        scores: Scores = self.heads[kind](hidden, batch)
        return scores


def best_spans(scores: Scores, batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
    """Of each row where the best span begins and ends, and by how much it is better than the next one.

    A span is within one utterance, and of ``LONGEST`` tokens at most.
    """
    width = scores.starts.shape[1]
    columns = torch.arange(width, device=scores.starts.device)
    wide = columns[None, :] - columns[:, None]
    near = (wide >= 0) & (wide < LONGEST)
    fits = near & (batch.said[:, :, None] == batch.said[:, None, :])
    pairs = (scores.starts[:, :, None] + scores.ends[:, None, :]).masked_fill(~fits, 2 * NEVER)
    best = pairs.flatten(1).topk(min(2, width * width))
    margins = best.values[:, 0] - best.values[:, -1]
    at = best.indices[:, 0]
    return at // width, at % width, margins
