"""Formats the leaderboard as a page, as LaTeX and Markdown files, and as lines for the terminal."""

from __future__ import annotations

import unicodedata
from collections import Counter

import msgspec

from parapet.evaluation.compare.leaderboard import (
    ALL_HAVE,
    AVERAGE,
    Board,
    Grid,
    Number,
    SignificanceConfig,
    Systems,
    Value,
    averaged_over,
    cell,
    full_label,
    grid,
    grid_tables,
    headings,
    leaderboard,
    metric_label,
    one_row,
    read_systems,
    set_label,
    shown,
    unit,
)
from parapet.evaluation.compare.results import (
    EVERYTHING,
    JGA,
    OF_100,
    Column,
    Selection,
    of_100,
)
from parapet.evaluation.dst.results import EXAMPLES_TITLE, examples_table
from parapet.evaluation.results import SEEN, SENSITIVITY, UNSEEN, VARIANTS, WHOLE
from parapet.evaluation.sets import ORIGINAL, mixes
from parapet.evaluation.task import (
    FLOOR,
    NOT_DEFINED,
    UNDEFINED_SENSITIVITY,
    Result,
    Stage,
    Task,
    json_bytes,
    relative_change,
)
from parapet.schemas.decisions import csv_bytes
from parapet.transforms.reports import markdown
from parapet.transforms.reports.charts import sets_chart
from parapet.transforms.reports.report import Dot, Dots, Report, Section, Table, Tile, page, table_markdown
from parapet.transforms.reports.text import counted, number, percent

MOST_SYSTEMS = 8  # of a chart: more shapes and colours are hard to distinguish
EXAMPLES = 4  # examples shown for each system

TERMS = {
    "Mean": "The unweighted mean over the sets of a row that all systems have. Mixes of sets with the original do not "
    "count.",
    "Average": "The unweighted mean of all columns, as on RADDLE's leaderboard. Not counted are mixes with the "
    "original, metrics of which less is better, and columns that are computed from others (the mean over "
    "variants) or enter others (Inform, Success, BLEU).",
    "JGA": "Joint goal accuracy.",
    "Small print": "Below each number: its 95% interval and its change from the original, in percentage points and "
    f"relative; the latter where the interval of the original is above 0 and the original is at least {FLOOR:.0%}. "
    "Intervals are from a Poisson bootstrap over dialogues; where each dialogue has one number, 0 or 1, "
    "and at 0 and 100%, they are Wilson's.",
    "Schema sensitivity": "How much the joint goal accuracy of a frame varies over the variants: the standard "
    "deviation divided by the mean, averaged over frames (Lee et al. 2022). It can exceed 100%. At the same "
    f"accuracy, less is better; therefore it is never bold. {UNDEFINED_SENSITIVITY}",
    "Seen, unseen": "Seen services are in the schema of the training split, unseen services are not.",
    "p": "How often the difference would be at least as large if chance decided, for each dialogue, which result "
    "belongs to which system: two-sided approximate randomisation over dialogues. For the mean over variants and for "
    "schema sensitivity: twice the share of bootstrap replicates beyond zero.",
    "p, Holm": "The same, corrected for all tests on this page.",
    "Interval": "95% interval of the difference, from a paired bootstrap over dialogues.",
}


# What is said of a metric where it is first shown.
_MEANINGS = {
    "joint_goal_accuracy": "Joint goal accuracy: the share of frames (a service in a user turn) whose whole predicted "
    "state is right.",
    SENSITIVITY: "Schema sensitivity: how much it varies over the wordings v1 to v5. Less is better at the same "
    f"accuracy only; where that is below {FLOOR:.0%} on the original or over the variants, it is not defined.",
}


def sections(board: Board) -> list[Section]:
    """Makes the sections of the page."""
    drawn = charts(board)
    all_sections: list[Section] = [*drawn[:1], *main_tables(board), *drawn[1:]]
    all_sections += _relative_changes(board)
    all_sections += seen_and_unseen(board)
    all_sections += _seen_and_unseen_chart(board)
    all_sections += _services(board)
    all_sections += _differences(board)
    for name in board.systems:
        if examples := board.examples.get(name, [])[:EXAMPLES]:
            suffix = f": {name}" if len(board.systems) > 1 else ""
            all_sections.append(examples_table(examples, f"{EXAMPLES_TITLE}{suffix}"))
    return all_sections


