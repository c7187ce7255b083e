"""Reports and their charts, and rendering the Jinja2 pages of ``crowd_templates``.

Everything in them is escaped as HTML unless a template disables it. ``.md.jinja`` templates escape nothing, because
Markdown has other escapes, see ``parapet.transforms.report.markdown``.

Charts are HTML and CSS: the places of the marks are percentages of an axis, the browser does the layout. Labels wrap,
colours follow the colour scheme, and the same chart fits a phone and a desk. ``report.html.jinja`` draws the charts.
"""

import json
import math
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, TypeGuard

import jinja2
import msgspec
from markupsafe import Markup, escape

from parapet.transforms.report import markdown
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
        """Returns the place of a number, from 0 to 100."""
        return round(100 * (value - self.low) / (self.high - self.low), 2) + 0.0

    def ticks(self) -> Iterator[tuple[float, str]]:
        """Yields the place and the label of each tick."""
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
        """Describes a number: ``seen, v1: 40.0% (38.0% to 42.0%)``."""
        between = f" ({self.form(dot.interval[0])} to {self.form(dot.interval[1])})" if dot.interval else ""
        return f"{dot.name}: {self.form(dot.value)}{between}"

    def form(self, value: float | None) -> str:
        """Formats a number of the chart."""
        return percent(value, self.digits) if self.percent else number(value, self.digits)

    def extremes(self) -> str:
        """Says in a sentence which numbers are the lowest and the highest."""
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
        """Describes a point: ``seen, Hotels_1: 50.0%, 80.0%``."""
        return f"{dot.name}: {self.form(dot.x)}, {self.form(dot.value)}"

    def points(self) -> Iterator[tuple[Dot, float, float, bool]]:
        """Yields each point, its place from the left and from below, and whether its label has room."""
        places: list[tuple[float, float]] = []
        for dot, value in self.known.items():
            x, y = self.axis.place(dot.x), self.upright.place(value)
            yield dot, x, y, all(abs(x - left) > 35 or abs(y - below) > 6 for left, below in places)
            places.append((x, y))


