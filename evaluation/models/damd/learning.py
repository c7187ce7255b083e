"""Trains the net: batches of user turns, the losses of the three decoders, and what dev says."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from parapet.evaluation.models.batching import Rows, bucketed, by_length
from parapet.evaluation.models.configs import DamdConfig
from parapet.evaluation.models.damd.answering import Card, Longest, files_of
from parapet.evaluation.models.damd.encoding import (
    MATCHES,
    PAD,
    Texts,
    Vocabulary,
    span_of,
    surfaces_of,
    texts_of,
    vocabulary_of,
)
from parapet.evaluation.models.damd.nets import Decoder, Net, Sizes, Source, likeliest, losses
from parapet.evaluation.models.robust import Versions, laid_out
from parapet.evaluation.models.systems.data import ACT, ASKED, SERVICE, VALUE, Part, Step
from parapet.evaluation.models.training import Learner

DECAY = 5e-5  # of the weights
SPARE = 1.25  # what is written may be so many times longer than what training has
TRAINED = ("previous", "user", "before", "delexicalised", "belief", "acts", "response")  # the last three are written


class Padded(NamedTuple):
    """A sequence of each step; both of shape (steps, words)."""

    numbers: Tensor
    mask: Tensor


class Decoded(NamedTuple):
    """What a decoder makes of the right words.

    Attributes:
      decoder: of the net; ``first`` its first state, ``sources`` what it attended to.
      states: of it.
      right: the words.
    """

    decoder: Decoder
    first: Tensor
    sources: list[Source]
    states: Source
    right: Padded


class Learned:
    """Steps as rows of numbers.

    Args:
      steps: as words.
      vocabulary: that numbers them.
      device: where the batches are wanted.
    """

    def __init__(self, steps: Sequence[Texts], vocabulary: Vocabulary, device: torch.device) -> None:
        numbers = [vocabulary.numbered(step) for step in steps]
        self.rows = {name: Rows([getattr(one, name) for one in numbers], device) for name in TRAINED}
        self.lengths = sum(rows.lengths for rows in self.rows.values())
        self.own = torch.tensor([len(one.own) for one in numbers])
        pointers = torch.zeros(len(steps), len(MATCHES))
        for row, step in zip(pointers, steps, strict=True):
            if step.matches is not None:
                row[step.matches] = 1
        self.pointers = pointers.to(device)

    def batch(self, ids: Tensor) -> dict[str, Padded]:
        """The sequences of some steps, by name."""
        found = {}
        for name, rows in self.rows.items():
            numbers, mask = rows.padded(ids, PAD)
            found[name] = Padded(numbers, mask.bool())
        return found


class OtherActs:
    """Multi-action data augmentation (section 3): further action spans that are right in the state of a step.

    They are those of other turns of training in the same state, whose kinds of acts are others. A state is the service
    that the turn is about with its slots, how many entities satisfy it, and the kinds of the user's acts. Of each kind
    one span is drawn, and of kinds with further ones up to ``most`` more.

    Args:
      steps: of training; ``texts`` as words.
      vocabulary: that numbers them.
      most: 0 for none at all, 1 for one of each kind.
    """

    def __init__(self, steps: Sequence[Step], texts: Sequence[Texts], vocabulary: Vocabulary, most: int) -> None:
        self.most = most
        states = [_state_of(step, text.matches) for step, text in zip(steps, texts, strict=True)]
        kinds = [_kinds_of(step.acts) for step in steps]
        known: dict[object, dict[frozenset[Part], dict[tuple[str, ...], None]]] = {}
        for step, state, kind in zip(steps, states, kinds, strict=True):
            if step.acts:
                known.setdefault(state, {}).setdefault(kind, {})[tuple(span_of(step.acts))] = None
        self.spans = [
            [
                [vocabulary.span(span) for span in spans]
                for other, spans in known.get(state, {}).items()
                if other != kind and step.acts
            ]
            for step, state, kind in zip(steps, states, kinds, strict=True)
        ]

    def drawn(self, ids: Sequence[int]) -> tuple[list[int], list[list[int]]]:
        """(places in the batch, a span for each of them), drawn by torch."""
        places, spans = [], []
        for place, i in enumerate(ids):
            for kind in self.spans[i]:
                count = min(len(kind), 1 if self.most == 1 else 1 + self.most)
                for j in torch.randperm(len(kind))[:count].tolist():
                    places.append(place)
                    spans.append(kind[j])
        return places, spans


def _state_of(step: Step, matches: int | None) -> object:
    names = tuple(part for part in step.belief if part[0] not in (VALUE, ASKED))
    return names, matches, step.user_acts


def _kinds_of(acts: Sequence[Part]) -> frozenset[Part]:
    return frozenset(part for part in acts if part[0] in (SERVICE, ACT))


class DamdLearner(Learner):
    """The model with its data.

    Args:
      config: how it is trained.
      train: steps to learn from.
      dev: steps that choose the best epoch.
      versions: of the dialogues of ``train``, where they are perturbed in each epoch. Words are those of ``train``.

    Raises:
      InputError: the vocabulary is too small.
    """

    metric = "belief and action spans and response words right"

    def __init__(
        self, config: DamdConfig, train: Sequence[Step], dev: Sequence[Step], versions: Versions[Step] | None = None
    ) -> None:
        self.config, self.device = config, torch.device(config.device)
        texts = [texts_of(step) for step in train]
        self.vocabulary = vocabulary_of(texts, config.vocabulary, config.min_count)
        self.surfaces = surfaces_of(train)
        self.net = Net(Sizes(len(self.vocabulary), config.embedding, config.hidden)).to(self.device)
        self.module = self.net
        parameters = self.net.parameters()
        self.optimiser = torch.optim.Adam(parameters, config.learning_rate, weight_decay=DECAY, fused=True)
        self._versions = versions
        self._learn(train, texts)
        # Of the corpus itself: what an epoch was perturbed to is forgotten when a training resumes.
        self.longest = Longest(*(int(SPARE * int(self.train.rows[name].lengths.max())) + 1 for name in TRAINED[-3:]))
        self._dev = Learned([texts_of(step) for step in dev], self.vocabulary, self.device)

    def _learn(self, steps: Sequence[Step], texts: Sequence[Texts]) -> None:
        most = self.config.multi_action
        self.train = Learned(texts, self.vocabulary, self.device)
        self.others = OtherActs(steps, texts, self.vocabulary, most) if most else None

    def prepare(self, epoch: int) -> None:
        """Perturbs dialogues."""
        if self._versions is not None:
            steps, _ = laid_out(self._versions.draw(epoch), lambda _, rows: rows)
            self._learn(steps, [texts_of(step) for step in steps])

    def batches(self, generator: torch.Generator) -> Iterator[Tensor]:
        """The batches of an epoch."""
        return bucketed(self.train.lengths, self.config.batch_size, generator)

    def loss(self, batch: Tensor) -> Tensor:
        """The sum of the decoders' mean losses over words."""
        decoded = self._decoded(self.train, batch)
        total = sum((_mean_loss(one) for one in decoded.values()), torch.zeros((), device=self.device))
        places, spans = self.others.drawn(batch.tolist()) if self.others else ([], [])
        if places:
            ids, acts = torch.tensor(places, device=self.device), decoded["acts"]
            numbers, mask = Rows(spans, self.device).padded(torch.arange(len(spans)), PAD)
            sources, pointer = [one.of(ids) for one in acts.sources], self._pointers(self.train, batch)[ids]
            right = Padded(numbers, mask.bool())
            total = total + _mean_loss(self._taught(acts.decoder, right, acts.first[ids], sources, pointer))
        return total

    def _decoded(self, learned: Learned, batch: Tensor) -> dict[str, Decoded]:
        """What the decoders make of the right belief spans, action spans and responses."""
        net, rows, pointer = self.net, learned.batch(batch), self._pointers(learned, batch)
        user, first = net.encoded(net.user, *rows["user"])
        previous, _ = net.encoded(net.utterance, *rows["previous"])
        before, _ = net.encoded(net.span, *rows["before"])
        said, last = net.encoded(net.utterance, *rows["delexicalised"])
        belief = self._taught(net.belief, rows["belief"], first, [user, previous, before])
        acts = self._taught(net.acts, rows["acts"], last, [said, belief.states], pointer)
        sources = [said, belief.states, acts.states]
        response = self._taught(net.response, rows["response"], last, sources, pointer)
        return {"belief": belief, "acts": acts, "response": response}

    def _pointers(self, learned: Learned, batch: Tensor) -> Tensor:
        return learned.pointers[batch.to(self.device)]

    def _taught(
        self, decoder: Decoder, right: Padded, first: Tensor, sources: list[Source], pointer: Tensor | None = None
    ) -> Decoded:
        states = self.net.taught(decoder, *right, first, sources, pointer)
        return Decoded(decoder, first, sources, states, right)

    def dev(self) -> float:
        """The mean of three shares: of belief spans and of action spans that are right, and of response words."""
        right: Mapping[str, list[int]] = {"belief": [], "acts": [], "response": []}
        for ids in by_length(self._dev.lengths.tolist(), self.config.batch_size):
            batch = torch.tensor(ids)
            own = int(self._dev.own[batch].max())
            for name, one in self._decoded(self._dev, batch).items():
                words = likeliest(*one.decoder.scores(one.states.states, one.sources), own)
                good = words == one.right.numbers
                if name == "response":
                    right[name].extend(good[one.right.mask].long().tolist())
                else:
                    right[name].extend((good | ~one.right.mask).all(1).long().tolist())
        return sum(sum(one) / max(1, len(one)) for one in right.values()) / len(right)

    def files(self) -> dict[str, bytes]:
        """The files of the model's folder."""
        card = Card(
            words=self.vocabulary.words,
            surfaces=self.surfaces,
            embedding=self.config.embedding,
            hidden=self.config.hidden,
            longest=self.longest,
        )
        return files_of(card, self.net)


def _mean_loss(decoded: Decoded) -> Tensor:
    scores = decoded.decoder.scores(decoded.states.states, decoded.sources)
    generated, copied = (one.float() for one in scores[:2])
    found = losses(generated, copied, scores[2], decoded.right.numbers)[decoded.right.mask]
    return found.sum() / max(1, len(found))
