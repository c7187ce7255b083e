"""Trains a net on dialogues: batches of turns, the loss, and accuracy on dev."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator

import msgspec
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from parapet.evaluation.models.babi.data import Card, Corpus, files_of, numbers_of, tokens_of
from parapet.evaluation.models.babi.nets import (
    Net,
    Shape,
    Vocabulary,
    encode,
    make,
    negatives_of,
    ranking_loss,
    turns_of,
)
from parapet.evaluation.models.batching import bucketed
from parapet.evaluation.models.configs import BabiConfig
from parapet.evaluation.models.learner import Learner

SCORED = 256  # turns at a time where nothing is trained
MOST_AHEAD = 64  # turns that are scored at once where batches are of one turn
_NONE = torch.empty(0, dtype=torch.long)


class BabiLearner(Learner):
    """A net with its data; with ``--share auto`` two nets, of which the better one on dev is kept.

    Args:
      config: how it is trained.
      corpus: what it is trained on; with match-type features where it has a knowledge base.
    """

    metric = "response accuracy"

    def __init__(self, config: BabiConfig, corpus: Corpus) -> None:
        device = torch.device(config.device)
        self.task = corpus.task
        numbers = numbers_of(corpus.candidates)
        train, dev = encode(corpus.train, numbers), encode(corpus.dev, numbers)
        words = sorted({word for text in train.texts for word in tokens_of(text, config.bigrams)})
        self.vocabulary = Vocabulary(words, corpus.candidates, corpus.knowledge)
        self.nets = [make(config.model, self.vocabulary, shape, config.initial).to(device) for shape in shapes(config)]
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
        self._order = torch.arange(len(train.now), device=device)
        self._place = dict(enumerate(range(len(train.now))))
        self._scored: dict[int, tuple[Tensor, list[Tensor]]] = {}
        self._ahead = 1
        self._devs: list[float] = []  # of each of several nets, at the end
        warn_of_long(self._lengths, config.memory)

    def batches(self, generator: torch.Generator) -> Iterator[Tensor]:
        """The batches of an epoch."""
        batches = list(bucketed(self._lengths, self.config.batch_size, generator))
        self._order = torch.cat(batches).to(self.device)
        self._place = {turn: place for place, turn in enumerate(self._order.tolist())}
        self._scored, self._ahead = {}, 1
        for batch in batches:
            yield batch.to(self.device, non_blocking=True)

    def loss(self, batch: Tensor) -> Tensor:
        """The mean loss, the sum of those of all nets."""
        answers = self.train.answer[batch]
        if not self.config.negatives:
            return sum_of(F.cross_entropy(net(self.train, batch).float(), answers) for net in self.nets)
        if len(batch) == 1:
            return self._loss_of_turn(batch)
        chosen = self._chosen(batch)
        return sum_of(ranking_loss(self._scores(net, batch, chosen), self.config.margin) for net in self.nets)

    def _chosen(self, batch: Tensor) -> Tensor:
        answers = self.train.answer[batch]
        negatives = negatives_of(answers, len(self.vocabulary.candidates), self.config.negatives)
        return torch.cat([answers[:, None], negatives], 1)

    def _scores(self, net: Net, batch: Tensor, chosen: Tensor) -> Tensor:
        if chosen.numel() < len(self.vocabulary.candidates):
            scores = net(self.train, batch, chosen)
        else:  # each candidate once is less
            scores = net(self.train, batch).gather(1, chosen)
        return scores.float()  # half of a float is too coarse for small differences

    def _loss_of_turn(self, batch: Tensor) -> Tensor:
        """The loss of a batch of one turn; of one that is right by the margin, a zero without a gradient.

        Most turns are so after a while. Those that follow are scored at once: as long as all are right, no step changes
        the parameters, and the scores hold. So this computes what one turn at a time would.
        """
        turn = int(batch)
        if turn not in self._scored:
            self._scored = self._score_ahead(turn)
        chosen, within = self._scored.pop(turn)
        if not any(map(len, within)):
            return torch.zeros((), device=self.device)
        self._scored = {}
        return sum_of(
            ranking_loss(self._scores(net, batch, chosen[some][None]), self.config.margin)
            for net, some in zip(self.nets, within, strict=True)
            if len(some)
        )

    def _score_ahead(self, turn: int) -> dict[int, tuple[Tensor, list[Tensor]]]:
        """Of some turns, from this one on: (its candidates, of each net the places of those that have a gradient)."""
        place = self._place[turn]
        turns = self._order[place : place + self._ahead]
        chosen = self._chosen(turns)
        with torch.no_grad():
            scores = [self._scores(net, turns, chosen) for net in self.nets]
        within = [one > one[:, :1] - self.config.margin for one in scores]  # the right one always is
        wrong = torch.stack([one.sum(1) > 1 for one in within])
        right = (~wrong.any(0)).tolist()
        self._ahead = min(MOST_AHEAD, 2 * ([*right, False].index(False)) + 1)
        return {
            number: (chosen[i], [one[i].nonzero()[:, 0] if wrong[net, i] else _NONE for net, one in enumerate(within)])
            for i, number in enumerate(turns.tolist())
        }

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


def shapes(config: BabiConfig) -> list[Shape]:
    """Those of the nets that are trained; of more than one the best is kept."""
    fields = {name: getattr(config, name) for name in Shape.__struct_fields__}
    shared = {"off": [False], "on": [True], "auto": [False, True]}[config.share]
    return [Shape(**{**fields, "share": share}) for share in shared]


def sum_of(losses: Iterable[Tensor]) -> Tensor:
    """Their sum."""
    return torch.stack(list(losses)).sum()


def warn_of_long(lengths: Tensor, memory: int | None) -> None:
    """Warns of turns that have more history than the memory holds."""
    long = 0 if memory is None else int((lengths > memory).sum())
    if long:
        logging.warning("%s turns have more than %d lines of history: the oldest are cut off", f"{long:,}", memory)
