"""The leaderboard: what systems have in common, their unweighted mean as in RADDLE, intervals and paired tests.

Its tables are pivots of its rows, for the page, LaTeX, Markdown and the terminal.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import chain, combinations
from typing import NamedTuple, TypeVar

import msgspec
import pyarrow as pa
from msgspec.structs import replace

from parapet.evaluation import results as scores
from parapet.evaluation import statistics
from parapet.evaluation.results import SENSITIVITY, VARIANTS, WHOLE, ResultRow, TaskResults, macro_average
from parapet.evaluation.sets import ALL, MEAN, ORIGINAL, existing_file, group_label, mixes, parse_line
from parapet.evaluation.statistics import Difference, Parts
from parapet.evaluation.task import NOISE_REMARK, NOT_DEFINED, relative_change
from parapet.schemas import decisions, errors, limits
from parapet.schemas.rows import parquet_bytes
from parapet.transforms.report import markdown
from parapet.transforms.report.report import Table, table_markdown
from parapet.transforms.report.text import aligned, counted, number, percent

Value = TypeVar("Value")

# Options in which systems may differ.
_OWN = frozenset({"system", "seed", "replicates", "batch_size", "own_turns", "sets"})
_OWN_OF = {"dst": {"model", "model_args", "variants"}}  # in other tasks, the model is the scorer


class Config(msgspec.Struct, frozen=True, kw_only=True):
    """What is compared, and how.

    Attributes:
      metrics: the columns, see :func:`columns_of`.
      average: the columns of the average; empty for the main metric of each task on each set that all systems have.
      sets: the sets, in the order of the columns; empty for all.
      baseline: the system to compare the others with; empty compares all pairs.
      seed: the seed of tests and intervals.
      replicates: the replicates of the tests; 0 for no tests.
    """

    metrics: tuple[str, ...] = ()
    average: tuple[str, ...] = ()
    sets: tuple[str, ...] = ()
    baseline: str = ""
    seed: str = "0"
    replicates: int = 10_000


class Board(msgspec.Struct, frozen=True):
    """The content of ``leaderboard.json``, from which pages and tables are made.

    Attributes:
      systems: the best average first.
      columns: the columns, in the order of the page; ``averaged`` are those that the average includes.
      rows: the numbers of each system, its columns first, as ``parapet evaluate`` writes them: shares are from 0 to 1.
      left_out: messages on what the comparison lacks.
      average: the average of each system, on a scale of 100.
      noise: the (system, column) of numbers whose difference from the original may be chance.
      remarks: sentences on what to know about the numbers.
    """

    config: Config
    systems: list[str]
    columns: list[str]
    averaged: list[str]
    rows: list[ResultRow]
    left_out: list[str]
    average: dict[str, ResultRow] = {}
    tests: list[Difference] = []
    noise: list[tuple[str, str]] = []
    remarks: list[str] = []

    @property
    def unmixed(self) -> list[ResultRow]:
        """The rows without mixes of sets with the original, which only repeat the result of their set, diluted."""
        mixed = mixes({row.set for row in self.column_rows})
        return [row for row in self.rows if row.set not in mixed]

    @property
    def column_rows(self) -> list[ResultRow]:
        """A row of each column."""
        return self.rows[: len(self.columns)]

    @property
    def averaged_rows(self) -> list[ResultRow]:
        """A row of each column that the average includes."""
        return [row for row in self.column_rows if row.column in self.averaged]

    @property
    def numbers(self) -> dict[tuple[str, str], ResultRow]:
        """The numbers and averages by system and column."""
        averages = {(name, scores.AVERAGE): row for name, row in self.average.items()}
        return {(row.system, row.column): row for row in self.rows} | averages


def compare_systems(systems: Mapping[str, Sequence[str]], config: Config) -> Board:
    """Compares systems by outputs of ``parapet evaluate``: name to folders, one for each task.

    Raises InputError if the systems cannot be compared, or have nothing of what the configuration names.
    """
    tasks, left_out = _read_systems(systems, config)
    rows = [row for results in tasks for row in results.rows]
    columns, averaged = _columns(rows, config, len(systems))
    parts = _read_parts(tasks, columns)
    numbers: dict[tuple[str, str], ResultRow] = {}
    for name in systems:
        known = {row.column: ResultRow(name, row.task, row.set, row.group, row.metric, None) for row in columns}
        known |= {row.column: row for row in rows if row.system == name}
        numbers |= {(name, column): known[column] for column in scores.with_groups(columns, known.values())}
        values = [known[row.column].value for row in averaged]
        scaled = [value and scores.of_100(row.metric, value) for row, value in zip(averaged, values, strict=True)]
        numbers[name, scores.AVERAGE] = ResultRow(name, WHOLE, ALL, WHOLE, scores.AVERAGE, macro_average(scaled))
        # The mean of shares is that of their parts, if they have equally many.
        of_shares = [() if row.metric in scores.OF_100 else parts.get((name, row.column), ()) for row in averaged]
        if all(of_shares) and len(set(map(len, of_shares))) == 1:
            parts[name, scores.AVERAGE] = tuple(chain(*of_shares))
    # Intervals are those of the evaluation, or else computed from the rows.
    lacking = [key for key, row in numbers.items() if row.low is None and key in parts]
    for key, interval in zip(lacking, statistics.intervals([parts[key] for key in lacking], config.seed), strict=True):
        if interval:
            low, high = (end * (100 if key[1] == scores.AVERAGE else 1) for end in interval)
            numbers[key] = replace(numbers[key], low=low, high=high)
    averages = {name: numbers.pop((name, scores.AVERAGE)) for name in systems}
    ranked = sorted(systems, key=lambda name: (averages[name].value is None, -(averages[name].value or 0.0), name))
    pairs = [(name, config.baseline) for name in ranked if name != config.baseline]
    pairs = pairs if config.baseline else [*combinations(ranked, 2)]
    factors = {row.column: scores.of_100(row.metric, 1.0) for row in columns}
    factors |= {scores.AVERAGE: 100.0} if len(averaged) > 1 else {}
    floors = scores.floors_of_means(numbers.values())
    changes = [(row.column, replace(row, set=ORIGINAL).column) for row in columns if row.set not in (ORIGINAL, ALL)]
    tested = statistics.paired(
        _by_column(parts), changes, dict.fromkeys(ranked, 1.0), config.seed, config.replicates, _by_column(floors)
    )
    return Board(
        config=config,
        systems=ranked,
        columns=[row.column for row in columns],
        averaged=[row.column for row in averaged],
        rows=sorted(numbers.values(), key=lambda row: ranked.index(row.system)),
        left_out=left_out,
        average={name: averages[name] for name in ranked},
        tests=statistics.paired(parts, pairs, factors, config.seed, config.replicates, floors),
        noise=[(test.column, test.first) for test in tested if test.is_noise],
        remarks=[f"{results.system}: {NOISE_REMARK}" for results in tasks if results.is_noisy],
    )


def _by_column(numbers: Mapping[tuple[str, str], Value]) -> dict[tuple[str, str], Value]:
    """Swaps the parts of keys, to compare the columns of a system rather than systems."""
    return {(column, system): value for (system, column), value in numbers.items()}


def _read_parts(tasks: Sequence[TaskResults], columns: Sequence[ResultRow]) -> dict[tuple[str, str], Parts]:
    """Reads what numbers are means of, by system and column.

    Raises InputError if systems were scored on different dialogues, unless an endpoint refused requests.
    """
    parts: dict[tuple[str, str], Parts] = {}
    dialogues: dict[str, set[str]] = {}
    for results in tasks:
        names = scores.with_groups(columns, results.rows)
        wanted = [row for row in results.rows if row.column in names]
        of_rows = scores.of_means(scores.read_runs(results.runs, [row.column for row in wanted], results.variants))
        parts |= {(results.system, column): of_number for column, of_number in of_rows.items()}
        for row in wanted:
            own = set().union(*of_rows.get(row.column, ()))
            is_main = row.metric in scores.AVERAGED.get(row.task, ()) and not results.refused
            if is_main and own and own != dialogues.setdefault(row.column, own):
                reason = f"other dialogues of set {row.set!r} were scored than for another system"
                raise errors.InputError(f"{reason}: evaluate the systems on the same dialogues", results.path)
    return parts


def _read_systems(systems: Mapping[str, Sequence[str]], config: Config) -> tuple[list[TaskResults], list[str]]:
    """Reads what can be compared of the systems' results; also says what is left out. Raises InputError."""
    read: dict[tuple[str, str], TaskResults] = {}
    for name, path in ((name, path) for name, paths in systems.items() for path in paths):
        results = scores.read_task(path, name)
        if read.setdefault((results.task, name), results) is not results:
            raise errors.InputError(f"{name!r} has two results of task {results.task!r}", path)
    rows = [row for results in read.values() for row in results.rows]
    absent = [name for name in config.sets if not any(row.set == name for row in rows)]
    chosen = (*config.metrics, *config.average)
    absent += [name for name in chosen if not any(scores.has_name(row, name) for row in rows)]
    left_out = [f"{name}: no system has it" for name in absent]
    tasks: list[TaskResults] = []
    for task in dict.fromkeys(task for task, _ in read):
        tasks += _comparable([results for (name, _), results in read.items() if name == task], config.sets, left_out)
    if not any(results.rows for results in tasks):
        raise errors.InputError("; ".join(left_out) or "the systems have no numbers", "--sets")
    return tasks, left_out


