"""Charts as inline SVG: no scripts, no network, colours from the page's style sheet, numbers as text.

Every chart is an image with a title and a description for screen readers, and has the same bytes for the same numbers.
Labels are escaped here, so the results are safe to insert into a page.
"""

from __future__ import annotations

import math
import textwrap
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeGuard

import msgspec
from markupsafe import Markup, escape

from parapet.transforms.reports.text import percent

WIDTH, WIDE = 360.0, 720.0  # user units, about a pixel each: the width of a column of the page, and of the whole page
_LETTER = 6.1  # mean width of a letter at the charts' font size
_CONTROLS = dict.fromkeys([*range(32), 127, *range(0xD800, 0xE000)], " ")

Format = Callable[[float], str]


class Series(msgspec.Struct, frozen=True):
    """A row of numbers to draw.

    Attributes:
      name: its name in the legend.
      values: one per category; None if missing.
      style: the CSS class that sets the colour; chosen by position if empty.
    """

    name: str
    values: tuple[float | None, ...]
    style: str = ""


def bars(
    key: str, title: str, description: str, categories: Sequence[str], series: Sequence[Series], form: Format
) -> Markup:
    """Draw grouped horizontal bars, one group per category; long labels are wrapped.

    Args:
      key: unique in the page; the ids of title and description begin with it.
      title: the title of the chart.
      description: the content of the chart in words.
      categories: the labels, one per group.
      series: the rows of numbers, each with a value, or None, per category.
      form: formats the values.
    """
    styles = [entry.style or f"s{i % 4 + 1}" for i, entry in enumerate(series)]

    def swatch(i: int, x: float, y: float) -> Markup:
        return _tag("rect", style=f"bar {styles[i]}", x=x - 6, y=y - 5, width=12, height=10)

    legend, top = _legend([entry.name for entry in series], swatch, WIDTH)
    names = [_wrapped(category, 24) for category in categories]
    known = [value for entry in series for value in _known(entry.values)]
    left = 14 + _LETTER * max((_measure(line) for lines in names for line in lines), default=0)
    room = 10 + _LETTER * max((len(form(value)) for value in known), default=1)
    scale = (WIDTH - left - room) / _ceiling(known)
    thickness = 15.0 if len(series) == 1 else 13.0
    body, y = [legend], top
    for i, lines_of_name in enumerate(names):
        height = max(thickness * len(series), 13.0 * len(lines_of_name)) + 9
        for j, line in enumerate(lines_of_name):
            at = y + (height - 9) / 2 + 4 + 13 * (j - (len(lines_of_name) - 1) / 2)
            body.append(_text(left - 8, at, line, "label", anchor="end"))
        for j, entry in enumerate(series):
            value, at = entry.values[i], y + (height - 9 - thickness * len(series)) / 2 + thickness * j
            if not _is_known(value):
                body.append(_text(left + 4, at + thickness - 3, "–", "value"))
                continue
            width = max(scale * value, 0.0)
            tip = _title(f"{f'{entry.name}, ' if entry.name else ''}{categories[i]}: {form(value)}")
            body.append(_tag("rect", tip, f"bar {styles[j]}", x=left, y=at, width=width, height=thickness - 1.5))
            body.append(_text(left + width + 5, at + thickness - 2.5, form(value), "value"))
        y += height
    body.append(_tag("line", style="axis", x1=left, x2=left, y1=top - 3, y2=y - 6))
    return _image(key, title, description, y, body)


class Dot(msgspec.Struct, frozen=True):
    """A share with its interval, for :func:`dots`.

    Attributes:
      label: the label of its row, such as the name of a set.
      value: a share, from 0 to 1; None if undefined.
      low: the lower end of its interval; None if there is no interval.
      high: the upper end.
      group: distinguishes the dots of one row by colour and shape: seen and unseen services, or the system.
    """

    label: str
    value: float | None
    low: float | None = None
    high: float | None = None
    group: str = ""

    @property
    def interval(self) -> tuple[float, float] | None:
        """The interval of the value, if it is known."""
        known = _is_known(self.low) and _is_known(self.high)
        return (self.low, self.high) if known else None  # type: ignore[return-value]


