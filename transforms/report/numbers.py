"""The numbers of ``statistics.json`` that a page, a card and the terminal show: declarations, and the tables, charts
and tiles that are made from them.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from parapet.transforms.report.report import Bars, Dot, Dots, Section, Table, Tile
from parapet.transforms.report.text import number, percent


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
    """Returns metrics whose labels are their names."""
    return [Metric(name, name.replace("_", " "), digits=digits) for name in names]


_MOST_TILES = 4


class Row(NamedTuple):
    """A row: the keys of ``statistics.json`` for each ``*``, and all levels down to the numbers."""

    keys: tuple[str, ...]
    levels: tuple[Any, ...]

    def value(self, metric: Metric) -> Any:
        """Returns the number of a metric from the innermost level that has it; without a name, the value itself."""
        if not metric.name:
            return self.levels[-1]
        for level in reversed(self.levels):
            value = level
            for part in metric.name.split("."):
                value = value.get(part) if isinstance(value, Mapping) else None
            if value is not None or (isinstance(level, Mapping) and metric.name in level):
                return value
        return None

    def cell(self, metric: Metric) -> str:
        """Formats a number for the page, with its interval or share in small print."""
        text = _shown(self.value(metric), metric)
        if metric.interval and self.value(metric) is not None:
            ends = (_shown(self.value(metric._replace(name=end)), metric) for end in metric.interval)
            return f"{text}\n{' to '.join(ends)}"
        return text

    def phrase(self, metric: Metric) -> str:
        """Formats a number in words for the terminal: ``12 turns changed (4.0%)``."""
        value, *small = self.cell(metric).split("\n")
        share = self.value(metric._replace(name=f"{metric.name}_share")) if metric.of else None
        small += [] if share is None else [percent(share)]
        more = f" ({small[0]})" if small else ""
        return f"{metric.label} {value}{more}" if metric.percent else f"{value} {metric.label}{more}"


def rows_at(statistics: Mapping[str, Any], path: str) -> list[Row]:
    """Returns the rows for a path such as ``sets/*/splits/*``, in the order of ``statistics.json``."""
    rows = [Row((), (statistics,))]
    for part in filter(None, path.split("/")):
        further = []
        for keys, levels in rows:
            here = levels[-1]
            items = here if isinstance(here, Mapping) else dict(enumerate(here or ()))
            chosen = items.items() if part == "*" else [(part, items[part])] if items.get(part) is not None else []
            further += [Row((*keys, str(key)) if part == "*" else keys, (*levels, value)) for key, value in chosen]
        rows = further
    return rows


def _shown(value: Any, metric: Metric) -> str:
    if value is None:
        return "–"
    if isinstance(value, Mapping):
        return ", ".join(f"{key}: {_shown(n, metric)}" for key, n in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(_shown(part, metric) for part in value)
    if metric.percent:
        return percent(value, 1 if metric.digits is None else metric.digits)
    if isinstance(value, float):
        return f"{value:g}" if metric.digits is None else number(value, metric.digits)
    return f"{value:,}" if isinstance(value, int) else str(value)


def tiles_of(table: Numbers, statistics: Mapping[str, Any]) -> list[Tile]:
    """Returns the numbers to show first."""
    rows = rows_at(statistics, table.path)
    tiles: list[Tile] = []
    for metric in (metric for metric in table.metrics if metric.shown_first):
        if len(tiles) + len(rows) > _MOST_TILES:
            break
        for row in rows:
            label = f"{metric.label}, {' '.join(row.keys)}" if len(rows) > 1 else metric.label
            share = metric._replace(name=f"{metric.name}_share", percent=True)
            tiles.append(Tile(label, _shown(row.value(share), share) if metric.of else row.cell(metric).split("\n")[0]))
    return tiles


def sections_of(statistics: Mapping[str, Any], *tables: Numbers) -> list[Section]:
    """Returns the tables that have rows, each with its chart."""
    return [
        section for table in tables if (rows := rows_at(statistics, table.path)) for section in _sections(table, rows)
    ]


def _sections(table: Numbers, rows: Sequence[Row]) -> Iterator[Section]:
    if table.chart:
        metric = table.metrics[0]
        kind = Dots if table.chart == "dots" else Bars
        digits = int(metric.percent) if metric.digits is None else metric.digits
        dots = [_dot(table, row, metric) for row in rows]
        yield kind(title=table.title, dots=dots, percent=metric.percent, digits=digits)
    yield Table(
        title=table.title,
        note=table.note,
        columns=[*table.labels, *(metric.label for metric in table.metrics)],
        rows=[
            [*(_word(table, key) for key in row.keys), *(row.cell(metric) for metric in table.metrics)] for row in rows
        ],
        text_columns=len(table.labels),
        in_card=table.in_card,
    )


def _dot(table: Numbers, row: Row, metric: Metric) -> Dot:
    low, high = (row.value(metric._replace(name=end)) for end in metric.interval) if metric.interval else (None, None)
    group = row.keys[0] if len(row.keys) > 1 else ""
    return Dot(_word(table, row.keys[-1]), row.value(metric), low, high, group)


def _word(table: Numbers, value: str) -> str:
    return table.words.get(value, value)
