"""TF-IDF match (Bordes et al. 2017, section 4.2): the candidate whose bag of words is closest to the input's.

The score is the cosine between the bags, words weighted by term frequency times ``log(N / n)``: n of the N candidates
have the word. The input is what was said in the dialogue so far, or the last utterance alone; facts are not said, and
words that no candidate has weigh nothing. Of candidates that score equally the first in the file is taken; scores are
equal where they are so to nine digits.

With match-type features (section 4.5), a candidate has a word more for each type that matches, and the input has the
words of all types. The paper does not say what these weigh. Here one outweighs all else, which gives its numbers for
task 1.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from parapet.evaluation.models.babi.data import numbers_of, words_of
from parapet.evaluation.models.babi.encoding import encode, turns_of
from parapet.evaluation.models.babi.matching import Matches
from parapet.transforms.babi_format import BabiDialogue

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
