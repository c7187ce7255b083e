"""Goes on writing where prompts end: greedily, or drawn from the most likely tokens."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import torch
from torch import Tensor

from parapet.evaluation.models.batching import Rows, by_length
from parapet.transforms.seeding import stable_hash

DIGITS = 9  # what is behind them depends on padding


class Sampling(msgspec.Struct, frozen=True):
    """How a token is chosen.

    Attributes:
      top_p: 0 for the most likely one; else it is drawn among the most likely that together have this probability
        (Holtzman et al. 2020, section 3.1).
      seed: of the draws.
    """

    top_p: float = 0.0
    seed: str = "0"


GREEDY = Sampling()


def go_on(
    model: Any,
    prompts: Sequence[Sequence[int]],
    end: int,
    most: int,
    batch: int,
    sampling: Sampling = GREEDY,
    keys: Sequence[str] = (),
) -> list[list[int]]:
    """What follows each prompt, up to the token that ends it, which is left out.

    Prompts are padded on the left, and positions count from their first token, so that what follows one does not depend
    on the others. What is drawn depends on the seed, the key and the number of the token alone.

    Args:
      model: of transformers, in double precision.
      prompts: token ids; none is empty.
      end: the token that ends.
      most: tokens at most.
      batch: prompts at a time.
      sampling: how tokens are chosen.
      keys: of the prompts, where tokens are drawn.
    """
    device = next(model.parameters()).device
    rows = Rows(prompts, device)
    found: list[list[int]] = [[] for _ in prompts]
    for ids in by_length(rows.lengths.tolist(), batch):
        tokens, mask = rows.padded(torch.tensor(ids), 0, left=True)
        written = _written(model, tokens, mask, end, most, sampling, [keys[i] for i in ids] if sampling.top_p else [])
        for i, row in zip(ids, written, strict=True):
            found[i] = row[: row.index(end)] if end in row else row
    return found


def _written(
    model: Any, tokens: Tensor, mask: Tensor, end: int, most: int, sampling: Sampling, keys: Sequence[str]
) -> list[list[int]]:
    positions = (mask.cumsum(1) - 1).clamp(min=0)
    done = torch.zeros(len(tokens), dtype=torch.bool, device=tokens.device)
    chosen: list[Tensor] = []
    past = None
    for step in range(most):
        told = model.base_model(
            input_ids=tokens, attention_mask=mask, position_ids=positions, past_key_values=past, use_cache=True
        )
        past = told.past_key_values
        logits = model.get_output_embeddings()(told.last_hidden_state[:, -1])
        token = drawn(logits, sampling, [f"{key}\0{step}" for key in keys]) if keys else likeliest(logits)
        chosen.append(token)
        done |= token == end
        if bool(done.all()):
            break
        tokens, positions = token[:, None], positions[:, -1:] + 1
        mask = torch.cat([mask, mask.new_ones(len(mask), 1)], 1)
    written: list[list[int]] = torch.stack(chosen, 1).tolist()
    return written


def likeliest(logits: Tensor) -> Tensor:
    """The most likely token of each row; of equal ones the first."""
    return logits.round(decimals=DIGITS).argmax(1)


def drawn(logits: Tensor, sampling: Sampling, keys: Sequence[str]) -> Tensor:
    """A token of each row, drawn among the most likely ones by a hash of the seed and its key."""
    order = logits.round(decimals=DIGITS).sort(dim=1, descending=True, stable=True)
    probabilities = order.values.softmax(1)
    before = probabilities.cumsum(1) - probabilities
    kept = (probabilities * (before < sampling.top_p)).cumsum(1)
    shares = torch.tensor(
        [stable_hash(sampling.seed, key) / 2**64 for key in keys], dtype=kept.dtype, device=kept.device
    )
    place = (kept <= shares[:, None] * kept[:, -1:]).sum(1, keepdim=True).clamp(max=kept.shape[1] - 1)
    return order.indices.gather(1, place).squeeze(1)
