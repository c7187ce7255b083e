"""What ``language_variations`` writes besides dialogues: schemas, numbers, a card and a page."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

import apache_beam as beam
import msgspec

from parapet.transforms.variations.card import card
from parapet.transforms.variations.report import report_page
from parapet.transforms.variations.statistics import Key, as_mapping, statistics
from parapet.transforms.variations.writing import EXAMPLES, SHOWN, TALLIES, Sets


class About(msgspec.Struct, frozen=True):
    """What is known before anything is varied.

    Attributes:
      sets: what is written.
      options: flags that shape the content.
      schemas: (path below a set, the bytes of a schema file).
    """

    sets: Sets
    options: dict[str, Any]
    schemas: Sequence[tuple[str, bytes]]


def summed(written: Any, counted: beam.PCollection) -> tuple[beam.PCollection, beam.PCollection, beam.PCollection]:
    """What ``WriteSets`` found, and all counts, as :func:`metadata_files` takes it."""
    tallies = written[TALLIES] | "Sum tallies" >> beam.CombinePerKey(sum)
    counts = counted | "Sum counts" >> beam.CombinePerKey(sum)
    examples = written[EXAMPLES] | "Examples" >> beam.combiners.Top.SmallestPerKey(SHOWN, key=lambda drawn: drawn[0])
    return tallies, counts, examples


def metadata_files(
    about: About,
    tallies: Iterable[tuple[Key, int]],
    counts: Iterable[tuple[str, int]],
    examples: Iterable[tuple[str, list[tuple[bytes, dict[str, Any]]]]],
) -> list[tuple[str, bytes]]:
    """(path below the output, bytes) of each file."""
    sets = about.sets
    numbers = statistics(sets.kinds, sets.envs, as_mapping(tallies), as_mapping(counts))
    shown = {kind: [row for _, row in rows] for kind, rows in examples}
    files = {
        "statistics.json": (json.dumps(numbers, indent=2) + "\n").encode(),
        "README.md": card(numbers, about.options).encode(),
        "report.html": report_page(numbers, shown, about.options).encode(),
    }
    schemas = {f"{name}/{path}": data for name in sets.names for path, data in about.schemas}
    return sorted({**files, **schemas}.items())
