"""A trained classifier that is asked: the class of each utterance, and how foreign it seems."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import torch
from torch import Tensor, nn

from parapet.evaluation.models.batching import Rows, by_length
from parapet.evaluation.models.classifier.features import Encoder
from parapet.evaluation.models.devices import enough_memory
from parapet.evaluation.ood.reading import OOD

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
