"""The page of a leaderboard, the task of ``parapet compare``, and submissions of strangers to ``leaderboard``."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from parapet.evaluation import repeats, task
from parapet.evaluation import results as scores
from parapet.evaluation.compare import board as tables
from parapet.evaluation.compare.board import Board, Config, compare_systems
from parapet.evaluation.results import SEEN, UNSEEN, VARIANTS, WHOLE, ResultRow
from parapet.evaluation.sets import ORIGINAL
from parapet.schemas.errors import InputError
from parapet.schemas.limits import read_whole
from parapet.transforms.core.inputs import convert, parse_toml
from parapet.transforms.report.markdown import is_url, quoted
from parapet.transforms.report.report import Dots, Report, Section, Table, page, sets_chart
from parapet.transforms.report.text import counted, number, percent

MOST_SYSTEMS = 8  # of a chart: more shapes and colours are hard to distinguish

TERMS = {
    "Mean": "The unweighted mean over the sets of a row that all systems have. Mixes of a set with the original, such "
    "as `typos-env1`, are only in `table.csv`.",
    "Average": "The unweighted mean of the main metrics on all sets that all systems have, as on RADDLE's leaderboard.",
    "JGA": "Joint goal accuracy: the share of frames (a service in a user turn) whose whole predicted state is right.",
    "Schema sensitivity": "How much the joint goal accuracy of a frame varies over the variants: the standard "
    "deviation divided by the mean, averaged over frames (Lee et al. 2022). It can exceed 100%. At the same "
    f"accuracy, less is better; therefore it is never bold. {task.UNDEFINED_SENSITIVITY}",
    "Seen, unseen": "Seen services (or domains) are in the schema of the training split, unseen ones are not.",
    "Small print": "The 95% interval, from a Poisson bootstrap over dialogues, or Wilson's where each dialogue has one "
    "number, 0 or 1, and at 0 and 100%; and the change from the original, in percentage points and relative.",
    "Bold": "The best number of a column; of differences, those that are not marked as noise.",
    tables.NOISE_MARK: "Noise: chance may have made this change from the original, or difference of two systems, as "
    "p ≥ 0.05 after Holm's correction, or it is below the noise floor. Numbers of single services are not tested.",
    **repeats.TERMS,
    "p": "How often the difference would be at least as large if chance decided, for each dialogue, which result "
    "belongs to which system: two-sided approximate randomisation over dialogues. Holm: corrected for all tests of "
    "the page. The interval of a difference is from a paired bootstrap over dialogues.",
}


def sections(board: Board) -> list[Section]:
    """Makes the sections of the page."""
    services = sorted({row.group for row in board.rows} - {WHOLE, SEEN, UNSEEN})
    folded = f"Numbers of {counted(len(services), 'service')}"
    return [
        *charts(board),
        *tables.by_set(board),
        *repeats.spread_tables(board.rows),
        *seen_and_unseen(board),
        *tables.by_set(board, {name: name for name in services}, "by service", "Numbers by service", folded),
        _differences(board),
    ]


def seen_and_unseen(board: Board) -> list[Table]:
    """Makes the main table for seen and for unseen services."""
    groups = {group: f"{group} services" for group in (SEEN, UNSEEN)}
    return tables.by_set(board, groups, "of seen and unseen services", "Seen and unseen services")


def _main_rows(board: Board) -> list[ResultRow]:
    """Returns the numbers of the main metric: those of each system on the sets, and the means over variants."""
    main = next(iter(board.averaged_rows or board.column_rows))
    key = (main.task, WHOLE, main.metric)
    rows = [row for row in board.unmixed if (row.task, row.group, row.metric) == key and row.value is not None]
    return [row for row in rows if row.set[:1] != "#" or row.set == VARIANTS]


def charts(board: Board) -> list[Dots]:
    """Charts the main metric, if it is a share: a row for each set and the mean of variants, a mark for each system."""
    rows = [row for row in _main_rows(board) if row.system in board.systems[:MOST_SYSTEMS]]
    if not rows or rows[0].metric in scores.OF_100:
        return []
    numbers = [(tables.set_label(board, row.set), row.system, row.value, row.low, row.high) for row in rows]
    return [sets_chart(f"{tables.capital(tables.metric_label(rows[0].task, rows[0].metric))} by set", numbers)]


def _differences(board: Board) -> Table:
    """Makes a table of the tested differences, without mixes."""
    numbers = board.numbers
    columns = {scores.AVERAGE, *(row.column for row in board.unmixed)}
    tests = [test for test in board.tests if test.column in columns]
    rows = []
    for test in tests:
        _, relative = tables.change(numbers[test.first, test.column], numbers[test.second, test.column])
        interval = "–" if test.interval is None else "{:+.2f} to {:+.2f}".format(*test.interval)
        label = tables.column_label(board, numbers[test.first, test.column])
        mark = f" {tables.NOISE_MARK}" if test.is_noise else ""
        change = [f"{test.difference:+.2f}{mark}", percent(relative, signed=True), interval]
        tested = [f"{test.p:.4f}", f"{test.p_holm:.4f}", f"{test.dialogues:,}"]
        rows.append([f"{test.first} – {test.second}", label, *change, *tested])
    return Table(
        title="Differences",
        columns=["systems", "column", "difference", "change", "interval", "p", "p, Holm", "dialogues"],
        rows=rows,
        best=[(i, 2) for i, test in enumerate(tests) if not test.is_noise],
        text_columns=2,
        note="The first system's score minus the second's, of 100; and as a share of the second's, where its interval "
        f"is above 0 and it is at least {scores.FLOOR:.0%}. Only numbers that are means over rows are tested.",
        numbers_in="leaderboard.json",
    )


def _averages(board: Board) -> tuple[str, list[str]]:
    """Says what the averages are, such as ``joint goal accuracy, mean over 14 sets``, and formats each system's."""
    rows = board.averaged_rows
    values = [number(board.average[name].value, 1) for name in board.systems]
    if len({(row.task, row.metric) for row in rows}) != 1:
        return f"average of {counted(len(rows), 'number')}", values
    over = f"mean over {counted(len(rows), 'set')}" if len(rows) > 1 else tables.set_label(board, rows[0].set)
    unit = "" if rows[0].metric in scores.OF_100 else "%"
    return f"{tables.metric_label(rows[0].task, rows[0].metric)}, {over}", [f"{value}{unit}" for value in values]