def _comparable(of_task: Sequence[TaskResults], chosen: Sequence[str], left_out: list[str]) -> list[TaskResults]:
    """Returns the results of a task on the chosen sets; adds to ``left_out`` what cannot be compared.

    Raises InputError if systems were scored with different options or on different items.
    """
    first, by_system = of_task[0], [{row.set for row in results.rows} for results in of_task]
    sets = set().union(*by_system)
    single = {frozenset(name for name in names if name[:1] != "#") for names in by_system}
    if chosen:  # numbers over all sets remain if there are no single sets
        sets &= {*chosen} if any(single) else {*chosen, ALL}
    if len(single) > 1:  # numbers over different sets cannot be compared
        sets -= {name for name in sets if name[:1] == "#" and name != VARIANTS}
    if VARIANTS in sets and len({results.variants for results in of_task if results.variants}) > 1:
        sets.remove(VARIANTS)
        left_out.append(f"mean over the variants of {first.task}: the systems were not scored on the same variants")
    may_differ = _OWN | _OWN_OF.get(first.task, set())
    sizes = {row.column: row.n for row in first.rows}
    for results in of_task:
        for option in sorted((first.options.keys() | results.options.keys()) - may_differ):
            ours, theirs = first.options.get(option), results.options.get(option)
            if ours != theirs:
                reason = f"{option} is {ours!r} for {first.system!r}, {theirs!r} for {results.system!r}"
                raise errors.InputError(f"scored in different ways: {reason}", results.path)
        for row in results.rows:
            n = sizes.get(row.column, row.n)
            if row.set in sets and row.n != n and not first.refused and not results.refused:
                reason = f"{n} items of set {row.set!r} were scored for {first.system!r}, {row.n} for {row.system!r}"
                raise errors.InputError(f"{reason}: evaluate the systems on the same dialogues", results.path)
        refused = f"of task {results.task} for {results.system!r}, which its endpoint refused"
        left_out += [f"{counted(n, 'item')} of set {name or ALL} {refused}" for name, n in results.refused.items()]
    return [
        replace(results, rows=[row for row in results.rows if row.set in sets or row.metric == scores.RUNS])
        for results in of_task
    ]


