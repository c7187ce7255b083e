"""Charts as HTML and CSS: the places of the marks are percentages of an axis, the browser does the layout.

Labels wrap, colours follow the colour scheme, and the same chart fits a phone and a desk. ``report.html.jinja`` draws
the charts.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import TypeGuard

import msgspec

from parapet.transforms.report.text import number, percent

_MOST_NAMED = 3  # systems in the sentence of a chart


class Dot(msgspec.Struct, frozen=True):
    """A number with its interval.

    Attributes:
      label: the label of its row, such as the name of a set.
      value: the number; None if undefined.
      low: the lower end of its interval; None if there is no interval.
      high: the upper end.
      group: distinguishes the marks of one row by colour and shape: seen and unseen services, or the system.
      x: its place from left to right in a :class:`Scatter`.
    """

    label: str
    value: float | None
    low: float | None = None
    high: float | None = None
    group: str = ""
    x: float = 0.0

    @property
    def name(self) -> str:
        """Its group and label."""
        return ", ".join(filter(None, [self.group, self.label]))

    @property
    def interval(self) -> tuple[float, float] | None:
        """The interval of the value, if it is known."""
        return (self.low, self.high) if is_known(self.low) and is_known(self.high) and is_known(self.value) else None


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


class Dots(msgspec.Struct, frozen=True, kw_only=True):
    """A chart of numbers with their intervals: a row for each label, a mark for each group.

    Attributes:
      title: the title of the chart.
      dots: the numbers; labels and groups appear in the order of their first dots.
      note: what the chart shows, in a sentence; by default its extremes.
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

    @property
    def known(self) -> dict[Dot, float]:
        """The dots that have a number, with it."""
        return {dot: dot.value for dot in self.dots if is_known(dot.value) and is_known(dot.x)}

    @property
    def groups(self) -> list[str]:
        """The groups, in order."""
        return list(dict.fromkeys(dot.group for dot in self.dots))

    @property
    def rows(self) -> dict[str, list[Dot]]:
        """The dots of each label."""
        rows: dict[str, list[Dot]] = {}
        for dot in self.dots:
            rows.setdefault(dot.label, []).append(dot)
        return rows

    @property
    def axis(self) -> Axis:
        """The axis from left to right."""
        ends = [end for dot in self.known for end in dot.interval or ()]
        return _axis([*ends, *self.known.values(), *self.references.values()], self.percent)

    def text(self, dot: Dot) -> str:
        """Describe a number: ``seen, v1: 40.0% (38.0% to 42.0%)``."""
        between = f" ({self.form(dot.interval[0])} to {self.form(dot.interval[1])})" if dot.interval else ""
        return f"{dot.name}: {self.form(dot.value)}{between}"

    def form(self, value: float | None) -> str:
        """Format a number of the chart."""
        return percent(value, self.digits) if self.percent else number(value, self.digits)

    def extremes(self) -> str:
        """Say in a sentence which numbers are the lowest and the highest."""
        several = len(self.groups) > 1
        names = sorted((value, dot.name if several else dot.label) for dot, value in self.known.items()) or [(0, "")]
        (low, lowest), (high, highest) = names[0], names[-1]
        if low == high:
            return f"All are {self.form(low)}."
        return f"The lowest number is {self.form(low)}, for {lowest}; the highest is {self.form(high)}, for {highest}."


class Bars(Dots, frozen=True, kw_only=True):
    """A chart with bars in place of dots, by default of counts."""

    percent: bool = False
    digits: int = 0


class Scatter(Dots, frozen=True, kw_only=True):
    """A chart of points over two axes of shares in percent, distinguished by group."""

    x_label: str
    y_label: str

    @property
    def axis(self) -> Axis:
        """The axis from left to right."""
        return _axis([dot.x for dot in self.known], self.percent)

    @property
    def upright(self) -> Axis:
        """The axis from below."""
        return _axis(self.known.values(), self.percent)

    def text(self, dot: Dot) -> str:
        """Describe a point: ``seen, Hotels_1: 50.0%, 80.0%``."""
        return f"{dot.name}: {self.form(dot.x)}, {self.form(dot.value)}"

    def points(self) -> Iterator[tuple[Dot, float, float, bool]]:
        """Yield each point, its place from the left and from below, and whether its label has room."""
        places: list[tuple[float, float]] = []
        for dot, value in self.known.items():
            x, y = self.axis.place(dot.x), self.upright.place(value)
            yield dot, x, y, all(abs(x - left) > 35 or abs(y - below) > 6 for left, below in places)
            places.append((x, y))


def sets_chart(
    title: str, rows: Iterable[tuple[str, str, float | None, float | None, float | None]], subject: str = ""
) -> Dots:
    """Chart the shares of systems by set, with a line for the original of each, and say what each loses at worst.

    Args:
      title: the title of the chart.
      rows: (set, system, value, low, high).
      subject: the name of the first system's numbers, if the sentence is only about these.
    """
    dots = [Dot(name, value, low, high, system) for name, system, value, low, high in rows]
    originals = {dot.group: dot.value for dot in dots if dot.label == "original" and is_known(dot.value)}
    falls = []
    for system, original in list(originals.items())[: 1 if subject else None]:
        value, worst = min((dot.value, dot.label) for dot in dots if dot.group == system and is_known(dot.value))
        fall = f"from {percent(original)} to {percent(value)} ({worst})"
        falls += [(value - original, subject or system, fall)] if value < original else []
    parts = [f"{name}{'' if i else ' falls'} {fall}" for i, (_, name, fall) in enumerate(sorted(falls)[:_MOST_NAMED])]
    note = f"At worst, {', '.join(parts)}." if parts else "No number is below its original." if originals else ""
    return Dots(title=title, dots=dots, note=note, references=originals)


def _axis(values: Collection[float], is_percent: bool) -> Axis:
    """Return an axis with at most six ticks."""
    lowest, highest = min([0.0, *values]), max([0.0, *values])
    reach = highest - lowest if highest - lowest > 1e-9 else 1.0
    unit = 10.0 ** math.floor(math.log10(reach))
    step = next(unit * m for m in (0.2, 0.25, 0.5, 1, 2, 2.5) if reach / (unit * m) <= 5.0001)
    low, high = (step * math.floor(lowest / step + 1e-9), step * max(math.ceil(highest / step - 1e-9), 1))
    return Axis(low, high, step, is_percent)


def is_known(value: float | None) -> TypeGuard[float]:
    """Whether a number is defined."""
    return value is not None and math.isfinite(value)