def main_tables(board: Board) -> list[Table]:
    """Makes the tables of numbers by set; a chosen average comes first, with its columns in one row per system."""
    whole = grid(board)
    tables = grid_tables([("", whole)], _title(whole, "by set", "Systems by set"), _note(whole))
    if not board.selection.average:
        return tables
    averaged = one_row(board)
    return [*grid_tables([("", averaged)], "The average and its numbers, of 100", _note(averaged)), *tables]


def _title(whole: Grid, by: str, several: str) -> str:
    """Makes a table's title from metric and unit. With several metrics it is ``several``, as headings name them."""
    first = whole.blocks[0]
    return f"{first.title} {by}, {unit(first.metric)}" if len(whole.blocks) == 1 else several


def seen_and_unseen(board: Board) -> list[Table]:
    """Makes the main table for seen and for unseen services."""
    grids = [(f"{group} services", grid(board, group)) for group in (SEEN, UNSEEN)]
    grids = [(title_here, group_grid) for title_here, group_grid in grids if group_grid.blocks]
    if not grids or any(group_grid.headings != grids[0][1].headings for _, group_grid in grids):
        return []
    note = "Generated utterances: by domain." if any(column.task == "generation" for column in board.columns) else ""
    title = _title(grids[0][1], "of seen and unseen services", "Seen and unseen services")
    return grid_tables(grids, title, note)


def _note(whole: Grid) -> str:
    values = [score for block in whole.blocks for row in block.numbers for score in row if score is not None]
    parts = ["its 95% interval"] if any(value.low is not None for value in values) else []
    if any(value.set == ORIGINAL for value in values) and len(whole.headings) > 1:
        parts.append("its change from the original, in percentage points and relative")
    several = len(whole.systems) > 1
    lines = [f"Below each number: {' and '.join(parts)}."] if parts else []
    shown = {block.metric for block in whole.blocks} | {value.metric for value in values}
    lines += [meaning for metric, meaning in _MEANINGS.items() if metric in shown]
    over = list(dict.fromkeys(block.over for block in whole.blocks))
    if any(ALL_HAVE in text for text in over):
        lines.append(f"The mean is over {over[0] if len(over) == 1 else f'the sets that {ALL_HAVE}'}.")
    return " ".join([*lines, *(["The best number of a column is bold."] if several else [])])


def _relative_changes(board: Board) -> list[Table]:
    """Makes SGD-X's Table 3: each system over the variants, with its relative change from the baseline above it."""
    values = {(value.system, value.group, value.metric): value for value in board.values if value.set == VARIANTS}
    tests = {(test.first, test.second, test.column): test for test in board.tests}
    label = set_label(board, "dst", VARIANTS)
    columns = [(WHOLE, JGA, f"JGA {label}"), (WHOLE, SENSITIVITY, "schema sensitivity"),
               (SEEN, JGA, f"JGA {label}, seen"), (UNSEEN, JGA, f"JGA {label}, unseen")]  # fmt: skip
    columns = [column for column in columns if any((column[0], column[1]) == key[1:] for key in values)]
    if not board.relative_changes or not columns:
        return []
    rows: list[list[str]] = []
    bold: list[tuple[int, int]] = []
    baseline = board.settings.baseline
    for name in (baseline, *board.relative_changes):
        row = [name]
        for group, metric, _ in columns:
            value, other = values.get((name, group, metric)), values.get((baseline, group, metric))
            change = None
            if name != baseline and value and other and value.value is not None and other.value is not None:
                change = relative_change(value.value, other.value, other.low)
            test = tests.get((name, baseline, Column("dst", VARIANTS, metric, group).name))
            is_bold = test is not None and test.p_holm < 0.05 and metric != SENSITIVITY
            bold += [(len(rows), len(row))] if is_bold else []
            text = NOT_DEFINED if metric == SENSITIVITY else "–"
            text = text if value is None or value.value is None else shown(metric, value.value)
            row.append(text if change is None else f"{text} ({percent(change, 0, signed=True)})")
        rows.append(row)
    note = "Of 100; in brackets the relative change from the baseline, which comes first."
    return [
        Table(
            title="Joint goal accuracy and schema sensitivity under variants, against the baseline",
            note=note + (" Bold: p < 0.05 after Holm's correction." if board.tests else ""),
            columns=["system", *(heading for *_, heading in columns)],
            rows=rows, best=bold, numbers_in="leaderboard.json",
        )
    ]  # fmt: skip