def _columns(rows: Sequence[ResultRow], config: Config, systems: int) -> tuple[list[ResultRow], list[ResultRow]]:
    """Returns a row of each column, and of those that the average includes: if not chosen, those of all systems."""
    columns = scores.columns_of(rows, config.metrics, config.sets)
    if config.average:
        averaged = scores.columns_of(rows, config.average, config.sets, "--average")
        if bad := next((row.column for row in averaged if row.metric in scores.LOW_IS_GOOD), None):
            raise errors.InputError(f"{bad}: lower values are better, so it cannot be part of an average", "--average")
        return scores.columns_of(rows, [row.column for row in [*averaged, *columns]], config.sets), averaged
    mixed = mixes({row.set for row in columns})
    having = Counter(row.column for row in rows)
    averaged = [
        row
        for row in columns
        if having[row.column] == systems
        and row.set not in mixed
        and row.metric not in scores.LOW_IS_GOOD
        and (row.set != VARIANTS or scores.is_requested(row, config.metrics))
        and (config.metrics or row.metric in scores.AVERAGED.get(row.task, ()))
    ]
    return columns, averaged


def read_board(path: str) -> Board:
    """Reads ``leaderboard.json``. Raises InputError for any other file."""
    return parse_line(limits.read_whole(existing_file(path)), msgspec.json.Decoder(Board), path, "")


