"""The folder of a model: ``model.json`` beside the checkpoint."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from parapet.evaluation.models import architectures, saving
from parapet.evaluation.models.saving import MODEL
from parapet.schemas.errors import InputError
from parapet.transforms import files
from parapet.transforms.checkpoints import Checkpoint

if TYPE_CHECKING:
    from parapet.evaluation.models.soloist.answering import Soloist
    from parapet.evaluation.models.soloist.database import Database
    from parapet.evaluation.models.soloist.decoding import Sampling

NAME = "soloist"
FORMAT = 1
KINDS = architectures.BY_MODEL[NAME]
MODEL_CLASS = "AutoModelForCausalLM"


class Card(saving.Card, frozen=True, kw_only=True):
    """What ``model.json`` says.

    Attributes:
      length: tokens of a history at most, ``belief`` of a belief state, ``response`` of a response.
    """

    model: str = NAME
    format: int = FORMAT
    length: int
    belief: int
    response: int


def files_of(card: Card, model: Any, tokenizer: Any) -> dict[str, bytes]:
    """The files of a model's folder."""
    from parapet.evaluation.models import pretrained

    return {MODEL: saving.card_bytes(card), **pretrained.saved(tokenizer, model)}


def check(folder: str) -> tuple[Card, Checkpoint]:
    """Looks at a folder, without its weights. Raises InputError where no such model is there, or it is damaged."""
    from parapet.evaluation.models import pretrained

    card = saving.read_card(folder, NAME, Card, FORMAT)
    if min(card.length, card.belief, card.response) < 1:
        raise InputError("has no lengths: train it again", files.join(folder, MODEL))
    return card, pretrained.inside(folder, KINDS)


def load(folder: str, database: Database, device: str, batch: int, sampling: Sampling) -> Soloist:
    """The model in a folder, ready to answer.

    Args:
      folder: where it is.
      database: what it looks up.
      device: ``auto``, ``cpu`` or ``cuda``.
      batch: turns at a time.
      sampling: how the tokens of responses are chosen.

    Raises:
      InputError: it is not there, of another kind, or damaged.
    """
    from parapet.evaluation.models import pretrained
    from parapet.evaluation.models.devices import device_of
    from parapet.evaluation.models.soloist.answering import Soloist
    from parapet.evaluation.models.soloist.encoding import Tokens
    from parapet.evaluation.models.soloist.parts import MARKS

    card, checkpoint = check(folder)
    tokenizer, model = pretrained.load(checkpoint, MODEL_CLASS)
    lacking = [mark for mark in MARKS if mark not in tokenizer.get_vocab()]
    if lacking or len(tokenizer) > model.config.vocab_size:
        raise checkpoint.refused(f"its tokenizer is another: {lacking[0] if lacking else 'it has more tokens'}")
    if card.length + card.belief + card.response > model.config.max_position_embeddings:
        raise checkpoint.refused(f"has fewer positions than {MODEL} beside it says")
    return Soloist(card, model, Tokens(tokenizer), database, device_of(device), batch, sampling)
