"""The page of a leaderboard, and the task of ``parapet compare``."""

from __future__ import annotations

from collections import Counter

from parapet.evaluation import task
from parapet.evaluation.compare import kinds, tables
from parapet.evaluation.compare.board import Board, Config, leaderboard, read_systems
from parapet.evaluation.compare.significance import PartsOf
from parapet.evaluation.dst.results import EXAMPLES_TITLE, examples_table
from parapet.evaluation.results import SEEN, SENSITIVITY, UNSEEN, VARIANTS, WHOLE
from parapet.evaluation.sets import MEAN, mixes
from parapet.transforms.reports.charts import sets_chart
from parapet.transforms.reports.report import Dot, Dots, Report, Section, Table, Tile, page
from parapet.transforms.reports.text import counted, number, percent

MOST_SYSTEMS = 8  # of a chart: more shapes and colours are hard to distinguish
EXAMPLES = 4  # examples shown for each system

TERMS = {
    "Mean": "The unweighted mean over the sets of a row that all systems have. Mixes of sets with the original do not "
    "count.",
    "Average": "The unweighted mean of all columns, as on RADDLE's leaderboard. Not counted are mixes with the "
    "original, metrics of which less is better, and columns that are computed from others (the mean over "
    "variants) or enter others (Inform, Success, BLEU).",
    "JGA": "Joint goal accuracy: the share of frames (a service in a user turn) whose whole predicted state is right.",
    "Bold": "The best number of a column; of differences, p < 0.05 after Holm's correction.",
    "Seen, unseen": "Seen services are in the schema of the training split, unseen ones are not. For generated "
    "utterances: domains.",
    "Small print": "Below each number: its 95% interval and its change from the original, in percentage points and "
    "relative; the latter where the interval of the original is above 0 and the original is at least "
    f"{task.FLOOR:.0%}. Intervals are from a Poisson bootstrap over dialogues; where each dialogue has one number, 0 "
    "or 1, and at 0 and 100%, they are Wilson's.",
}
_OF_VARIANTS = {
    "Schema sensitivity": "How much the joint goal accuracy of a frame varies over the variants: the standard "
    "deviation divided by the mean, averaged over frames (Lee et al. 2022). It can exceed 100%. At the same "
    f"accuracy, less is better; therefore it is never bold. {task.UNDEFINED_SENSITIVITY}",
}
_OF_TESTS = {
    "p": "How often the difference would be at least as large if chance decided, for each dialogue, which result "
    "belongs to which system: two-sided approximate randomisation over dialogues. For the mean over variants and for "
    "schema sensitivity: twice the share of bootstrap replicates beyond zero.",
    "p, Holm": "The same, corrected for all tests on this page.",
    "Interval": "95% interval of the difference, from a paired bootstrap over dialogues.",
}


def sections(board: Board) -> list[Section]:
    """Makes the sections of the page."""
    drawn = charts(board)
    title = f"{EXAMPLES_TITLE}: {{}}" if len(board.systems) > 1 else EXAMPLES_TITLE
    return [
        *drawn[:1],
        *main_tables(board),
        *drawn[1:],
        *_relative_changes(board),
        *seen_and_unseen(board),
        *_seen_and_unseen_chart(board),
        *_services(board),
        _differences(board),
        *(
            examples_table(board.examples[name][:EXAMPLES], title.format(name))
            for name in board.systems
            if name in board.examples
        ),
    ]


def main_tables(board: Board) -> list[Table]:
    """Makes the tables of numbers by set; a chosen average comes first, with its columns in one row per system."""
    averaged = tables.tables_of(tables.one_row(board), "", "The average and its numbers, of 100")
    return [
        *(averaged if board.config.average else []),
        *tables.tables_of(tables.grid(board), "by set", "Systems by set"),
    ]


def seen_and_unseen(board: Board) -> list[Table]:
    """Makes the main table for seen and for unseen services."""
    whole = tables.grid(board, {group: f"{group} services" for group in (SEEN, UNSEEN)})
    return tables.tables_of(whole, "of seen and unseen services", "Seen and unseen services")


def _services(board: Board) -> list[Table]:
    """Makes the main table for each service."""
    services = sorted({row.group for row in board.rows} - {WHOLE, SEEN, UNSEEN})
    whole = tables.grid(board, {name: name for name in services})
    return tables.tables_of(
        whole, "by service", "Numbers by service", f"Numbers of {counted(len(services), 'service')}"
    )