Column = Mapping[str, ResultRow]  # system to its number
Numbers = Mapping[tuple[str, str], ResultRow]  # by system and column

NOISE_MARK = "≈"
MEANING = "may differ from the original by chance only"

_LABELS = {scores.JGA: "joint goal accuracy", "active_intent_accuracy": "intent accuracy",
           "intent/accuracy": "intent accuracy", "intent/macro_f1": "intent macro-F1", "ood/f1": "out-of-domain F1",
           "inform": "Inform", "success": "Success", "combined": "Combined", "bleu": "BLEU",
           "generation/bleu": "BLEU of utterances", "sgsacc": "SGSAcc", "sgsacc_all": "SGSAcc of all turns",
           "sgsacc_acts": "SGSAcc by act", "sgsacc_acts_all": "SGSAcc of all acts",
           "auroc": "AUROC", "aupr": "AUPR", "fpr95": "FPR95"}  # fmt: skip


def metric_label(task: str, metric: str) -> str:
    """Returns the label of a metric of a task."""
    return _LABELS.get(f"{task}/{metric}") or _LABELS.get(metric) or metric.replace("_", " ")


def set_label(board: Board, name: str) -> str:
    """Returns the label of a set; that of the mean over v1 to v5 is ``v1–v5``."""
    if name != VARIANTS:
        return group_label(name).lower() if name.startswith("#") else name
    variants = scores.variants_of(row.set for row in board.rows)
    return f"{variants[0]}–{variants[-1]}" if variants else "variants"


def capital(text: str) -> str:
    """Capitalises the first letter only."""
    return text[:1].upper() + text[1:]


def with_unit(metric: str, value: float | None) -> str:
    """Formats a number with its unit: ``54.6%``, or ``76.1`` of a metric on a scale of 100."""
    return f"{scores.shown(metric, value)}{'' if metric in scores.OF_100 else '%'}"


def titled(label: str, metric: str) -> str:
    """Makes a title of a label, with the unit of the metric in tables."""
    return f"{capital(label)}, {'of 100' if metric in scores.OF_100 else '%'}"


def column_label(board: Board, row: ResultRow) -> str:
    """Returns the label of a column or the average: ``v1 joint goal accuracy``, ``seen v1–v5 joint goal accuracy``."""
    if row.metric == scores.AVERAGE:
        return scores.AVERAGE
    group = f"{row.group} " if row.group != WHOLE else ""
    return f"{group}{set_label(board, row.set)} {metric_label(row.task, row.metric)}"


class Pivot(NamedTuple):
    """Numbers by metric or group, system and set.

    Attributes:
      metrics: the labels of the metrics, with their units.
      headings: the headings of the columns: the mean, if there are several sets, and each set.
      blocks: the heading of a metric or group to its columns; one that it does not have is empty.
    """

    metrics: list[str]
    headings: list[str]
    blocks: dict[str, list[Column]]


def pivot(board: Board, groups: Mapping[str, str]) -> Pivot:
    """Arranges the numbers of groups of services, with their labels; schema sensitivity is beside the main metric."""
    rows = [row for group in groups for row in board.unmixed if row.group == group and not scores.is_over_runs(row)]
    with_main = {row.task for row in rows if row.metric == scores.main_metric(row.task)}
    numbers: dict[tuple[str, str, str], dict[tuple[str, bool], dict[str, ResultRow]]] = {}
    for row in rows:
        is_beside = row.metric == SENSITIVITY and row.task in with_main
        metric = scores.main_metric(row.task) if is_beside else row.metric
        columns = numbers.setdefault((row.group, row.task, metric), {})
        columns.setdefault((row.set, is_beside), {})[row.system] = row
    keys = {key for columns in numbers.values() for key in columns}
    places = sorted(keys, key=lambda key: (scores.set_order(key[0], board.config.sets), key[1]))
    has_mean = sum(not is_beside for _, is_beside in places) > 1  # no mean of a single set
    labels = {(task, metric): titled(metric_label(task, metric), metric) for _, task, metric in numbers}
    blocks: dict[str, list[Column]] = {}
    if WHOLE in groups and has_mean and len({row.metric for row in board.averaged_rows}) > 1:
        blocks["Average, of 100"] = [board.average, *[{} for _ in places]]
    for (group, task, metric), columns in numbers.items():
        of_metric = [labels[task, metric]] if len(labels) > 1 or not groups[group] else []
        means = board.average if WHOLE in groups and len(numbers) == 1 else _means(metric, columns)
        title = ", ".join(filter(None, [*of_metric, groups[group]]))
        blocks[title] = [*([means] if has_mean else []), *(columns.get(place, {}) for place in places)]
    sets = ["schema sensitivity, %" if beside else set_label(board, name) for name, beside in places]
    return Pivot([*labels.values()], [*(["mean"] if has_mean else []), *sets], blocks)


