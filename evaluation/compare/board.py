"""The leaderboard: what systems have in common, their unweighted mean as in RADDLE, intervals and paired tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain, combinations
from typing import Any

import msgspec
from msgspec.structs import replace

from parapet.evaluation.compare import kinds
from parapet.evaluation.compare.significance import (
    Difference,
    PartsOf,
    Turns,
    holm,
    intervals,
    paired,
    read_rows,
    refused_turns,
)
from parapet.evaluation.dst.failures import HurtFrame
from parapet.evaluation.results import RESULTS, VARIANTS, WHOLE, ResultRow, macro_average, read_results, variants_of
from parapet.evaluation.sets import ALL, existing_file, mixes, parse_line
from parapet.schemas.errors import InputError
from parapet.schemas.layout import as_path, check_published, is_there
from parapet.schemas.limits import read_whole

# Options in which systems may differ.
_OWN = frozenset({"system", "seed", "replicates", "batch_size", "own_turns", "sets"})
_OWN_OF = {"dst": {"model", "model_args", "variants"}}  # in other tasks, the model is the scorer

_EXAMPLES = msgspec.json.Decoder(tuple[HurtFrame, ...])


class Config(msgspec.Struct, frozen=True, kw_only=True):
    """What is compared, and how.

    Attributes:
      metrics: the columns, see :func:`columns_of`.
      average: the columns of the average; empty for the main metric of each task on each set.
      sets: the sets, in the order of the columns; empty for all.
      all: whether tasks and sets that only some systems have are shown, too.
      baseline: the system to compare the others with; empty compares all pairs.
      seed: the seed of tests and intervals.
      replicates: the replicates of the tests; 0 for no tests.
    """

    metrics: tuple[str, ...] = ()
    average: tuple[str, ...] = ()
    sets: tuple[str, ...] = ()
    all: bool = False
    baseline: str = ""
    seed: str = "0"
    replicates: int = 10_000


DEFAULT = Config()


class Board(msgspec.Struct, frozen=True):
    """The content of ``leaderboard.json``, from which pages and tables are made.

    Attributes:
      systems: the best average first.
      columns: the columns, in the order of the page; ``averaged`` are those that the average includes.
      rows: the numbers of each system, its columns first, as ``parapet evaluate`` writes them: shares are from 0 to 1.
      variants: task to the sets that ``#VARIANTS`` averages, for tasks with several variants.
      examples: system to the frames that variants hurt most.
      left_out: messages on what some systems were not scored on.
      average: the average of each system, on a scale of 100.
    """

    config: Config
    systems: list[str]
    columns: list[str]
    averaged: list[str]
    rows: list[ResultRow]
    variants: dict[str, list[str]]
    examples: dict[str, list[HurtFrame]]
    left_out: list[str]
    average: dict[str, ResultRow] = {}
    tests: list[Difference] = []

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
      examples: the frames that variants hurt most.
      refused: set to the number of its items that were not scored, as the endpoint refused the requests.
    """

    system: str
    task: str
    path: str
    rows: list[ResultRow]
    variants: tuple[str, ...] = ()
    options: dict[str, Any] = {}
    examples: tuple[HurtFrame, ...] = ()
    refused: dict[str, int] = {}

    @property
    def sets(self) -> dict[str, None]:
        """The names of its sets, and of aggregates over several."""
        return dict.fromkeys(row.set for row in self.rows)


class _Manifest(msgspec.Struct, frozen=True):
    """The part of ``run.json`` that comparisons need."""

    pipeline: str
    options: dict[str, Any] = {}
    counts: dict[str, Any] = {}