def dots(key: str, title: str, description: str, drawn: Sequence[Dot]) -> Markup:
    """Draw shares in percent as dots with their intervals: a row for each label, with its groups below each other.

    Args:
      key: unique in the page; the ids of title and description begin with it.
      title: the title of the chart.
      description: the content of the chart in words.
      drawn: the dots; labels and groups appear in the order of their first dots.
    """
    labels, groups = list(dict.fromkeys(dot.label for dot in drawn)), list(dict.fromkeys(dot.group for dot in drawn))
    legend, top = _legend(groups, _mark, WIDE)
    names = {label: _wrapped(label, 30) for label in labels}
    left = 14 + _LETTER * max((_measure(line) for lines in names.values() for line in lines), default=0)
    ends = [100 * end for dot in drawn for end in (dot.value, dot.low, dot.high) if _is_known(end)]
    step, low, high = _ticks(ends)
    scale = (WIDE - 76 - left) / (high - low)

    def place(share: float) -> float:
        return left + scale * (100 * share - low)

    body, y = [], top
    for label in labels:
        row = [dot for dot in drawn if dot.label == label]
        height = max(15.0 * len(row), 13.0 * len(names[label])) + 9
        for i, line in enumerate(names[label]):
            at = y + height / 2 + 4 + 13 * (i - (len(names[label]) - 1) / 2)
            body.append(_text(left - 10, at, line, "label", anchor="end"))
        for i, dot in enumerate(row):
            at = y + height / 2 + 15 * (i - (len(row) - 1) / 2)
            body.append(_dot(dot, groups.index(dot.group), place, place(low / 100), at))
        y += height
        body.append(_tag("line", style="grid", x1=left, x2=WIDE, y1=y, y2=y))
    scales = []
    for i in range(round((high - low) / step) + 1):
        x = left + scale * step * i
        scales.append(_tag("line", style="axis" if i == 0 else "grid", x1=x, x2=x, y1=top, y2=y))
        scales.append(_text(x, y + 17, f"{low + step * i:g}%", "tick", anchor="middle"))
    return _image(key, title, description, y + 26, [legend, *scales, *body], WIDE)


class Point(msgspec.Struct, frozen=True):
    """A point of :func:`scatter`: two shares, from 0 to 1; ``group`` determines its colour and shape."""

    label: str
    x: float
    y: float
    group: str = ""


