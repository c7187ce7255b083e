"""Decisions that do not depend on what else is in a batch.

The sums of a net are rounded otherwise in a batch of another size or width. That matters only where two choices are
almost equally good. There the row is computed once more, alone and without padding, which is the same each time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

# Logits in single precision are off by far less, and differ by far more as a rule.
DOUBT = 1e-2

Decision = TypeVar("Decision")
# For some rows: what is decided of each, and by how much the best choice is better than the next.
Decide = Callable[[Sequence[int]], Iterable[tuple[Decision, float]]]


def settled(batches: Iterable[Sequence[int]], decide: Decide[Decision]) -> list[Decision]:
    """The decision of each row, in the order of their numbers.

    Args:
      batches: numbers of rows; together all of them.
      decide: computes a batch.
    """
    found: dict[int, Decision] = {}
    for numbers in batches:
        for number, (decision, margin) in zip(numbers, decide(numbers), strict=True):
            if len(numbers) > 1 and not margin >= DOUBT:
                ((decision, _),) = decide([number])
            found[number] = decision
    return [found[number] for number in sorted(found)]
