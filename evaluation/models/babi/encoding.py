"""Dialogues as tensors of indices, built once: a turn is two numbers that point into them.

The lines of all dialogues follow one another. The memory of a turn is a slice: from the first line of its
dialogue to the line before what the user says now.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeVar

import torch
from torch import Tensor

from parapet.evaluation.models.babi.data import tokens_of, words_of
from parapet.transforms.babi_format import BabiDialogue, Exchange, Unanswered

Turn = TypeVar("Turn")

USER, BOT = 0, 1


class Ragged(NamedTuple):
    """Rows of numbers of any length, one behind the other."""

    values: Tensor
    starts: Tensor
    lengths: Tensor

    @classmethod
    def of(cls, rows: Sequence[Sequence[int]]) -> Ragged:
        """The rows."""
        lengths = torch.tensor([len(row) for row in rows], dtype=torch.long)
        values = torch.tensor([value for row in rows for value in row], dtype=torch.long)
        return cls(values, lengths.cumsum(0) - lengths, lengths)

    def take(self, ids: Tensor) -> tuple[Tensor, Tensor]:
        """(the numbers of some rows, where each row begins among them)."""
        lengths = self.lengths[ids]
        return self.values[ranges(self.starts[ids], lengths)], lengths.cumsum(0) - lengths

    def of_groups(self, ids: Tensor, group: Tensor) -> tuple[Tensor, Tensor]:
        """(the numbers of some rows, the group of each number), given the group of each row."""
        return self.take(ids)[0], torch.repeat_interleave(group, self.lengths[ids])

    def to(self, device: torch.device) -> Ragged:
        """The same on a device."""
        return Ragged(*(one.to(device) for one in self))


def ranges(starts: Tensor, lengths: Tensor) -> Tensor:
    """The numbers ``start, start + 1, ...`` of each range, one range behind the other."""
    ends = lengths.cumsum(0)
    total = int(ends[-1]) if len(ends) else 0
    return torch.arange(total, device=starts.device) + torch.repeat_interleave(starts - ends + lengths, lengths)


class Encoded(NamedTuple):
    """Dialogues as indices.

    Attributes:
      texts: the distinct texts of the lines.
      line: the text of each line.
      speaker: of each line.
      said: of each line, whether it is said, and no fact.
      first: of each turn, the first line of its dialogue.
      now: of each turn, the line of what the user says.
      answer: of each turn, the candidate that is right; -1 where none is.
    """

    texts: list[str]
    line: Tensor
    speaker: Tensor
    said: Tensor
    first: Tensor
    now: Tensor
    answer: Tensor


def encode(dialogues: Iterable[BabiDialogue], candidates: Mapping[str, int]) -> Encoded:
    """Dialogues as indices.

    Args:
      dialogues: in order; there is a turn for each exchange.
      candidates: text to its number.
    """
    known: dict[str, int] = {}
    lines: list[tuple[int, int, bool]] = []
    turns: list[tuple[int, int, int]] = []

    def add(text: str, speaker: int, said: bool = True) -> None:
        lines.append((known.setdefault(text, len(known)), speaker, said))

    for dialogue in dialogues:
        first = len(lines)
        for one in dialogue.lines:
            if isinstance(one, Exchange):
                turns.append((first, len(lines), candidates.get(one.bot.strip(), -1)))
                add(one.user, USER)
                add(one.bot, BOT)
            elif isinstance(one, Unanswered):
                add(one.user, USER)
            else:
                add(f"{one.entity} {one.relation} {one.value}", USER, said=False)  # footnote 2
    line, speaker, said = torch.tensor(lines, dtype=torch.long).view(len(lines), 3).unbind(1)
    first, now, answer = torch.tensor(turns, dtype=torch.long).view(len(turns), 3).unbind(1)
    return Encoded([*known], line, speaker, said.bool(), first, now, answer)


class Turns(NamedTuple):
    """Turns as a model sees them, on its device: ``Encoded`` without texts, and what they have of two vocabularies.

    Attributes:
      line, speaker, said, first, now, answer: as of ``Encoded``.
      words: of each text, the words that the model knows. One row more is empty, for padding.
      entities: of each text, the words that are values in the knowledge base.
    """

    line: Tensor
    speaker: Tensor
    said: Tensor
    first: Tensor
    now: Tensor
    answer: Tensor
    words: Ragged
    entities: Ragged

    @property
    def padding(self) -> int:
        """The text that is empty."""
        return len(self.words.lengths) - 1

    def batches(self, size: int) -> Iterator[Tensor]:
        """All turns in order, ``size`` at a time."""
        for start in range(0, len(self.now), size):
            yield torch.arange(start, min(start + size, len(self.now)), device=self.now.device)

    def history(self, ids: Tensor, first: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """(lines, the place in ``ids`` of the turn of each): all up to what the user says now.

        Args:
          ids: turns.
          first: the first line of each that counts; by default of its dialogue.
        """
        starts = self.first[ids] if first is None else first
        lengths = self.now[ids] - starts + 1
        places = torch.repeat_interleave(torch.arange(len(ids), device=ids.device), lengths)
        return ranges(starts, lengths), places


def turns_of(
    encoded: Encoded,
    words: Mapping[str, int],
    entities: Mapping[str, int],
    device: torch.device,
    bigrams: bool = False,
) -> Turns:
    """Turns for a model. Words that it does not know are left out: nothing was learned of them.

    Args:
      encoded: the dialogues.
      words: what it knows.
      entities: the values of the knowledge base.
      device: where it computes.
      bigrams: whether some of the words are two that follow one another.
    """
    _, *columns = encoded
    texts = (*encoded.texts, "")
    bags = [
        Ragged.of([[words[token] for token in tokens_of(text, bigrams) if token in words] for text in texts]),
        Ragged.of([[entities[word] for word in words_of(text) if word in entities] for text in texts]),
    ]
    return Turns(*(column.to(device) for column in columns), *(bag.to(device) for bag in bags))


def histories(dialogue: BabiDialogue) -> Iterator[int]:
    """How many lines of history each turn has: a turn leaves two, a fact or an unanswered utterance one."""
    lines = 0
    for line in dialogue.lines:
        if isinstance(line, Exchange):
            yield lines
        lines += 2 if isinstance(line, Exchange) else 1


def best_of(candidates: Sequence[str], scores: Tensor, top: int) -> list[list[str]]:
    """The best candidates of each turn, the best one first; of equal scores the first candidate.

    Args:
      candidates: their texts.
      scores: turns × candidates.
      top: how many, at most all.
    """
    if top == 1:
        best = scores.argmax(1, keepdim=True)
    else:
        best = torch.sort(scores, dim=1, descending=True, stable=True).indices[:, :top]
    return [[candidates[number] for number in ranking] for ranking in best.tolist()]


def by_dialogue(turns: Iterable[Turn], dialogues: Iterable[BabiDialogue]) -> list[list[Turn]]:
    """What each turn has, in order, as a list for each dialogue."""
    rest = iter(turns)
    return [[next(rest) for _ in dialogue.exchanges] for dialogue in dialogues]