def _relative_changes(board: Board) -> list[Table]:
    """Makes SGD-X's Table 3: each system over the variants, with its relative change from the baseline above it."""
    baseline, label = board.config.baseline, tables.set_label(board, VARIANTS)
    columns = {
        f"dst/{VARIANTS}/{kinds.JGA}": f"JGA {label}",
        f"dst/{VARIANTS}/{SENSITIVITY}": "schema sensitivity",
        f"dst/{VARIANTS}/{SEEN}/{kinds.JGA}": f"JGA {label}, seen",
        f"dst/{VARIANTS}/{UNSEEN}/{kinds.JGA}": f"JGA {label}, unseen",
    }
    columns = {name: title for name, title in columns.items() if (baseline, name) in board.numbers}
    numbers = {key: row for key, row in board.numbers.items() if key[1] in columns and row.value is not None}
    names = sorted({system for system, _ in numbers}, key=lambda name: (name != baseline, board.systems.index(name)))

    def text(name: str, column: str) -> str:
        row, other = numbers.get((name, column)), numbers.get((baseline, column))
        if row is None:
            return task.NOT_DEFINED if column.endswith(SENSITIVITY) else "–"
        relative = tables.change(row, other)[1] if other and row != other else None
        shown = kinds.shown(row.metric, row.value)
        return shown if relative is None else f"{shown} ({percent(relative, 0, signed=True)})"

    rows = [[name, *(text(name, column) for column in columns)] for name in names]
    significant = {(test.first, test.column) for test in board.tests if test.p_holm < 0.05}
    bold = [(i, j) for i, name in enumerate(names) for j, column in enumerate(columns, 1)
            if (name, column) in significant and not column.endswith(SENSITIVITY)]  # fmt: skip
    note = "Of 100; in brackets the relative change from the baseline, which comes first. Bold: p < 0.05 after Holm's "
    note += "correction."
    title = "Joint goal accuracy and schema sensitivity under variants, against the baseline"
    headings = ["system", *columns.values()]
    table = Table(title=title, note=note, columns=headings, rows=rows, best=bold, numbers_in="leaderboard.json")
    return [table] if len(names) > 1 else []


def charts(board: Board) -> list[Dots]:
    """Charts each metric that is a share: a row for each set, without mixes, and a mark for each system."""
    whole = tables.grid(board)
    mixed = mixes(whole.columns)
    drawn = []
    for heading, block in whole.blocks.items():
        marks = [
            (name, row.system, row.value, row.low, row.high)
            for name, *numbers in zip(whole.columns, *block.values(), strict=True)
            for row in numbers[:MOST_SYSTEMS]
            if row and name not in mixed and row.metric not in kinds.OF_100 | {SENSITIVITY}
            if row.set not in (MEAN, VARIANTS)
        ]
        drawn += [sets_chart(f"{heading.rpartition(', ')[0]} by set", marks)] if len(marks) > 1 else []
    return drawn


def _seen_and_unseen_chart(board: Board) -> list[Dots]:
    """Makes SGD-X's Figure 5: the mean over the variants, for seen and unseen services; the baseline comes first."""
    dots = [
        Dot(row.system, row.value, row.low, row.high, group=f"{row.group} services")
        for row in sorted(board.rows, key=lambda row: row.system != board.config.baseline)
        if row.set == VARIANTS and row.metric == kinds.JGA and row.group in (SEEN, UNSEEN)
    ]
    title = f"Joint goal accuracy over {tables.set_label(board, VARIANTS)} of seen and unseen services"
    return [Dots(title=title, dots=dots)] if len({dot.group for dot in dots}) > 1 else []


def _differences(board: Board) -> Table:
    """Makes a table of the tested differences, and of all differences from the baseline; without mixes."""
    names, numbers, baseline = tables.headings(board), board.numbers, board.config.baseline
    mixed = mixes({row.set for row in board.column_rows})
    tests = {(test.first, test.second, test.column): test for test in board.tests}
    keys = dict.fromkeys((test.first, test.second) for test in board.tests)
    if baseline:
        keys = dict.fromkeys((name, baseline) for name in board.systems if name != baseline)
    rows: list[list[str]] = []
    bold = []
    for first, second, column in ((*pair, column) for pair in keys for column in names):
        ours, theirs, test = numbers[first, column], numbers[second, column], tests.get((first, second, column))
        if ours.value is None or theirs.value is None or ours.set in mixed or not (test or baseline):
            continue
        points, relative = tables.change(ours, theirs)
        cells = [f"{100 * points:+.2f}", percent(relative, signed=True), *["–"] * 4]
        if test:
            bold += [(len(rows), 2)] if test.p_holm < 0.05 else []
            interval = "–" if test.interval is None else "{:+.2f} to {:+.2f}".format(*test.interval)
            cells[2:] = [interval, f"{test.p:.4f}", f"{test.p_holm:.4f}", f"{test.dialogues:,}"]
        rows.append([f"{first} – {second}", names[column], *cells])
    return Table(
        title="Differences",
        columns=["systems", "column", "difference", "change", "interval", "p", "p, Holm", "dialogues"],
        rows=rows,
        best=bold,
        text_columns=2,
        note="The first system's score minus the second's, of 100; and as a share of the second's, where its interval "
        f"is above 0 and it is at least {task.FLOOR:.0%}. Differences on mixes are in leaderboard.json.",
        numbers_in="leaderboard.json",
    )


