"""Charts as HTML and CSS: this module computes the places of the marks in percent, the browser does the layout.

Labels wrap, colours follow the colour scheme, and the same chart fits a phone and a desk. Charts are drawn by
``report.html.jinja``; screen readers read :func:`description`.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import TypeGuard

import msgspec

from parapet.transforms.reports.text import number, percent


class Dot(msgspec.Struct, frozen=True):
    """A number with its interval.

    Attributes:
      label: the label of its row, such as the name of a set.
      value: the number; None if undefined.
      low: the lower end of its interval; None if there is no interval.
      high: the upper end.
      group: distinguishes the marks of one row by colour and shape: seen and unseen services, or the system.
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


class Dots(msgspec.Struct, frozen=True, kw_only=True):
    """A chart of numbers with their intervals: a row for each label, a mark for each group.

    Attributes:
      title: the title of the chart.
      dots: the numbers; labels and groups appear in the order of their first dots.
      note: what the chart shows, in a sentence.
      percent: whether the numbers are shares, from 0 to 1.
      digits: the number of decimal places.
      references: group to the number that a line through all rows shows, such as its number on the original.
    """

    title: str
    dots: Sequence[Dot]
    note: str = ""
    percent: bool = True
    digits: int = 1
    references: Mapping[str, float] = {}

    def text(self, dot: Dot) -> str:
        """Describe a number: ``seen, v1: 40.0% (38.0% to 42.0%)``."""
        place = ", ".join(filter(None, [dot.group, dot.label]))
        between = f" ({self.form(dot.interval[0])} to {self.form(dot.interval[1])})" if dot.interval else ""
        return f"{place}: {self.form(dot.value)}{between}"

    def form(self, value: float | None) -> str:
        """Format a number of the chart."""
        return percent(value, self.digits) if self.percent else number(value, self.digits)


class Bars(Dots, frozen=True, kw_only=True):
    """A chart with bars in place of dots, by default of counts."""

    percent: bool = False
    digits: int = 0


class Point(msgspec.Struct, frozen=True):
    """A point of a :class:`Scatter`: two shares, from 0 to 1; ``group`` determines its colour and shape."""

    label: str
    x: float
    y: float
    group: str = ""


class Scatter(msgspec.Struct, frozen=True, kw_only=True):
    """A chart of points over two axes of shares in percent, distinguished by group."""

    title: str
    x_label: str
    y_label: str
    points: Sequence[Point]
    note: str = ""


class Mark(msgspec.Struct, frozen=True):
    """A mark: the index of its group, its text and its tooltip, and its place and that of its interval in percent.

    Without a number, its place is that of zero.
    """

    group: int
    text: str
    tip: str
    place: float
    known: bool = True
    low: float | None = None
    high: float | None = None


class Axis(msgspec.Struct, frozen=True):
    """An axis with round ticks that includes zero."""

    low: float
    high: float
    step: float
    percent: bool = True

    def place(self, value: float) -> float:
        """Return the place of a number, from 0 to 100."""
        return round(100 * (value - self.low) / (self.high - self.low), 2) + 0.0

    def ticks(self) -> Iterator[tuple[float, str]]:
        """Yield the place and the label of each tick."""
        for i in range(round((self.high - self.low) / self.step) + 1):
            value = self.low + i * self.step
            yield self.place(value), f"{100 * value:.6g}%" if self.percent else f"{value:,.6g}"


class Plot(msgspec.Struct, frozen=True):
    """What the template draws: the marks of each row, and for a :class:`Scatter` those of all points with heights."""

    axis: Axis
    groups: Sequence[str]
    rows: Mapping[str, Sequence[Mark]] = {}
    references: Sequence[tuple[int, float]] = ()
    upright: Axis | None = None
    marks: Sequence[tuple[Mark, float]] = ()


