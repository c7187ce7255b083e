"""The quality of a set's changed turns: similarity to the originals, and values kept. For its page and card.

The turns are drawn by seed, so that sets with the same changed turns have the same draw.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from hashlib import blake2b
from statistics import median
from typing import Any, NamedTuple

from parapet.transforms.reports import meaning
from parapet.transforms.reports.numbers import Metric, Numbers

DRAWN = 100  # turns drawn from a set
TURNS = "\0turns"  # appended to the name of a set, as the key of its changed turns among a run's examples


class Changed(NamedTuple):
    """A user turn that was changed in a set.

    Attributes:
      before: the original text; empty if the turn is new.
      after: the text in the set.
      kept: for each annotated value of the original turn, whether the turn in the set still has it.
    """

    before: str
    after: str
    kept: tuple[bool, ...] = ()


def draw_of(*key: str) -> bytes:
    """Return the draw of an example or a turn: the lowest ones are shown."""
    return blake2b("\0".join(key).encode("utf-8", "surrogatepass"), digest_size=8).digest()


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
            yield draw_of(seed, place, str(i)), Changed(was, text, tuple(_values_kept(before[i], turn)) if same else ())


def _values_kept(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[bool]:
    """Yield for each slot span whether its text stands in the turn of the set, or that turn annotates the slot itself.

    The latter holds for values that a set replaces, such as unseen entities.
    """
    annotated = {key for key, _ in span_texts(after)}
    for key, value in span_texts(before):
        word = rf"(?<!\w){re.escape(value)}(?!\w)"
        yield key in annotated or re.search(word, after["utterance"], re.IGNORECASE) is not None


def span_texts(turn: Mapping[str, Any]) -> Iterator[tuple[tuple[str, str], str]]:
    """Yield (service, slot) and the text of each span."""
    for frame in turn.get("frames", ()):
        for span in frame.get("slots", ()):
            if "start" in span:
                yield (frame["service"], span["slot"]), turn["utterance"][span["start"] : span["exclusive_end"]]


def quality_of(turns: Sequence[Changed]) -> dict[str, Any] | None:
    """Return the median similarity and the share of values kept; None without turns.

    Args:
      turns: at most ``DRAWN``, in the order of their draws.
    """
    if not turns:
        return None
    similar = [meaning.similarity(before, after) for before, after, _ in turns if before]
    numbers: dict[str, Any] = {"turns": len(turns), "similarity": round(median(similar), 2) if similar else None}
    if kept := [value for turn in turns for value in turn.kept]:
        numbers["values_kept"] = sum(kept) / len(kept)
    return numbers


def table() -> Numbers:
    """Return the table for the page and the card."""
    metrics = [
        Metric("turns", "turns drawn"),
        Metric("similarity", "similarity", meaning="How similar changed turns are to their originals: "
               f"{meaning.measure()}; 1 means equal. The median of the turns drawn."),
        Metric("values_kept", "values kept", percent=True, meaning="The share of the annotated values of the original "
               "turns that stand in the changed turns, or that the set replaces by other annotated values."),
    ]  # fmt: skip
    return Numbers("How the changed user turns read", "quality/*", ("set",), metrics)
