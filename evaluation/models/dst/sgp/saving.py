"""The folder of a model: ``model.json``, the encoders as checkpoints, and the weights of the heads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from parapet.evaluation.models import architectures, saving
from parapet.evaluation.models.dst.sgp.texts import KINDS
from parapet.evaluation.models.saving import MODEL, WEIGHTS
from parapet.schemas.errors import InputError
from parapet.transforms import checkpoints, files

if TYPE_CHECKING:
    from parapet.evaluation.models.dst.sgp.net import Modules
    from parapet.evaluation.models.dst.sgp.tracking import SgpTracker

NAME = "sgp_dst"
FORMAT = 1
TYPES = architectures.BY_MODEL[NAME]


class Card(saving.Card, frozen=True, kw_only=True):
    """What ``model.json`` says.

    Attributes:
      length: tokens of an input at most.
      shared: whether there is one encoder for all modules, in ``checkpoint``; else each has its own below that.
    """

    model: str = NAME
    format: int = FORMAT
    length: int
    shared: bool


def _folders(shared: bool) -> list[str]:
    from parapet.evaluation.models.pretrained import FOLDER

    return [FOLDER] if shared else [f"{FOLDER}/{kind}" for kind in KINDS]


def files_of(card: Card, tokenizer: Any, modules: Modules) -> dict[str, bytes]:
    """The files of a model's folder."""
    from parapet.evaluation.models.pretrained import FOLDER, saved

    found = {MODEL: saving.card_bytes(card), WEIGHTS: saving.weights_bytes(modules.heads.state_dict())}
    for folder, encoder in zip(_folders(card.shared), modules.encoders, strict=True):
        for path, data in saved(tokenizer, encoder).items():
            found[folder + path.removeprefix(FOLDER)] = data
    return found


def check(folder: str) -> tuple[Card, list[checkpoints.Checkpoint]]:
    """Looks at a folder, without its weights. Raises InputError where no model of this kind is in it."""
    from parapet.evaluation.models.packages import check_installed

    check_installed("transformers")
    card = saving.read_card(folder, NAME, Card, FORMAT)
    if card.length < 1:
        raise InputError("is damaged: it allows of no tokens", files.join(folder, MODEL))
    return card, [checkpoints.inspect(files.join(folder, one), TYPES) for one in _folders(card.shared)]


def load(folder: str, device: str, batch: int) -> SgpTracker:
    """The model in a folder, ready to predict.

    Args:
      folder: as ``parapet train sgp_dst`` wrote it.
      device: ``auto``, ``cpu`` or ``cuda``.
      batch: inputs at a time.

    Raises:
      InputError: it is not there, of another kind, or damaged.
    """
    from parapet.evaluation.models.devices import device_of
    from parapet.evaluation.models.dst.sgp.net import Modules
    from parapet.evaluation.models.dst.sgp.tracking import SgpTracker

    card, found = check(folder)
    loaded = [load_encoder(one) for one in found]
    modules = Modules([encoder for _, encoder in loaded])
    saving.load_weights(modules.heads, folder)
    return SgpTracker(loaded[0][0], modules.to(device_of(device)).eval(), card.length, batch)


def load_encoder(checkpoint: checkpoints.Checkpoint) -> tuple[Any, Any]:
    """The tokenizer and the encoder of a checkpoint. Raises InputError where it cannot be used."""
    from parapet.evaluation.models.pretrained import load as load_checkpoint

    tokenizer, encoder = load_checkpoint(checkpoint, "AutoModel", new=("pooler.",))
    for name in ("cls_token_id", "sep_token_id", "pad_token_id"):
        if getattr(tokenizer, name) is None:
            raise checkpoint.refused(f"its tokenizer has no {name.removesuffix('_id')}")
    if not tokenizer.is_fast:
        raise checkpoint.refused(
            "its tokenizer does not tell which characters a token stands for: none of the fast ones"
        )
    return tokenizer, encoder