def read_task(path: str, system: str = "") -> TaskResults:
    """Reads the numbers of a folder. Raises InputError if it is not a finished evaluation."""
    folder = as_path(path)
    run, examples = folder / "run.json", folder / "examples.json"
    check_published(path)
    if not is_there(path) or not run.is_file():
        raise InputError("there is no finished output of 'parapet evaluate'", path)
    manifest = parse_line(read_whole(run), msgspec.json.Decoder(_Manifest), str(run), "")
    if not manifest.pipeline.startswith("evaluate"):
        reason = f"contains the output of 'parapet {manifest.pipeline}': give the output of 'parapet evaluate'"
        raise InputError(reason, path)
    rows = [replace(row, system=system) for row in read_results(folder / RESULTS)]
    rows = [replace(row, value=None, low=None, high=None) if kinds.is_undefined(row, rows) else row for row in rows]
    task = manifest.pipeline.removeprefix("evaluate_")
    sets = {row.set for row in rows}
    variants = manifest.options.get("variants", ()) if task == "dst" else variants_of(sets)
    hurt = parse_line(read_whole(examples), _EXAMPLES, str(examples), "") if examples.is_file() else ()
    return TaskResults(
        system,
        task,
        path,
        rows,
        tuple(variants) if VARIANTS in sets else (),
        manifest.options,
        hurt,
        {name.removeprefix("refused/"): n for name, n in manifest.counts.items() if name.startswith("refused/")},
    )


def read_systems(systems: Mapping[str, Sequence[str]], config: Config = DEFAULT) -> tuple[Board, PartsOf]:
    """Reads the outputs of ``parapet evaluate`` for some systems: name to folders, one for each task.

    Returns their numbers on what they have in common, and what these are means of, for :func:`leaderboard`. Raises
    InputError if the systems cannot be compared, or a metric does not exist.
    """
    read = [read_task(path, name) for name, paths in systems.items() for path in paths]
    known_sets = {name for results in read for name in results.sets}
    absent = [name for name in config.sets if name not in known_sets]
    if absent and not config.all:
        raise InputError(f"no system has a set {absent[0]!r}", "--sets")
    config = replace(config, sets=tuple(name for name in config.sets if name in known_sets))
    if config.sets:  # numbers over all sets remain if there are no single sets
        chosen = [{*config.sets} if _named(results) else {*config.sets, ALL} for results in read]
        read = [
            replace(results, rows=[row for row in results.rows if row.set in names])
            for results, names in zip(read, chosen, strict=True)
        ]
    tasks, left_out = _shared([results for results in read if results.rows], list(systems), config.all)
    left_out += [f"set {name}: no system has it" for name in absent]
    rows = [row for results in tasks for row in results.rows]
    lacking = [name for name in config.average if not any(kinds.has_name(row, name) for row in rows)]
    if config.all and lacking:
        config = replace(config, average=tuple(name for name in config.average if name not in lacking))
        left_out.append(f"from the average, because no system has it: {', '.join(lacking)}")
    columns, averaged = _columns(rows, config, len(systems))
    of_groups = kinds.absent_groups(rows, config.metrics)
    left_out += [f"{name}: the systems were not scored on such services" for name in of_groups]
    parts: PartsOf = {}
    turns: dict[str, list[tuple[TaskResults, Turns]]] = {results.task: [] for results in tasks}
    for results in tasks:
        scored, of_rows = read_rows(results, columns)
        turns[results.task] += [(results, scored)] if scored else []
        parts |= of_rows
    left_out += [line for of_task in turns.values() for line in refused_turns(of_task)]
    numbers = []
    for name in systems:
        known = {row.column: row for row in rows if row.system == name}
        empty = {row.column: ResultRow(name, row.task, row.set, row.group, row.metric, None) for row in columns}
        numbers += [(empty | known)[column] for column in kinds.with_groups(columns, known.values())]
    board = Board(
        config,
        list(systems),
        [row.column for row in columns],
        [row.column for row in averaged],
        numbers,
        {results.task: list(results.variants) for results in tasks if len(results.variants) > 1},
        {results.system: list(results.examples) for results in tasks if results.examples},
        left_out,
    )
    return board, parts


