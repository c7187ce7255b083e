"""What must hold at the end of a run: nothing lost, and, where that is asked, nothing suspicious left."""

from __future__ import annotations

from collections.abc import Mapping

from parapet.schemas.errors import InputError
from parapet.transforms.dead_letters import Tally, of_files


def suspects_of(counts: Mapping[str, int]) -> int:
    """How many a second look found."""
    return sum(n for name, n in counts.items() if name.startswith("suspects/"))


def tallies(counts: Mapping[str, int]) -> list[Tally]:
    """What is held against ``--max_bad``."""
    return [of_files(counts), Tally("chat", counts.get("chats", 0), counts.get("left_out", 0), is_record=True)]


def check_counts(counts: dict[str, int], files: int, strict: bool) -> dict[str, int]:
    """Every chat is written or left out, every turn of a written one is written.

    Args:
      counts: summed.
      files: that were given.
      strict: whether a suspect fails the run.

    Raises:
      RuntimeError: they do not balance.
      InputError: there are suspects, and may not be.
    """
    if (
        counts.get("files", 0) != files
        or counts.get("chats", 0) != counts.get("written", 0) + counts.get("left_out", 0)
        or counts.get("turns", 0) != counts.get("written_turns", 0)
    ):
        raise RuntimeError(f"the counts do not balance: {counts}")
    if strict and (n := suspects_of(counts)):
        kinds = ", ".join(
            f"{n:,} {name.partition('/')[2]}" for name, n in counts.items() if name.startswith("suspects/")
        )
        raise InputError(
            f"a second look found {n:,} that may have been missed ({kinds}), so nothing was published: run it without "
            "--strict to see where, and list them in --entities"
        )
    return counts
