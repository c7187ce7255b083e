"""The models that are trained: a score for each candidate at each turn, as one product of matrices."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from parapet.evaluation.models.babi.data import numbers_of, words_of
from parapet.evaluation.models.babi.encoding import Ragged, Turns
from parapet.evaluation.models.babi.matching import Matches

INITIAL = 0.15  # standard deviation of new parameters


class Vocabulary(msgspec.Struct, frozen=True):
    """What a net knows.

    Attributes:
      words: of the dialogues that it is trained on.
      candidates: what may be answered.
      knowledge: type to its words; empty without match-type features.
    """

    words: list[str]
    candidates: list[str]
    knowledge: dict[str, list[str]]


class Net(nn.Module):
    """What both models have: embeddings of the user's side and of the candidates', and match-type features.

    Args:
      vocabulary: what it knows.
      size: of the embeddings.
    """

    def __init__(self, vocabulary: Vocabulary, size: int) -> None:
        super().__init__()
        known = numbers_of(sorted({word for text in vocabulary.candidates for word in words_of(text)}))
        bags = Ragged.of([[known[word] for word in words_of(text)] for text in vocabulary.candidates])
        self.register_buffer("candidate_words", bags.values, False)
        self.register_buffer("candidate_starts", bags.starts, False)
        self.matches = Matches(vocabulary.candidates, vocabulary.knowledge)
        self.words = parameter(len(vocabulary.words), size)
        self.answers = parameter(len(known), size)
        self.types = parameter(self.matches.types, size)

    def sums(self, turns: Turns, texts: Tensor) -> Tensor:
        """The sum of the embeddings of each text's words."""
        words, starts = turns.words.take(texts)
        return F.embedding_bag(words, self.words, starts, mode="sum")

    def scores(self, query: Tensor, turns: Turns, ids: Tensor, first: Tensor) -> Tensor:
        """The score of each candidate, given what stands for each turn.

        Args:
          query: of each turn.
          turns: all.
          ids: which of them.
          first: of each, the first line in which words with types are looked for.
        """
        words, starts = self.get_buffer("candidate_words"), self.get_buffer("candidate_starts")
        found = query @ F.embedding_bag(words, self.answers, starts, mode="sum").T
        if self.matches.types:
            there = self.matches.there(turns, *turns.history(ids, first), len(ids))
            # A type's word adds its own product with the query to each candidate that has it.
            gains = query @ self.types.T
            for gain, (candidates, features) in zip(gains.unbind(1), self.matches.features(there), strict=True):
                found = found.index_add(1, candidates, features * gain[:, None])
        return found


class MemN2N(Net):
    """A memory network (section 4.4; Sukhbaatar et al. 2015): a line of the history is a slot of the memory.

    The bag of words of a line has features for who speaks and for how long ago that was. Each hop adds what the memory
    answers, ``R sum p_i m_i``, to the query.

    Args:
      vocabulary: what it knows.
      size: of the embeddings.
      hops: over the memory.
      memory: lines at most, the last ones.
    """

    def __init__(self, vocabulary: Vocabulary, size: int, hops: int, memory: int) -> None:
        super().__init__(vocabulary, size)
        self.hops, self.memory = hops, memory
        self.ago = parameter(memory, size)
        self.speakers = parameter(2, size)
        self.answer = nn.Linear(size, size, bias=False)

    def forward(self, turns: Turns, ids: Tensor) -> Tensor:
        """Scores of all candidates at some turns."""
        now = turns.now[ids]
        lengths = (now - turns.first[ids]).clamp_max(self.memory)
        query = self.sums(turns, turns.line[now])
        longest = int(lengths.max())
        if longest:  # the first thing that a user says has no history
            ago = torch.arange(longest, device=ids.device)
            there = ago < lengths[:, None]
            lines = torch.where(there, now[:, None] - 1 - ago, 0)
            texts = torch.where(there, turns.line[lines], turns.padding)
            slots = self.sums(turns, texts.flatten()).view(len(ids), longest, -1)
            slots = slots + self.ago[:longest] + self.speakers[turns.speaker[lines]]
            for _ in range(self.hops):
                weights = torch.einsum("bmd,bd->bm", slots, query).masked_fill(~there, -torch.inf)
                # Where the memory is empty, all weights would be 0 / 0.
                weights = torch.softmax(weights.masked_fill(lengths[:, None] == 0, 0), 1) * there
                query = query + self.answer(torch.einsum("bm,bmd->bd", weights, slots))
        return self.scores(query, turns, ids, now - lengths)


class Embeddings(Net):
    """Supervised embeddings (section 4.3): ``(A x) · (B y)``, the history with what is said now as one bag of words."""

    def forward(self, turns: Turns, ids: Tensor) -> Tensor:
        """Scores of all candidates at some turns."""
        lines, places = turns.history(ids)
        words, of = turns.words.of_groups(turns.line[lines], places)
        counts = torch.bincount(of, minlength=len(ids))
        query = F.embedding_bag(words, self.words, counts.cumsum(0) - counts, mode="sum")
        return self.scores(query, turns, ids, turns.first[ids])


def parameter(rows: int, size: int) -> nn.Parameter:
    """Embeddings, new."""
    return nn.Parameter(torch.randn(rows, size) * INITIAL)


def ranking_loss(scores: Tensor, answers: Tensor, margin: float, negatives: int) -> Tensor:
    """The margin ranking loss of section 4.3, summed over sampled candidates, as a mean over turns.

    Args:
      scores: of all candidates at each turn.
      answers: the right ones.
      margin: by which the right one is to be better.
      negatives: others that are drawn for each turn.
    """
    # Drawn from those after the right one, and round to those before it: so it is never drawn.
    steps = torch.randint(1, scores.shape[1], (len(scores), negatives), device=scores.device)
    others = (answers[:, None] + steps) % scores.shape[1]
    short = margin - scores.gather(1, answers[:, None]) + scores.gather(1, others)
    return short.clamp_min(0).sum(1).mean()


def make(model: str, vocabulary: Vocabulary, settings: Mapping[str, int]) -> Net:
    """A net by the name of its model, with new parameters."""
    if model == "memn2n":
        return MemN2N(vocabulary, settings["size"], settings["hops"], settings["memory"])
    return Embeddings(vocabulary, settings["size"])