def plot(chart: Dots) -> Plot:
    """Compute the places of a chart's marks."""
    groups = list(dict.fromkeys(dot.group for dot in chart.dots))
    ends = [end for dot in chart.dots for end in (dot.value, *(dot.interval or ())) if _is_known(end)]
    axis = _axis([*ends, *chart.references.values()], chart.percent)
    rows: dict[str, list[Mark]] = {}
    for dot in chart.dots:
        known = _is_known(dot.value)
        place = axis.place(dot.value if _is_known(dot.value) else 0)
        low, high = map(axis.place, dot.interval) if dot.interval and known else (None, None)
        mark = Mark(groups.index(dot.group), chart.form(dot.value), chart.text(dot), place, known, low, high)
        rows.setdefault(dot.label, []).append(mark)
    lines = [(groups.index(group), axis.place(value)) for group, value in chart.references.items() if group in groups]
    return Plot(axis, groups, rows, lines)


def scatter_plot(chart: Scatter) -> Plot:
    """Compute the places of a chart's points; a point whose label has no room has it in its tooltip only."""
    groups = list(dict.fromkeys(point.group for point in chart.points))
    points = [point for point in chart.points if _is_known(point.x) and _is_known(point.y)]
    axis, upright = _axis([point.x for point in points], True), _axis([point.y for point in points], True)
    marks: list[tuple[Mark, float]] = []
    for point in points:
        x, y = axis.place(point.x), upright.place(point.y)
        has_room = all(abs(x - mark.place) > 35 or abs(y - height) > 6 for mark, height in marks)
        marks.append((Mark(groups.index(point.group), point.label if has_room else "", _point_text(point), x), y))
    return Plot(axis, groups, upright=upright, marks=marks)


def description(chart: Dots | Scatter) -> str:
    """Describe a chart in words: all of its numbers."""
    if isinstance(chart, Scatter):
        return f"{chart.title}. {chart.x_label}, {chart.y_label}: " + "; ".join(map(_point_text, chart.points))
    return f"{chart.title}. " + "; ".join(map(chart.text, chart.dots))


def sets_chart(title: str, rows: Iterable[tuple[str, str, float | None, float | None, float | None]]) -> Dots:
    """Chart the shares of systems by set, with a line for the original of each system, and say what each loses most on.

    Args:
      title: the title of the chart.
      rows: (set, system, value, low, high).
    """
    dots = [Dot(name, value, low, high, system) for name, system, value, low, high in rows]
    originals = {dot.group: dot.value for dot in dots if dot.label == "original" and _is_known(dot.value)}
    losses: list[str] = []
    for system, original in originals.items():
        known = [(dot.value, dot.label) for dot in dots if dot.group == system and _is_known(dot.value)]
        value, worst = min(known)
        if value < original:
            falls = "" if losses else " falls"
            losses.append(f"{system}{falls} from {percent(original)} to {percent(value)} ({worst})")
    note = f"On the set that costs it most, {', '.join(losses)}. Dashed lines: the original." if losses else ""
    return Dots(title=title, dots=dots, note=note, references=originals)


def _axis(values: Collection[float], is_percent: bool) -> Axis:
    """Return an axis with at most six ticks."""
    lowest, highest = min([0.0, *values]), max([0.0, *values])
    reach = max(highest - lowest, 1e-6)
    unit = 10.0 ** math.floor(math.log10(reach))
    step = next(unit * m for m in (0.2, 0.25, 0.5, 1, 2, 2.5) if reach / (unit * m) <= 5.0001)
    low, high = (step * math.floor(lowest / step + 1e-9), step * max(math.ceil(highest / step - 1e-9), 1))
    return Axis(low, high, step, is_percent)


def _point_text(point: Point) -> str:
    return f"{', '.join(filter(None, [point.group, point.label]))}: {percent(point.x)}, {percent(point.y)}"


def _is_known(value: float | None) -> TypeGuard[float]:
    return value is not None and math.isfinite(value)
