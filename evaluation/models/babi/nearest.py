"""Nearest neighbour (Bordes et al. 2017, section 4.2): the answer to the most similar utterance of the training set.

Similarity is word overlap: how many distinct words the last utterance shares with one of the training set. The answer
is the one given to that most often. The paper leaves ties open, on which the numbers depend. Here, of utterances that
share as many words, the one with the fewest words is taken, so the one with the least besides; of those, and of answers
given as often, the one that comes first in the training set.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cache

from parapet.evaluation.models.babi.data import words_of
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
