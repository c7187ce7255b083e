"""The modules: an encoder each, and small heads on it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from parapet.evaluation.models.dst.sgp.encoding import Batch
from parapet.evaluation.models.dst.sgp.rules import FEATURES, KINDS, Kind

NEVER = -1e9  # the score of what cannot be


class Scores(NamedTuple):
    """What a module says, as logits in single precision.

    Attributes:
      options: of each option; shape (rows, options).
      starts, ends: of each token, as where a value begins and ends; shape (rows, width).
      yes: whether the slot is requested, or a value copied; shape (rows,).
    """

    options: Tensor
    starts: Tensor
    ends: Tensor
    yes: Tensor


class Heads(nn.Module):
    """What a module has beside its encoder.

    Args:
      features: values of the context feature.
      encoder: that of the module.
    """

    def __init__(self, features: int, encoder: Any) -> None:
        super().__init__()
        size = encoder.config.hidden_size
        self.feature = nn.Embedding(features, encoder.get_input_embeddings().embedding_dim)
        self.option = nn.Sequential(nn.Linear(size, size), nn.Tanh(), nn.Linear(size, 1))
        self.span = nn.Linear(size, 2)
        self.yes = nn.Linear(size, 1)
        for name, weights in self.named_parameters():
            if name.endswith("bias"):
                nn.init.zeros_(weights)
            else:
                nn.init.normal_(weights, std=encoder.config.initializer_range)

    def forward(self, hidden: Tensor, batch: Batch) -> Scores:
        """The scores; ``hidden`` has shape (rows, width, size)."""
        rows = torch.arange(len(hidden), device=hidden.device)[:, None, None]
        none = batch.options == 0
        largest = hidden[rows, batch.options].masked_fill(none[..., None], NEVER).amax(2)
        absent = none.all(-1)
        options = self.option(largest.masked_fill(absent[..., None], 0.0)).squeeze(-1).float()
        spans = self.span(hidden).float().masked_fill(~batch.open[..., None], NEVER)
        return Scores(
            options.masked_fill(absent, NEVER), spans[..., 0], spans[..., 1], self.yes(hidden[:, 0]).squeeze(-1).float()
        )


class Modules(nn.Module):
    """All four.

    Args:
      encoders: BERT-like, one for each of ``KINDS``.
    """

    def __init__(self, encoders: Sequence[Any]) -> None:
        super().__init__()
        self.encoders = nn.ModuleDict(dict(zip(KINDS, encoders, strict=True)))
        self.heads = nn.ModuleDict({kind: Heads(FEATURES[kind], self.encoders[kind]) for kind in KINDS})
        # RoBERTa has one type of token, DistilBERT none.
        self.typed = getattr(encoders[0].config, "type_vocab_size", 0) > 1

    def forward(self, kind: Kind, batch: Batch) -> Scores:
        """What a module says of a batch."""
        encoder, heads = self.encoders[kind], self.heads[kind]
        types = {"token_type_ids": batch.types} if self.typed else {}
        # As BERT adds its own embeddings: before the normalisation.
        embedded = encoder.get_input_embeddings()(batch.tokens) + heads.feature(batch.features)
        hidden = encoder(inputs_embeds=embedded, attention_mask=batch.mask, **types).last_hidden_state
        scores: Scores = heads(hidden, batch)
        return scores


def best_spans(scores: Scores, batch: Batch) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Of each row where the best span begins and ends, the sum of their probabilities, and the lead of that sum.

    "null" is a span of its own.
    """
    width = scores.starts.shape[1]
    columns = torch.arange(width, device=scores.starts.device)
    null = columns == batch.null[:, None]
    fits = (columns[:, None] <= columns) & (null[:, :, None] == null[:, None, :])
    fits = fits & batch.open[:, :, None] & batch.open[:, None, :]
    sums = scores.starts.softmax(1)[:, :, None] + scores.ends.softmax(1)[:, None, :]
    best = sums.masked_fill(~fits, -1.0).flatten(1).topk(min(2, width * width))
    places = best.indices[:, 0]
    return places // width, places % width, best.values[:, 0], best.values[:, 0] - best.values[:, -1]