def charts(board: Board) -> list[Dots]:
    """Charts each metric that is a share: a row for each set, without mixes, and a mark for each system."""
    columns = [column for column in board.columns if column.metric not in OF_100 | {SENSITIVITY}]
    columns = [column for column in columns if column.set != VARIANTS and column.group == WHOLE]
    mixed = mixes({column.set for column in columns})
    values = board.by_column
    drawn = []
    for task, metric in dict.fromkeys((column.task, column.metric) for column in columns):
        rows = [
            (set_label(board, task, column.set), name, value.value, value.low, value.high)
            for column in columns
            if (column.task, column.metric) == (task, metric) and column.set not in mixed
            for name in board.systems[:MOST_SYSTEMS]
            for value in [values[name, column.column]]
        ]
        if len(rows) > 1:
            drawn.append(sets_chart(f"{_capital(full_label(board, task, metric))} by set", rows))
    return drawn


def _capital(label: str) -> str:
    return label[:1].upper() + label[1:]


def _seen_and_unseen_chart(board: Board) -> list[Dots]:
    """Makes SGD-X's Figure 5: the mean over the variants, for seen and unseen services; the baseline comes first."""
    baseline = board.settings.baseline if board.relative_changes else ""
    dots = [
        Dot(value.system, value.value, value.low, value.high, group=f"{value.group} services")
        for name in sorted(board.systems, key=lambda name: name != baseline)
        for value in board.values
        if value.system == name and value.set == VARIANTS and value.metric == JGA and value.group in (SEEN, UNSEEN)
    ]
    if len({dot.group for dot in dots}) < 2:
        return []
    label = set_label(board, "dst", VARIANTS)
    return [Dots(title=f"Joint goal accuracy over {label} of seen and unseen services", dots=dots)]


def _services(board: Board) -> list[Table]:
    """Makes a table with a row per service: joint goal accuracy on original and variants, and schema sensitivity."""
    values = {
        (score.group, score.system, score.set, score.metric): score for score in board.values if score.task == "dst"
    }
    services = sorted({group for group, *_ in values} - {WHOLE, SEEN, UNSEEN})
    if not services:
        return []
    label = set_label(board, "dst", VARIANTS)
    kinds = [(ORIGINAL, JGA, ORIGINAL), (VARIANTS, JGA, label), (VARIANTS, SENSITIVITY, "sensitivity")]
    kinds = [kind for kind in kinds if any((at, metric) == kind[:2] for _, _, at, metric in values)]
    rows = []
    for service in services:
        cells = [service]
        for name in board.systems:
            for at, metric, _ in kinds:
                value = values.get((service, name, at, metric))
                row = [values.get((service, name, at, JGA)) for at in (ORIGINAL, VARIANTS)]
                cells.append(cell(value, row) if value else "–")
        rows.append(cells)
    columns = [
        f"{name} {heading}" if len(board.systems) > 1 else heading for name in board.systems for _, _, heading in kinds
    ]
    title = "Joint goal accuracy by service, %"
    return [Table(title=title, columns=["service", *columns], rows=rows, numbers_in="table.csv", in_card=False)]