def _means(metric: str, columns: Mapping[tuple[str, bool], Column]) -> Column:
    """Computes the means of systems over the sets that all of them have, if they have any."""
    sets = [column for (name, _), column in columns.items() if name[:1] != "#"] or [*columns.values()]
    known = [{row.system: row.value for row in column.values() if row.value is not None} for column in sets]
    systems = set().union(*known)
    common = [of_set for of_set in known if of_set.keys() == systems]
    means = {name: macro_average([of_set[name] for of_set in common]) for name in systems}
    return {name: ResultRow(name, "", MEAN, WHOLE, metric, mean) for name, mean in means.items()}


def by_set(
    board: Board,
    groups: Mapping[str, str] = {WHOLE: ""},
    by: str = "by set",
    several: str = "Systems by set",
    folded: str = "",
) -> list[Table]:
    """Makes a table with rows for each metric, group of services and system, and a column for each set.

    The best numbers of each column are bold. There is no table if no system has such numbers.

    Args:
      board: the comparison.
      groups: the groups, with their labels.
      by: what the title says besides the metric, if there is only one.
      several: the title if there are several metrics.
      folded: the label behind which the page hides the table.
    """
    metrics, headings, blocks = pivot(board, groups)
    label, _, unit = metrics[0].rpartition(", ") if len(metrics) == 1 else ("", "", "")
    title, numbers = f"{label} {by}, {unit}" if label else several, board.numbers
    rows: list[list[str]] = []
    bold: list[tuple[int, int]] = []
    starts: dict[int, str] = {}
    for heading, columns in blocks.items():
        starts |= {len(rows): heading} if len(blocks) > 1 else {}
        best = [_best(column.values()) for column in columns]
        for name in board.systems:
            bold += [(len(rows), j) for j, column in enumerate(columns, 1) if column.get(name) in best[j - 1]]
            rows.append([name, *(cell(column.get(name), numbers, board.noise) if column else "" for column in columns)])
    sets = ["system", *headings]
    table = Table(title=title, columns=sets, rows=rows, best=bold, groups=starts, folded=folded, numbers_in="table.csv")
    return [table] if rows else []


def _best(column: Iterable[ResultRow]) -> list[ResultRow]:
    """Returns the best numbers of a column, as printed; none of sensitivity: a low one may mean that all is wrong."""
    known = [row for row in column if row.value is not None and row.metric != SENSITIVITY]
    printed = [round(scores.of_100(row.metric, row.value or 0.0), 1) for row in known]
    if len(set(printed)) < 2:
        return []
    top = min(printed) if known[0].metric in scores.LOW_IS_GOOD else max(printed)
    return [row for row, value in zip(known, printed, strict=True) if value == top]


def cell(row: ResultRow | None, numbers: Numbers, noise: Collection[tuple[str, str]] = ()) -> str:
    """Formats a number, marked if its change from the original is noise; interval and change are in small print."""
    if row is None or row.value is None:
        undefined = row and scores.is_undefined(row, [each for each in numbers.values() if each.system == row.system])
        return NOT_DEFINED if undefined else "–"
    deviation = numbers.get((row.system, row.column + scores.SD))
    spread = f" ± {scores.shown(row.metric, deviation.value)}" if deviation else ""
    mark = f" {NOISE_MARK}" if (row.system, row.column) in noise else ""
    lines = [f"{scores.shown(row.metric, row.value)}{spread}{mark}"]
    if row.low is not None and row.high is not None:
        lines.append(f"{scores.shown(row.metric, row.low)}–{scores.shown(row.metric, row.high)}")
    original = numbers.get((row.system, replace(row, set=ORIGINAL).column))
    if original and original != row and original.value is not None:
        points, relative = change(row, original)
        lines.append(f"{number(100 * points, 1, signed=True)} points")
        lines += [percent(relative, signed=True)] if relative is not None else []
    return "\n".join(lines)


