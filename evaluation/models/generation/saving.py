"""The folder of a model: a checkpoint where the T5 was fine-tuned, else the prefixes; and texts as the T5's tokens."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from parapet.evaluation.models import pretrained, saving
from parapet.evaluation.models.saving import MODEL, WEIGHTS
from parapet.schemas.errors import InputError
from parapet.transforms import checkpoints, files
from parapet.transforms.checkpoints import Checkpoint

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from parapet.evaluation.models.generation.prefixes import Held, Shape


FORMAT = 2  # 1 had the acts in their own order
ARCHITECTURES = pretrained.BY_MODEL["ft_t5"]  # and of pt_t5

Row = list[int]


def inputs_of(tokenizer: Any, texts: Sequence[str], most: int) -> tuple[list[Row], list[bool]]:
    """The tokens of each input, the end token with them; of long ones the last ``most``. And whether it was cut."""
    rows = _ids(tokenizer, texts)
    return [row[-most:] for row in rows], [len(row) > most for row in rows]


def targets_of(tokenizer: Any, texts: Sequence[str], most: int) -> tuple[list[Row], list[bool]]:
    """The tokens of each utterance; of long ones the first ``most``, without an end. And whether it was cut."""
    rows = _ids(tokenizer, texts)
    return [row[:most] for row in rows], [len(row) > most for row in rows]


def _ids(tokenizer: Any, texts: Sequence[str]) -> list[Row]:
    found: list[Row] = tokenizer(list(texts), add_special_tokens=True, truncation=False)["input_ids"] if texts else []
    return found


class Card(saving.Card, frozen=True, kw_only=True):
    """What ``model.json`` says.

    Attributes:
      checkpoint: the digest of the checkpoint that it began with.
      max_input: tokens of an input at most.
      max_output: tokens of an utterance at most.
      prefix: positions of the prefixes; 0 where the model was fine-tuned.
      templates: the user's, which its inputs were made with: service to key to sentence.
    """

    format: int = FORMAT
    checkpoint: str
    max_input: int
    max_output: int
    prefix: int = 0
    templates: Mapping[str, Mapping[str, str]] = {}


class Loaded(msgspec.Struct, frozen=True):
    """A model to predict with; in double precision, not training."""

    card: Card
    tokenizer: Any
    t5: Any


def tuned_files(card: Card, tokenizer: Any, t5: Any) -> dict[str, bytes]:
    """The files of a fine-tuned model."""
    return {MODEL: saving.card_bytes(card), **pretrained.saved(tokenizer, t5)}


def prefix_files(card: Card, prefixes: dict[str, Tensor]) -> dict[str, bytes]:
    """The files of a prefix-tuned model: the keys and values, without the MLPs that compute them."""
    return {MODEL: saving.card_bytes(card), WEIGHTS: saving.weights_bytes(prefixes)}


def check(folder: str, model: str, checkpoint: str | None) -> Card:
    """Looks at a model's folder, without its weights.

    Args:
      folder: as ``parapet train`` wrote it.
      model: its name.
      checkpoint: the folder of the T5 that the prefixes are for; None for a fine-tuned model, which has its own.

    Raises:
      InputError: it is not there, of another kind, or for another checkpoint.
    """
    card = saving.read_card(folder, model, Card, FORMAT)
    if not card.prefix:
        pretrained.inside(folder, ARCHITECTURES)
        return card
    if checkpoint is None:
        raise InputError("the model has prefixes alone: give the folder of the T5 that they are for", "--checkpoint")
    given = checkpoints.inspect(checkpoint, ARCHITECTURES, "--checkpoint")
    found = checkpoints.digest(checkpoint)
    if found != card.checkpoint:
        raise given.refused(f"is not the T5 that the prefixes are for: that has the digest {card.checkpoint}")
    return card


def load_t5(checkpoint: Checkpoint) -> tuple[Any, Any]:
    """The tokenizer and the T5 of a checkpoint. Raises InputError where they cannot be loaded, or do not fit."""
    tokenizer, t5 = pretrained.load(checkpoint, "AutoModelForSeq2SeqLM")
    if tokenizer.pad_token_id is None or tokenizer("a")["input_ids"][-1:] != [tokenizer.eos_token_id]:
        raise checkpoint.refused("its tokenizer has no padding token, or does not end a text with its end token")
    if len(tokenizer) > t5.config.vocab_size:
        known = t5.config.vocab_size
        raise checkpoint.refused(f"its tokenizer has {len(tokenizer):,} tokens, of which the model knows {known:,}")
    return tokenizer, t5


def load(folder: str, model: str, checkpoint: str | None, device: torch.device) -> Loaded:
    """A model; in double precision, so that what is most likely does not hang on how sums are rounded.

    Args:
      folder, model, checkpoint: see :func:`check`.
      device: where to compute.

    Raises:
      InputError: as :func:`check`; or it is damaged.
    """
    card = check(folder, model, checkpoint)
    if card.prefix:
        begun_with = checkpoints.inspect(str(checkpoint), ARCHITECTURES)
    else:
        begun_with = pretrained.inside(folder, ARCHITECTURES)
    tokenizer, t5 = load_t5(begun_with)
    t5 = t5.double().to(device)
    if card.prefix:
        from parapet.evaluation.models.generation.prefixes import attach, shape_of

        _fill(attach(t5), shape_of(t5), card, folder, device)
    return Loaded(card, tokenizer, t5)


def _fill(held: Held, shape: Shape, card: Card, folder: str, device: torch.device) -> None:
    from safetensors import SafetensorError
    from safetensors.torch import load as load_tensors

    from parapet.evaluation.models.generation.prefixes import KINDS

    place = files.join(folder, WEIGHTS)
    try:
        found = load_tensors(files.read_bytes(place))
    except SafetensorError as error:
        raise InputError(f"is cut off or damaged ({error}): train the model again", place) from None
    except OSError as error:
        raise InputError(f"cannot be read: {error}", place) from None
    wanted = {kind: shape.of(kind, card.prefix) for kind in KINDS}
    if {kind: tuple(one.shape) for kind, one in found.items()} != wanted:
        raise InputError(f"does not fit {MODEL} beside it, or the checkpoint: train the model again", place)
    held.of = {kind: one.double().to(device) for kind, one in found.items()}