def _differences(board: Board) -> list[Table]:
    """Makes tables of the tested differences, and of all differences from the baseline. Significant ones are bold.

    Differences on mixes are folded.
    """
    names, sets = headings(board), {column.column.name: column.set for column in board.columns}
    tests = {(test.first, test.second, test.column): test for test in board.tests}
    numbers = {(name, AVERAGE): average for name, average in board.average.items()}
    for score in board.values:
        value = None if score.value is None else of_100(score.metric, score.value)
        numbers[score.system, score.column.name] = Number(value, score.low)
    baseline = board.settings.baseline
    pairs = list(dict.fromkeys((test.first, test.second) for test in board.tests))
    if baseline:
        pairs = [(name, baseline) for name in board.systems if name != baseline]
    mixed = mixes({*sets.values()})
    rows: dict[bool, list[list[str]]] = {False: [], True: []}
    bold: dict[bool, list[tuple[int, int]]] = {False: [], True: []}
    for first, second in pairs:
        for column, heading in names.items():
            value, low = numbers[first, column].value, numbers[second, column].low
            other, test = numbers[second, column].value, tests.get((first, second, column))
            if (test is None and not baseline) or value is None or other is None:
                continue
            folded = sets.get(column) in mixed
            change = relative_change(value / 100, other / 100, low)
            cells = [f"{value - other:+.2f}", percent(change, signed=True)]
            if test is None:
                cells += ["–"] * 4
            else:
                bold[folded] += [(len(rows[folded]), 2)] if test.p_holm < 0.05 else []
                interval = "–" if test.interval is None else f"{test.interval[0]:+.2f} to {test.interval[1]:+.2f}"
                cells += [interval, f"{test.p:.4f}", f"{test.p_holm:.4f}", f"{test.dialogues:,}"]
            rows[folded].append([f"{first} – {second}", heading, *cells])
    points = "points of 100" if OF_100 & {column.metric for column in board.columns} else "percentage points"
    note = f"The first system's score minus the second's, in {points}; and as a share of the second's, where its "
    note += f"interval is above 0 and it is at least {FLOOR:.0%}."
    note += " Bold: p < 0.05 after Holm's correction." if tests else ""
    columns = ["systems", "column", "difference", "change", "interval", "p", "p, Holm", "dialogues"]
    return [
        Table(
            title="Differences: mixes" if folded else "Differences",
            columns=columns,
            rows=rows[folded],
            best=bold[folded],
            text_columns=2,
            note=note,
            numbers_in="leaderboard.json",
            folded=f"{counted(len(rows[folded]), 'more difference')}: mixes with the original" if folded else "",
        )
        for folded in (False, True)
        if rows[folded]
    ]


def tiles(board: Board) -> list[Tile]:
    """Makes the tiles with the averages."""
    label, sign = _averaged(board)
    means = ((name, board.average[name].value) for name in board.systems[:6])
    return [Tile(f"{name}: {label}", number(mean, 1) + (sign if mean is not None else "")) for name, mean in means]


def _averaged(board: Board) -> tuple[str, str]:
    """Describes the average, and returns the sign that follows it."""
    columns = [column for column in board.columns if column.in_average]
    metrics = {column.metric for column in columns}
    if len(metrics) != 1:
        return f"average of {averaged_over(board)}, of 100", ""
    metric = metrics.pop()
    return f"{metric_label(metric)}, mean over {averaged_over(board)}", "%" if unit(metric) == "%" else ""


def notes(board: Board) -> list[str]:
    """Lists what readers must know before the numbers: what was left out, and what could not be tested."""
    lines = [f"Left out: {line}." for line in board.left_out]
    defined = Counter(value.column for value in board.values if value.value is not None)
    lacking = [
        column.column for column in board.columns if not column.tested and defined[column.column] == len(board.systems)
    ]
    if lacking and board.tests:
        names = ", ".join(headings(board)[column.name] for column in lacking)
        lines.append(f"Not tested, because they are not means over rows of dialogues: {names}.")
    return lines


def closing_lines(board: Board) -> list[str]:
    """Lists the lines for the terminal below the table."""
    lines = []
    if board.tests:
        clear = sum(test.p_holm < 0.05 for test in board.tests)
        lines.append(f"{clear:,} of {len(board.tests):,} differences have p < 0.05 after Holm's correction")
    return [*lines, *(note for note in notes(board) if not note.startswith("Left out"))]


def terms(board: Board) -> dict[str, str]:
    """Returns the terms that the sections use, with their meanings."""
    metrics, groups = {value.metric for value in board.values}, {value.group for value in board.values}
    absent = {
        *(["Average"] if headings(board)[AVERAGE] != "average" else []),
        *(["JGA"] if not board.selection.average and not any(board.examples.values()) else []),
        *(["Schema sensitivity"] if SENSITIVITY not in metrics else []),
        *(["Seen, unseen"] if not groups & {SEEN, UNSEEN} else []),
        *(["p", "p, Holm", "Interval"] if not board.tests else []),
    }
    return {term: meaning for term, meaning in TERMS.items() if term not in absent}


