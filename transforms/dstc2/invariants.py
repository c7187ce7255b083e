"""What must hold at the end of a run: each listed call is a dialogue of its split, or left out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from parapet.transforms.dead_letters import Tally


def tallies(counts: Mapping[str, int], splits: Sequence[str]) -> list[Tally]:
    """What is held against ``--max_bad``: the calls of each split."""
    return [
        Tally("call", counts.get(f"calls/{split}", 0), counts.get(f"left_out/{split}", 0), split, is_record=True)
        for split in splits
    ]


def check_counts(counts: dict[str, int], calls: Mapping[str, int]) -> dict[str, int]:
    """Gives the counts back. Raises RuntimeError where they do not balance.

    Args:
      counts: summed.
      calls: split to the number of its calls, by the lists.
    """
    wrong = [
        split
        for split, n in calls.items()
        if not n
        == counts.get(f"calls/{split}", 0)
        == counts.get(f"dialogues/{split}", 0) + counts.get(f"left_out/{split}", 0)
    ]
    if wrong:
        raise RuntimeError(f"the counts do not balance for {', '.join(wrong)}: {counts}")
    return counts
