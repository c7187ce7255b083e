"""Declarations of the numbers of ``statistics.json`` that a page, a card and the terminal show, and how."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple


class Metric(NamedTuple):
    """A number, in ``statistics.json``, on the page and in the card.

    Attributes:
      name: the name of the count; in :class:`Numbers`, the key of a number, with dots for nested keys.
      label: the heading of its column: ``turns changed``.
      of: the name of the count that it is a share of; the share is shown beside it.
      meaning: an explanation, for the terms at the end of the page.
      percent: whether it is a share from 0 to 1.
      digits: the number of decimal places of shares, by default 1, and of other numbers, by default all.
      interval: the keys of the bounds of its interval.
      shown_first: whether it is shown at the top of the page, and printed at the end of a run.
    """

    name: str
    label: str
    of: str = ""
    meaning: str = ""
    percent: bool = False
    digits: int | None = None
    interval: tuple[str, str] | None = None
    shown_first: bool = False


class Numbers(NamedTuple):
    """A table of numbers from ``statistics.json``.

    Attributes:
      title: the title of the table.
      path: the keys that lead to the numbers of a row: ``sets/*/splits/*``. Each ``*`` stands for all keys.
      labels: the column heading for each ``*``.
      metrics: the numbers; a metric without a name is the value at the path. Numbers that are missing there are
        searched in the outer levels.
      words: names for the keys of the last ``*``.
      note: a sentence above the table.
      chart: ``bars`` or ``dots`` for a chart of the first metric before the table; may be empty.
      in_card: whether to show it in the card, too.
    """

    title: str
    path: str
    labels: Sequence[str]
    metrics: Sequence[Metric]
    words: Mapping[str, str] = {}
    note: str = ""
    chart: str = ""
    in_card: bool = True


def metrics_named(*names: str, digits: int | None = None) -> list[Metric]:
    """Return metrics whose labels are their names."""
    return [Metric(name, name.replace("_", " "), digits=digits) for name in names]
