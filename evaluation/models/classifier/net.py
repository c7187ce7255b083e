"""What computes: a bag of embeddings from scratch, or a checkpoint with a head for classes."""

from __future__ import annotations

import torch
from torch import Tensor, nn

DROPOUT = 0.3


class Bag(nn.Module):
    """The mean of the embeddings of a text's features, and a linear layer (Joulin et al. 2017, section 2).

    Embeddings begin as zeros: a feature that training never had says nothing for any class.

    Args:
      buckets: how many features there are, besides 0, which is none.
      size: of the embeddings.
      classes: how many.
    """

    def __init__(self, buckets: int, size: int, classes: int) -> None:
        super().__init__()
        self.features = nn.EmbeddingBag(buckets + 1, size, mode="mean", padding_idx=0)
        self.classes = nn.Linear(size, classes)
        nn.init.zeros_(self.features.weight)

    def forward(self, tokens: Tensor, _: Tensor) -> Tensor:
        """Scores of the classes; shape (texts, classes)."""
        features = nn.functional.dropout(self.features(tokens), DROPOUT, self.training)
        return torch.as_tensor(self.classes(features))


class Headed(nn.Module):
    """A checkpoint's model for classifying sequences.

    Args:
      model: of transformers.
    """

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, tokens: Tensor, mask: Tensor) -> Tensor:
        """Scores of the classes; shape (texts, classes)."""
        return torch.as_tensor(self.model(input_ids=tokens, attention_mask=mask).logits)
