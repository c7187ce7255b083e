"""How the numbers of a perturbation read: on its page, in its card and on the terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple


class Metric(NamedTuple):
    """A number of a set: how ``statistics.json``, the page and the card have it.

    Attributes:
      name: the name of the count; in :class:`Numbers`, the key of a number, dotted where it lies deeper.
      label: the heading of its column: ``turns changed``.
      of: the name of the count that it is a share of; the share is shown beside it.
      meaning: what it says, for the terms at the end of the page.
      by_value: whether it is counted by value and has a table of its own, a row for each value.
      values: words for values that are ids.
      percent: whether it is a share, 1 for all; ``digits`` are the decimal places that are shown.
      digits: see ``percent``.
      interval: the keys of the ends of its interval.
      shown_first: whether it is at the top of the page, and printed at the end of a run.
    """

    name: str
    label: str
    of: str = ""
    meaning: str = ""
    by_value: bool = False
    values: Mapping[str, str] = {}
    percent: bool = False
    digits: int = 1
    interval: tuple[str, str] | None = None
    shown_first: bool = False


class Numbers(NamedTuple):
    """A table of numbers that ``statistics.json`` has.

    Attributes:
      title: what it shows.
      path: the keys that lead to the numbers of a row: ``sets/*/splits/*``. Each ``*`` stands for all keys there are.
      labels: the heading of a column for each ``*``.
      metrics: the numbers; one without a name is what the path leads to. A number that is not there is looked up
        further out.
      words: words for the keys of the last ``*``.
      note: a sentence above the table.
      chart: ``bars`` or ``dots`` of the first metric beside the table, or nothing.
      by_set: whether the sets, the first ``*``, are columns and the values of the last one rows.
      in_card: whether the card has it, too.
    """

    title: str
    path: str
    labels: Sequence[str]
    metrics: Sequence[Metric]
    words: Mapping[str, str] = {}
    note: str = ""
    chart: str = ""
    by_set: bool = False
    in_card: bool = True


CHANGES = (
    Metric("dialogues", "dialogues"),
    Metric("dialogues_changed", "dialogues changed", of="dialogues"),
    Metric("turns", "turns"),
    Metric("turns_changed", "turns changed", of="turns", meaning="Turns whose utterance or annotations differ."),
)