def tiles(board: Board) -> list[Tile]:
    """Makes the tiles with the averages."""
    over, metrics = tables.averaged_over(board), {row.metric for row in board.averaged_rows}
    label = f"{tables.metric_label(metrics.pop())}, mean over {over}" if len(metrics) == 1 else f"average of {over}"
    return [Tile(f"{name}: {label}, of 100", number(board.average[name].value, 1)) for name in board.systems[:6]]


def notes(board: Board) -> list[str]:
    """Lists what readers must know before the numbers: what was left out, and what could not be tested."""
    lines = [f"Left out: {line}." for line in board.left_out]
    defined = Counter(row.column for row in board.rows if row.value is not None)
    tested = {test.column for test in board.tests}
    lacking = [name for name in board.columns if name not in tested and defined[name] == len(board.systems)]
    if lacking and tested:
        names = ", ".join(tables.headings(board)[name] for name in lacking)
        lines.append(f"Not tested, because they are not means over rows of dialogues: {names}.")
    return lines


def terms(board: Board) -> dict[str, str]:
    """Returns the terms that the sections use, with their meanings."""
    has_variants = any(row.metric == SENSITIVITY for row in board.rows)
    return {**TERMS, **(_OF_VARIANTS if has_variants else {}), **(_OF_TESTS if board.tests else {})}


def headline(board: Board) -> str:
    """Summarises the result: who leads, unless the difference from the second is not significant."""
    if len(board.systems) == 1:
        return f"{board.systems[0]} by set"
    first, second = board.systems[:2]
    if board.average[first].value in (None, board.average[second].value):
        return "Systems next to each other"
    decides = board.averaged[0] if len(board.averaged) == 1 else kinds.AVERAGE
    tests = [test for test in board.tests if {test.first, test.second} == {first, second} and test.column == decides]
    return f"{first} leads" if all(test.p_holm < 0.05 for test in tests) else f"{first} is ahead, but not significantly"


def files_of(board: Board) -> dict[str, bytes]:
    """Makes the files of a comparison: all numbers in long form, and the tables for people."""
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
    main = [*main_tables(board), *seen_and_unseen(board)]
    return {
        "leaderboard.json": task.json_bytes(board),
        **tables.long_table(board),
        "table.tex": "\n".join(map(tables.latex, main)).encode("utf-8", "replace"),
        "table.md": tables.tables_markdown(main, notes(board)).encode("utf-8", "replace"),
        "report.html": page(report).encode(),
    }


class Compare(task.Task[tuple[Board, PartsOf]], frozen=True, kw_only=True):
    """The task of ``parapet compare``.

    Attributes:
      systems: name to folders that ``parapet evaluate`` wrote.
    """

    name = "compare"

    systems: dict[str, list[str]]
    config: Config

    def read(self) -> tuple[Board, PartsOf]:
        """Reads the results. Raises InputError if they cannot be compared."""
        return read_systems(self.systems, self.config)

    def score(self, inputs: tuple[Board, PartsOf], stage: task.Stage) -> task.Result:
        """Makes the leaderboard and its files."""
        stage("intervals and tests")
        board, config = leaderboard(*inputs), self.config
        clear = sum(test.p_holm < 0.05 for test in board.tests)
        told = f"{clear:,} of {len(board.tests):,} differences have p < 0.05 after Holm's correction"
        return task.Result(
            files=files_of(board),
            summary=[
                *tables.terminal_lines(board),
                *([told] if board.tests else []),
                *(note for note in notes(board) if not note.startswith("Left out")),
            ],
            options={
                "systems": sorted(self.systems),
                "columns": board.columns,
                "average": board.averaged,
                **{name: getattr(config, name) for name in ("baseline", "seed", "replicates")},
            },
            warnings=[f"left out: {line}" for line in board.left_out],
        )
