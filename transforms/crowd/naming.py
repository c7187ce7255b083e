"""Assign names to variants by increasing distance, so that no two elements of a service have the same name in one.

SGD-X, Lee et al. 2022, section 2.3. If two elements would get the same name, answers at equal distances swap places
first; if that does not help, another answer is drawn.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations, groupby, islice, permutations, product

import msgspec

# How often a service's elements are reordered before the search.
_RESTARTS = 12

# Arrangements of one element's answers that are tried: enough to try all for any real element.
_TRIES = 1_000

# Combinations of arrangements that are tried for elements with conflicting names.
_COMBINATIONS = 20_000


class Candidates(msgspec.Struct):
    """The answers that an element may use as its names.

    Attributes:
      key: the element's id.
      texts: the answers in the order of the draw.
      distances: the distance of each text to the original.
      original: if not empty, an element with too few texts repeats one of them, or the original as a last resort.
      scopes: elements that share a scope must have different names.
    """

    key: str
    texts: list[str]
    distances: list[float]
    original: str = ""
    scopes: tuple[str, ...] = ("",)

    def places(self, name: str) -> set[tuple[str, str]]:
        """Return the (scope, name) pairs that the element occupies if it gets this name."""
        return {(scope, name) for scope in self.scopes}


Taken = list[set[tuple[str, str]]]  # for each variant, the (scope, name) pairs in use


def ranked(texts: Sequence[str], distances: Sequence[float]) -> list[str]:
    """Sort the texts by increasing distance; ties by text."""
    return [text for _, text in sorted(zip(distances, texts, strict=True))]


def assign_names(elements: Sequence[Candidates], n: int) -> dict[str, list[str]]:
    """Assign ``n`` names to each element by increasing distance, so that names are unique within each variant.

    Args:
      elements: all elements of a service whose names must differ from each other.
      n: the number of variants.

    Returns:
      Element key to its names, one per variant. Elements without ``n`` free names are left out.
    """
    assigned = _one_by_one(elements, n)
    if len(assigned) == len(elements):
        return assigned
    able = [element for element in elements if element.original or len(element.texts) >= n]
    for group in _sharing_texts(able):
        if any(element.key not in assigned for element in group):
            assigned.update(_search(group, n))
    return assigned


def _one_by_one(elements: Sequence[Candidates], n: int) -> dict[str, list[str]]:
    """Assign each element its first free names.

    An element without free names moves to the front for a retry.
    """
    order = list(elements)
    moved: set[str] = set()
    while True:
        taken: Taken = [set() for _ in range(n)]
        assigned: dict[str, list[str]] = {}
        for element in order:
            names = next((names for names in _arrangements(element, n) if _free(element, names, taken)), None)
            if names is None and element.key not in moved and len(moved) < _RESTARTS:
                # Earlier elements may have alternatives that this one lacks.
                moved.add(element.key)
                order.remove(element)
                order.insert(0, element)
                break
            if names is not None:
                assigned[element.key] = names
                for seen, name in zip(taken, names, strict=True):
                    seen.update(element.places(name))
        else:
            return assigned


def _sharing_texts(elements: Sequence[Candidates]) -> list[list[Candidates]]:
    """Group elements that share texts; groups can be assigned names independently."""
    groups: list[tuple[set[str], list[Candidates]]] = []
    for element in elements:
        texts, group = {*element.texts, element.original}, [element]
        for other in [other for other in groups if texts & other[0] - {""}]:
            groups.remove(other)
            texts, group = texts | other[0], other[1] + group
        groups.append((texts, group))
    return [group for _, group in groups]


def _search(elements: Sequence[Candidates], n: int) -> dict[str, list[str]]:
    """Search for names for all elements by backtracking, up to a limit; empty if there is no solution."""
    steps = iter(range(_COMBINATIONS))

    def complete(i: int, taken: Taken) -> dict[str, list[str]] | None:
        if i == len(elements):
            return {}
        arrangements = _arrangements(elements[i], n)
        while next(steps, None) is not None and (names := next(arrangements, None)):
            if _free(elements[i], names, taken):
                with_names = [seen | elements[i].places(name) for seen, name in zip(taken, names, strict=True)]
                others = complete(i + 1, with_names)
                if others is not None:
                    return {elements[i].key: names, **others}
        return None

    return complete(0, [set() for _ in range(n)]) or {}


def _free(element: Candidates, names: list[str], taken: Taken) -> bool:
    return all(seen.isdisjoint(element.places(name)) for name, seen in zip(names, taken, strict=True))


def _arrangements(element: Candidates, n: int) -> Iterator[list[str]]:
    """Yield all arrangements of ``n`` texts by increasing distance: drawn ones first, ties by text first."""
    distance = dict(zip(element.texts, element.distances, strict=True))
    most = min(n, len(element.texts))
    for size in range(most, -1, -1) if element.original else (n,):
        orders = (order for texts in combinations(element.texts, size) for order in _orders(texts, distance))
        filled = (names for order in orders for names in _fill(order, element.original, n))
        yield from islice(filled, _TRIES)


def _orders(texts: Sequence[str], distance: Mapping[str, float]) -> Iterator[list[str]]:
    """Yield the texts by increasing distance, with every order of texts at the same distance."""
    ties = groupby(sorted(texts, key=lambda text: (distance[text], text)), key=distance.__getitem__)
    for groups in product(*[list(permutations(tied)) for _, tied in ties]):
        yield [text for group in groups for text in group]


def _fill(order: list[str], original: str, n: int) -> Iterator[list[str]]:
    """Pad to ``n`` texts by repeating the furthest, or a nearer one if that collides, or else the original."""
    missing = n - len(order)
    if not missing:
        yield order
        return
    for filler in [*reversed(order), original]:
        yield [*order, *[filler] * missing]
