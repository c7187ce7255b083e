"""The report page of an evaluation, until its tasks give a :class:`parapet.transforms.report.Report`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from parapet.transforms import report
from parapet.transforms.report import Bars, Report, Section, Series, Tile


class Table(msgspec.Struct, frozen=True):
    """A table.

    Attributes:
      caption: what it shows; ``heading`` opens a section.
      columns: the headings; the first is of the rows' names.
      rows: with a cell for each column; numbers are to be formatted.
      text: how many columns after the first have text; the others have numbers, and are set to the right.
    """

    caption: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    heading: str = ""
    text: int = 0


def percent(value: float | None, digits: int = 2) -> str:
    """A share as per cent, without the sign; a dash where it is not defined."""
    return "–" if value is None else f"{100 * value:.{digits}f}"


def plain(value: float | None, digits: int = 2) -> str:
    """A number, a dash where it is not defined."""
    return "–" if value is None else f"{value:.{digits}f}"


def bars(title: str, hint: str, values: Mapping[str, float | None], digits: int = 1) -> Bars:
    """A chart of one number by name, for ``plots`` of :func:`page`."""
    series = [Series("", tuple(values.values()))]
    return Bars(title=title, note=hint, categories=list(values), series=series, digits=digits)


def page(
    title: str,
    headline: str,
    lead: str,
    tiles: Mapping[str, str],
    tables: Iterable[Table],
    plots: Sequence[Bars] = (),
    notes: Sequence[str] = (),
    terms: Mapping[str, str] | None = None,
    brand: str = "evaluate",
) -> bytes:
    """The page, as UTF-8."""
    sections: list[Section] = [
        report.Table(
            title=table.heading or table.caption,
            note=table.caption if table.heading else "",
            columns=table.columns,
            rows=table.rows,
            text_columns=table.text + 1,
        )
        for table in tables
    ]
    sections[1:1] = plots
    links = {"leaderboard.json" if brand == "compare" else "metrics.json": "all numbers"}
    return report.page(
        Report(
            command=brand,
            title=title,
            headline=headline,
            lead=lead,
            tiles=[Tile(what, value) for what, value in tiles.items()],
            sections=sections,
            notes=notes,
            terms=terms or {},
            links=links,
        )
    ).encode()
