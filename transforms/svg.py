"""Plots as inline SVG: no script, no network, colours from the page's style sheet, the numbers as text.

Every plot is an image with a title and a description for those who cannot see it, and gives the same bytes for the
same numbers. Labels are escaped here, so the results are safe to put into a page.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeGuard

import msgspec
from markupsafe import Markup, escape

WIDTH = 360  # user units; a column of the report is about as many pixels wide, so text keeps its size
_LETTER = 6.1  # mean width of a letter at the plots' font size
_CONTROLS = dict.fromkeys([*range(32), 127, *range(0xD800, 0xE000)], " ")

Format = Callable[[float], str]


class Series(msgspec.Struct, frozen=True):
    """One row of numbers to be drawn.

    Attributes:
      name: for the legend.
      values: one per category; None where there is none.
      style: the class that gives the colour: ``s1``, ``s2`` or ``ref`` (dashed, without numbers).
      intervals: (low, high) of each value, drawn as a line beside it; none where it is empty.
    """

    name: str
    values: tuple[float | None, ...]
    style: str = "s1"
    intervals: tuple[tuple[float, float] | None, ...] = ()


class Part(msgspec.Struct, frozen=True):
    """One part of a stacked bar, with the class that gives its colour."""

    name: str
    value: float
    style: str


def number(digits: int) -> Format:
    """Formats with so many digits behind the point, thousands parted by commas."""
    return lambda value: f"{value:,.{digits}f}"


def percent(value: float) -> str:
    """A share as whole per cent: 0.646 is ``65%``."""
    return f"{100 * value:.0f}%"


def lines(
    key: str, title: str, description: str, categories: Sequence[str], series: Sequence[Series], form: Format
) -> Markup:
    """Grouped lines over ordered categories, from zero upwards.

    Args:
      key: unique in the page; the ids of title and description are made from it.
      title: what the plot shows.
      description: what is to be seen in it, in words.
      categories: along the horizontal axis.
      series: what is drawn; each has a value, or None, per category.
      form: formats the values at the points; the axis has plain numbers.
    """
    legend, top = _legend(series)
    left, right, height, inset = 36.0, WIDTH - 4.0, 168.0, 20.0
    bottom = top + height
    ceiling = _ceiling(value for one in series for value in _known([*one.values, *_tops(one)]))
    step = (right - left - 2 * inset) / max(len(categories) - 1, 1)

    def place(i: int, value: float) -> tuple[float, float]:
        x = left + inset + step * i if len(categories) > 1 else (left + right) / 2
        return x, bottom - height * value / ceiling

    body = [legend]
    for i in range(5):
        y = bottom - height * i / 4
        body.append(_tag("line", style="grid", x1=left, x2=right, y1=y, y2=y))
        body.append(_text(left - 6, y + 4, f"{ceiling * i / 4:.3g}", "tick", anchor="end"))
    every = math.ceil(len(categories) / 8)  # more labels than that would overlap
    for i, category in enumerate(categories):
        if i % every == 0:
            body.append(_text(place(i, 0)[0], bottom + 17, _shorten(category, 8), "tick", anchor="middle"))
    body += [_line(one, place, categories, form) for one in series]
    return _image(key, title, description, bottom + 26, body)


def _line(
    one: Series, place: Callable[[int, float], tuple[float, float]], categories: Sequence[str], form: Format
) -> Markup:
    points = [(i, value, *place(i, value)) for i, value in enumerate(one.values) if _is_known(value)]
    path = " ".join(f"{_n(x)},{_n(y)}" for _, _, x, y in points)
    drawn = [_tag("polyline", style=f"line {one.style}", attributes={"points": path})]
    for i, value, x, y in points:
        between = one.intervals[i] if one.intervals else None
        said = f" ({form(between[0])} to {form(between[1])})" if between else ""
        if between:
            low, high = (place(i, end)[1] for end in between)
            drawn.append(_tag("line", style=f"whisker {one.style}", x1=x, x2=x, y1=low, y2=high))
        tip = _title(f"{one.name}, {categories[i]}: {form(value)}{said}")
        radius = 2.5 if one.style == "ref" else 3.5
        drawn.append(_tag("circle", tip, f"dot {one.style}", cx=x, cy=y, r=radius))
        if one.style != "ref" and len(points) <= 8:
            above = y if between is None else min(y, place(i, between[1])[1])
            drawn.append(_text(x, above - 9, form(value), "value", anchor="middle"))
    return Markup("").join(drawn)


def bars(
    key: str, title: str, description: str, categories: Sequence[str], series: Sequence[Series], form: Format
) -> Markup:
    """Grouped horizontal bars, one group per category; long labels have room. Arguments as for :func:`lines`."""
    legend, top = _legend(series)
    left = min(120.0, 14 + _LETTER * max((len(category) for category in categories), default=0))
    ceiling = _ceiling(value for one in series for value in _known(one.values))
    scale = (WIDTH - left - 48) / ceiling
    thickness, gap = (15.0, 9.0) if len(series) == 1 else (13.0, 10.0)
    group = thickness * len(series) + gap
    body = [legend]
    for i, category in enumerate(categories):
        middle = top + group * i + (group - gap) / 2
        body.append(_text(left - 8, middle + 4, _shorten(category, int((left - 10) / _LETTER)), "label", anchor="end"))
        for j, one in enumerate(series):
            value, y = one.values[i], top + group * i + thickness * j
            if not _is_known(value):
                body.append(_text(left + 4, y + thickness - 3, "–", "value"))
                continue
            width = scale * value
            tip = _title(f"{one.name}, {category}: {form(value)}")
            body.append(_tag("rect", tip, f"bar {one.style}", x=left, y=y, width=width, height=thickness - 1.5))
            body.append(_text(left + width + 5, y + thickness - 2.5, form(value), "value"))
    bottom = top + group * len(categories)
    body.append(_tag("line", style="axis", x1=left, x2=left, y1=top - 3, y2=bottom - gap + 3))
    return _image(key, title, description, bottom, body)


class Point(msgspec.Struct, frozen=True):
    """One point of a scatter plot."""

    name: str
    x: float
    y: float


def scatter(key: str, title: str, description: str, points: Sequence[Point], axes: tuple[str, str]) -> Markup:
    """Points over two axes from zero, each with its name where it does not cover another's.

    Args:
      key: unique in the page.
      title: what the plot shows.
      description: what is to be seen in it, in words.
      points: what is drawn.
      axes: what is along the horizontal and the vertical one.
    """
    left, right, top, height = 36.0, WIDTH - 10.0, 22.0, 200.0
    bottom = top + height
    wide, high = _ceiling(point.x for point in points), _ceiling(point.y for point in points)
    body = [_text(2, 11, axes[1], "label"), _text(right, bottom + 34, axes[0], "label", anchor="end")]
    for i in range(5):
        y, x = bottom - height * i / 4, left + (right - left) * i / 4
        body.append(_tag("line", style="grid", x1=left, x2=right, y1=y, y2=y))
        body.append(_text(left - 6, y + 4, f"{high * i / 4:.3g}", "tick", anchor="end"))
        body.append(_text(x, bottom + 17, f"{wide * i / 4:.3g}", "tick", anchor="middle"))
    taken: list[tuple[float, float, float]] = []
    for point in points:
        x, y = left + (right - left) * point.x / wide, bottom - height * point.y / high
        tip = _title(f"{point.name}: {axes[0]} {point.x:.3f}, {axes[1]} {point.y:.3f}")
        body.append(_tag("circle", tip, "dot s1", cx=x, cy=y, r=3.5))
        length = _LETTER * len(point.name)
        start = x + 6 if x + 6 + length < WIDTH else x - 6 - length
        if all(abs(y - other) > 11 or start > end or start + length < begin for begin, end, other in taken):
            body.append(_text(start, y + 4, point.name, "tick"))
            taken.append((start, start + length, y))
    return _image(key, title, description, bottom + 40, body)


def stacked(key: str, title: str, description: str, parts: Sequence[Part]) -> Markup:
    """One bar, as wide as the page, divided as ``parts`` are to their sum. Legend and numbers belong beside it."""
    whole = math.fsum(part.value for part in parts)
    drawn, start = [], 0.0
    for part in parts:
        width = 100 * part.value / whole if whole else 0.0
        if width > 0:
            tip = _title(f"{part.name}: {part.value:,.0f} ({width:.1f}%)")
            span = {"x": f"{_n(start, 3)}%", "width": f"{_n(width, 3)}%"}
            drawn.append(_tag("rect", tip, f"bar {part.style}", span, y=0, height=26))
        start += width
    return _svg("stacked", key, title, description, drawn, {"width": "100%", "height": "26"})


def _image(key: str, title: str, description: str, height: float, body: Sequence[Markup]) -> Markup:
    return _svg("plot", key, title, description, body, {"viewBox": f"0 0 {WIDTH} {_n(height)}"})


def _svg(style: str, key: str, title: str, description: str, body: Sequence[Markup], size: Mapping[str, str]) -> Markup:
    labels = _tag("title", _escape(title), attributes={"id": f"{key}-title"})
    labels += _tag("desc", _escape(description), attributes={"id": f"{key}-desc"})
    accessible = {"role": "img", "aria-labelledby": f"{key}-title {key}-desc"}
    return _tag("svg", labels + Markup("").join(body), style, {**accessible, **size})


def _legend(series: Sequence[Series]) -> tuple[Markup, float]:
    """The legend, and where the plot may begin below it; a single series needs none."""
    if len(series) < 2:
        return Markup(""), 16.0
    drawn, x, y = [], 4.0, 12.0
    for one in series:
        width = 30 + _LETTER * len(one.name)
        if x + width > WIDTH and x > 4:
            x, y = 4.0, y + 18
        drawn.append(_tag("rect", style=f"bar {one.style}", x=x, y=y - 9, width=12, height=10))
        drawn.append(_text(x + 18, y, one.name, "label"))
        x += width
    return Markup("").join(drawn), y + 22


def _ceiling(values: Iterable[float]) -> float:
    """A round number at or above the largest value, with some air; 1 where there is none."""
    largest = max(values, default=0.0) * 1.08
    if largest < 1e-9:  # nothing that could be seen
        return 1.0
    unit = 10.0 ** math.floor(math.log10(largest))
    return float(next((unit * m for m in (1, 1.2, 1.6, 2, 2.4, 3.2, 4, 4.8, 6, 8) if unit * m >= largest), unit * 10))


def _tops(one: Series) -> list[float]:
    return [between[1] for between in one.intervals if between]


def _is_known(value: float | None) -> TypeGuard[float]:
    return value is not None and math.isfinite(value)


def _known(values: Sequence[float | None]) -> list[float]:
    return [value for value in values if _is_known(value)]


def _shorten(text: str, length: int) -> str:
    return text if len(text) <= length else text[: max(length - 1, 1)] + "…"


def _escape(text: str) -> Markup:
    return escape(text.translate(_CONTROLS))


def _n(value: float, digits: int = 1) -> str:
    text = f"{value:.{digits}f}".rstrip("0").rstrip(".")
    return "0" if text in ("-0", "") else text


def _title(text: str) -> Markup:
    return _tag("title", _escape(text))


def _text(x: float, y: float, text: str, style: str, anchor: str = "start") -> Markup:
    return _tag("text", _escape(text), style, {"text-anchor": anchor}, x=x, y=y)


def _tag(
    name: str,
    content: Markup | None = None,
    style: str = "",
    attributes: Mapping[str, str] | None = None,
    **place: float,
) -> Markup:
    """One element. Markup.format escapes whatever is not Markup."""
    written: dict[str, str] = {"class": style} if style else {}
    written |= {**(attributes or {}), **{key: _n(value) for key, value in place.items()}}
    joined = Markup("").join(Markup(' {}="{}"').format(key, value) for key, value in written.items())
    return Markup("<{0}{1}>{2}</{0}>").format(name, joined, Markup("") if content is None else content)
