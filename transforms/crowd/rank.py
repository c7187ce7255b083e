"""Which five good answers of an element are taken, and who goes into which variant: v1 is nearest, v5 furthest.

SGD-X, Lee et al. 2022, section 2.3: five are drawn at random and ranked by their distance to the original. Inside one
variant of a service the names must be unique, so where two elements would get the same name, equal distances change
places, and then another answer is drawn.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations, groupby, islice, permutations, product
from math import comb

import msgspec

from parapet.transforms.running.seeding import stable_digest
from parapet.transforms.variants.distance import Metric

# Beyond this many subsets, the most distant five are approached one by one instead.
_EXACT = 3_000

# Of so many texts the most distant five are chosen: each is compared with each.
_MOST_COMPARED = 500

# Times that a service's elements are served again in another order.
_RESTARTS = 12

# Ways to arrange one element's answers that are tried before it gives up: all of them, for any real element.
_TRIES = 1_000

# Combinations of arrangements that are tried for elements that get in each other's way.
_COMBINATIONS = 20_000


def draw(texts: Sequence[str], seed: int, element_id: str, field: str) -> list[str]:
    """All texts in random order, not moved by other answers: the first five are taken, the others wait."""
    return sorted(texts, key=lambda text: stable_digest(str(seed), element_id, field, text))


def most_diverse(texts: Sequence[str], n: int, metric: Metric) -> list[str]:
    """The texts with the ``n`` most mutually distant ones first: the largest sum of distances between them.

    Exact while there are few subsets; else the pair furthest apart, joined by whatever adds the most. Ties go to the
    earlier texts of the sequence, so that the draw's order decides. Of more than 500 texts the first 500 are compared.
    """
    if len(texts) <= n:
        return list(texts)
    size = range(min(len(texts), _MOST_COMPARED))
    apart = [[0.0] * len(size) for _ in size]
    for i, j in combinations(size, 2):
        apart[i][j] = apart[j][i] = metric(texts[i], texts[j])
    if comb(len(size), n) <= _EXACT:
        chosen = max(combinations(size, n), key=lambda subset: sum(apart[i][j] for i, j in combinations(subset, 2)))
    else:
        chosen = max(combinations(size, 2), key=lambda pair: apart[pair[0]][pair[1]])
        while len(chosen) < n:
            chosen += (max((i for i in size if i not in chosen), key=lambda i: sum(apart[i][j] for j in chosen)),)
    return [texts[i] for i in sorted(chosen)] + [text for i, text in enumerate(texts) if i not in chosen]


class Candidates(msgspec.Struct):
    """The answers that one element may use for its names.

    Attributes:
      key: the element's id.
      texts: in the order of the draw.
      distances: to the original, one a text.
      original: where set, an element with too few texts repeats one of them, or at last its original.
      scopes: elements that share one of these must have different names.
    """

    key: str
    texts: list[str]
    distances: list[float]
    original: str = ""
    scopes: tuple[str, ...] = ("",)

    def places(self, name: str) -> set[tuple[str, str]]:
        """What the element takes where it has a name."""
        return {(scope, name) for scope in self.scopes}


Taken = list[set[tuple[str, str]]]  # of each variant, the names of each scope


def ranked(texts: Sequence[str], distances: Sequence[float]) -> list[str]:
    """The texts from the nearest to the farthest; ties by text."""
    return [text for _, text in sorted(zip(distances, texts, strict=True))]


def assign_names(elements: Sequence[Candidates], n: int) -> dict[str, list[str]]:
    """Gives each element ``n`` names from near to far, so that no variant has a name twice.

    Args:
      elements: all the elements of one service whose names must differ from each other.
      n: how many variants.

    Returns:
      Element key to its names, one per variant. An element for which there are no ``n`` free names is left out.
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
    """Gives each element the first names that are still free; one that finds none is served first at another try."""
    order = list(elements)
    moved: set[str] = set()
    while True:
        taken: Taken = [set() for _ in range(n)]
        assigned: dict[str, list[str]] = {}
        for element in order:
            names = next((names for names in _arrangements(element, n) if _free(element, names, taken)), None)
            if names is None and element.key not in moved and len(moved) < _RESTARTS:
                # Those before it may have a choice where it has none.
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
    """The elements in groups; what one group does with its texts is nothing to the others."""
    groups: list[tuple[set[str], list[Candidates]]] = []
    for element in elements:
        texts, group = {*element.texts, element.original}, [element]
        for other in [other for other in groups if texts & other[0] - {""}]:
            groups.remove(other)
            texts, group = texts | other[0], other[1] + group
        groups.append((texts, group))
    return [group for _, group in groups]


def _search(elements: Sequence[Candidates], n: int) -> dict[str, list[str]]:
    """Names for all of the elements, every combination tried (up to a limit); empty where there is none."""
    taken: Taken = [set() for _ in range(n)]
    chosen: list[list[str]] = []
    untried = [_arrangements(elements[0], n)]
    for _ in range(_COMBINATIONS):
        names = next(untried[-1], None)
        if names is None:
            untried.pop()
            if not untried:
                break
            for seen, name in zip(taken, chosen.pop(), strict=True):
                seen -= elements[len(chosen)].places(name)
        elif _free(element := elements[len(chosen)], names, taken):
            chosen.append(names)
            if len(chosen) == len(elements):
                return {element.key: names for element, names in zip(elements, chosen, strict=True)}
            untried.append(_arrangements(elements[len(chosen)], n))
            for seen, name in zip(taken, names, strict=True):
                seen |= element.places(name)
    return {}


def _free(element: Candidates, names: list[str], taken: Taken) -> bool:
    return all(seen.isdisjoint(element.places(name)) for name, seen in zip(names, taken, strict=True))


def _arrangements(element: Candidates, n: int) -> Iterator[list[str]]:
    """Every way to use ``n`` of the texts from near to far: the drawn ones first, ties in the order of text first."""
    distance = dict(zip(element.texts, element.distances, strict=True))
    most = min(n, len(element.texts))
    for size in range(most, -1, -1) if element.original else (n,):
        orders = (order for texts in combinations(element.texts, size) for order in _orders(texts, distance))
        filled = (names for order in orders for names in _fill(order, element.original, n))
        yield from islice(filled, _TRIES)


def _orders(texts: Sequence[str], distance: Mapping[str, float]) -> Iterator[list[str]]:
    """The texts from near to far, in every order of those that tie."""
    ties = groupby(sorted(texts, key=lambda text: (distance[text], text)), key=distance.__getitem__)
    for groups in product(*[list(permutations(tied)) for _, tied in ties]):
        yield [text for group in groups for text in group]


def _fill(order: list[str], original: str, n: int) -> Iterator[list[str]]:
    """Too few texts made ``n``: the furthest repeated, a nearer one where that collides, the original at last."""
    missing = n - len(order)
    if not missing:
        yield order
        return
    for filler in [*reversed(order), original]:
        yield [*order, *[filler] * missing]
