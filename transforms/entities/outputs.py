"""What ``unseen_entities`` writes besides dialogues: schemas, numbers, a card and a page."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from parapet.transforms.entities.card import card
from parapet.transforms.entities.replacing import PLACES
from parapet.transforms.entities.report import report_page
from parapet.transforms.entities.writing import Key


class About(msgspec.Struct, frozen=True):
    """What is known before anything is replaced.

    Attributes:
      options: flags that shape the content.
      schemas: (path below the output, the bytes of a schema file).
      training: how many ``texts`` it has, and how many words and pairs of words (``grams``).
      pools: how many values there are of each kind or slot, where they are not made.
      leaking: values of the source that training has: they were not used.
    """

    options: dict[str, Any]
    schemas: Sequence[tuple[str, bytes]]
    training: dict[str, int]
    pools: dict[str, int]
    leaking: int


def statistics(about: About, counts: Iterable[tuple[str, int]], tallies: Iterable[tuple[Key, int]]) -> dict[str, Any]:
    """``statistics.json``."""
    of = dict(counts)
    by_key: dict[str, dict[str, dict[str, int]]] = {}
    for (what, name, which), n in sorted(tallies):
        by_key.setdefault(what, {}).setdefault(name, {})[which] = n
    slots: dict[str, dict[str, Any]] = {}
    for name, found in by_key.get("slot", {}).items():
        kinds = sorted(by_key["slot_kind"][name].items(), key=lambda one: (-one[1], one[0]))
        kept = {reason: n for reason, n in found.items() if reason != "replaced"}
        slots[name] = {"kinds": dict(kinds), "replaced": found.get("replaced", 0), "kept": kept}
    names = ("dialogues", "left_out", "open", "changed", "open_changed", "turns", "turns_changed")
    return {
        **{name: of.get(name, 0) for name in names},
        "changed_rate": of.get("open_changed", 0) / of["open"] if of.get("open") else None,
        "values": {name: of.get(name, 0) for name in ("replaced", "kept")},
        "leaks": of.get("leaks", 0),
        "kinds": {
            kind: {status: found.get(status, 0) for status in ("replaced", "kept")}
            for kind, found in by_key.get("kind", {}).items()
        },
        "kept": {reason: found[""] for reason, found in by_key.get("reason", {}).items()},
        "places": {place: by_key.get("place", {}).get(place, {}).get("", 0) for place in PLACES},
        "slots": slots,
        "training": about.training,
        "pools": about.pools,
        "leaking_candidates": about.leaking,
    }


def metadata_files(
    about: About,
    counts: Iterable[tuple[str, int]],
    tallies: Iterable[tuple[Key, int]],
    examples: Iterable[list[tuple[int, dict[str, Any]]]],
) -> list[tuple[str, bytes]]:
    """(path below the output, bytes) of each file."""
    numbers = statistics(about, counts, tallies)
    shown = [example for of in examples for _, example in of]
    files = {
        "statistics.json": (json.dumps(numbers, indent=2) + "\n").encode(),
        "README.md": card(numbers, about.options).encode(),
        "report.html": report_page(numbers, about.options, shown).encode(),
    }
    return sorted({**files, **dict(about.schemas)}.items())
