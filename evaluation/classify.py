"""Labelled items and their predictions, which the tasks intent and ood score: matched by key, one row for each item."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

from parapet.evaluation.sets import Key, KeyedRow, Placed, named
from parapet.evaluation.task import rows_bytes
from parapet.transforms.report.report import Table

NO_LABEL = "has no label: add it to the row, or give --reference"


class Truth(msgspec.Struct, frozen=True):
    """What the reference says about a user turn.

    Attributes:
      label: its intent, or whether it is out of domain; empty if unknown.
      service: the service of the intent.
      fallback: the system's answer if the turn is out of domain.
    """

    label: str
    utterance: str = ""
    service: str = ""
    fallback: str = ""


class Item(msgspec.Struct, frozen=True):
    """A scored item: its label, and the predicted label, score, or both."""

    label: str
    predicted: str | None
    utterance: str
    score: float | None = None


def matched(
    rows: Iterable[tuple[Key, Placed[KeyedRow]]], truths: Mapping[Key, Truth]
) -> Iterator[tuple[Key, Placed[KeyedRow], Truth]]:
    """Yields each prediction with its truth.

    Raises:
      InputError: a prediction occurs twice, or the reference has no label for it.
    """
    seen: set[Key] = set()
    for key, placed in [*rows]:  # a file that cannot be read is said before a label that differs
        if key in seen:
            raise placed.error(f"{named(key)} appears twice")
        seen.add(key)
        if key not in truths:
            raise placed.error(f"the reference has no label for {named(key)}")
        yield key, placed, truths[key]


def item_rows(items: Mapping[Key, Item], metrics: Sequence[str] = ("accuracy",)) -> bytes:
    """Encodes ``rows.parquet``, see :func:`parapet.evaluation.task.rows_bytes`."""
    keys = sorted(items)
    ordered = [items[key] for key in keys]
    right = [None if item.predicted is None else float(item.label == item.predicted) for item in ordered]
    columns = {"accuracy": right, "score": [item.score for item in ordered]}
    texts = {name: [getattr(item, name) for item in ordered] for name in ("label", "predicted", "utterance")}
    return rows_bytes(keys, {name: columns[name] for name in metrics}, texts)


def item_table(title: str, note: str, items: Mapping[Key, Item], keys: Iterable[Key]) -> Table:
    """Lists some items with their predictions."""
    rows = [
        [
            f"{key[1]}, {key[2]}",
            key[0],
            item.utterance,
            item.label,
            item.predicted or "",
            "" if item.score is None else f"{item.score:.6g}",
        ]
        for key in keys
        for item in [items[key]]
    ]
    columns = ["item", "set", "utterance", "label", "predicted", "score"]
    if not any(row[-1] for row in rows):
        columns, rows = columns[:-1], [row[:-1] for row in rows]
    return Table(title=title, note=note, columns=columns, rows=rows, text_columns=5, in_card=False)
