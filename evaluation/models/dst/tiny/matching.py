"""How well the words of a schema are met by those of a dialogue: each looks for the one that is most like it.

Words that are equal meet wholly, whatever training had. What else is alike, such as "guests" and "people", is learned.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

NEVER = -1e4  # the score of what cannot be; half precision has it too
SPREAD = 0.1  # of new vectors; they have no length, so that it only says how fast they turn


class Words(nn.Module):
    """The vectors of words: of their stems, and of their pieces, so that those never seen have some too.

    Args:
      buckets: of the table.
      size: of a vector.
    """

    def __init__(self, buckets: int, size: int) -> None:
        super().__init__()
        self.size = size
        self.table = nn.EmbeddingBag(buckets, size + 1, mode="mean", include_last_offset=True)
        nn.init.normal_(self.table.weight, std=SPREAD)
        with torch.no_grad():
            self.table.weight[:, size] = 0.0

    def forward(self, rows: tuple[Tensor, Tensor], rare: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """The vectors of a vocabulary, of length 1; and how much each word tells where others stand beside it.

        Args:
          rows: the table's rows of each word, one behind the other, and where each begins; word 0 is none.
          rare: how likely it is that a word is taken for one that was never seen; None for never.
        """
        found = self.table(*rows)
        vectors, telling = F.normalize(found[:, : self.size], dim=1), found[:, self.size]
        if rare is not None:
            new = torch.rand(len(vectors), device=vectors.device) < rare
            vectors = torch.where(new[:, None], F.normalize(torch.randn_like(vectors), dim=1), vectors)
            telling = telling.masked_fill(new, 0.0)
        there = torch.arange(len(vectors), device=vectors.device) > 0
        return vectors * there[:, None], telling


class Matching(nn.Module):
    """From how alike two words are to how well one meets the other: steeply, from 0 to 1."""

    def __init__(self) -> None:
        super().__init__()
        self.steep, self.middle = nn.Parameter(torch.tensor(8.0)), nn.Parameter(torch.tensor(0.6))

    def forward(self, vectors: Tensor, words: Tensor, tokens: Tensor) -> Tensor:
        """(track, schema word, token): how well each token meets each word.

        Args:
          vectors: of the vocabulary; its word 0 meets none, and is met by none.
          words: of schemas; (track, ...).
          tokens: of dialogues; (track, token).
        """
        flat = words.flatten(1)
        alike = torch.bmm(vectors[flat], vectors[tokens].transpose(1, 2))
        there = (flat > 0)[:, :, None] & (tokens > 0)[:, None]
        return torch.sigmoid(self.steep * (alike - self.middle)) * there


def best(met: Tensor, places: Tensor) -> Tensor:
    """The best of several tokens: (track, word, token) and (track, where, token) to (track, word, where)."""
    flat = places.flatten(1)[:, None].expand(-1, met.shape[1], -1)
    top: Tensor = met.gather(2, flat).unflatten(2, places.shape[1:]).max(3).values
    return top


def shares(words: Tensor, telling: Tensor) -> Tensor:
    """How much each word of a field counts, of sum 1; the words are the last dimension."""
    return telling[words].masked_fill(words == 0, NEVER).softmax(-1)


def weighed(met: Tensor, places: Tensor, weights: Tensor) -> Tensor:
    """How well each field is met at each of several places: (track, element, field, where)."""
    return torch.einsum("befl,beflp->befp", weights, best(met, places).unflatten(1, weights.shape[1:]))


def most(met: Tensor, mask: Tensor) -> Tensor:
    """The most over the sentences of each step: (track, ..., sentence) to (track, ..., step).

    Args:
      met: not below 0.
      mask: (track, step, sentence).
    """
    mask = mask.reshape(mask.shape[0], *[1] * (met.dim() - 2), *mask.shape[1:])
    top: Tensor = (met[..., None, :] * mask).max(-1).values
    return top


def at(met: Tensor, places: Tensor) -> Tensor:
    """(track, slot, field, where) to (track, slot, field, mention), each mention at its place."""
    return met.gather(3, places[:, None, None].expand(-1, *met.shape[1:3], -1))


def against(met: Tensor, there: Tensor) -> Tensor:
    """How much better than the best of the other elements, which are the second dimension.

    Args:
      met: (track, element, ...).
      there: (track, element): what is not filled up.
    """
    if met.shape[1] < 2:
        return met
    there = there.reshape(*there.shape, *[1] * (met.dim() - 2))
    top = met.masked_fill(~there, NEVER).topk(2, 1).values
    others = torch.where(met >= top[:, :1], top[:, 1:2], top[:, :1])
    return met - others.where(others > NEVER / 2, 0.0)
