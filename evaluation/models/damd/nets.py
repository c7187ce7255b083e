"""The net: three encoders, and a decoder each for belief span, action span and response (Zhang, Ou and Yu 2020).

A decoder attends to its sources (Bahdanau et al. 2015) and either writes a word of the vocabulary or copies one of a
source (Gu et al. 2016): one softmax is over both.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from parapet.evaluation.models.damd.encoding import END, GO, MATCHES, PAD, UNKNOWN

DIGITS = 9  # of probabilities: what is behind them depends on padding
NOTHING = -torch.inf


class Sizes(msgspec.Struct, frozen=True):
    """Those of a net.

    Attributes:
      words: of the vocabulary, with the special ones.
      embedding: of a word; ``hidden`` of a state.
    """

    words: int
    embedding: int
    hidden: int


class Source(NamedTuple):
    """What a decoder attends to, and may copy from.

    Attributes:
      states: of each word; shape (steps, words, hidden).
      mask: which are words; shape (steps, words).
      numbers: of the words, those beyond the vocabulary too; shape (steps, words).
    """

    states: Tensor
    mask: Tensor
    numbers: Tensor

    def of(self, steps: Tensor) -> Source:
        """Some steps alone."""
        return Source(*(part[steps] for part in self))


class Encoder(nn.Module):
    """A bidirectional GRU, of which both directions are added."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.gru = nn.GRU(sizes.embedding, sizes.hidden, batch_first=True, bidirectional=True)
        for name, weights in self.gru.named_parameters():
            if name.startswith("weight_hh"):
                _orthogonal(weights)

    def forward(self, embedded: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """(the state of each word, the last state); shapes (steps, words, hidden) and (steps, hidden)."""
        packed = pack_padded_sequence(embedded, mask.sum(1).cpu(), batch_first=True, enforce_sorted=False)
        states, last = self.gru(packed)
        both = pad_packed_sequence(states, batch_first=True, total_length=mask.shape[1])[0]
        forward, backward = both.chunk(2, 2)
        return forward + backward, last.sum(0)


class Attention(nn.Module):
    """The weighted mean of a source, for a decoder's state."""

    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.both = nn.Linear(2 * hidden, hidden)
        self.score = nn.Linear(hidden, 1, bias=False)

    def keys(self, states: Tensor) -> Tensor:
        """What the score has of the source alone, computed once."""
        return F.linear(states, self.both.weight[:, states.shape[2] :], self.both.bias)

    def forward(self, state: Tensor, source: Source, keys: Tensor) -> Tensor:
        """The mean; shape (steps, hidden)."""
        query = F.linear(state, self.both.weight[:, : state.shape[1]])
        scores = self.score(torch.tanh(query[:, None] + keys)).squeeze(2)
        weights = scores.masked_fill(~source.mask, NOTHING).softmax(1)
        return (weights[:, None] @ source.states).squeeze(1)


class Decoder(nn.Module):
    """Writes a span or a response.

    Args:
      sizes: of the net.
      copied: for each source whether words can be copied from it.
      pointer: the size of what it reads besides its sources.
    """

    def __init__(self, sizes: Sizes, copied: Sequence[bool], pointer: int = 0) -> None:
        super().__init__()
        hidden = sizes.hidden
        self.cell = nn.GRUCell(sizes.embedding + len(copied) * hidden + pointer, hidden)
        _orthogonal(self.cell.weight_hh)
        self.generate = nn.Linear(hidden, sizes.words)
        self.attentions = nn.ModuleList(Attention(hidden) for _ in copied)
        self.copies = nn.ModuleDict({str(i): nn.Linear(hidden, hidden) for i, copy in enumerate(copied) if copy})

    def keys(self, sources: Sequence[Source]) -> list[Tensor]:
        """See :meth:`Attention.keys`."""
        return [attention.keys(one.states) for attention, one in zip(self.attentions, sources, strict=True)]

    def step(
        self, word: Tensor, state: Tensor, pointer: Tensor, sources: Sequence[Source], keys: Sequence[Tensor]
    ) -> Tensor:
        """The state after a word; shape (steps, hidden)."""
        means = [a(state, one, of) for a, one, of in zip(self.attentions, sources, keys, strict=True)]
        return torch.as_tensor(self.cell(torch.cat([word, *means, pointer], 1), state))

    def scores(self, states: Tensor, sources: Sequence[Source]) -> tuple[Tensor, Tensor, Tensor]:
        """The scores of what may come next, of all together a softmax is taken.

        Args:
          states: of the decoder; shape (steps, places, hidden).
          sources: what is copied from.

        Returns:
          Of the words of the vocabulary; of the words of the sources that can be copied; the numbers of these. Shapes
          (steps, places, vocabulary), (steps, places, words), (steps, words).
        """
        copied = [(layer, sources[int(i)]) for i, layer in self.copies.items()]
        scores = [
            (states @ torch.tanh(layer(one.states)).transpose(1, 2)).masked_fill(~one.mask[:, None], NOTHING)
            for layer, one in copied
        ]
        return self.generate(states), torch.cat(scores, 2), torch.cat([one.numbers for _, one in copied], 1)


class Net(nn.Module):
    """All of it; see ``docs/train_damd.md``.

    Args:
      sizes: of it.
    """

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.sizes = sizes
        self.embedding = nn.Embedding(sizes.words, sizes.embedding)
        self.user, self.utterance, self.span = (Encoder(sizes) for _ in range(3))
        self.belief = Decoder(sizes, (True, True, True))  # user, previous response, belief span before
        self.acts = Decoder(sizes, (False, True), len(MATCHES))  # delexicalised user, belief span
        self.response = Decoder(sizes, (True, True, True), len(MATCHES))  # delexicalised user, belief and action spans

    def embedded(self, numbers: Tensor) -> Tensor:
        """The embeddings of words, of which those beyond the vocabulary are alike."""
        return torch.as_tensor(self.embedding(numbers.masked_fill(numbers >= self.sizes.words, UNKNOWN)))

    def encoded(self, encoder: Encoder, numbers: Tensor, mask: Tensor) -> tuple[Source, Tensor]:
        """A sequence as a source, and its last state."""
        states, last = encoder(self.embedded(numbers), mask)
        return Source(states, mask, numbers), last

    def taught(
        self,
        decoder: Decoder,
        numbers: Tensor,
        mask: Tensor,
        first: Tensor,
        sources: Sequence[Source],
        pointer: Tensor | None = None,
    ) -> Source:
        """A decoder's states where each word follows the right ones, as a source for the next decoder.

        Args:
          decoder: of the net.
          numbers: of the right words, with the end; shape (steps, words); ``mask`` which are words.
          first: the state to begin with.
          sources: what it attends to.
          pointer: what it reads besides; shape (steps, size).
        """
        embedded = self.embedded(F.pad(numbers[:, :-1], (1, 0), value=GO))
        pointer = first.new_zeros(len(first), 0) if pointer is None else pointer
        keys, state, states = decoder.keys(sources), first, []
        for place in range(numbers.shape[1]):
            state = decoder.step(embedded[:, place], state, pointer, sources, keys)
            states.append(state)
        return Source(torch.stack(states, 1), mask, numbers)

    def written(
        self,
        decoder: Decoder,
        most: int,
        own: int,
        first: Tensor,
        sources: Sequence[Source],
        pointer: Tensor | None = None,
    ) -> Source:
        """What a decoder writes, the most likely word each time, up to the end; with its states as a source.

        Args:
          most: words at most; ``own`` how many there are beyond the vocabulary.
          decoder, first, sources, pointer: see :meth:`taught`.
        """
        pointer = first.new_zeros(len(first), 0) if pointer is None else pointer
        word = torch.full((len(first),), GO, device=first.device)
        keys, state = decoder.keys(sources), first
        unfinished = torch.ones_like(word, dtype=torch.bool)
        states, masks, numbers = [], [], []
        for _ in range(most):
            state = decoder.step(self.embedded(word), state, pointer, sources, keys)
            word = likeliest(*decoder.scores(state[:, None], sources), own).squeeze(1)
            states.append(state)
            masks.append(unfinished)
            numbers.append(word)
            unfinished = unfinished & (word != END)
            if not bool(unfinished.any()):
                break
        return Source(torch.stack(states, 1), torch.stack(masks, 1), torch.stack(numbers, 1))


def likeliest(generated: Tensor, copied: Tensor, numbers: Tensor, own: int) -> Tensor:
    """The most likely word at each place, of equal ones the first; never padding, the beginning or the unknown word.

    Args:
      generated, copied, numbers: see :meth:`Decoder.scores`.
      own: how many words there are beyond the vocabulary.
    """
    both = torch.cat([generated, copied], 2)
    probabilities = (both - both.logsumexp(2, keepdim=True)).exp()
    size = generated.shape[2]
    words = F.pad(probabilities[:, :, :size], (0, own))
    words = words.scatter_add(2, numbers[:, None].expand_as(copied), probabilities[:, :, size:])
    words[:, :, [PAD, UNKNOWN, GO]] = -1.0
    return words.round(decimals=DIGITS).argmax(2)


def losses(generated: Tensor, copied: Tensor, numbers: Tensor, right: Tensor) -> Tensor:
    """The negative log-probability of the right word at each place, however it comes about; shape (steps, places).

    Args:
      generated, copied, numbers: see :meth:`Decoder.scores`.
      right: the numbers of the right words; one beyond the vocabulary must be among those that can be copied.
    """
    size = generated.shape[2]
    by_name = generated.gather(2, right.clamp(max=size - 1)[:, :, None])
    by_name = by_name.masked_fill((right >= size)[:, :, None], NOTHING)
    by_copy = copied.masked_fill(numbers[:, None] != right[:, :, None], NOTHING)
    total = torch.cat([generated, copied], 2).logsumexp(2)
    return total - torch.cat([by_name, by_copy], 2).logsumexp(2)


def _orthogonal(weights: Tensor) -> None:
    """As the authors initialise what leads from state to state: each gate by itself."""
    for gate in weights.data.chunk(3):
        nn.init.orthogonal_(gate)
