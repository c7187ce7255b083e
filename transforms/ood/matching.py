"""Assigns foreign utterances to places: each place gets one that fits, and each utterance is used once."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Sequence
from heapq import heapify, heappop, heapreplace
from itertools import pairwise
from typing import Generic, TypeVar

# What places have in common, and what utterances have: whether they fit depends on nothing else.
P = TypeVar("P", bound=Hashable)
U = TypeVar("U", bound=Hashable)


def match(places: Sequence[P], utterances: Sequence[U], fits: Callable[[P, U], bool]) -> list[int | None]:
    """Gives each place an utterance that fits; as many as can be have one.

    Args:
      places: the kind of each place.
      utterances: the kind of each utterance.
      fits: whether a place of one kind may have an utterance of another.

    Returns:
      For each place the index of its utterance, or None.
    """
    matching = Matching(places, utterances, fits)
    for i in range(len(places)):
        matching.serve(i)
    return matching.found


class Matching(Generic[P, U]):
    """Places served in order, each by the first utterance in order that fits and is left.

    Where none is left, others change theirs to make room: a maximum matching by augmenting paths (Berge 1957), over
    groups of the same kind. Whoever is served stays so.

    Attributes:
      found: for each place the index of its utterance, or None.
    """

    def __init__(self, places: Sequence[P], utterances: Sequence[U], fits: Callable[[P, U], bool]) -> None:
        self.places = places
        self.found: list[int | None] = [None] * len(places)
        self.free: dict[U, deque[int]] = {}
        for i, kind in enumerate(utterances):
            self.free.setdefault(kind, deque()).append(i)
        # kind of utterance -> kind of place -> the places of it that hold one
        self.holders: dict[U, dict[P, list[int]]] = {group: {} for group in self.free}
        self.groups = {kind: [group for group in self.free if fits(kind, group)] for kind in dict.fromkeys(places)}
        # kind of place -> (the first utterance of a kind that fits, its kind's number); what is outdated goes when met
        self._names = list(self.free)
        numbers = {group: n for n, group in enumerate(self._names)}
        self._heads = {
            kind: [(self.free[group][0], numbers[group]) for group in groups] for kind, groups in self.groups.items()
        }
        for heap in self._heads.values():
            heapify(heap)
        self._hopeless: set[P] = set()

    def serve(self, place: int) -> bool:
        """Serves a place, if it can be."""
        kind = self.places[place]
        group = self._first(kind)
        if group is not None:
            self._give(place, group)
        elif kind not in self._hopeless:
            path = self._path(kind)
            if path is not None:  # else there will be none later: whoever is served keeps something
                self._shift(place, path)
        return self.found[place] is not None

    def _first(self, kind: P) -> U | None:
        """The group with the first utterance that fits and is left."""
        heap = self._heads[kind]
        while heap:
            head, number = heap[0]
            left = self.free[self._names[number]]
            if left and left[0] == head:
                return self._names[number]
            if left:
                heapreplace(heap, (left[0], number))
            else:
                heappop(heap)
        return None

    def _give(self, place: int, group: U) -> None:
        self.found[place] = self.free[group].popleft()
        self.holders[group].setdefault(self.places[place], []).append(place)

    def _path(self, kind: P) -> list[tuple[U, P]] | None:
        """Steps (group, kind of a place that leaves it) to a group with something left, which the last one takes."""
        came: dict[U, tuple[U, P] | None] = dict.fromkeys(self.groups[kind])
        seen = {kind}
        queue = deque(came)
        while queue:
            group = queue.popleft()
            for holder, places in self.holders[group].items():
                if places and holder not in seen:
                    seen.add(holder)
                    other = self._first(holder)
                    if other is not None:
                        return self._steps(came, group, [(group, holder), (other, holder)])
                    new = [other for other in self.groups[holder] if other not in came]
                    came.update(dict.fromkeys(new, (group, holder)))
                    queue.extend(new)
        self._hopeless |= seen  # whatever these hold, none of them can have another
        return None

    def _steps(self, came: dict[U, tuple[U, P] | None], group: U, steps: list[tuple[U, P]]) -> list[tuple[U, P]]:
        """The way from the first group to ``group``, then ``steps``."""
        at = came[group]
        while at is not None:
            steps.insert(0, at)
            at = came[at[0]]
        return steps

    def _shift(self, place: int, path: list[tuple[U, P]]) -> None:
        """From the end of the path: a place takes from the next group what it leaves in its own to the one before."""
        for (group, holder), (following, _) in reversed(list(pairwise(path))):
            leaving = self.holders[group][holder].pop()
            left = self.found[leaving]
            self._give(leaving, following)
            if left is not None:
                self.free[group].append(left)
        self._give(place, path[0][0])
