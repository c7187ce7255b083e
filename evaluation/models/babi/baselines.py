"""Information retrieval: the nearest neighbour, TF-IDF match."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cache

import torch
from torch import Tensor

from parapet.evaluation.models.babi.data import numbers_of, words_of
from parapet.evaluation.models.babi.encoding import encode, turns_of
from parapet.evaluation.models.babi.nets import Matches
from parapet.transforms.babi_format import BabiDialogue


class Nearest:
    """Utterances of the training set with their answers.

    Args:
      pairs: (utterance, its answer), in the order of the training set.
    """

    def __init__(self, pairs: Sequence[tuple[str, str]]) -> None:
        self.pairs = list(pairs)
        self.sizes = [len(set(words_of(utterance))) for utterance, _ in self.pairs]
        self.having: dict[str, list[int]] = {}
        for number, (utterance, _) in enumerate(self.pairs):
            for word in set(words_of(utterance)):
                self.having.setdefault(word, []).append(number)
        self.answer = cache(self._answer)

    @classmethod
    def of(cls, dialogues: Iterable[BabiDialogue]) -> Nearest:
        """Learns from dialogues."""
        given: dict[str, Counter[str]] = {}
        for dialogue in dialogues:
            for one in dialogue.exchanges:
                given.setdefault(one.user, Counter())[one.bot.strip()] += 1
        return cls([(utterance, answers.most_common(1)[0][0]) for utterance, answers in given.items()])

    def _answer(self, utterance: str) -> str:
        shared = Counter(number for word in set(words_of(utterance)) for number in self.having.get(word, ()))
        near = shared or dict.fromkeys(range(len(self.pairs)), 0)
        best = min(near, key=lambda number: (-near[number], self.sizes[number], number))
        return self.pairs[best][1]

    def answers(self, dialogues: Sequence[BabiDialogue]) -> list[list[str]]:
        """The answers at each turn of each dialogue."""
        return [[self.answer(one.user) for one in dialogue.exchanges] for dialogue in dialogues]


TURNS = 512  # at a time
DIGITS = 9  # of scores
TYPE_WEIGHT = 10.0  # times the weight of the rarest word


class TfIdf:
    """Candidates by TF-IDF.

    Args:
      candidates: what may be answered.
      knowledge: type to its words; empty without match-type features.
      history: whether the input is all that was said, or the last utterance.
    """

    def __init__(self, candidates: Sequence[str], knowledge: Mapping[str, Sequence[str]], history: bool) -> None:
        bags = [Counter(words_of(text)) for text in candidates]
        self.candidates, self.history = list(candidates), history
        self.words = numbers_of(sorted({word for bag in bags for word in bag}))
        having = Counter(word for bag in bags for word in bag)
        self.idf = torch.tensor([math.log(len(bags) / having[word]) for word in self.words], dtype=torch.float64)
        rows = torch.tensor([number for number, bag in enumerate(bags) for _ in bag])
        columns = torch.tensor([self.words[word] for bag in bags for word in bag])
        counts = torch.tensor([n for bag in bags for n in bag.values()], dtype=torch.float64)
        weights = counts * self.idf[columns]
        shape = (len(bags), len(self.words))
        self.bags = torch.sparse_coo_tensor(
            torch.stack([rows, columns]), weights, shape, check_invariants=True
        ).coalesce()
        self.squares = torch.zeros(len(bags), dtype=torch.float64).index_add_(0, rows, weights**2)
        self.matches = Matches(candidates, knowledge)
        self.of_type = TYPE_WEIGHT * float(self.idf.max())

    def answers(self, dialogues: Sequence[BabiDialogue]) -> list[list[str]]:
        """The answers at each turn of each dialogue."""
        encoded = encode(dialogues, {})
        turns = turns_of(encoded, self.words, self.matches.entities, torch.device("cpu"))
        found: list[str] = []
        for ids in turns.batches(TURNS):
            lines, places = turns.history(ids, None if self.history else turns.now[ids])
            lines, places = lines[turns.said[lines]], places[turns.said[lines]]
            words, of = turns.words.of_groups(turns.line[lines], places)
            given = torch.zeros(len(self.words), len(ids), dtype=torch.float64)
            given.index_put_((words, of), torch.ones(len(words), dtype=torch.float64), accumulate=True)
            there = self.matches.there(turns, lines, places, len(ids))
            best = self._scores(given * self.idf[:, None], there).argmax(1)  # the first of the best
            found += [self.candidates[number] for number in best.tolist()]
        rest = iter(found)
        return [[next(rest) for _ in dialogue.exchanges] for dialogue in dialogues]

    def _scores(self, given: Tensor, there: Tensor) -> Tensor:
        """Scores of all candidates; the input's own length, which is the same for all, is left out."""
        products = torch.sparse.mm(self.bags, given).T.contiguous()
        squares = self.squares.repeat(len(products), 1)
        weight = self.of_type**2
        for candidates, features in self.matches.features(there):
            products.index_add_(1, candidates, features.double() * weight)
            squares.index_add_(1, candidates, features.double() * weight)
        # A candidate whose words all candidates have weighs nothing.
        scores = torch.where(squares > 0, products / squares.clamp_min(1e-300).sqrt(), 0.0)
        return scores.round(decimals=DIGITS)
