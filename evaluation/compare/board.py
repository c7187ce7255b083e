"""The leaderboard: what systems have in common, their unweighted mean as in RADDLE, intervals and paired tests."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import chain, combinations
from typing import Any, TypeVar

import msgspec
from msgspec.structs import replace

from parapet.evaluation.compare import kinds, significance
from parapet.evaluation.compare.significance import Difference
from parapet.evaluation.noise import RUNS, floors_of_means
from parapet.evaluation.results import RESULTS, VARIANTS, WHOLE, ResultRow, macro_average, read_results, variants_of
from parapet.evaluation.rows import Parts, of_means, read_runs
from parapet.evaluation.sets import ALL, ORIGINAL, existing_file, mixes, parse_line
from parapet.evaluation.task import NOISE_REMARK, sha256_of
from parapet.schemas.errors import InputError
from parapet.schemas.layout import as_path, check_published, is_there
from parapet.schemas.limits import read_whole
from parapet.transforms.report.text import counted

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
        averages = {(name, kinds.AVERAGE): row for name, row in self.average.items()}
        return {(row.system, row.column): row for row in self.rows} | averages


class TaskResults(msgspec.Struct, frozen=True):
    """An output folder of ``parapet evaluate``: the results of a system in a task.

    Attributes:
      variants: the sets that ``#VARIANTS`` averages.
      options: the options of the evaluation.
      refused: set to the number of its items that were not scored, as the endpoint refused the requests.
      runs: the folders of the runs, whose means the rows are; of a single one, this folder.
      is_noisy: whether it is a single run of a system that may answer differently in another one.
    """

    system: str
    task: str
    path: str
    rows: list[ResultRow]
    variants: tuple[str, ...] = ()
    options: dict[str, Any] = {}
    refused: dict[str, int] = {}
    runs: tuple[str, ...] = ()
    is_noisy: bool = False


class _Manifest(msgspec.Struct, frozen=True):
    """The part of ``run.json`` that comparisons need."""

    pipeline: str
    options: dict[str, Any] = {}
    counts: dict[str, Any] = {}
    runs: dict[str, str] = {}  # the folders of runs to the hashes of their run.json
    is_deterministic: bool = True


def read_task(path: str, system: str = "") -> TaskResults:
    """Reads the numbers of a folder. Raises InputError if it is not a finished evaluation."""
    folder = as_path(path)
    run = folder / "run.json"
    check_published(path)
    if not is_there(path) or not run.is_file():
        raise InputError("there is no finished output of 'parapet evaluate'", path)
    manifest = parse_line(read_whole(run), msgspec.json.Decoder(_Manifest), str(run), "")
    if not manifest.pipeline.startswith("evaluate"):
        reason = f"contains the output of 'parapet {manifest.pipeline}': give the output of 'parapet evaluate'"
        raise InputError(reason, path)
    for name, digest in manifest.runs.items():
        if not (folder / name / "run.json").is_file() or sha256_of(folder / name / "run.json") != digest:
            raise InputError("has changed since: run 'parapet evaluate' again for all runs", folder / name)
    shown_run = None if manifest.runs else 0  # the numbers of all runs together, or of the only one
    rows = [replace(row, system=system) for row in read_results(folder / RESULTS) if row.run == shown_run]
    rows = kinds.defined(rows)
    task = manifest.pipeline.removeprefix("evaluate_")
    sets = {row.set for row in rows}
    variants = manifest.options.get("variants", ()) if task == "dst" else variants_of(sets)
    variants = tuple(variants) if VARIANTS in sets else ()
    refused = {name.partition("/")[2]: n for name, n in manifest.counts.items() if name.startswith("refused")}
    runs = tuple(str(folder / name) for name in manifest.runs) or (path,)
    is_noisy = len(runs) == 1 and not manifest.is_deterministic
    return TaskResults(system, task, path, rows, variants, manifest.options, refused, runs, is_noisy)


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
        numbers |= {(name, column): known[column] for column in kinds.with_groups(columns, known.values())}
        values = [known[row.column].value for row in averaged]
        scaled = [value and kinds.of_100(row.metric, value) for row, value in zip(averaged, values, strict=True)]
        numbers[name, kinds.AVERAGE] = ResultRow(name, WHOLE, ALL, WHOLE, kinds.AVERAGE, macro_average(scaled))
        # The mean of shares is that of their parts, if they have equally many.
        of_shares = [() if row.metric in kinds.OF_100 else parts.get((name, row.column), ()) for row in averaged]
        if all(of_shares) and len(set(map(len, of_shares))) == 1:
            parts[name, kinds.AVERAGE] = tuple(chain(*of_shares))
    # Intervals are those of the evaluation, or else computed from the rows.
    lacking = [key for key, row in numbers.items() if row.low is None and key in parts]
    computed = significance.intervals([parts[key] for key in lacking], config.seed)
    for key, interval in zip(lacking, computed, strict=True):
        if interval:
            low, high = (end * (100 if key[1] == kinds.AVERAGE else 1) for end in interval)
            numbers[key] = replace(numbers[key], low=low, high=high)
    averages = {name: numbers.pop((name, kinds.AVERAGE)) for name in systems}
    ranked = sorted(systems, key=lambda name: (averages[name].value is None, -(averages[name].value or 0.0), name))
    pairs = [(name, config.baseline) for name in ranked if name != config.baseline]
    pairs = pairs if config.baseline else [*combinations(ranked, 2)]
    factors = {row.column: kinds.of_100(row.metric, 1.0) for row in columns}
    factors |= {kinds.AVERAGE: 100.0} if len(averaged) > 1 else {}
    floors = floors_of_means(numbers.values())
    changes = [(row.column, replace(row, set=ORIGINAL).column) for row in columns if row.set not in (ORIGINAL, ALL)]
    tested = significance.paired(
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
        tests=significance.paired(parts, pairs, factors, config.seed, config.replicates, floors),
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
        names = kinds.with_groups(columns, results.rows)
        wanted = [row for row in results.rows if row.column in names]
        runs = read_runs(results.runs, [row.column for row in wanted], results.variants)
        of_rows = of_means(runs)
        parts |= {(results.system, column): of_number for column, of_number in of_rows.items()}
        for row in wanted:
            own = set().union(*of_rows.get(row.column, ()))
            is_main = row.metric in kinds.AVERAGED.get(row.task, ()) and not results.refused
            if is_main and own and own != dialogues.setdefault(row.column, own):
                reason = f"other dialogues of set {row.set!r} were scored than for another system"
                raise InputError(f"{reason}: evaluate the systems on the same dialogues", results.path)
    return parts


def _read_systems(systems: Mapping[str, Sequence[str]], config: Config) -> tuple[list[TaskResults], list[str]]:
    """Reads what can be compared of the systems' results; also says what is left out. Raises InputError."""
    read: dict[tuple[str, str], TaskResults] = {}
    for name, path in ((name, path) for name, paths in systems.items() for path in paths):
        results = read_task(path, name)
        if read.setdefault((results.task, name), results) is not results:
            raise InputError(f"{name!r} has two results of task {results.task!r}", path)
    rows = [row for results in read.values() for row in results.rows]
    absent = [name for name in config.sets if not any(row.set == name for row in rows)]
    chosen = (*config.metrics, *config.average)
    absent += [name for name in chosen if not any(kinds.has_name(row, name) for row in rows)]
    left_out = [f"{name}: no system has it" for name in absent]
    tasks: list[TaskResults] = []
    for task in dict.fromkeys(task for task, _ in read):
        tasks += _comparable([results for (name, _), results in read.items() if name == task], config.sets, left_out)
    if not any(results.rows for results in tasks):
        raise InputError("; ".join(left_out) or "the systems have no numbers", "--sets")
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
                raise InputError(f"scored in different ways: {reason}", results.path)
        for row in results.rows:
            n = sizes.get(row.column, row.n)
            if row.set in sets and row.n != n and not first.refused and not results.refused:
                reason = f"{n} items of set {row.set!r} were scored for {first.system!r}, {row.n} for {row.system!r}"
                raise InputError(f"{reason}: evaluate the systems on the same dialogues", results.path)
        refused = f"of task {results.task} for {results.system!r}, which its endpoint refused"
        left_out += [f"{counted(n, 'item')} of set {name or ALL} {refused}" for name, n in results.refused.items()]
    return [
        replace(results, rows=[row for row in results.rows if row.set in sets or row.metric == RUNS])
        for results in of_task
    ]


