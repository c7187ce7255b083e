"""What ``speech_errors`` writes besides dialogues: schemas, numbers, thresholds, a card and a page."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

import apache_beam as beam
import msgspec

from parapet.transforms.speech.calibrate import Calibration
from parapet.transforms.speech.card import card
from parapet.transforms.speech.report import report_page
from parapet.transforms.speech.statistics import statistics
from parapet.transforms.speech.transcribing import sum_tuples
from parapet.transforms.speech.writing import EXAMPLES, SHOWN, TALLIES


class About(msgspec.Struct, frozen=True):
    """What is known before anything is heard.

    Attributes:
      made_with: engines, noise, voices.
      options: flags that shape the content.
      schemas: (path below a set, the bytes of a schema file).
    """

    made_with: dict[str, Any]
    options: dict[str, Any]
    schemas: Sequence[tuple[str, bytes]]


def summed(written: Any) -> tuple[beam.PCollection, beam.PCollection, beam.PCollection]:
    """What :class:`~parapet.transforms.speech.writing.WriteSets` found, as :func:`metadata_files` takes it."""
    tallies = written[TALLIES]
    sums = (
        tallies
        | "Of turns" >> beam.Filter(lambda tally: tally.kind != "dialogue")
        | "By key" >> beam.Map(lambda tally: ((tally.set, tally.kind, tally.name), tally.sums))
        | "Sums" >> beam.CombinePerKey(sum_tuples)
    )
    dialogues = (
        tallies
        | "Of dialogues" >> beam.Filter(lambda tally: tally.kind == "dialogue")
        | "By set" >> beam.Map(lambda tally: (tally.set, (tally.name, tally.sums)))
    )
    examples = written[EXAMPLES] | "Examples" >> beam.combiners.Top.SmallestPerKey(SHOWN, key=lambda drawn: drawn[0])
    return sums, dialogues, examples


def metadata_files(
    calibration: Calibration,
    about: About,
    curve: Iterable[tuple[float, tuple[int, int]]],
    sums: Iterable[tuple[tuple[str, str, str], tuple[int, ...]]],
    dialogues: Iterable[tuple[str, tuple[str, tuple[int, int]]]],
    examples: Iterable[tuple[str, list[tuple[int, dict[str, Any]]]]],
) -> list[tuple[str, bytes]]:
    """(path below the output, bytes) of each file."""
    numbers = statistics(calibration.settings, curve, sums, dialogues)
    shown = {name: [row for _, row in rows] for name, rows in examples}
    files = {
        "statistics.json": _json({**numbers, "made_with": about.made_with}),
        "calibration.json": _json({**msgspec.to_builtins(calibration), "made_with": about.made_with}),
        "README.md": card(numbers, about.made_with, about.options).encode(),
        "report.html": report_page(numbers, about.made_with, shown).encode(),
    }
    schemas = {f"{one.name}/{path}": data for one in calibration.settings for path, data in about.schemas}
    return sorted({**files, **schemas}.items())


def _json(value: Any) -> bytes:
    return (json.dumps(value, indent=2) + "\n").encode()