def scatter(key: str, title: str, description: str, points: Sequence[Point], axes: tuple[str, str]) -> Markup:
    """Draw points over two axes of shares in percent, each with its label if there is room for it.

    Args:
      key: unique in the page.
      title: the title of the chart.
      description: the content of the chart in words.
      points: the points; points that are not finite are left out, and groups appear in the order of their first points.
      axes: the labels of the horizontal and the vertical axis.
    """
    groups = list(dict.fromkeys(point.group for point in points))
    legend, top = _legend(groups, _mark, WIDE)
    top += 18
    drawn = [point for point in points if _is_known(point.x) and _is_known(point.y)]
    x_step, x_low, x_high = _ticks([100 * point.x for point in drawn])
    y_step, y_low, y_high = _ticks([100 * point.y for point in drawn])
    left, right, bottom = 14 + _LETTER * len(f"{y_high:g}%"), WIDE - 40, top + 330.0

    def place(x: float, y: float) -> tuple[float, float]:
        return (
            left + (right - left) * (x - x_low) / (x_high - x_low),
            bottom - (bottom - top) * (y - y_low) / (y_high - y_low),
        )

    body = [legend, _text(2, top - 14, axes[1], "label"), _text(right, bottom + 36, axes[0], "label", anchor="end")]
    for i in range(round((x_high - x_low) / x_step) + 1):
        x, _ = place(x_low + x_step * i, y_low)
        body.append(_tag("line", style="grid" if i else "axis", x1=x, x2=x, y1=top, y2=bottom))
        body.append(_text(x, bottom + 17, f"{x_low + x_step * i:g}%", "tick", anchor="middle"))
    for i in range(round((y_high - y_low) / y_step) + 1):
        _, y = place(x_low, y_low + y_step * i)
        body.append(_tag("line", style="grid" if i else "axis", x1=left, x2=right, y1=y, y2=y))
        body.append(_text(left - 6, y + 4, f"{y_low + y_step * i:g}%", "tick", anchor="end"))
    centres = [place(100 * point.x, 100 * point.y) for point in drawn]
    taken = [_box("middle", x, y, 12) for x, y in centres]
    for point, (x, y) in zip(drawn, centres, strict=True):
        name, width = " ".join(_wrapped(point.label, 1000)), _LETTER * _measure(point.label)
        # Try right, left, above and below the mark; if there is no room, only the tooltip has the label.
        around = (("start", x + 8, y), ("end", x - 8, y), ("middle", x, y - 13), ("middle", x, y + 13))
        for anchor, at, height in around:
            box = _box(anchor, at, height, width)
            if (
                left <= box[0]
                and box[2] <= WIDE
                and box[3] <= bottom
                and not any(_overlap(box, other) for other in taken)
            ):
                taken.append(box)
                body.append(_text(at, height + 4, name, "value", anchor=anchor))
                break
        tip = _title(f"{f'{point.group}, ' if point.group else ''}{name}: {percent(point.x)}, {percent(point.y)}")
        body.append(_mark(groups.index(point.group), x, y, tip))
    return _image(key, title, description, bottom + 42, body, WIDE)


Box = tuple[float, float, float, float]  # left, top, right, bottom


def _box(anchor: str, x: float, y: float, width: float) -> Box:
    """Return the box of a line of text."""
    left = x - width * {"start": 0.0, "middle": 0.5, "end": 1.0}[anchor]
    return left, y - 6, left + width, y + 6


def _overlap(one: Box, other: Box) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


def _dot(dot: Dot, group: int, place: Callable[[float], float], start: float, y: float) -> Markup:
    """Draw a dot, its interval, and its value to the right of both."""
    if not _is_known(dot.value):
        return _text(start + 6, y + 4, "–", "value")
    value, interval = percent(dot.value), dot.interval
    between = f" ({percent(interval[0])} to {percent(interval[1])})" if interval else ""
    tip = _title(f"{f'{dot.group}, ' if dot.group else ''}{dot.label}: {value}{between}")
    low, high = (place(end) for end in interval or (dot.value, dot.value))
    drawn = [_tag("line", style=f"whisker s{group % 4 + 1}", x1=low, x2=high, y1=y, y2=y)] if interval else []
    drawn.append(_mark(group, place(dot.value), y, tip))
    drawn.append(_text(max(high, place(dot.value)) + 8, y + 4, value, "value"))
    return Markup("").join(drawn)


