"""The folder of a classifier: ``model.json`` beside the weights of a net, or a checkpoint."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from parapet.evaluation.models import architectures, saving
from parapet.evaluation.models.saving import MODEL, WEIGHTS
from parapet.schemas.errors import InputError
from parapet.transforms import files

if TYPE_CHECKING:
    from torch import nn

    from parapet.evaluation.models.classifier.answering import Classifier

NAME = "classifier"
FORMAT = 1
KINDS = architectures.BY_MODEL[NAME]
# Beginnings of the names of the weights that a task adds.
HEAD = ("classifier.", "pre_classifier.", "bert.pooler.")


class Card(saving.Card, frozen=True, kw_only=True):
    """What ``model.json`` says.

    Attributes:
      task: ``intent`` or ``ood``.
      labels: the classes, in the order of the scores.
      checkpoint: whether the model is one of transformers; else a net of ``size`` and ``buckets``.
      length: words or pieces of an utterance at most.
      score: ``msp`` or ``energy``.
      threshold: from this score on a turn is out of domain; None where none was tuned.
    """

    model: str = NAME
    format: int = FORMAT
    task: str
    labels: list[str]
    checkpoint: bool
    size: int
    buckets: int
    length: int
    score: str
    threshold: float | None


def files_of(card: Card, module: nn.Module, encoder: Any) -> dict[str, bytes]:
    """The files of a classifier's folder.

    Args:
      card: what is known of it.
      module: with the weights; a :class:`net.Headed` where it was made of a checkpoint.
      encoder: of the texts, which then has the tokenizer.
    """
    if card.checkpoint:
        from parapet.evaluation.models import pretrained

        return {MODEL: saving.card_bytes(card), **pretrained.saved(encoder.tokenizer, module.model)}
    return {MODEL: saving.card_bytes(card), WEIGHTS: saving.weights_bytes(module.state_dict())}


def read_card(folder: str) -> Card:
    """What is in a folder. Raises InputError: no model is there, or another one, or the file is damaged."""
    card = saving.read_card(folder, NAME, Card, FORMAT)
    if len(card.labels) < 2 or card.size < 1 or card.buckets < 1 or card.length < 1:
        raise InputError("has no classes, or no size: train it again", files.join(folder, MODEL))
    return card


def load(folder: str, device: str, batch: int) -> tuple[Card, Classifier]:
    """What is known of a classifier, and itself, ready to answer.

    Args:
      folder: where it is.
      device: ``auto``, ``cpu`` or ``cuda``.
      batch: texts at a time.

    Raises:
      InputError: it is not there, of another kind, or damaged.
    """
    from parapet.evaluation.models.classifier.answering import Classifier
    from parapet.evaluation.models.classifier.features import Encoder, Hashed, Pieces
    from parapet.evaluation.models.classifier.net import Bag, Headed
    from parapet.evaluation.models.devices import device_of

    card = read_card(folder)
    encoder: Encoder
    module: nn.Module
    if card.checkpoint:
        from parapet.evaluation.models import pretrained

        checkpoint = pretrained.inside(folder, KINDS)
        tokenizer, model = pretrained.load(checkpoint, "AutoModelForSequenceClassification")
        if model.config.num_labels != len(card.labels):
            raise checkpoint.refused(f"has {model.config.num_labels} classes, and {MODEL} beside it {len(card.labels)}")
        length = pretrained.longest(tokenizer, model, card.length, MODEL)
        encoder, module = Pieces(tokenizer, length), Headed(model)
    else:
        encoder, module = Hashed(card.buckets, card.length), Bag(card.buckets, card.size, len(card.labels))
        saving.load_weights(module, folder)
    return card, Classifier(module, encoder, card.labels, card.score, device_of(device), batch)
