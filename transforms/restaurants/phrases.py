"""Splits requests and updates into a head and phrases with one value each, by how often the parts come again.

In "may i have a table in {location} for {number} people" nothing says where the head ends, nor whether "people" belongs
to the number. Other requests do: parts that are shared by many explain all of them by few. This is expectation
maximisation over all splits, with a prior for few and short parts, as in unsupervised word segmentation.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from parapet.transforms.sgd_turns import slots_of

ROUNDS = 12
MOST = 500  # turns that the counts are from
_NEW = 0.02  # how often a part that is new counts as seen, ...
_WORD = 0.2  # ... times this for each of its words

_Words = tuple[str, ...]
_Part = tuple[str, _Words, _Words]  # (act of a head or gap of a phrase, words before the gap, words after it)


class Parts(NamedTuple):
    """The parts of turns, the most frequent first.

    Attributes:
      heads: act to the texts that turns begin with.
      phrases: slot to texts with its gap.
    """

    heads: dict[str, list[str]]
    phrases: dict[str, list[str]]


def split_turns(turns: Iterable[tuple[str, str]]) -> Parts:
    """The parts that turns are made of.

    Args:
      turns: (act, text with gaps such as ``{price}``).
    """
    lattices = [_Lattice(*turn) for turn in dict.fromkeys(turns)]
    usable = [lattice for lattice in lattices if lattice.head]
    chances = _Chances({})
    for _ in range(ROUNDS):
        counts: dict[_Part, float] = {}
        for lattice in usable[:: -(-len(usable) // MOST) or 1]:
            lattice.expect(chances, counts)
        chances = _Chances(counts)
    found: Counter[_Part] = Counter()
    for lattice in usable:
        found.update(lattice.best(chances))
    heads: dict[str, list[str]] = {}
    phrases: dict[str, list[str]] = {}
    for (name, before, after), _ in sorted(found.items(), key=lambda item: (-item[1], item[0])):
        if slots := slots_of(name):
            phrases.setdefault(slots[0], []).append(" ".join((*before, name, *after)))
        else:
            heads.setdefault(name, []).append(" ".join(before))
    return Parts(heads, phrases)


class _Lattice:
    """All splits of a turn.

    Args:
      act: of the turn.
      text: with gaps, at most one in a word.
    """

    def __init__(self, act: str, text: str) -> None:
        self.act = act
        words = text.split()
        places = [i for i, word in enumerate(words) if slots_of(word)]
        self.slots = [words[i] for i in places]
        edges = [-1, *places, len(words)]
        self.between: list[_Words] = [tuple(words[a + 1 : b]) for a, b in itertools.pairwise(edges)]
        self.head = self.between[0]

    def _columns(self) -> list[list[int]]:
        """Where each run of words between values may be split; the last one belongs to the last value."""
        first = range(1, len(self.head) + 1) if self.slots else [len(self.head)]
        inner = [range(len(words) + 1) for words in self.between[1:-1]]
        return [list(first), *map(list, inner), *([[len(self.between[-1])]] if self.slots else [])]

    def _part(self, i: int, start: int, end: int) -> _Part:
        """The head for i = 0, or phrase i, between a split of the words before its value and one of those after."""
        if i == 0:
            return self.act, self.head[:end], ()
        return self.slots[i - 1], self.between[i - 1][start:], self.between[i][:end]

    def expect(self, chances: _Chances, counts: dict[_Part, float]) -> None:
        """Adds how often each part is expected in this turn."""
        columns = self._columns()
        forward = [{split: chances[self._part(0, 0, split)] for split in columns[0]}]
        for i in range(1, len(columns)):
            forward.append(
                {
                    end: sum(n * chances[self._part(i, start, end)] for start, n in forward[-1].items())
                    for end in columns[i]
                }
            )
        backward: dict[int, float] = dict.fromkeys(columns[-1], 1.0)
        total = sum(forward[-1].values())
        for i in range(len(columns) - 1, 0, -1):
            before: dict[int, float] = dict.fromkeys(columns[i - 1], 0.0)
            for start, n in forward[i - 1].items():
                for end, rest in backward.items():
                    part = self._part(i, start, end)
                    chance = chances[part] * rest
                    before[start] += chance
                    counts[part] = counts.get(part, 0.0) + n * chance / total
            backward = before
        for split, rest in backward.items():
            part = self._part(0, 0, split)
            counts[part] = counts.get(part, 0.0) + forward[0][split] * rest / total

    def best(self, chances: _Chances) -> Sequence[_Part]:
        """The parts of the most likely split."""
        columns = self._columns()
        paths: dict[int, tuple[float, tuple[_Part, ...]]] = {}
        for split in columns[0]:
            part = self._part(0, 0, split)
            paths[split] = (math.log(chances[part]), (part,))
        for i in range(1, len(columns)):
            extended: dict[int, tuple[float, tuple[_Part, ...]]] = {}
            for end in columns[i]:
                parts = [(start, self._part(i, start, end)) for start in paths]
                extended[end] = max(
                    ((paths[start][0] + math.log(chances[part]), (*paths[start][1], part)) for start, part in parts),
                    key=lambda path: path[0],
                )
            paths = extended
        return max(paths.values(), key=lambda path: path[0])[1]


class _Chances(dict[_Part, float]):
    """The probabilities of parts by how often each was expected; of new ones, too."""

    def __init__(self, counts: dict[_Part, float]) -> None:
        super().__init__()
        self._counts = counts
        self._sums: dict[str, float] = {}
        for (name, _, _), n in counts.items():
            self._sums[name] = self._sums.get(name, 0.0) + n

    def __missing__(self, part: _Part) -> float:
        name, before, after = part
        new = _NEW * _WORD ** (len(before) + len(after))
        self[part] = (self._counts.get(part, 0.0) + new) / (self._sums.get(name, 0.0) + _NEW)
        return self[part]