def _columns(rows: Sequence[ResultRow], config: Config, systems: int) -> tuple[list[ResultRow], list[ResultRow]]:
    """Returns a row of each column of the comparison, and of those that the average includes."""
    columns = kinds.columns_of(rows, config.metrics, config.sets)
    if config.average:
        averaged = kinds.columns_of(rows, config.average, config.sets, "--average")
        if bad := next((row.column for row in averaged if row.metric in kinds.LOW_IS_GOOD), None):
            raise InputError(f"{bad}: lower values are better, so it cannot be part of an average", "--average")
        return kinds.columns_of(rows, [row.column for row in [*averaged, *columns]], config.sets), averaged
    mixed = mixes({row.set for row in columns})  # mixes only repeat the result of their set, diluted
    averaged = [
        row
        for row in columns
        if row.set not in mixed
        and row.metric not in kinds.LOW_IS_GOOD
        and (row.set != VARIANTS or not kinds.long_names(row).isdisjoint(config.metrics))
        and (config.metrics or row.metric in kinds.AVERAGED.get(row.task, ()))
    ]
    if not config.all:
        return columns, averaged
    # Means can be compared over the columns that all systems have, or else all with a result of the column's task.
    names = {row.column for row in averaged}
    having: dict[str, set[str]] = {}
    for row in rows:
        if row.value is not None and row.column in names:
            having.setdefault(row.column, set()).add(row.system)
            having.setdefault(row.task, set()).add(row.system)
    known = [row for row in averaged if row.column in having]
    common = [row for row in known if len(having[row.column]) == systems]
    return columns, common or [row for row in known if having[row.column] == having[row.task]]


def _shared(
    read: Sequence[TaskResults], systems: Sequence[str], everything: bool
) -> tuple[list[TaskResults], list[str]]:
    """Returns the results of all systems on what all were scored on, and a message for each thing that is left out.

    Raises InputError if the systems share nothing, were scored with different options, or one has two results of a
    task.
    """
    kept: list[TaskResults] = []
    left_out: list[str] = []
    for task in dict.fromkeys(results.task for results in read):
        of_task = [results for results in read if results.task == task]
        names = [results.system for results in of_task]
        for results in reversed(of_task):
            if names.count(results.system) > 1:
                raise InputError(f"{results.system!r} has two results of task {task!r}", results.path)
        if len(names) < len(systems) and not everything:
            left_out.append(f"task {task}: {_lacking(names, systems)}")
            continue
        _check_options(of_task)
        wanted = set()
        # Other rows whose name begins with # are groups, or choices among candidates; all are computed over the sets.
        alike = len({frozenset(_named(results)) for results in of_task}) == 1
        for name in sorted({name for results in of_task for name in results.sets}, key=kinds.set_order):
            having = [results for results in of_task if name in results.sets]
            if name == VARIANTS and len({results.variants for results in having}) > 1:
                left_out.append(f"mean over the variants of {task}: the systems were not scored on the same variants")
            elif name[:1] == "#" and name != VARIANTS and not alike:
                continue
            elif everything or len(having) == len(of_task):
                wanted.add(name)
            elif name[:1] != "#":
                left_out.append(f"set {name} of task {task}: {_lacking([results.system for results in having], names)}")
        of_sets = [replace(results, rows=[row for row in results.rows if row.set in wanted]) for results in of_task]
        kept += [results for results in of_sets if results.rows]
    if {results.system for results in kept} != set(systems):
        reason = f"the systems have no task and set in common: {'; '.join(left_out)}"
        raise InputError(f"{reason}. --all shows all numbers", "--systems")
    return sorted(kept, key=lambda results: systems.index(results.system)), left_out


def _named(results: TaskResults) -> list[str]:
    return [name for name in results.sets if name[:1] != "#"]


def _lacking(having: Sequence[str], systems: Sequence[str]) -> str:
    return f"not scored for {', '.join(repr(name) for name in systems if name not in having)}"