def sets_chart(
    title: str, rows: Iterable[tuple[str, str, float | None, float | None, float | None]], subject: str = ""
) -> Dots:
    """Charts the shares of systems by set, with a line for the original of each, and say what each loses at worst.

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
    """Returns an axis with at most six ticks."""
    lowest, highest = min([0.0, *values]), max([0.0, *values])
    reach = highest - lowest if highest - lowest > 1e-9 else 1.0
    unit = 10.0 ** math.floor(math.log10(reach))
    step = next(unit * m for m in (0.2, 0.25, 0.5, 1, 2, 2.5) if reach / (unit * m) <= 5.0001)
    low, high = (step * math.floor(lowest / step + 1e-9), step * max(math.ceil(highest / step - 1e-9), 1))
    return Axis(low, high, step, is_percent)


def is_known(value: float | None) -> TypeGuard[float]:
    """Whether a number is defined."""
    return value is not None and math.isfinite(value)


@cache
def environment() -> jinja2.Environment:
    """Creates the environment: autoescape for every page, and errors for undefined names."""
    return jinja2.Environment(
        loader=jinja2.PackageLoader("parapet.crowd_templates", ""),
        autoescape=jinja2.select_autoescape((), disabled_extensions=("md.jinja",), default=True),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )


def render(template: str, **context: Any) -> str:
    """Renders a page as text. Raises jinja2.UndefinedError if the template uses a name that ``context`` lacks."""
    return environment().get_template(template).render(**context)


MAX_ROWS = 1000  # of a table in the page, because longer ones are slow to open
MAX_CARD_ROWS = 100  # of a table in a card
_CODE = re.compile(r"`([^`\n]+)`")


class Tile(msgspec.Struct, frozen=True):
    """A key number at the top of the page."""

    label: str
    value: str


class Table(msgspec.Struct, frozen=True, kw_only=True):
    """A table.

    Attributes:
      title: the title of the table.
      columns: the headings.
      rows: the rows, with one formatted cell per column. Text after a line break in a cell is small print.
      note: a sentence above the table.
      text_columns: how many of the first columns are text; the others are numbers, which are right-aligned.
      total_rows: how many of the last rows are totals.
      best: (row, column) of the cells in bold, each from 0.
      groups: row to the heading above it.
      numbers_in: the file with all rows of a table that is too long for the page.
      in_card: whether the card also has the table.
      inline: whether text between backticks in a cell is displayed as code, or as a link, as in notes.
      hrefs: (row, column) to the target, for cells whose first line is a link on the page.
      folded: the label of the line behind which the page hides the table; empty if it is shown.
    """

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    note: str = ""
    text_columns: int = 1
    total_rows: int = 0
    best: Collection[tuple[int, int]] = ()
    groups: Mapping[int, str] = {}
    numbers_in: str = "statistics.json"
    in_card: bool = True
    inline: bool = False
    hrefs: Mapping[tuple[int, int], str] = {}
    folded: str = ""


class Part(msgspec.Struct, frozen=True):
    """A part of a line: unchanged ``text``, then the ``removed`` text, then the ``added`` text in its place."""

    text: str = ""
    removed: str = ""
    added: str = ""
    hint: str = ""


class Line(msgspec.Struct, frozen=True):
    """A line of an example; ``label`` is the speaker, or the kind of line."""

    label: str
    parts: Sequence[Part]


class Example(msgspec.Struct, frozen=True):
    """An example: its place (``dialogue 1_00000, turn 3``) and its lines.

    Attributes:
      table: a table above the lines.
      folded: the label of the line behind which the lines are hidden; empty if they are shown.
    """

    place: str
    lines: Sequence[Line]
    table: Table | None = None
    folded: str = ""


class Examples(msgspec.Struct, frozen=True, kw_only=True):
    """Examples with their edits marked; the card has them, if at all, as text before and after."""

    title: str
    examples: Sequence[Example]
    note: str = ""
    in_card: bool = False


class Text(msgspec.Struct, frozen=True, kw_only=True):
    """Paragraphs, which are a list in the card."""

    title: str
    paragraphs: Sequence[str]
    in_card: bool = True


Section = Table | Dots | Examples | Text


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """The report of a run, from which :func:`page` and :func:`card` are created.

    Attributes:
      command: the command that was run: ``evaluate``.
      title: the title of the page's window and of the card.
      headline: the page's heading: the result, or a description of the output.
      lead: a sentence or two below the heading.
      tiles: the key numbers.
      sections: the sections in order; charts that come first open the page, above the tiles. Tables without rows,
        charts of a single number and the like are left out.
      terms: term to meaning.
      notes: warnings to read before the numbers.
      links: path to description of the run's files. Pages that no text mentions are listed below the lead, the other
        files at the end. A folder, such as ``rows/``, is not a link.
    """

    command: str
    title: str
    headline: str
    lead: str = ""
    tiles: Sequence[Tile] = ()
    sections: Sequence[Section] = ()
    terms: Mapping[str, str] = {}
    notes: Sequence[str] = ()
    links: Mapping[str, str] = {}


def edited(text: str, edits: Iterable[tuple[int, int, str, str]]) -> list[Part]:
    """Splits a text into parts with its edits marked.

    Args:
      text: the text before the edits.
      edits: (start, end, replacement, hint), in order and without overlap.
    """
    parts, at = [], 0
    for start, end, added, hint in edits:
        parts.append(Part(text[at:start], text[start:end], added, hint))
        at = end
    return [*parts, Part(text[at:])] if text[at:] or not parts else parts


def dialogue_example(place: str, lines: Iterable[tuple[str, str]]) -> Example:
    """Creates an example without edits from the (speaker, text) of each turn of a dialogue."""
    return Example(place, [Line(speaker, [Part(text)]) for speaker, text in lines])


def report_files(statistics: Mapping[str, object], report: Report) -> dict[str, bytes]:
    """Returns ``statistics.json``, the card (``README.md``) and the page (``report.html``) by path."""
    return {
        "statistics.json": (json.dumps(statistics, indent=2) + "\n").encode(),
        "README.md": card(report).encode(),
        "report.html": page(report).encode(),
    }


def page(report: Report) -> str:
    """Renders the report as an HTML page that works offline. Lone surrogates become question marks."""
    sections = [*filter(_has_content, report.sections)]
    opens = next((i for i, section in enumerate(sections) if not isinstance(section, Dots)), len(sections))
    pages = {href: description for href, description in report.links.items() if href.endswith(".html")}
    linked = set(_CODE.findall("\n".join(_prose(report))))
    text = render(
        "report.html.jinja",
        report=report,
        pictures=sections[:opens],
        sections=sections[opens:],
        cut=lambda table: _cut(table, MAX_ROWS),
        kind_of=lambda section: type(section).__name__.lower(),
        pages={href: description for href, description in pages.items() if href not in linked},
        files={href: description for href, description in report.links.items() if href not in pages},
        inline=lambda text: _inline(text, report.links),
    )
    return text.encode("utf-8", "replace").decode()


def card(report: Report) -> str:
    """Renders the report as Markdown for the README.md of a set, without tiles and charts."""
    blocks = [f"# {markdown.text(report.title)}", markdown.inline(report.lead)]
    blocks.append(markdown.bullets(map(markdown.inline, report.notes)))
    for section in filter(_has_content, report.sections):
        blocks += _card_section(section)
    if report.terms:
        meanings = (f"**{markdown.text(term)}**: {markdown.inline(meaning)}" for term, meaning in report.terms.items())
        blocks += ["## Terms", markdown.bullets(map(markdown.Markdown, meanings))]
    if report.links:
        files = (f"{markdown.code(path)}: {markdown.inline(meaning)}" for path, meaning in report.links.items())
        blocks += ["## Files", markdown.bullets(map(markdown.Markdown, files))]
    return ("\n\n".join(block for block in blocks if block) + "\n").encode("utf-8", "replace").decode()


def _has_content(section: Section) -> bool:
    match section:
        case Dots():
            return len(section.known) > 1
        case Table():
            return bool(section.rows)
        case Examples():
            return bool(section.examples)
        case Text():
            return bool(section.paragraphs)


def _prose(report: Report) -> Iterator[str]:
    """Yields the texts of a page that may contain links."""
    yield from (report.lead, *report.notes, *report.terms.values())
    for section in report.sections:
        yield from section.paragraphs if isinstance(section, Text) else [section.note]
        if isinstance(section, Table) and section.inline:
            yield from (cell for row in section.rows for cell in row)


def _cut(table: Table, most: int) -> tuple[Sequence[Sequence[str]], int]:
    """Returns a table's first rows and its totals, and the number of rows left out between them."""
    hidden = max(len(table.rows) - table.total_rows - most, 0)
    if not hidden:
        return table.rows, 0
    return [*table.rows[:most], *table.rows[len(table.rows) - table.total_rows :]], hidden


