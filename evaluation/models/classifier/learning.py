"""Trains a classifier: batches of utterances, the loss, what dev says, and the threshold."""

from __future__ import annotations

import copy
import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from parapet.evaluation.models import pretrained, training
from parapet.evaluation.models.batching import Rows, bucketed, by_length
from parapet.evaluation.models.classifier.answering import Classifier, foreign
from parapet.evaluation.models.classifier.corpus import Corpus
from parapet.evaluation.models.classifier.data import Turn
from parapet.evaluation.models.classifier.features import Encoder, Hashed, Pieces
from parapet.evaluation.models.classifier.net import Bag, Headed
from parapet.evaluation.models.classifier.saving import HEAD, Card
from parapet.evaluation.models.devices import enough_memory
from parapet.evaluation.models.training import Trained, fit
from parapet.evaluation.ood.curves import best_threshold, points_of, precision_recall_f1
from parapet.evaluation.ood.reading import OOD
from parapet.transforms.checkpoints import Checkpoint

SCORED = 256  # texts at a time where nothing is trained
WARMUP, CLIP = 0.06, 1.0  # of a checkpoint
DECAY = 0.01  # of its weights


class Settings(training.Settings, frozen=True, kw_only=True):
    """How a classifier is trained.

    Attributes:
      task: ``intent`` or ``ood``.
      checkpoint: what it begins with; None for a net from scratch, of ``size`` and ``buckets``.
      length: words or pieces of an utterance at most.
      score: ``msp`` or ``energy``.
    """

    task: str
    checkpoint: Checkpoint | None
    size: int
    buckets: int
    length: int
    score: str


class Made(msgspec.Struct, frozen=True):
    """A trained classifier.

    Attributes:
      card: what is known of it.
      trained: its weights with the log.
      model: it itself, and ``encoder`` what makes numbers of texts.
      f1: of the threshold, on the turns that it was tuned on; None where there is none.
    """

    card: Card
    trained: Trained
    model: nn.Module
    encoder: Encoder
    f1: float | None


def train(settings: Settings, corpus: Corpus, output: str, header: Mapping[str, Any], progress: bool) -> Made:
    """Trains a classifier, or goes on where a training was stopped.

    Args:
      settings: how.
      corpus: on what.
      output: the folder that keeps the state after each epoch.
      header: what the training depends on.
      progress: shows it on the terminal.

    Raises:
      InputError: there is not enough memory, a checkpoint that cannot be loaded, or the state is of another training.
    """
    settings.begin()
    lower = f"lower --batch_size, which is {settings.batch}" + ("" if settings.checkpoint else ", or --buckets")
    with enough_memory(lower):
        learner = ClassifierLearner(settings, corpus.train, corpus.dev)
        of_checkpoint = settings.checkpoint is not None
        schedule = settings.schedule(WARMUP, True, CLIP) if of_checkpoint else settings.schedule()
        trained = fit(learner, schedule, output, header, progress)
        model = learner.module
        model.load_state_dict(trained.weights)
        tuned = corpus.dev if settings.task == OOD else corpus.foreign
        threshold, f1 = _threshold(learner, tuned)
    card = Card(
        task=settings.task,
        labels=learner.labels,
        checkpoint=of_checkpoint,
        size=settings.size,
        buckets=settings.buckets,
        length=learner.length,
        score=settings.score,
        threshold=threshold,
    )
    return Made(card, trained, model, learner.encoder, f1)


def _threshold(learner: ClassifierLearner, turns: Sequence[Turn]) -> tuple[float | None, float | None]:
    """(the threshold of the highest F1 on these turns, that F1), as prediction will score them."""
    if not turns:
        return None, None
    module, score = copy.deepcopy(learner.module), learner.settings.score
    asked = Classifier(module, learner.encoder, learner.labels, score, learner.device, SCORED)
    answers, _ = asked.answers([turn.utterance for turn in turns])
    scores = [answer.score for answer in answers]
    return best_of([(score, turn.label == OOD) for score, turn in zip(scores, turns, strict=True)])


def best_of(scored: Sequence[tuple[float, bool]]) -> tuple[float | None, float | None]:
    """(the threshold of the highest F1, that F1) of scores with whether they are of turns out of domain."""
    threshold = best_threshold(points_of(scored))
    if threshold is None:
        return None, None
    return threshold, precision_recall_f1((ood, score >= threshold) for score, ood in scored)[2]


class ClassifierLearner:
    """A classifier with its data, as :func:`parapet.evaluation.models.training.fit` takes it.

    Args:
      settings: how it is trained.
      train: on what.
      dev: what chooses the best epoch.
    """

    def __init__(self, settings: Settings, train: Sequence[Turn], dev: Sequence[Turn]) -> None:
        self.settings, self.device = settings, torch.device(settings.device)
        self.labels = sorted({turn.label for turn in train})
        self.metric = "F1 of out-of-domain turns" if settings.task == OOD else "intents right"
        self.encoder, module, self.length = body(settings, self.labels)
        self.module = module.to(self.device)
        if settings.checkpoint is None:
            # Of one kernel for all parameters; the results are those of a loop over them.
            self.optimiser: torch.optim.Optimizer = torch.optim.Adam(module.parameters(), settings.rate, fused=True)
        else:
            self.optimiser = torch.optim.AdamW(module.parameters(), settings.rate, weight_decay=DECAY, fused=True)
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
            told = "%s: %s utterances are longer than %d: their beginnings are left out"
            logging.warning(told, name, f"{long:,}", self.length)
        return Rows(encoded, self.device)

    def batches(self, generator: torch.Generator) -> Iterator[Tensor]:
        """The batches of an epoch."""
        return bucketed(self.rows.lengths, self.settings.batch, generator)

    def loss(self, batch: Tensor) -> Tensor:
        """The mean loss."""
        logits = self.module(*self.rows.padded(batch, self.encoder.pad)).float()
        return F.cross_entropy(logits, self.classes[batch.to(self.device)])

    def dev(self) -> float:
        """The share of intents that are right; of out-of-domain turns the highest F1 of any threshold."""
        order = [torch.tensor(ids) for ids in by_length(self._dev_rows.lengths.tolist(), SCORED)]
        logits = torch.cat([self.module(*self._dev_rows.padded(ids, self.encoder.pad)) for ids in order])
        classes = self._dev_classes[torch.cat(order).to(self.device)]
        if self.settings.task != OOD:
            return int((logits.argmax(1) == classes).sum()) / len(classes)
        scores = foreign(logits.float(), self.labels, self.settings.score).tolist()
        truth = (classes == self.labels.index(OOD)).tolist()
        return best_of(list(zip(scores, truth, strict=True)))[1] or 0.0


def body(settings: Settings, labels: Sequence[str]) -> tuple[Encoder, nn.Module, int]:
    """What makes numbers of texts, the net, and how long a text may be.

    Raises:
      InputError: the checkpoint cannot be loaded, or has fewer positions.
    """
    if settings.checkpoint is None:
        net = Bag(settings.buckets, settings.size, len(labels))
        return Hashed(settings.buckets, settings.length), net, settings.length
    names = dict(enumerate(labels))
    tokenizer, model = pretrained.load(
        settings.checkpoint,
        "AutoModelForSequenceClassification",
        HEAD,
        num_labels=len(labels),
        id2label=names,
        label2id={label: number for number, label in names.items()},
        ignore_mismatched_sizes=True,  # a head for other classes is replaced
    )
    length = pretrained.longest(tokenizer, model, settings.length, "--max_length")
    return Pieces(tokenizer, length), Headed(model), length
