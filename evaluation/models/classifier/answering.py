"""A classifier: a bag of embeddings or a checkpoint, what it answers, and its folder."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import torch
from torch import Tensor, nn

from parapet.evaluation.models import pretrained, saving
from parapet.evaluation.models.batching import Rows, by_length
from parapet.evaluation.models.classifier.features import Encoder, Hashed, Pieces
from parapet.evaluation.models.devices import device_of, enough_memory
from parapet.evaluation.models.saving import MODEL, WEIGHTS
from parapet.evaluation.ood.reading import OOD
from parapet.schemas.errors import InputError
from parapet.transforms import files

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


DIGITS = 9


class Answer(msgspec.Struct, frozen=True):
    """What is said of an utterance.

    Attributes:
      label: the class.
      score: the higher, the more it seems out of domain.
    """

    label: str
    score: float


class Classifier:
    """A model that answers the same whatever else it is asked at the same time.

    It computes in double precision. Padding and the size of a batch then change what is far behind the ninth digit, to
    which all is rounded; of classes that are equal then the first is taken.

    Args:
      module: gives scores of the classes, of tokens and mask.
      encoder: of the texts.
      labels: the classes, in the order of the scores.
      score: ``msp`` or ``energy``; of a model that learned what is out of domain, its probability is taken.
      device: where to compute.
      batch: texts at a time.
    """

    def __init__(
        self, module: nn.Module, encoder: Encoder, labels: Sequence[str], score: str, device: torch.device, batch: int
    ) -> None:
        self.module = module.double().to(device).eval()
        self.encoder, self.labels, self.score, self.device, self.batch = encoder, labels, score, device, batch

    def answers(self, texts: Sequence[str]) -> tuple[list[Answer], int]:
        """An answer to each text; and how many different ones were too long: their beginnings are left out."""
        different = list(dict.fromkeys(texts))
        encoded, long = self.encoder.encode(different)
        rows = Rows(encoded, self.device)
        found: dict[str, Answer] = {}
        with enough_memory(f"lower --batch_size, which is {self.batch}"), torch.inference_mode():
            for ids in by_length(rows.lengths.tolist(), self.batch):
                logits = self.module(*rows.padded(torch.tensor(ids), self.encoder.pad)).cpu()
                best = logits.round(decimals=DIGITS).argmax(1).tolist()
                scores = foreign(logits, self.labels, self.score).tolist()
                for i, label, score in zip(ids, best, scores, strict=True):
                    found[different[i]] = Answer(self.labels[label], round(score, DIGITS) + 0.0)
        return [found[text] for text in texts], long


def foreign(logits: Tensor, labels: Sequence[str], score: str) -> Tensor:
    """How much a text seems out of domain.

    ``msp`` is 1 less the highest probability (Hendrycks and Gimpel 2017, section 2), ``energy`` the negative logarithm
    of the sum of the scores' exponentials (Liu et al. 2020, section 3.1, at temperature 1).

    Args:
      logits: scores of the classes; shape (texts, classes).
      labels: the classes. Where one is ``ood``, its probability is the score.
      score: ``msp`` or ``energy``.
    """
    if OOD in labels:
        return logits.softmax(1)[:, list(labels).index(OOD)]
    if score == "energy":
        return -logits.logsumexp(1)
    return -torch.expm1(logits.log_softmax(1).amax(1))  # which does not lose what is near 1


NAME = "classifier"
FORMAT = 1
KINDS = pretrained.BY_MODEL[NAME]
# Beginnings of the names of the weights that a task adds.
HEAD = ("classifier.", "pre_classifier.", "bert.pooler.")


class Card(saving.Card, frozen=True, kw_only=True):
    """What ``model.json`` says.

    Attributes:
      task: ``intent``, ``acts`` or ``ood``.
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
      module: with the weights; a :class:`Headed` where it began with a checkpoint.
      encoder: of the texts, which then has the tokenizer.
    """
    if card.checkpoint:
        return {MODEL: saving.card_bytes(card), **pretrained.saved(encoder.tokenizer, module.model)}
    return {MODEL: saving.card_bytes(card), WEIGHTS: saving.weights_bytes(module.state_dict())}


def read_card(folder: str) -> Card:
    """What is in a folder. Raises InputError: no model is there, or another one, or the file is damaged."""
    card = saving.read_card(folder, NAME, Card, FORMAT)
    if len(card.labels) < 2 or card.size < 1 or card.buckets < 1 or card.length < 1:
        raise InputError("is damaged: it has no classes, or no size", files.join(folder, MODEL))
    return card


def load(folder: str, device: str, batch: int) -> tuple[Card, Classifier]:
    """The card of a classifier, and the classifier itself, ready to answer.

    Args:
      folder: where it is.
      device: ``auto``, ``cpu`` or ``cuda``.
      batch: texts at a time.

    Raises:
      InputError: it is not there, of another kind, or damaged.
    """
    card = read_card(folder)
    encoder: Encoder
    module: nn.Module
    if card.checkpoint:
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