def change(row: ResultRow, original: ResultRow) -> tuple[float, float | None]:
    """Computes the difference of two numbers, as a share, and the relative change; None where it says nothing."""
    value, before = (scores.of_100(each.metric, each.value or 0.0) / 100 for each in (row, original))
    return value - before, relative_change(value, before, original.low)


def terminal_lines(board: Board) -> list[str]:
    """Formats the main numbers for a terminal: for each metric a row for each set and a column for each system."""
    _, headings, blocks = pivot(board, {WHOLE: ""})
    numbers = board.numbers
    lines: list[str] = []
    for title, columns in blocks.items():
        rows = [[title, *board.systems]]
        for heading, column in zip(headings, columns, strict=True):
            texts = [cell(column.get(name), numbers, board.noise).partition("\n")[0] for name in board.systems]
            rows += [[heading, *texts]] if column else []
        lines += [*([""] if lines else []), *aligned(rows).split("\n")]
    return [*lines, f"{NOISE_MARK} {MEANING}"] if any(NOISE_MARK in line for line in lines) else lines


def long_table(board: Board) -> dict[str, bytes]:
    """Makes ``table.csv`` and ``table.parquet``: all numbers, and the averages on a scale of 100."""
    names = ("system", "task", "set", "group", "metric", "value", "low", "high", "noise")
    types = [pa.string()] * 5 + [pa.float64()] * 3 + [pa.string()]
    averages = [board.average[name] for name in board.systems if len(board.columns) > 1]
    rows = [
        [*(getattr(row, name) for name in names[:-1]), "yes" if (row.system, row.column) in board.noise else ""]
        for row in (*board.rows, *averages)
    ]
    arrays = [pa.array(column, kind) for column, kind in zip(zip(*rows, strict=True), types, strict=True)]
    texts = (["" if value is None else str(value) for value in row] for row in rows)
    return {"table.csv": decisions.csv_bytes(names, texts), "table.parquet": parquet_bytes(pa.table(arrays, names))}


_LATEX = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "$": r"\$", "&": r"\&", "#": r"\#", "%": r"\%", "_": r"\_",
    "^": r"\textasciicircum{}", "~": r"\textasciitilde{}", "–": "--", "<": r"\textless{}", ">": r"\textgreater{}",
    "|": r"\textbar{}", "[": "{[}", "*": "{*}", "±": r"$\pm$", NOISE_MARK: r"$\approx$",
}  # fmt: skip


def latex(table: Table) -> str:
    r"""Formats a table as a LaTeX ``tabular`` for the package booktabs, without small print, to ``\input``."""
    columns = len(table.columns)
    lines = [f"% {escaped(table.title)}", "% \\usepackage{booktabs}", f"\\begin{{tabular}}{{l{'r' * (columns - 1)}}}"]
    lines += ["\\toprule", f"{' & '.join(map(escaped, table.columns))} \\\\", "\\midrule"]
    for i, row in enumerate(table.rows):
        if i in table.groups:
            lines += ["\\addlinespace"] if i else []
            lines.append(f"\\multicolumn{{{columns}}}{{l}}{{\\emph{{{escaped(table.groups[i])}}}}} \\\\")
        cells = [escaped(text.split("\n")[0]) for text in row]
        cells = [f"\\textbf{{{text}}}" if (i, j) in table.best else text for j, text in enumerate(cells)]
        lines.append(f"{' & '.join(cells)} \\\\")
    return "\n".join([*lines, "\\bottomrule", "\\end{tabular}", ""])


def escaped(text: str) -> str:
    """Escapes text for LaTeX."""
    return "".join(_LATEX.get(letter, letter) for letter in markdown.one_line(text))


def tables_markdown(tables: Iterable[Table], notes: Iterable[str]) -> str:
    """Formats tables, and notes below them."""
    parts = [part for table in tables for part in (markdown.text(table.title), table_markdown(table))]
    return "\n\n".join([*parts, *map(markdown.text, notes)]) + "\n"
