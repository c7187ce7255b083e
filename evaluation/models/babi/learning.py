"""Trains a net on dialogues: batches of turns, the loss, and accuracy on dev."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator

import msgspec
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from parapet.evaluation.models.babi.data import Corpus, numbers_of, tokens_of
from parapet.evaluation.models.babi.encoding import encode, turns_of
from parapet.evaluation.models.babi.nets import INITIAL, Net, Shape, Vocabulary, make, negatives_of, ranking_loss
from parapet.evaluation.models.babi.saving import Card, files_of
from parapet.evaluation.models.batching import bucketed
from parapet.evaluation.models.training import Learner, TrainingConfig

SCORED = 256  # turns at a time where nothing is trained


class Config(TrainingConfig, frozen=True, kw_only=True):
    """How a net is trained.

    Attributes:
      model: ``memn2n`` or ``embeddings``.
      size, hops, memory, time, input, bigrams: see :class:`Shape`.
      share: of ``embeddings``: whether A = B: ``on``, ``off``, or ``auto`` for whichever is better on dev.
      margin, negatives: of the ranking loss; with 0 negatives the loss is a softmax over all candidates.
      optimiser: ``adam``, or plain ``sgd``.
      initial: standard deviation of new parameters.
    """

    model: str
    size: int
    hops: int = 1
    memory: int | None = None
    time: str = "back"
    input: str = "history"
    bigrams: bool = False
    share: str = "off"
    margin: float = 0.0
    negatives: int = 0
    optimiser: str = "adam"
    initial: float = INITIAL

    @property
    def shapes(self) -> list[Shape]:
        """Those of the nets that are trained; of more than one the best is kept."""
        fields = {name: getattr(self, name) for name in Shape.__struct_fields__}
        shared = {"off": [False], "on": [True], "auto": [False, True]}[self.share]
        return [Shape(**{**fields, "share": share}) for share in shared]

    @property
    def memory_hint(self) -> str:
        """What to do where memory is used up."""
        return f"lower --batch_size, which is {self.batch_size}, or --size, which is {self.size}"


class BabiLearner(Learner):
    """A net with its data; with ``--share auto`` two nets, of which the better one on dev is kept.

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
        words = sorted({word for text in train.texts for word in tokens_of(text, config.bigrams)})
        self.vocabulary = Vocabulary(words, corpus.candidates, corpus.knowledge)
        self.nets = [make(config.model, self.vocabulary, shape, config.initial).to(device) for shape in config.shapes]
        self.module = self.nets[0] if len(self.nets) == 1 else nn.ModuleList(self.nets)
        entities = self.nets[0].matches.entities
        self.train, self._dev = (
            turns_of(one, numbers_of(words), entities, device, config.bigrams) for one in (train, dev)
        )
        parameters, rate = self.module.parameters(), config.learning_rate
        if config.optimiser == "sgd":
            self.optimiser: torch.optim.Optimizer = torch.optim.SGD(parameters, lr=rate)
        else:
            # Of one kernel for all parameters; the results are those of a loop over them.
            self.optimiser = torch.optim.Adam(parameters, lr=rate, fused=True)
        # Where dense gradients are wanted: to clip them, and for Adam.
        for net in self.nets:
            net.sparse = config.optimiser == "sgd" and not config.clip
        self.config, self.device = config, device
        self._lengths = train.now - train.first
        self._devs: list[float] = []  # of each of several nets, at the end
        warn_of_long(self._lengths, config.memory)

    def batches(self, generator: torch.Generator) -> Iterator[Tensor]:
        """The batches of an epoch."""
        for batch in bucketed(self._lengths, self.config.batch_size, generator):
            yield batch.to(self.device, non_blocking=True)

    def loss(self, batch: Tensor) -> Tensor:
        """The mean loss, the sum of those of all nets."""
        answers, candidates = self.train.answer[batch], len(self.vocabulary.candidates)
        if not self.config.negatives:
            return sum_of(F.cross_entropy(net(self.train, batch).float(), answers) for net in self.nets)
        negatives = negatives_of(answers, candidates, self.config.negatives)
        chosen = torch.cat([answers[:, None], negatives], 1)
        return sum_of(self._ranking_loss(net, batch, chosen) for net in self.nets)

    def _ranking_loss(self, net: Net, batch: Tensor, chosen: Tensor) -> Tensor:
        if len(batch) == 1:  # negatives beyond the margin have no gradient: most of the work
            with torch.no_grad():
                scores = net(self.train, batch, chosen)[0]
                within = scores > scores[0] - self.config.margin
            if int(within.sum()) == 1:  # the right one alone
                return torch.zeros((), device=self.device, requires_grad=True)
            chosen = chosen[:, within]
        if chosen.numel() < len(self.vocabulary.candidates):
            scores = net(self.train, batch, chosen)
        else:  # each candidate once is less
            scores = net(self.train, batch).gather(1, chosen)
        # Half of a float is too coarse for small differences.
        return ranking_loss(scores.float(), self.config.margin)

    def dev(self) -> float:
        """The share of responses that are right, of the best net."""
        return max(self._dev_of(net) for net in self.nets)

    def _dev_of(self, net: Net) -> float:
        right = torch.zeros((), dtype=torch.long, device=self.device)
        for ids in self._dev.batches(SCORED):
            right += (net(self._dev, ids).argmax(1) == self._dev.answer[ids]).sum()
        return int(right) / len(self._dev.now)

    def files(self) -> dict[str, bytes]:
        """The files of the model's folder."""
        known = self.vocabulary
        if len(self.nets) > 1:
            with torch.inference_mode():
                self._devs = [self._dev_of(net) for net in self.nets]
        best = self.nets[self._devs.index(max(self._devs))] if self._devs else self.nets[0]
        card = Card(
            model=self.config.model,
            task=self.task,
            settings=msgspec.to_builtins(best.shape),
            candidates=known.candidates,
            knowledge=known.knowledge,
            words=known.words,
        )
        return files_of(card, best.state_dict())

    def result(self) -> dict[str, float | None]:
        """How many words inputs and candidates have, and of two nets what each has on dev."""
        words = {*self.vocabulary.words}.union(
            *(tokens_of(text, self.config.bigrams) for text in self.vocabulary.candidates)
        )
        devs = zip(("dev_share_off", "dev_share_on"), self._devs, strict=False)
        return {"vocabulary": len(words), **dict(devs)}


def sum_of(losses: Iterable[Tensor]) -> Tensor:
    """Their sum."""
    return torch.stack(list(losses)).sum()


def warn_of_long(lengths: Tensor, memory: int | None) -> None:
    """Warns of turns that have more history than the memory holds."""
    long = 0 if memory is None else int((lengths > memory).sum())
    if long:
        logging.warning("%s turns have more than %d lines of history: the oldest are cut off", f"{long:,}", memory)
