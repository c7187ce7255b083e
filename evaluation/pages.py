"""The report page of an evaluation: tiles, tables as in the papers, plots, examples of the worst, what terms mean."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from parapet.transforms import svg
from parapet.transforms.pages import render


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


def bars(title: str, hint: str, values: Mapping[str, float | None], digits: int = 1) -> dict[str, Any]:
    """A plot of one number by name, for ``plots`` of :func:`page`."""
    form = svg.number(digits)
    said = ", ".join(f"{name} {'–' if value is None else form(value)}" for name, value in values.items())
    key = "plot-" + "".join(letter if letter.isascii() and letter.isalnum() else "-" for letter in title.lower())
    drawn = svg.bars(key, title, said, list(values), [svg.Series(title, tuple(values.values()))], form)
    return {"title": title, "hint": hint, "svg": drawn}


def page(
    title: str,
    headline: str,
    lead: str,
    tiles: Mapping[str, str],
    tables: Iterable[Table],
    plots: Sequence[Mapping[str, Any]] = (),
    notes: Sequence[str] = (),
    terms: Mapping[str, str] | None = None,
    brand: str = "evaluate",
) -> bytes:
    """The page, as UTF-8.

    Args:
      title: of the window.
      headline: what it says at the top; ``lead`` follows.
      tiles: what to its number.
      tables: in order.
      plots: as of :func:`bars`, after the first table.
      notes: sentences that must be seen.
      terms: term to meaning.
      brand: the command.
    """
    text = render(
        "evaluate_tasks.html.jinja",
        title=title,
        brand=brand,
        headline=headline,
        lead=lead,
        notes=list(notes),
        tiles=[{"what": what, "value": value} for what, value in tiles.items()],
        tables=list(tables),
        plots=list(plots),
        terms=[{"term": term, "meaning": meaning} for term, meaning in (terms or {}).items()],
    )
    return text.encode("utf-8", "replace")