def headline(board: Board) -> str:
    """Summarises the result: who leads, unless the difference from the second is not significant."""
    if len(board.systems) == 1:
        return f"{board.systems[0]} by set"
    first, second = board.systems[:2]
    best_value, next_value = board.average[first].value, board.average[second].value
    averaged = [column.column.name for column in board.columns if column.in_average]
    decides = AVERAGE if len(averaged) > 1 else averaged[0] if averaged else ""
    tests = [test for test in board.tests if {test.first, test.second} == {first, second} and test.column == decides]
    if best_value is None or best_value == next_value:
        return "Systems next to each other"
    return (
        f"{first} is ahead, but not significantly" if any(test.p_holm >= 0.05 for test in tests) else f"{first} leads"
    )


def page_of(board: Board) -> bytes:
    """Makes ``report.html``."""
    report = Report(
        command="compare",
        title="Leaderboard",
        headline=headline(board),
        lead=f"{counted(len(board.systems), 'system')}, {counted(len(board.columns), 'number')} each.",
        tiles=tiles(board),
        sections=sections(board),
        notes=notes(board),
        terms=terms(board),
        links={
            "leaderboard.json": "all numbers and tests",
            "table.csv": "a row a number, also as `table.parquet`",
            "table.tex": "the tables for LaTeX",
            "table.md": "the tables as Markdown",
        },
    )
    return page(report).encode()


COLUMNS = ("system", "task", "set", "group", "metric", "value", "low", "high")
_LATEX = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "$": r"\$", "&": r"\&", "#": r"\#", "%": r"\%", "_": r"\_",
    "^": r"\textasciicircum{}", "~": r"\textasciitilde{}", "–": "--", "<": r"\textless{}", ">": r"\textgreater{}",
    "|": r"\textbar{}", "[": "{[}", "*": "{*}",
}  # fmt: skip


class Compare(Task[Systems], frozen=True, kw_only=True):
    """The task of ``parapet compare``.

    Attributes:
      systems: name to folders that ``parapet evaluate`` wrote.
      metrics: the columns, see :func:`columns_of`.
      everything: whether tasks and sets that only some systems have are shown, too.
      selection: the sets and the columns of the average.
    """

    name = "compare"

    systems: dict[str, list[str]]
    metrics: tuple[str, ...] = ()
    everything: bool = False
    settings: SignificanceConfig = SignificanceConfig()
    selection: Selection = EVERYTHING

    def read(self) -> Systems:
        """Reads the results. Raises InputError if they cannot be compared."""
        return read_systems(self.systems, self.metrics, self.everything, self.selection)

    def score(self, inputs: Systems, stage: Stage) -> Result:
        """Makes the leaderboard and its files."""
        stage("intervals and tests")
        board = leaderboard(inputs, self.settings)
        files = {"leaderboard.json": json_bytes(board), **table_files(board), "report.html": page_of(board)}
        return Result(
            files=files,
            summary=[*terminal_lines(board), *closing_lines(board)],
            options={
                "systems": sorted(self.systems),
                "columns": [column.name for column in inputs.columns],
                "average": [column.name for column in inputs.averaged],
                **msgspec.structs.asdict(self.settings),
            },
            warnings=[f"left out: {line}" for line in board.left_out],
        )


def table_files(board: Board) -> dict[str, bytes]:
    """Makes ``table.csv`` and ``table.parquet`` in long form, and ``table.tex`` and ``table.md`` like the page."""
    import pyarrow as pa

    from parapet.schemas.rows import parquet_bytes

    rows = [*board.values, *_averages(board)]
    texts = {name: pa.array([getattr(row, name) for row in rows], pa.string()) for name in COLUMNS[:5]}
    numbers = {name: pa.array([getattr(row, name) for row in rows], pa.float64()) for name in COLUMNS[5:]}
    cells = ([_text(getattr(row, name)) for name in COLUMNS] for row in rows)
    return {
        "table.csv": csv_bytes(COLUMNS, cells),
        "table.parquet": parquet_bytes(pa.table({**texts, **numbers})),
        "table.tex": latex(board).encode("utf-8", "replace"),
        "table.md": _markdown(board).encode("utf-8", "replace"),
    }


