"""Prefix-tuning: keys and values that a frozen T5 attends to beside its own (Li and Liang 2021).

Each of the three kinds of attention has prefixes and an MLP of its own (Chen, Lin and Byrne 2023, Appendix E): an
embedding for each position of the prefix, and two layers with tanh between them that give the keys and values of all
layers of the T5. The paper's "two hidden dimensions being 512 and 384" are the embedding and the layer after it: of the
ways to read this, it is the one with 7.7M parameters, 68.2M with T5-small (7,702,656 and 68,209,280).

T5's encoder takes no past keys. So the prefixes are put in where attention is computed: transformers lets one register
a function for that. There every layer has its keys, those of a cache with them, and its position bias. A prefix has no
position, so its bias is 0; the positions of the other keys do not change.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal

import msgspec
import torch
import torch.nn.functional as F
from torch import Tensor, nn

Kind = Literal["encoder", "decoder", "cross"]
KINDS: tuple[Kind, ...] = ("encoder", "decoder", "cross")

_NAME = "parapet_prefixes"  # of the attention function


class Shape(msgspec.Struct, frozen=True):
    """Of a T5's attention, as far as prefixes need it.

    Attributes:
      layers: how many, of each kind.
      heads: of a layer.
      width: of a key.
    """

    layers: dict[str, int]
    heads: int
    width: int

    def of(self, kind: str, length: int) -> tuple[int, ...]:
        """The shape of the prefixes of one kind: layers, keys and values, heads, positions, width."""
        return self.layers[kind], 2, self.heads, length, self.width


def shape_of(t5: Any) -> Shape:
    """That of a model."""
    config = t5.config
    layers = {"encoder": config.num_layers, "decoder": config.num_decoder_layers, "cross": config.num_decoder_layers}
    return Shape(layers, config.num_heads, config.d_kv)


class Prefixes(nn.Module):
    """The MLPs.

    Args:
      shape: of the T5.
      length: positions of a prefix.
      embedding: width of the embeddings.
      hidden: width of the MLPs between their layers.
    """

    def __init__(self, shape: Shape, length: int, embedding: int, hidden: int) -> None:
        super().__init__()
        self.shape, self.length = shape, length
        self.embeddings = nn.ModuleDict({kind: nn.Embedding(length, embedding) for kind in KINDS})
        self.nets = nn.ModuleDict({kind: _mlp(embedding, hidden, shape, kind) for kind in KINDS})

    def forward(self) -> dict[str, Tensor]:
        """The prefixes of each kind, of the shape that ``Shape.of`` tells."""
        found: dict[str, Tensor] = {}
        for kind in KINDS:
            layers, two, heads, length, width = self.shape.of(kind, self.length)
            flat = self.nets[kind](self.embeddings[kind].weight)
            found[kind] = flat.view(length, layers, two, heads, width).permute(1, 2, 3, 0, 4)
        return found


def _mlp(embedding: int, hidden: int, shape: Shape, kind: Kind) -> nn.Module:
    flat = shape.layers[kind] * 2 * shape.heads * shape.width
    return nn.Sequential(nn.Linear(embedding, hidden), nn.Tanh(), nn.Linear(hidden, flat))


class Held:
    """The prefixes that a T5 attends to now, by kind; none of a kind is none."""

    def __init__(self) -> None:
        self.of: Mapping[str, Tensor] = {}


def attach(t5: Any) -> Held:
    """Lets a T5 attend to what is held; its weights stay what they are."""
    from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS
    from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

    ALL_ATTENTION_FUNCTIONS.register(_NAME, _attend)
    ALL_MASK_ATTENTION_FUNCTIONS.register(_NAME, _mask)
    held = Held()
    for kind, layer, attention in _attentions(t5):
        attention.prefixed = held, kind, layer  # no tensor and no module, so it is none of the model's state
    t5.set_attn_implementation(_NAME)
    return held


def _attentions(t5: Any) -> Iterator[tuple[Kind, int, Any]]:
    for layer, block in enumerate(t5.encoder.block):
        yield "encoder", layer, block.layer[0].SelfAttention
    for layer, block in enumerate(t5.decoder.block):
        yield "decoder", layer, block.layer[0].SelfAttention
        yield "cross", layer, block.layer[1].EncDecAttention


def _mask(**given: Any) -> Tensor | None:
    """Which keys a query may see, as a mask of booleans; None for all. A causal mask is made in any case."""
    from transformers.masking_utils import sdpa_mask

    found: Tensor | None = sdpa_mask(**{**given, "allow_is_causal_skip": False})
    return found


def _attend(
    module: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    position_bias: Tensor | None = None,
    **_: Any,
) -> tuple[Tensor, None]:
    """Attention to the prefix and the keys; all of shape (examples, heads, positions, width)."""
    held, kind, layer = module.prefixed
    assert position_bias is not None
    bias = position_bias.to(query.dtype)
    if attention_mask is not None:
        bias = torch.where(attention_mask, bias, torch.finfo(query.dtype).min)
    if kind in held.of:
        keys, values = held.of[kind][layer].to(query.dtype).expand(len(query), -1, -1, -1, -1).unbind(1)
        key, value = torch.cat([keys, key], 2), torch.cat([values, value], 2)
        bias = F.pad(bias, (keys.shape[2], 0))
    found = F.scaled_dot_product_attention(query, key, value, bias.contiguous(), dropout, scale=scaling)
    return found.transpose(1, 2).contiguous(), None
