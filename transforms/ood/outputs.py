"""What ``ood`` writes besides dialogues: schemas, numbers, a card and a page."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from parapet.transforms.ood.card import card
from parapet.transforms.ood.plan import Recipe
from parapet.transforms.ood.report import report_page
from parapet.transforms.ood.statistics import statistics


class About(msgspec.Struct, frozen=True):
    """What is known before anything is read.

    Attributes:
      recipe: what the sets are made by.
      source: what the card says of the source.
      schemas: (path below a set, the bytes of a schema file).
    """

    recipe: Recipe
    source: str
    schemas: Sequence[tuple[str, bytes]]


def metadata_files(
    about: About,
    sums: Iterable[tuple[str, int]],
    examples: Iterable[tuple[str, list[tuple[int, dict[str, Any]]]]],
) -> list[tuple[str, bytes]]:
    """(path below the output, bytes) of each file."""
    numbers = statistics(about.recipe, dict(sums))
    shown: Mapping[str, list[dict[str, Any]]] = {name: [row for _, row in rows] for name, rows in examples}
    files = {
        "statistics.json": (json.dumps(numbers, indent=2) + "\n").encode(),
        "README.md": card(numbers, about.recipe, about.source).encode(),
        "report.html": report_page(numbers, about.recipe, about.source, shown).encode(errors="replace"),
    }
    schemas = {f"{name}/{path}": data for name in about.recipe.sets for path, data in about.schemas}
    return sorted({**files, **schemas}.items())
