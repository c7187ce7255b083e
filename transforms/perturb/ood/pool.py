"""The pool of foreign utterances: distinct texts, and the domains in whose dialogues they may not be inserted."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from parapet.transforms.core.counts import Counts
from parapet.transforms.perturb.ood import CHAT, OWN
from parapet.transforms.perturb.ood.requests import Topics, topics_of
from parapet.transforms.report.text import words

LONGEST = 400  # characters; longer texts are not turns of a dialogue

# The statuses of texts: the key in statistics.json, and its meaning.
KEPT, GENERIC = "kept", "generic"
STATUSES = {
    KEPT: "may be injected",
    GENERIC: "has no word that says what it is about",
    "refers_back": 'turn of a dialogue that refers to something said before it, as in "is it furnished?"',
    "too_long": f"more than {LONGEST} characters",
    "empty": "without words",
}


class Utterance(msgspec.Struct, frozen=True, order=True, array_like=True):
    """A foreign utterance.

    Attributes:
      key: its words, by which utterances are compared.
      source: its origin: file and line, or file, dialogue and turn.
      text: the text, with single spaces.
      origin: ``own``, ``chat``, or the name of a file or folder.
      about: domains where it must not be used: those that it comes from, or whose schemas have one of its words.
      splits: the splits where it may be used; empty for all.
      status: one of ``STATUSES``.
    """

    key: str
    source: str
    text: str
    origin: str
    about: tuple[str, ...] = ()
    splits: tuple[str, ...] = ()
    status: str = KEPT


def key_of(text: str) -> str:
    """Return the text by which utterances are compared: lower-case words without punctuation, separated by spaces."""
    return " ".join(words(text))


def utterance_of(
    text: str, source: str, origin: str, about: Iterable[str] = (), splits: tuple[str, ...] = (), status: str = KEPT
) -> Utterance:
    """Make an utterance of the pool."""
    key, text = key_of(text), " ".join(text.split())
    if not key:
        status = "empty"
    elif len(text) > LONGEST:
        status = "too_long"
    elif origin not in (OWN, CHAT) and not topics_of(text):
        status = GENERIC
    return Utterance(key, source, text, origin, tuple(sorted(about)), splits, status)


def merged(utterances: Iterable[Utterance]) -> list[Utterance]:
    """Merge utterances with the same words: the first by source, with the domains and splits of all."""
    merged: dict[str, Utterance] = {}
    for one in sorted(utterances):
        if (first := merged.get(one.key)) and (one.about, one.splits) != (first.about, first.splits):
            about, splits = {*first.about, *one.about}, {*first.splits, *one.splits}
            one = msgspec.structs.replace(first, about=tuple(sorted(about)), splits=tuple(sorted(splits)))
            merged[one.key] = one
        merged.setdefault(one.key, one)
    return [*merged.values()]


def pool_of(utterances: Iterable[Utterance], topics: Topics) -> tuple[list[Utterance], Counts]:
    """Return the utterances that may be injected, and the number of utterances by status.

    Args:
      utterances: of the corpus and of the sources; some may have the same words.
      topics: what the services of the corpus are about.
    """
    kept, counts = [], Counts()
    for utterance in merged(utterances):
        counts.add("pool", value=utterance.status)
        if utterance.status == KEPT:
            about = topics.about(utterance.text).union(utterance.about)
            kept.append(msgspec.structs.replace(utterance, about=tuple(sorted(about))))
    return kept, counts


def pool_numbers(counts: Counts) -> dict[str, Any]:
    """Return the numbers of foreign utterances: read, distinct, and by status."""
    return {
        "utterances": counts.sum("source_rows"),
        "different": counts.sum("pool"),
        **{status: counts.sum("pool", value=status) for status in STATUSES},
    }
