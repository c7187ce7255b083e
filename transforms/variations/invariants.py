"""What must hold at the end of a run: nothing lost, Env sets exact, and enough changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from parapet.schemas.errors import InputError
from parapet.transforms.dead_letters import Tally, of_dialogues
from parapet.transforms.variations.envs import size_of
from parapet.transforms.variations.statistics import of_splits


def tallies(counts: Mapping[str, int], kinds: Sequence[str]) -> list[Tally]:
    """What is held against ``--max_bad``: files, dialogues, user turns, and lines that others have rewritten."""
    turns, bad = counts.get("turns", 0), counts.get("bad_lines", 0)
    return [
        *of_dialogues(counts),
        Tally("user turn", turns, counts.get("bad_turns", 0), is_needed=False),
        *(Tally("user turn", turns, counts.get(f"bad_turns/{kind}", 0), kind) for kind in kinds),
        Tally(
            "line",
            sum(of_splits("lines/", counts).values()) + bad,
            sum(of_splits("lines_without_turn/", counts).values()) + bad,
            "--rewritten",
        ),
    ]


def check_counts(
    counts: dict[str, int],
    sets: Mapping[str, Sequence[str]],
    envs: Sequence[str],
    least: Mapping[str, float],
    rewritten: bool = False,
) -> dict[str, int]:
    """Every dialogue is in every set or left out; every user turn is varied or unchanged; Env sets are exact.

    Args:
      counts: summed.
      sets: kind to its Env sets.
      envs: their rates.
      least: kind to the share of its turns that must have changed.
      rewritten: whether that is the share of the turns that files have.

    Raises:
      RuntimeError: they do not balance, or an Env set has another number of turns than was asked.
      InputError: a kind came out with less changed than ``least``.
    """
    wrong = []
    for kind, names in sets.items():
        for name in (kind, *names):
            if counts.get("dialogues", 0) != counts.get(f"dialogues/{name}", 0) + counts.get("left_out", 0):
                wrong.append(f"dialogues of {name}")
        varied = of_splits(f"varied/{kind}/", counts)
        unchanged = of_splits(f"unchanged/{kind}/", counts)
        if counts.get("turns", 0) != sum(varied.values()) + sum(unchanged.values()):
            wrong.append(f"turns of {kind}")
        for name, rate in zip(names, envs, strict=True):
            for split in {**varied, **unchanged}:
                if counts.get(f"replaced/{name}/{split}", 0) != size_of(rate, varied.get(split, 0)):
                    wrong.append(f"turns of {name} in {split}")
        lines = counts.get(f"lines_with_turn/{kind}", 0) + counts.get(f"lines_without_turn/{kind}", 0)
        if counts.get(f"lines/{kind}", 0) != lines:
            wrong.append(f"lines of {kind}")
    if wrong:
        raise RuntimeError(f"the counts do not balance for {', '.join(wrong)}: {counts}")
    _check_changed(counts, least, rewritten)
    return counts


def _check_changed(counts: Mapping[str, int], kinds: Mapping[str, float], rewritten: bool) -> None:
    for kind, least in kinds.items():
        turns = counts.get(f"given/{kind}" if rewritten else "turns", 0)
        varied = sum(of_splits(f"varied/{kind}/", counts).values())
        share = varied / turns if turns else 0.0 if rewritten else 1.0
        if share < least:
            of = "user turns of the files" if rewritten else "user turns"
            raise InputError(
                f"{kind}: only {share:.1%} of {turns:,} {of} changed, and --least_changed asks for {least:.0%}, "
                "so nothing was published: give a lower one if that is what you expect of this corpus",
            )
