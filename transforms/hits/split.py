"""Cuts a task that is too large for one page into parts of about the same size."""

from __future__ import annotations

from collections.abc import Sequence


def split(sizes: Sequence[int], capacity: int) -> list[range]:
    """Cuts a sequence into as few runs as possible, none above ``capacity``, about equally large.

    Args:
      sizes: bytes of each item; none may be above ``capacity``.
      capacity: bytes that a run may have.

    Returns:
      The positions of each run, in order; no run for no items.

    Raises:
      ValueError: an item is larger than a run may be.
    """
    if any(size > capacity for size in sizes):
        raise ValueError("an item is larger than a part may be")
    runs = _fill(sizes, capacity)
    if len(runs) < 2:
        return runs
    # The smallest capacity that needs no more runs makes the largest run as small as it can be.
    low, high = max(max(sizes), -(-sum(sizes) // len(runs))), capacity
    while low < high:
        middle = (low + high) // 2
        if len(_fill(sizes, middle)) <= len(runs):
            high = middle
        else:
            low = middle + 1
    return _fill(sizes, low)


def _fill(sizes: Sequence[int], capacity: int) -> list[range]:
    runs: list[range] = []
    start = used = 0
    for i, size in enumerate(sizes):
        if used + size > capacity:
            runs.append(range(start, i))
            start, used = i, 0
        used += size
    if start < len(sizes):
        runs.append(range(start, len(sizes)))
    return runs