def _inline(text: str, links: Mapping[str, str]) -> Markup:
    """Formats text with code, and with links to the files of the run."""
    parts = []
    for i, part in enumerate(_CODE.split(text)):
        if i % 2 and ((part in links and not part.endswith("/")) or markdown.is_url(part)):
            parts.append(Markup('<a href="{}">{}</a>').format(part if part in links else markdown.quoted(part), part))
        else:
            parts.append(Markup("<code>{}</code>").format(part) if i % 2 else escape(part))
    return Markup("").join(parts)


def _card_section(section: Section) -> list[str]:
    heading = f"## {markdown.text(section.title)}"
    match section:
        case Table() if section.in_card:
            more = _cut(section, MAX_CARD_ROWS)[1]
            hidden = f"{more:,} more rows are in `{section.numbers_in}`." if more else ""
            table = table_markdown(section, MAX_CARD_ROWS)
            return [heading, markdown.inline(section.note), table, markdown.inline(hidden)]
        case Examples() if section.in_card:
            rows = [(example.place, *_before_and_after(example)) for example in section.examples]
            return [heading, markdown.table(["where", "original", "here"], rows)]
        case Text() if section.in_card:
            return [heading, markdown.bullets(map(markdown.inline, section.paragraphs))]
        case _:
            return []


def _before_and_after(example: Example) -> tuple[str, str]:
    """Returns the lines of an example before and after the edits; before is empty for an example without edits."""
    parts = [[*line.parts] for line in example.lines]
    before, after = (
        " / ".join(filter(None, ("".join(part.text + getattr(part, name) for part in of_line) for of_line in parts)))
        for name in ("removed", "added")
    )
    return ("" if before == after else before), after


def table_markdown(table: Table, most: int = MAX_ROWS) -> markdown.Markdown:
    """Formats a table as Markdown; small print follows its number, the headings of groups are rows."""
    rows: list[list[str]] = []
    bold = set(table.best)
    for i, row in enumerate(_cut(table, most)[0]):
        if i in table.groups:
            rows.append([markdown.Markdown(f"**{markdown.text(table.groups[i])}**"), *[""] * (len(table.columns) - 1)])
        cells = [_cell_markdown(cell, (i, j) in bold) for j, cell in enumerate(row)]
        rows.append([markdown.inline(cell) for cell in cells] if table.inline else cells)
    return markdown.table(table.columns, rows, len(table.columns) - table.text_columns)


def _cell_markdown(cell: str, bold: bool) -> str:
    first, *small = cell.split("\n")
    if not bold:
        return " · ".join([first, *small])
    return markdown.Markdown(" · ".join([f"**{markdown.text(first)}**", *map(markdown.text, small)]))
