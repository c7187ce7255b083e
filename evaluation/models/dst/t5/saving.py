"""The folder of a model: ``model.json`` and the checkpoint beside it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from parapet.evaluation.models import architectures, saving
from parapet.evaluation.models.saving import MODEL
from parapet.schemas.errors import InputError
from parapet.transforms import files
from parapet.transforms.checkpoints import Checkpoint

if TYPE_CHECKING:
    from parapet.evaluation.models.dst.t5.tracking import T5Tracker

NAME = "t5dst"
FORMAT = 1
KINDS = architectures.BY_MODEL[NAME]


class Card(saving.Card, frozen=True, kw_only=True):
    """What ``model.json`` says.

    Attributes:
      length: tokens of an input at most.
      answer: tokens of an answer at most.
    """

    model: str = NAME
    format: int = FORMAT
    length: int
    answer: int


def files_of(card: Card, tokenizer: Any, t5: Any) -> dict[str, bytes]:
    """The files of a model's folder."""
    from parapet.evaluation.models.pretrained import saved

    return {MODEL: saving.card_bytes(card), **saved(tokenizer, t5)}


def check(folder: str) -> tuple[Card, Checkpoint]:
    """Looks at a folder, without its weights. Raises InputError where no model of this kind is in it."""
    from parapet.evaluation.models.packages import check_installed
    from parapet.evaluation.models.pretrained import inside

    check_installed("transformers", "sentencepiece")
    card = saving.read_card(folder, NAME, Card, FORMAT)
    if card.length < 1 or card.answer < 1:
        raise InputError("is damaged: it allows of no tokens", files.join(folder, MODEL))
    return card, inside(folder, KINDS)


def load(folder: str, device: str, batch: int) -> T5Tracker:
    """The model in a folder, ready to predict.

    Args:
      folder: as ``parapet train t5dst`` wrote it.
      device: ``auto``, ``cpu`` or ``cuda``.
      batch: prompts at a time.

    Raises:
      InputError: it is not there, of another kind, or damaged.
    """
    from parapet.evaluation.models.devices import device_of
    from parapet.evaluation.models.dst.t5.tracking import T5Tracker
    from parapet.evaluation.models.pretrained import load as load_checkpoint

    card, checkpoint = check(folder)
    tokenizer, t5 = load_checkpoint(checkpoint, "AutoModelForSeq2SeqLM")
    return T5Tracker(tokenizer, t5.to(device_of(device)), card.length, card.answer, batch)
