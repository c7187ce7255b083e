"""Trains a classifier: batches of utterances, the loss, what dev says, and the threshold."""

from __future__ import annotations

import copy
import logging
from collections.abc import Iterator, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from parapet.evaluation.models import pretrained
from parapet.evaluation.models.batching import Rows, bucketed, by_length
from parapet.evaluation.models.classifier.answering import HEAD, Bag, Card, Classifier, Headed, files_of, foreign
from parapet.evaluation.models.classifier.data import Corpus, Turn
from parapet.evaluation.models.classifier.features import Encoder, Hashed, Pieces
from parapet.evaluation.models.configs import ClassifierConfig
from parapet.evaluation.models.training import Learner
from parapet.evaluation.ood.curves import best_threshold, points_of, precision_recall_f1
from parapet.evaluation.ood.reading import OOD
from parapet.transforms.checkpoints import Checkpoint

SCORED = 256  # texts at a time where nothing is trained
DECAY = 0.01  # of its weights


def best_of(scored: Sequence[tuple[float, bool]]) -> tuple[float | None, float | None]:
    """(the threshold of the highest F1, that F1) of scores with whether they are of turns out of domain."""
    threshold = best_threshold(points_of(scored))
    if threshold is None:
        return None, None
    return threshold, precision_recall_f1((ood, score >= threshold) for score, ood in scored)[2]


class ClassifierLearner(Learner):
    """A classifier with its data.

    Args:
      config: how it is trained.
      corpus: what it is trained on.
      checkpoint: what it begins with; None for a net from scratch.

    Raises:
      InputError: the checkpoint cannot be loaded.
    """

    def __init__(self, config: ClassifierConfig, corpus: Corpus, checkpoint: Checkpoint | None = None) -> None:
        self.config, self.device, train, dev = config, torch.device(config.device), corpus.train, corpus.dev
        self.threshold: float | None = None
        self.f1: float | None = None  # with the threshold, on the turns that it was tuned on
        self.tuned = dev if config.task == OOD else corpus.foreign
        self.labels = sorted({turn.label for turn in train})
        self.metric = "F1 of out-of-domain turns" if config.task == OOD else f"{config.task.removesuffix('s')} accuracy"
        self.encoder, module, self.length = body(config, self.labels, checkpoint)
        self.module, rate = module.to(self.device), config.learning_rate
        if checkpoint is None:
            # Of one kernel for all parameters; the results are those of a loop over them.
            self.optimiser = torch.optim.Adam(module.parameters(), rate, fused=True)
        else:
            self.optimiser = torch.optim.AdamW(module.parameters(), rate, weight_decay=DECAY, fused=True)
        self.rows = self._rows(train, "train")
        self._dev_rows = self._rows(dev, "dev")
        numbers = {label: number for number, label in enumerate(self.labels)}
        # An intent of dev that training lacks cannot be right.
        self.classes, self._dev_classes = (
            torch.tensor([numbers.get(turn.label, -1) for turn in turns], device=self.device) for turns in (train, dev)
        )

    def _rows(self, turns: Sequence[Turn], name: str) -> Rows:
        encoded, long = self.encoder.encode([turn.utterance for turn in turns])
        if long:
            message = "%s: %s utterances are longer than %d: their beginnings are cut off"
            logging.warning(message, name, f"{long:,}", self.length)
        return Rows(encoded, self.device)

    def batches(self, generator: torch.Generator) -> Iterator[Tensor]:
        """The batches of an epoch."""
        return bucketed(self.rows.lengths, self.config.batch_size, generator)

    def loss(self, batch: Tensor) -> Tensor:
        """The mean loss."""
        logits = self.module(*self.rows.padded(batch, self.encoder.pad)).float()
        return F.cross_entropy(logits, self.classes[batch.to(self.device)])

    def dev(self) -> float:
        """The share of intents that are right; of out-of-domain turns the highest F1 of any threshold."""
        order = [torch.tensor(ids) for ids in by_length(self._dev_rows.lengths.tolist(), SCORED)]
        logits = torch.cat([self.module(*self._dev_rows.padded(ids, self.encoder.pad)) for ids in order])
        classes = self._dev_classes[torch.cat(order).to(self.device)]
        if self.config.task != OOD:
            return int((logits.argmax(1) == classes).sum()) / len(classes)
        scores = foreign(logits.float(), self.labels, self.config.score).tolist()
        truth = (classes == self.labels.index(OOD)).tolist()
        return best_of(list(zip(scores, truth, strict=True)))[1] or 0.0

    def files(self) -> dict[str, bytes]:
        """The files of the model's folder, with the threshold of the highest F1 as prediction will score turns."""
        if self.tuned:
            scores = foreign_scores(copy.deepcopy(self.module), self, [turn.utterance for turn in self.tuned])
            self.threshold, self.f1 = best_of(
                [(score, turn.label == OOD) for score, turn in zip(scores, self.tuned, strict=True)]
            )
        card = Card(
            task=self.config.task,
            labels=self.labels,
            checkpoint=self.config.checkpoint is not None,
            size=self.config.size,
            buckets=self.config.buckets,
            length=self.length,
            score=self.config.score,
            threshold=self.threshold,
        )
        return files_of(card, self.module, self.encoder)

    def result(self) -> dict[str, float | None]:
        """The threshold, where one was tuned."""
        return {} if self.f1 is None else {"threshold": self.threshold, "threshold_f1": self.f1}


def foreign_scores(module: nn.Module, learner: ClassifierLearner, texts: Sequence[str]) -> list[float]:
    """How foreign texts seem to a classifier; ``module`` is a copy of its own: prediction changes the precision."""
    score, device = learner.config.score, learner.device
    classifier = Classifier(module, learner.encoder, learner.labels, score, device, SCORED)
    return [answer.score for answer in classifier.answers(texts)[0]]


def body(
    config: ClassifierConfig, labels: Sequence[str], checkpoint: Checkpoint | None
) -> tuple[Encoder, nn.Module, int]:
    """What makes numbers of texts, the net, and how long a text may be.

    Raises:
      InputError: the checkpoint cannot be loaded, or has fewer positions.
    """
    if checkpoint is None:
        net = Bag(config.buckets, config.size, len(labels))
        return Hashed(config.buckets, config.max_length), net, config.max_length
    names = dict(enumerate(labels))
    tokenizer, model = pretrained.load(
        checkpoint,
        "AutoModelForSequenceClassification",
        HEAD,
        num_labels=len(labels),
        id2label=names,
        label2id={label: number for number, label in names.items()},
        ignore_mismatched_sizes=True,  # a head for other classes is replaced
    )
    length = pretrained.longest(tokenizer, model, config.max_length, "--max_length")
    return Pieces(tokenizer, length), Headed(model), length