def _check_options(of_task: Sequence[TaskResults]) -> None:
    """Raises InputError if a system was scored with other options than the first."""
    mine = of_task[0]
    for theirs in of_task[1:]:
        for option in sorted((mine.options.keys() | theirs.options.keys()) - _OWN - _OWN_OF.get(mine.task, set())):
            ours, other = mine.options.get(option), theirs.options.get(option)
            if ours != other:
                reason = f"{option} is {ours!r} for {mine.system!r}, {other!r} for {theirs.system!r}"
                raise InputError(f"scored in different ways: {reason}", theirs.path)


def leaderboard(board: Board, parts: PartsOf) -> Board:
    """Completes what ``read_systems`` returns: ranks the systems, and adds intervals, averages and tests."""
    parts, numbers = dict(parts), board.numbers
    for name in board.systems:
        rows = [numbers[name, column] for column in board.averaged]
        value = macro_average([None if row.value is None else kinds.of_100(row.metric, row.value) for row in rows])
        numbers[name, kinds.AVERAGE] = ResultRow(name, WHOLE, ALL, WHOLE, kinds.AVERAGE, value)
        of_rows = [parts.get((name, row.column), ()) for row in rows]
        if all(of_rows) and len(set(map(len, of_rows))) == 1:  # the mean of the columns is that of their parts
            parts[name, kinds.AVERAGE] = tuple(chain(*of_rows))
    # Intervals are those of the evaluation, or else computed from the rows; of averages, only if all are shares.
    are_shares = not any(row.metric in kinds.OF_100 for row in board.averaged_rows)
    lacking = {key: row.metric for key, row in numbers.items() if row.low is None and key in parts}
    lacking = {key: metric for key, metric in lacking.items() if are_shares or metric != kinds.AVERAGE}
    computed = intervals([parts[key] for key in lacking], board.config.seed, [*lacking.values()])
    for (key, metric), interval in zip(lacking.items(), computed, strict=True):
        if interval:
            low, high = (end * (100 if metric == kinds.AVERAGE else 1) for end in interval)
            numbers[key] = replace(numbers[key], low=low, high=high)
    average = {name: numbers.pop((name, kinds.AVERAGE)) for name in board.systems}
    ranked = sorted(board.systems, key=lambda name: (average[name].value is None, -(average[name].value or 0.0), name))
    rows = sorted(numbers.values(), key=lambda row: ranked.index(row.system))
    board = replace(board, systems=ranked, rows=rows, average={name: average[name] for name in ranked})
    return replace(board, tests=_tests(board, parts))


def _tests(board: Board, parts: PartsOf) -> list[Difference]:
    """Tests all pairs of systems, or each system against the baseline, on the columns and on the average."""
    baseline, replicates = board.config.baseline, board.config.replicates
    pairs = list(combinations(board.systems, 2))
    if baseline:
        pairs = [(name, baseline) for name in board.systems if name != baseline]
    factors: dict[str, list[float]] = {}
    for row in board.column_rows:
        of_systems = [parts.get((name, row.column), ()) for name in board.systems]
        if all(of_systems) and len(set(map(len, of_systems))) == 1:
            factors[row.column] = [kinds.of_100(row.metric, 1.0)] * len(of_systems[0])
    # Numbers computed over several sets are tested by the bootstrap; the average only if all of its columns can be
    # tested.
    over_sets = {row.column for row in board.column_rows if row.set == VARIANTS}
    has_parts = len(board.averaged) > 1 and all((name, kinds.AVERAGE) in parts for name in board.systems)
    if has_parts and set(board.averaged) <= factors.keys() - over_sets:
        factors[kinds.AVERAGE] = [factor for column in board.averaged for factor in factors[column]]
    if not replicates or not pairs or not factors:
        return []
    tests = paired(parts, pairs, factors, board.config.seed, replicates, over_sets)
    corrected = holm([test.p for test in tests])
    return [replace(test, p_holm=p) for test, p in zip(tests, corrected, strict=True)]


def read_board(path: str) -> Board:
    """Reads ``leaderboard.json``. Raises InputError for any other file."""
    return parse_line(read_whole(existing_file(path)), msgspec.json.Decoder(Board), path, "")
