"""Trains a net on dialogues: batches of turns, the loss, and accuracy on dev."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import torch
import torch.nn.functional as F
from torch import Tensor

from parapet.evaluation.models.babi.data import Corpus, numbers_of, words_of
from parapet.evaluation.models.babi.encoding import encode, turns_of
from parapet.evaluation.models.babi.nets import Vocabulary, make, ranking_loss
from parapet.evaluation.models.babi.saving import Card, files_of
from parapet.evaluation.models.batching import bucketed
from parapet.evaluation.models.training import Learner, TrainingConfig

SCORED = 256  # turns at a time where nothing is trained


class Config(TrainingConfig, frozen=True, kw_only=True):
    """How a net is trained.

    Attributes:
      model: ``memn2n`` or ``embeddings``.
      size: of the embeddings.
      hops, memory: of ``memn2n``: hops over the memory, and lines of history that it holds; None for the other.
      margin, negatives: of the ranking loss; with 0 negatives the loss is a softmax over all candidates.
    """

    model: str
    size: int
    hops: int | None = None
    memory: int | None = None
    margin: float = 0.0
    negatives: int = 0

    @property
    def net(self) -> dict[str, int]:
        """The numbers that shape the net, as the model's card has them."""
        numbers = {"size": self.size, "hops": self.hops, "memory": self.memory}
        return {name: number for name, number in numbers.items() if number is not None}

    @property
    def memory_hint(self) -> str:
        """What to do where memory is used up."""
        return f"lower --batch_size, which is {self.batch_size}, or --size, which is {self.size}"


class BabiLearner(Learner):
    """A net with its data.

    Args:
      config: how it is trained.
      corpus: what it is trained on; with match-type features where it has a knowledge base.
    """

    metric = "response accuracy"

    def __init__(self, config: Config, corpus: Corpus) -> None:
        device = torch.device(config.device)
        self.task = corpus.task
        numbers = numbers_of(corpus.candidates)
        train, dev = encode(corpus.train, numbers), encode(corpus.dev, numbers)
        words = sorted({word for text in train.texts for word in words_of(text)})
        self.vocabulary = Vocabulary(words, corpus.candidates, corpus.knowledge)
        self.net = make(config.model, self.vocabulary, config.net).to(device)
        self.module = self.net
        entities = self.net.matches.entities
        self.train, self._dev = (turns_of(one, numbers_of(words), entities, device) for one in (train, dev))
        # Of one kernel for all parameters; the results are those of a loop over them.
        self.optimiser = torch.optim.Adam(self.module.parameters(), lr=config.learning_rate, fused=True)
        self.config, self.device = config, device
        self._lengths = train.now - train.first
        warn_of_long(self._lengths, config.memory)

    def batches(self, generator: torch.Generator) -> Iterator[Tensor]:
        """The batches of an epoch."""
        for batch in bucketed(self._lengths, self.config.batch_size, generator):
            yield batch.to(self.device, non_blocking=True)

    def loss(self, batch: Tensor) -> Tensor:
        """The mean loss."""
        scores = self.module(self.train, batch).float()  # half of a float is too coarse for small differences
        answers = self.train.answer[batch]
        if self.config.negatives:
            return ranking_loss(scores, answers, self.config.margin, self.config.negatives)
        return F.cross_entropy(scores, answers)

    def dev(self) -> float:
        """The share of responses that are right."""
        right = torch.zeros((), dtype=torch.long, device=self.device)
        for ids in self._dev.batches(SCORED):
            right += (self.module(self._dev, ids).argmax(1) == self._dev.answer[ids]).sum()
        return int(right) / len(self._dev.now)

    def files(self) -> dict[str, bytes]:
        """The files of the model's folder."""
        known = self.vocabulary
        card = Card(
            model=self.config.model,
            task=self.task,
            settings=self.config.net,
            candidates=known.candidates,
            knowledge=known.knowledge,
            words=known.words,
        )
        return files_of(card, self.net.state_dict())


def warn_of_long(lengths: Tensor, memory: int | None) -> None:
    """Warns of turns that have more history than the memory holds."""
    long = 0 if memory is None else int((lengths > memory).sum())
    if long:
        logging.warning("%s turns have more than %d lines of history: the oldest are cut off", f"{long:,}", memory)