def _columns(rows: Sequence[ResultRow], config: Config, systems: int) -> tuple[list[ResultRow], list[ResultRow]]:
    """Returns a row of each column, and of those that the average includes: if not chosen, those of all systems."""
    columns = kinds.columns_of(rows, config.metrics, config.sets)
    if config.average:
        averaged = kinds.columns_of(rows, config.average, config.sets, "--average")
        if bad := next((row.column for row in averaged if row.metric in kinds.LOW_IS_GOOD), None):
            raise InputError(f"{bad}: lower values are better, so it cannot be part of an average", "--average")
        return kinds.columns_of(rows, [row.column for row in [*averaged, *columns]], config.sets), averaged
    mixed = mixes({row.set for row in columns})
    having = Counter(row.column for row in rows)
    averaged = [
        row
        for row in columns
        if having[row.column] == systems
        and row.set not in mixed
        and row.metric not in kinds.LOW_IS_GOOD
        and (row.set != VARIANTS or kinds.is_requested(row, config.metrics))
        and (config.metrics or row.metric in kinds.AVERAGED.get(row.task, ()))
    ]
    return columns, averaged


def read_board(path: str) -> Board:
    """Reads ``leaderboard.json``. Raises InputError for any other file."""
    return parse_line(read_whole(existing_file(path)), msgspec.json.Decoder(Board), path, "")
