"""Which five of the surviving answers are taken (SGD-X, Lee et al. 2022, section 2.3: at random)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from math import comb

from parapet.transforms.distance import Metric
from parapet.transforms.seeding import stable_digest

# Beyond this many subsets, the most distant five are approached one by one instead.
_EXACT = 3_000


def draw(texts: Sequence[str], seed: int, element_id: str, field: str) -> list[str]:
    """All texts in random order, not moved by other answers: the first five are taken, the others wait."""
    return sorted(texts, key=lambda text: stable_digest(str(seed), element_id, field, text))


def most_diverse(texts: Sequence[str], n: int, metric: Metric) -> list[str]:
    """The texts with the ``n`` most mutually distant ones first: the largest sum of distances between them.

    Exact while there are few subsets; else the pair furthest apart, joined by whatever adds the most. Ties go to the
    earlier texts of the sequence, so that the draw's order decides.
    """
    if len(texts) <= n:
        return list(texts)
    size = range(len(texts))
    apart = [[metric(texts[min(i, j)], texts[max(i, j)]) for j in size] for i in size]
    if comb(len(texts), n) <= _EXACT:
        chosen = max(combinations(size, n), key=lambda subset: sum(apart[i][j] for i, j in combinations(subset, 2)))
    else:
        chosen = max(combinations(size, 2), key=lambda pair: apart[pair[0]][pair[1]])
        while len(chosen) < n:
            chosen += (max((i for i in size if i not in chosen), key=lambda i: sum(apart[i][j] for j in chosen)),)
    return [texts[i] for i in sorted(chosen)] + [texts[i] for i in size if i not in chosen]
