"""Match-type features (Bordes et al. 2017, section 4.5): which types of entities a candidate shares with the dialogue.

A candidate has the word of a type added if a word is in it that is in the dialogue too, and a value of that type in the
knowledge base. So they depend on the turn. A candidate has few words with types, so a look-up of these is all it takes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import torch
from torch import Tensor, nn

from parapet.evaluation.models.babi.data import words_of
from parapet.evaluation.models.babi.encoding import Turns


class Matches(nn.Module):
    """The features of all candidates.

    Args:
      candidates: their texts.
      knowledge: type to its words.

    Attributes:
      entities: the words with types, each to its number.
      types: how many types some candidate has.
    """

    def __init__(self, candidates: Sequence[str], knowledge: Mapping[str, Sequence[str]]) -> None:
        super().__init__()
        self.entities = {word: i for i, word in enumerate(sorted({w for of in knowledge.values() for w in of}))}
        self.types = 0
        for words in knowledge.values():
            known = frozenset(words)
            found = [
                (number, [self.entities[word] for word in dict.fromkeys(words_of(text)) if word in known])
                for number, text in enumerate(candidates)
            ]
            found = [(number, there) for number, there in found if there]
            if not found:
                continue
            most = max(len(there) for _, there in found)
            nobody = len(self.entities)  # a column of its own, always false
            rows = [there + [nobody] * (most - len(there)) for _, there in found]
            self.register_buffer(f"candidates{self.types}", torch.tensor([number for number, _ in found]), False)
            self.register_buffer(f"words{self.types}", torch.tensor(rows), False)
            self.types += 1

    def there(self, turns: Turns, lines: Tensor, places: Tensor, examples: int) -> Tensor:
        """Of each example and word with a type, whether it is in the dialogue; one column more is false.

        Args:
          turns: with their texts.
          lines: those that count.
          places: the example that each is of.
          examples: how many there are.
        """
        words, of = turns.entities.of_groups(turns.line[lines], places)
        found = torch.zeros(examples, len(self.entities) + 1, dtype=torch.bool, device=lines.device)
        found[of, words] = True
        return found

    def features(self, there: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
        """For each type: (the candidates that may have it, of each example and such candidate whether it has)."""
        for i in range(self.types):
            words = self.get_buffer(f"words{i}")
            yield self.get_buffer(f"candidates{i}"), there[:, words].any(2)
