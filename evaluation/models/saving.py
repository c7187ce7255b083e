"""A model in a folder: ``model.json`` says the kind, settings and vocabulary, ``weights.safetensors`` has the weights.

Neither can run code of its own, and both are checked when they are read, as folders come from strangers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, TypeVar

import msgspec

from parapet.schemas.errors import InputError
from parapet.transforms import files

if TYPE_CHECKING:
    from torch import Tensor, nn

MODEL, WEIGHTS = "model.json", "weights.safetensors"


class Card(msgspec.Struct, frozen=True, kw_only=True):
    """What every ``model.json`` says; a model's own card says more.

    Attributes:
      model: its name.
      format: of the folder.
    """

    model: str
    format: int


CardType = TypeVar("CardType", bound=Card)


def card_bytes(card: Card) -> bytes:
    """The content of ``model.json``."""
    return msgspec.json.format(msgspec.json.encode(card), indent=1) + b"\n"


def weights_bytes(weights: Mapping[str, Tensor]) -> bytes:
    """The content of ``weights.safetensors``."""
    from safetensors.torch import save

    return save({name: value.cpu().contiguous() for name, value in weights.items()})


def read_card(folder: str, model: str, kind: type[CardType], format: int) -> CardType:
    """What is in a folder.

    Args:
      folder: of a model.
      model: its name.
      kind: the struct of its card.
      format: the one that this program reads.

    Raises:
      InputError: no model is there, or another than ``model``, or the file is damaged.
    """
    place = files.join(folder, MODEL)
    try:
        data = files.read_bytes(place)
    except Exception:  # a file system's or a bucket's own
        raise InputError(f"no model is here: expected {MODEL}, as 'parapet train {model}' writes it", folder) from None
    try:
        base = msgspec.json.decode(data, type=Card)
        if base.model != model:
            reason = f"is a model of another kind, {base.model!r}: use 'parapet predict {base.model}'"
            raise InputError(reason, place)
        if base.format != format:
            raise InputError(f"has format {base.format}, and this version reads {format}: train it again", place)
        return msgspec.json.decode(data, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InputError(f"is damaged, or no model of ours: {error}", place) from None


def load_weights(net: nn.Module, folder: str) -> None:
    """Loads a net's weights. Raises InputError where they are not there, damaged, or do not fit."""
    from safetensors import SafetensorError
    from safetensors.torch import load

    place = files.join(folder, WEIGHTS)
    try:
        net.load_state_dict(load(files.read_bytes(place)))
    except SafetensorError as error:
        raise InputError(f"is cut off or damaged ({error}): train the model again", place) from None
    except (KeyError, RuntimeError) as error:  # shapes that do not fit
        message = " ".join(str(error).split())[:300]
        raise InputError(f"does not fit {MODEL} beside it: {message}", place) from None
    except OSError as error:
        raise InputError(f"cannot be read: {error}", place) from None