def headline(board: Board) -> str:
    """Says how the main metric of systems changes from the original to the variants, or to the set that costs most.

    Of several systems it names the one that loses most and the one that loses least. Without an original, it says who
    leads.
    """
    rows = {(row.system, row.set): row for row in _main_rows(board)}
    systems = [name for name in board.systems if (name, ORIGINAL) in rows]
    sets = sorted({name for _, name in rows if all((system, name) in rows for system in systems)} - {ORIGINAL})
    if not systems or not sets:
        return leader(board)

    def loss(system: str, name: str) -> float:
        return (rows[system, ORIGINAL].value or 0.0) - (rows[system, name].value or 0.0)

    costly = VARIANTS if VARIANTS in sets else max(sets, key=lambda name: sum(loss(system, name) for system in systems))
    by_loss = sorted(systems, key=lambda system: loss(system, costly), reverse=True)
    changes = {name: _change(board, rows[name, ORIGINAL], rows[name, costly]) for name in (by_loss[0], by_loss[-1])}
    reworded = "tools" if rows[by_loss[0], costly].task == "tool_calls" else "schemas"
    changes[by_loss[0]] += f" when {reworded} are reworded" if costly == VARIANTS else f" on {costly}"
    return "; ".join(f"{name} {change}" for name, change in changes.items())


def _change(board: Board, original: ResultRow, row: ResultRow) -> str:
    """Says how a number differs from that on the original: it falls or rises if the paired test is clear.

    A number that is no mean over rows is not tested: it falls or rises if the intervals are apart.
    """
    before, after = (tables.with_unit(each.metric, each.value) for each in (original, row))
    if before == after:
        return f"stays at {after}"
    change = f"from {before} to {after}"
    if row.low is None or row.high is None or original.low is None or original.high is None:
        return f"goes {change}"
    if board.config.replicates and row.metric not in scores.OF_100:
        is_clear, doubt = (row.system, row.column) not in board.noise, "chance may have made the change"
    else:
        is_clear, doubt = row.low > original.high or original.low > row.high, "the intervals overlap"
    if not is_clear:
        return f"goes {change} ({doubt})"
    return f"{'rises' if (row.value or 0.0) > (original.value or 0.0) else 'falls'} {change}"


def lead(board: Board) -> str:
    """Says who leads, if the headline does not."""
    return "" if (first := leader(board)) == headline(board) else f"{first}."


def leader(board: Board) -> str:
    """Says which system has the best average, and whether its difference from the second is significant."""
    label, averages = _averages(board)
    if not board.averaged:
        return "No number is known for all systems"
    if len(averages) == 1:
        return f"{board.systems[0]}: {label}: {averages[0]}"
    first, second = board.systems[:2]
    if board.average[first].value == board.average[second].value:
        return f"{first} and {second} are level: {averages[0]} ({label})"
    decides = board.averaged[0] if len(board.averaged) == 1 else scores.AVERAGE
    tests = [test for test in board.tests if {test.first, test.second} == {first, second} and test.column == decides]
    is_clear = not any(test.is_noise for test in tests)
    leads = "is ahead" if not tests else "leads" if is_clear else "is ahead, but not significantly"
    return f"{first} {leads}: {averages[0]} against {averages[1]} for {second} ({label})"


def notes(board: Board) -> list[str]:
    """Lists what readers must know before the numbers: which of them have noise, and what was left out."""
    return [*board.remarks, *(f"Left out: {line}." for line in board.left_out)]


