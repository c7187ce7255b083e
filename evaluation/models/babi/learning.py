"""Trains a net on dialogues: batches of turns, the loss, and accuracy on dev."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from parapet.evaluation.models import training
from parapet.evaluation.models.babi.data import Corpus, numbers_of, words_of
from parapet.evaluation.models.babi.encoding import encode, turns_of
from parapet.evaluation.models.babi.nets import Vocabulary, make, ranking_loss
from parapet.evaluation.models.babi.saving import Card
from parapet.evaluation.models.batching import bucketed
from parapet.evaluation.models.devices import enough_memory
from parapet.evaluation.models.training import Trained, fit

SCORED = 256  # turns at a time where nothing is trained


class Settings(training.Settings, frozen=True, kw_only=True):
    """How a net is trained.

    Attributes:
      model: ``memn2n`` or ``embeddings``.
      net: ``size``, and of ``memn2n`` ``hops`` and ``memory``.
      margin, negatives: of the ranking loss; with no negatives, the loss is a softmax over all candidates.
    """

    model: str
    net: dict[str, int]
    margin: float = 0.0
    negatives: int = 0


def train(
    settings: Settings, corpus: Corpus, output: str, header: Mapping[str, Any], progress: bool
) -> tuple[Card, Trained]:
    """Trains a net, or goes on where a training was stopped.

    Args:
      settings: how.
      corpus: on what.
      output: the folder that keeps the state after each epoch.
      header: what the training depends on.
      progress: shows it on the terminal.

    Returns:
      What is known of the model, and its weights with the log.

    Raises:
      InputError: there is not enough memory, or the state in the folder is of another training.
    """
    settings.begin()
    batch, size = settings.batch, settings.net["size"]
    with enough_memory(f"lower --batch_size, which is {batch}, or --size, which is {size}"):
        learner = BabiLearner(settings, corpus)
        trained = fit(learner, settings.schedule(), output, header, progress)
    known = learner.vocabulary
    card = Card(
        model=settings.model,
        task=corpus.task,
        settings=settings.net,
        candidates=known.candidates,
        knowledge=known.knowledge,
        words=known.words,
    )
    return card, trained


class BabiLearner:
    """A net with its data, as :func:`parapet.evaluation.models.training.fit` takes it.

    Args:
      settings: how it is trained.
      corpus: on what; with match-type features where it has a knowledge base.
    """

    metric = "responses right"

    def __init__(self, settings: Settings, corpus: Corpus) -> None:
        device = torch.device(settings.device)
        numbers = numbers_of(corpus.candidates)
        train, dev = encode(corpus.train, numbers), encode(corpus.dev, numbers)
        words = sorted({word for text in train.texts for word in words_of(text)})
        self.vocabulary = Vocabulary(words, corpus.candidates, corpus.knowledge)
        self.module = make(settings.model, self.vocabulary, settings.net).to(device)
        entities = self.module.matches.entities
        self.train, self._dev = (turns_of(one, numbers_of(words), entities, device) for one in (train, dev))
        # Of one kernel for all parameters; the results are those of a loop over them.
        self.optimiser = torch.optim.Adam(self.module.parameters(), lr=settings.rate, fused=True)
        self.settings, self.device = settings, device
        self._lengths = train.now - train.first
        warn_of_long(self._lengths, settings.net.get("memory"))

    def batches(self, generator: torch.Generator) -> Iterator[Tensor]:
        """The batches of an epoch."""
        for batch in bucketed(self._lengths, self.settings.batch, generator):
            yield batch.to(self.device, non_blocking=True)

    def loss(self, batch: Tensor) -> Tensor:
        """The mean loss."""
        scores = self.module(self.train, batch).float()  # half of a float is too coarse for small differences
        answers = self.train.answer[batch]
        if self.settings.negatives:
            return ranking_loss(scores, answers, self.settings.margin, self.settings.negatives)
        return F.cross_entropy(scores, answers)

    def dev(self) -> float:
        """The share of responses that are right."""
        right = torch.zeros((), dtype=torch.long, device=self.device)
        for ids in self._dev.batches(SCORED):
            right += (self.module(self._dev, ids).argmax(1) == self._dev.answer[ids]).sum()
        return int(right) / len(self._dev.now)


def warn_of_long(lengths: Tensor, memory: int | None) -> None:
    """Says how many turns have more history than the memory holds."""
    long = 0 if memory is None else int((lengths > memory).sum())
    if long:
        logging.warning("%s turns have more than %d lines of history: the oldest are left out", f"{long:,}", memory)