def _averages(board: Board) -> list[Value]:
    """Returns the averages as rows, on a scale of 100."""
    if len(board.columns) < 2:
        return []
    averages = ((name, board.average[name]) for name in board.systems)
    return [
        Value(name, "all", "#ALL", "all", AVERAGE, average.value, average.low, average.high)
        for name, average in averages
    ]


def _text(value: str | float | None) -> str:
    return "" if value is None else value if isinstance(value, str) else repr(float(value))


def terminal_lines(board: Board, width: int = 100) -> list[str]:
    """Formats the main numbers for a terminal: for each metric a row per set and a column per system; without mixes.

    Systems that do not fit into the width are left out and counted.
    """
    whole = grid(board)
    mixed = mixes({column.set for column in board.columns})
    lines: list[str] = []
    for block in whole.blocks:
        unit = "" if block.metric in OF_100 or block.metric == AVERAGE else ", %"
        rows = [[f"{block.title[:1].lower()}{block.title[1:]}{unit}", *whole.systems]]
        for heading, column in zip(whole.headings, zip(*block.numbers, strict=True), strict=True):
            if heading not in mixed and any(value is not None for value in column):
                pairs = zip(column, block.numbers, strict=True)
                rows.append([heading, *(cell(value, row).partition("\n")[0] for value, row in pairs)])
        if whole.with_mean:
            rows.append([f"mean over {block.over}", *(number(mean.value, 1) for mean in block.means)])
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        shown = max(n for n in range(1, len(widths)) if n == 1 or sum(widths[: n + 1]) + 2 * n <= width)
        lines += [""] if lines else []
        for first, *cells in rows:
            texts = (text.rjust(size) for text, size in zip(cells[:shown], widths[1:], strict=False))
            lines.append("  ".join([first.ljust(widths[0]), *texts]).rstrip())
        if more := len(board.systems) - shown:
            lines.append(f"{counted(more, 'more system')} in table.md")
    return lines


def latex(board: Board) -> str:
    r"""Formats each table as a LaTeX ``tabular`` for the package booktabs, with the best numbers in bold."""
    return "\n".join(map(_tabular, _tables(board)))


def _tables(board: Board) -> list[Table]:
    return [*main_tables(board), *seen_and_unseen(board)]


def _tabular(table: Table) -> str:
    r"""Formats a table to ``\input``, without small print."""
    texts, numbers = table.text_columns, len(table.columns) - table.text_columns
    lines = [
        f"% {escaped(table.title)}",
        "% \\usepackage{booktabs}",
        f"\\begin{{tabular}}{{{'l' * texts}{'r' * numbers}}}",
        "\\toprule",
        f"{' & '.join(map(escaped, table.columns))} \\\\",
        "\\midrule",
    ]
    for i, row in enumerate(table.rows):
        if i in table.groups:
            title = f"\\multicolumn{{{len(row)}}}{{l}}{{\\emph{{{escaped(table.groups[i])}}}}} \\\\"
            lines += [*(["\\addlinespace"] if i else []), title]
        cells = (_bold(cell.split("\n")[0], (i, j) in table.best) for j, cell in enumerate(row))
        lines.append(f"{' & '.join(cells)} \\\\")
    return "\n".join([*lines, "\\bottomrule", "\\end{tabular}", ""])


def escaped(text: str) -> str:
    """Escapes text for LaTeX. Letters that its fonts may lack become question marks."""
    return "".join(_LATEX.get(letter, letter if _has_glyph(letter) else "?") for letter in markdown.one_line(text))


def _has_glyph(letter: str) -> bool:
    """Whether LaTeX prints a letter without further packages: ASCII, or a Latin-1 letter with one accent."""
    base, *accents = list(unicodedata.normalize("NFD", letter))
    return letter.isascii() or (base.isascii() and base.isalpha() and len(accents) == 1 and ord(letter) < 256)


def _bold(text: str, is_best: bool) -> str:
    text = escaped(text)
    return f"\\textbf{{{text}}}" if is_best else text


def _markdown(board: Board) -> str:
    parts = [part for table in _tables(board) for part in (markdown.text(table.title), table_markdown(table))]
    return "\n\n".join([*parts, *map(markdown.text, notes(board))]) + "\n"