def files_of(board: Board) -> dict[str, bytes]:
    """Makes the files of a comparison: all numbers in long form, and the tables for people."""
    report = Report(
        command="compare",
        title="Leaderboard",
        headline=headline(board),
        lead=lead(board),
        sections=sections(board),
        notes=notes(board),
        terms=TERMS,
        links={"leaderboard.json": "numbers and tests", "table.csv": "numbers", "table.tex": "for LaTeX"},
    )
    main = [*tables.by_set(board), *seen_and_unseen(board)]
    return {
        "leaderboard.json": task.json_bytes(board),
        **tables.long_table(board),
        "table.tex": "\n".join(map(tables.latex, main)).encode("utf-8", "replace"),
        "table.md": tables.tables_markdown(main, notes(board)).encode("utf-8", "replace"),
        "report.html": page(report).encode(),
    }


class Compare(task.Task[Board], frozen=True, kw_only=True):
    """The task of ``parapet compare``.

    Attributes:
      systems: name to folders that ``parapet evaluate`` wrote.
    """

    name = "compare"

    systems: dict[str, list[str]]
    config: Config

    def read(self) -> Board:
        """Reads the results and compares them. Raises InputError if they cannot be compared."""
        return compare_systems(self.systems, self.config)

    def score(self, board: Board, stage: task.Stage) -> task.Result:
        """Makes the files of the leaderboard."""
        clear = sum(not test.is_noise for test in board.tests)
        summary = f"{clear:,} of {len(board.tests):,} differences have p < 0.05 after Holm's correction"
        summary += " and exceed the noise floor" if any(test.floor for test in board.tests) else ""
        options = msgspec.structs.asdict(self.config)
        return task.Result(
            files=files_of(board),
            summary=[*tables.terminal_lines(board), headline(board), *([summary] if board.tests else [])],
            options={**options, "systems": sorted(self.systems), "columns": board.columns, "average": board.averaged},
            warnings=[f"left out: {line}" for line in board.left_out],
        )


FILE = "submission.toml"


class Submission(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The content of ``submission.toml``: the system's name, task to its predictions, and a web address."""

    name: str
    predictions: dict[str, str]
    url: str = ""


def read_submission(folder: Path, tasks: Sequence[str]) -> tuple[Submission, dict[str, Path]]:
    """Reads a submission; also returns the path of the predictions of each task.

    Raises InputError if it cannot be read, lacks a task, or names or links to files outside its folder.
    """
    if not (folder / FILE).is_file():
        raise InputError(f"there is no {FILE}")
    if folder.is_symlink() or any(path.is_symlink() for path in folder.rglob("*")):
        raise InputError("contains a link: submit the file itself")
    submission: Submission = convert(parse_toml(read_whole(folder / FILE), FILE), Submission, FILE)
    if not submission.name.strip() or not submission.name.isprintable() or len(submission.name) > 100:
        raise InputError("must be one line of 1 to 100 printable characters", FILE, "name")
    if submission.url and not is_url(submission.url):
        raise InputError("must begin with https:// or http://", FILE, "url")
    paths = {}
    for name in tasks:
        if name not in submission.predictions:
            raise InputError(f"names no predictions of task {name}", FILE, "predictions")
        place = submission.predictions[name]
        path = folder / place.replace("\0", "")
        if not path.resolve().is_relative_to(folder.resolve()) or not path.exists():
            raise InputError(f"{place!r} is not in the folder of the submission", FILE, f"predictions.{name}")
        paths[name] = path
    return submission, paths


def ranks_of(board: Board) -> dict[str, str]:
    """Returns the rank of each system; systems with equal averages share one, and without an average there is none."""
    values = [board.average[name].value for name in board.systems]  # the best first
    numbers = zip(board.systems, values, strict=True)
    return {name: "–" if value is None else str(1 + values.index(value)) for name, value in numbers}


def submission_files(
    board: Board, submissions: Mapping[str, Submission], refused: Mapping[str, str], title: str, lead: str
) -> dict[str, bytes]:
    """Makes the page, and the table as JSON and CSV.

    Args:
      board: the comparison of the scored submissions.
      submissions: the scored submissions by name.
      refused: folder to the reason why its submission is not scored.
      title: the title of the page.
      lead: the line below it.
    """
    ranks = ranks_of(board)
    ranking = Table(
        title="Ranking, by the average of 100",
        columns=["rank", "system", "average"],
        rows=[[ranks[name], name, number(board.average[name].value, 1)] for name in board.systems],
        text_columns=2,
        hrefs={(i, 1): quoted(url) for i, name in enumerate(board.systems) if (url := submissions[name].url)},
    )
    reasons = [list(pair) for pair in refused.items()]
    not_scored = Table(title="Not scored", columns=["folder", "reason"], rows=reasons, text_columns=2)
    report = Report(
        command="leaderboard",
        title=title,
        headline=leader(board),
        lead=lead,
        sections=[ranking, *sections(board), not_scored],
        terms=TERMS,
        links={"table.csv": "all numbers", "leaderboard.json": "everything"},
    )
    everything = {"board": board, "ranks": ranks, "submissions": submissions, "refused": refused}
    return {
        "index.html": page(report).encode(),
        "leaderboard.json": task.json_bytes(everything),
        **tables.long_table(board),
    }
