"""The quality of a set's changed turns: similarity to the originals. For its page and card.

The turns are drawn by seed, so that sets with the same changed turns have the same draw.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from hashlib import blake2b
from statistics import quantiles
from typing import Any

from parapet.transforms.perturbation.metrics import Metric, Numbers
from parapet.transforms.reports import meaning

DRAWN = 100  # turns drawn from a set
_SAMPLE = "\0turns"  # appended to the name of a set, as a key in the outputs of a run


Changed = tuple[str, str]  # a user turn's text before, empty if it is new, and after


def key_of_turns(name: str) -> str:
    """Return the key under which a run collects the changed turns of a set."""
    return name + _SAMPLE


def drawn_turns(
    seed: str, place: str, before: Sequence[Mapping[str, Any]], after: Sequence[Mapping[str, Any]]
) -> Iterator[tuple[bytes, Changed]]:
    """Yield the changed user turns of a dialogue, each with its draw.

    Args:
      seed: the seed of the draws.
      place: the dialogue's place in the corpus.
      before: its original turns.
      after: its turns in the set; if their number differs, those that do not occur in the original are new.
    """
    same = len(before) == len(after)
    known = Counter(turn["utterance"] for turn in before)
    for i, turn in enumerate(after):
        text = turn["utterance"]
        was = before[i]["utterance"] if same else "" if known[text] == 0 else text
        known[text] -= not same
        if turn["speaker"] == "USER" and text != was:
            draw = blake2b(f"{seed}\0{place}\0{i}".encode("utf-8", "surrogatepass"), digest_size=8).digest()
            yield draw, (was, text)


def quality_of(turns: Sequence[Changed]) -> dict[str, Any] | None:
    """Return the median and the range from 5 to 95 % of similarity; None without turns.

    Args:
      turns: at most ``DRAWN``, in the order of their draws.
    """
    if not turns:
        return None
    numbers: dict[str, Any] = {"turns": len(turns)}
    pairs = [meaning.similarity(before, after) for before, after in turns if before]
    numbers["similarity"] = _spread(pairs)
    return numbers


def _spread(values: Sequence[float]) -> dict[str, float] | None:
    if not values:
        return None
    points = quantiles(values if len(values) > 1 else [*values] * 2, n=20, method="inclusive")
    return {"median": round(points[9], 2), "low": round(points[0], 2), "high": round(points[18], 2)}


def table() -> Numbers:
    """Return the table for the page and the card."""
    ends = ("similarity.low", "similarity.high")
    metrics = [
        Metric("turns", "turns drawn"),
        Metric("similarity.median", "similarity", interval=ends, meaning="How similar changed turns are to "
               f"their originals: {meaning.measure()}; 1 means equal. Median, and 5 to 95 % of the turns drawn."),
    ]  # fmt: skip
    return Numbers("How the changed user turns read", "quality/*", ("set",), metrics)
