"""The changed turns of a set that its page and card show, and their quality: similarity to the originals, values kept.

Turns are drawn by a hash of their places in the corpus, so that all sets of a corpus show the same turns.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from hashlib import blake2b
from statistics import median
from typing import Any, NamedTuple

from parapet.transforms.report import meaning
from parapet.transforms.report.numbers import Metric, Numbers

DRAWN = 100  # turns drawn from a set
SHOWN = 12  # of these, the turns on its page
_SEED = "0"  # of the draw, whatever that of the run


class Changed(NamedTuple):
    """A user turn that was changed in a set.

    Attributes:
      dialogue_id: the dialogue.
      turn: its position in the dialogue in the set, from 0.
      previous: if the turn is new, the text of the turn before it.
      before: the original text; empty if the turn is new.
      after: the text in the set.
      kept: for each annotated value of the original turn, whether the turn in the set still has it.
    """

    dialogue_id: str
    turn: int
    previous: str
    before: str
    after: str
    kept: tuple[bool, ...] = ()


def drawn_turns(place: str, dialogue: Mapping[str, Any], changed: Mapping[str, Any]) -> Iterator[tuple[bytes, Changed]]:
    """Yield the changed user turns of a dialogue, each with its draw: the lowest ones are shown.

    Args:
      place: the dialogue's place in the corpus.
      dialogue: the original dialogue.
      changed: the dialogue in the set; if it has more or fewer turns, those that do not occur in the original are new.
    """
    before, after = dialogue["turns"], changed["turns"]
    same = len(before) == len(after)
    known = Counter(turn["utterance"] for turn in before)
    for i, turn in enumerate(after):
        text = turn["utterance"]
        was = before[i]["utterance"] if same else "" if known[text] == 0 else text
        known[text] -= not same
        if turn["speaker"] == "USER" and text != was:
            key = "\0".join((_SEED, place, str(i))).encode("utf-8", "surrogatepass")
            previous = after[i - 1]["utterance"] if i and not was else ""
            kept = tuple(_values_kept(before[i], turn)) if same else ()
            yield blake2b(key, digest_size=8).digest(), Changed(changed["dialogue_id"], i, previous, was, text, kept)


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


def quality_of(turns: Sequence[Changed]) -> dict[str, Any]:
    """Return the median similarity of turns, and the share of values kept."""
    similar = [meaning.similarity(turn.before, turn.after) for turn in turns if turn.before]
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