def _mark(group: int, x: float, y: float, tip: Markup | None = None) -> Markup:
    """Draw the mark of a group in its colour and shape; from the fifth group on, colours repeat with other shapes."""
    shape, style = (group + group // 4) % 4, f"dot s{group % 4 + 1}"
    if shape == 0:
        return _tag("circle", tip, style, cx=x, cy=y, r=4.5)
    if shape == 1:
        return _tag("rect", tip, style, x=x - 4, y=y - 4, width=8, height=8)
    corners = [(0, -5.5), (5.5, 0), (0, 5.5), (-5.5, 0)] if shape == 2 else [(0, -5), (5, 4), (-5, 4)]
    points = " ".join(f"{_n(x + dx)},{_n(y + dy)}" for dx, dy in corners)
    return _tag("polygon", tip, style, {"points": points})


def _ticks(values: Sequence[float]) -> tuple[float, float, float]:
    """Return the step between ticks, and both ends of an axis that includes zero."""
    lowest, highest = min([0.0, *values]), max([0.0, *values])
    step = _step(max(highest - lowest, 0.1))
    return step, step * math.floor(lowest / step + 1e-9), step * max(math.ceil(highest / step - 1e-9), 1)


def _step(reach: float) -> float:
    """Return a round number that fits at most five times into a range."""
    unit = 10.0 ** math.floor(math.log10(reach))
    return next(unit * m for m in (0.2, 0.25, 0.5, 1, 2, 2.5) if reach / (unit * m) <= 5.0001)


def _image(
    key: str, title: str, description: str, height: float, body: Sequence[Markup], width: float = WIDTH
) -> Markup:
    labels = _tag("title", _escape(title), attributes={"id": f"{key}-title"})
    labels += _tag("desc", _escape(description), attributes={"id": f"{key}-desc"})
    size = {"viewBox": f"0 0 {_n(width)} {_n(height)}"}
    accessible = {"role": "img", "aria-labelledby": f"{key}-title {key}-desc"}
    return _tag("svg", labels + Markup("").join(body), "wide" if width > WIDTH else "", {**accessible, **size})


def _legend(names: Sequence[str], swatch: Callable[[int, float, float], Markup], width: float) -> tuple[Markup, float]:
    """Draw the legend, and return it with the top of the chart below it; a single name needs no legend."""
    if len(names) < 2:
        return Markup(""), 16.0
    drawn, x, y = [], 8.0, 12.0
    for i, name in enumerate(names):
        for j, line in enumerate(_wrapped(name, int((width - 30) / _LETTER))):
            taken = 36 + _LETTER * _measure(line)
            if (x + taken > width and x > 8) or j:
                x, y = 8.0, y + 18
            if j == 0:
                drawn.append(swatch(i, x + 2, y - 4))
            drawn.append(_text(x + 14, y, line, "label"))
            x += taken
    return Markup("").join(drawn), y + 22


def _ceiling(values: Iterable[float]) -> float:
    """Return a round number somewhat above the largest value; 1 without positive values."""
    largest = max(values, default=0.0) * 1.08
    if largest < 1e-9:  # too small to be visible
        return 1.0
    unit = 10.0 ** math.floor(math.log10(largest))
    return float(next((unit * m for m in (1, 1.2, 1.6, 2, 2.4, 3.2, 4, 4.8, 6, 8) if unit * m >= largest), unit * 10))


def _is_known(value: float | None) -> TypeGuard[float]:
    return value is not None and math.isfinite(value)


def _known(values: Sequence[float | None]) -> list[float]:
    return [value for value in values if _is_known(value)]


def _measure(text: str) -> float:
    """Return the width of a text in mean letters: East Asian letters count two, capitals more than one."""
    return sum(2.0 if unicodedata.east_asian_width(c) in "WF" else 1.25 if c.isupper() else 1.0 for c in text)


def _wrapped(text: str, width: int) -> list[str]:
    """Wrap a label into lines of a maximum number of letters; nothing is cut off."""
    wide = _measure(text) > 1.3 * len(text)
    return textwrap.wrap(text.translate(_CONTROLS), width // 2 if wide else width, break_on_hyphens=False) or [""]


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
    """Format an element; Markup.format escapes everything that is not Markup."""
    written: dict[str, str] = {"class": style} if style else {}
    written |= {**(attributes or {}), **{key: _n(value) for key, value in place.items()}}
    joined = Markup("").join(Markup(' {}="{}"').format(key, value) for key, value in written.items())
    return Markup("<{0}{1}>{2}</{0}>").format(name, joined, Markup("") if content is None else content)
