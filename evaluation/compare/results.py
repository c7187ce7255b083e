"""What ``parapet evaluate`` wrote of a system: its numbers by set, and its rows."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from parapet.evaluation.lines import ALL
from parapet.schemas.errors import InputError
from parapet.schemas.layout import as_path, is_there, parse_json

_ALL_SERVICES = "#ALL_SERVICES"
VARIANTS = "#VARIANTS"  # of a task dst: the mean over its variants, and the schema sensitivity
WHOLE = (ALL, _ALL_SERVICES, VARIANTS)  # the groups that are all that was scored
_KEYS = ("set", "dialogue_id", "turn")

# Of each task the metrics that stand in the leaderboard unless others are asked for.
DEFAULTS = {
    "dst": ("joint_goal_accuracy",),
    "intent": ("accuracy", "macro_f1"),
    "ood": ("f1",),
    "ranking": ("per_response", "per_dialogue"),
    "response": ("combined",),
    "generation": ("sgsacc", "bleu"),
}
OF_100 = frozenset({"bleu", "combined"})  # all others are shares
LOW_IS_GOOD = frozenset({"fpr95", "slot_error_rate", "word_error_rate", "schema_sensitivity"})

# Of each dialogue the sum of a metric over its rows, and how many rows have it.
Sums = dict[str, tuple[float, int]]

# Options that may differ between systems that are compared.
_OWN = frozenset({"system", "seed", "replicates", "batch_size", "own_turns"})


class Column(msgspec.Struct, frozen=True, order=True):
    """A number that systems have: a metric of a group (``#ALL``, or a set) of a task."""

    task: str
    group: str
    metric: str

    @property
    def name(self) -> str:
        """``ood/ood-50/f1``."""
        return f"{self.task}/{self.group}/{self.metric}"

    @property
    def low_is_good(self) -> bool:
        """Whether less is better; such a number is in no average."""
        return self.metric in LOW_IS_GOOD

    def of_100(self, value: float) -> float:
        """A value as the leaderboard has it, all of 100."""
        return value if self.metric in OF_100 else 100 * value


class Outcome(msgspec.Struct, frozen=True):
    """One folder that ``parapet evaluate`` wrote.

    Attributes:
      groups: group to metric to value, None where it is not defined.
      options: how it was scored.
    """

    task: str
    path: str
    groups: dict[str, dict[str, float | None]]
    options: dict[str, Any] = {}


def read_outcome(path: str) -> Outcome:
    """Reads the numbers of a folder. Raises InputError where it is no finished evaluation."""
    folder = as_path(path)
    if not is_there(path):
        raise InputError("there is no such folder", path)
    manifest = _json(folder / "run.json") if (folder / "run.json").is_file() else None
    if not isinstance(manifest, dict):
        raise InputError("no run.json here: is it what 'parapet evaluate' wrote, and did it finish?", path)
    command = str(manifest.get("pipeline", ""))
    if not command.startswith("evaluate"):
        raise InputError(f"holds what 'parapet {command}' wrote: give a folder of 'parapet evaluate'", path)
    options = manifest.get("options")
    options = options if isinstance(options, dict) else {}
    task = command.removeprefix("evaluate").lstrip("_") or str(options.get("task", ""))
    if task == "dst" and (folder / "robustness.json").is_file():
        groups = _of_sets(_json(folder / "robustness.json"), folder / "robustness.json")
    else:
        groups = _groups(_json(folder / "metrics.json"), folder / "metrics.json")
    return Outcome(task, path, groups, options)


def _json(path: Path) -> Any:
    if not path.is_file():
        raise InputError("there is no such file", path)
    return parse_json(path.read_bytes(), path)


def _of_sets(numbers: Any, path: Path) -> dict[str, dict[str, float | None]]:
    """Of ``robustness.json`` each set's metrics over all services, and what the variants have together."""
    try:
        sets = {name: of["metrics"][_ALL_SERVICES] for name, of in numbers["sets"].items()}
        if variants := numbers.get("variants"):
            sensitivity = variants["table"][_ALL_SERVICES]["schema_sensitivity"]
            sets[VARIANTS] = {**variants["average"][_ALL_SERVICES], "schema_sensitivity": sensitivity}
    except (TypeError, KeyError, AttributeError):
        raise InputError("these are not the numbers of 'parapet evaluate --task dst'", path) from None
    return _groups(sets, path)


def _groups(numbers: Any, path: Path) -> dict[str, dict[str, float | None]]:
    """Group to metric to value; what is no number is left out."""
    found: dict[str, dict[str, float | None]] = {}
    for group, metrics in numbers.items() if isinstance(numbers, dict) else ():
        for name, value in metrics.items() if isinstance(metrics, dict) else ():
            if value is None or (isinstance(value, int | float) and not isinstance(value, bool)):
                if value is not None and not math.isfinite(value):
                    raise InputError(f"{group}/{name} is no number: {value}", path)
                found.setdefault(str(group), {})[str(name)] = value
    if not found:
        raise InputError("no metrics in it: expected {group: {metric: number}}", path)
    return found


def read_sums(outcome: Outcome, columns: Sequence[Column]) -> dict[Column, Sums]:
    """The sums of every dialogue, for each column whose rows average to its number.

    The others (a macro-F1, BLEU, a joint accuracy by turn) are no means of rows, and cannot be tested so.

    Raises:
      InputError: rows that cannot be read.
    """
    table = _rows(outcome)
    found: dict[Column, Sums] = {}
    for column in columns:
        if table is None or column.metric not in table.column_names:
            continue
        sums = _sums_of(table, column)
        total, rows = math.fsum(value for value, _ in sums.values()), sum(n for _, n in sums.values())
        value = outcome.groups[column.group][column.metric]
        if rows and value is not None and math.isclose(total / rows, value, rel_tol=1e-9, abs_tol=1e-12):
            found[column] = sums
    return found


def _sums_of(table: Any, column: Column) -> Sums:
    values: dict[str, list[float]] = {}
    rows = zip(*(table.column(name).to_pylist() for name in ("set", "dialogue_id", column.metric)), strict=True)
    for name, dialogue, value in rows:
        if value is not None and (column.group.startswith("#") or column.group == name):
            values.setdefault(str(dialogue), []).append(value)
    return {dialogue: (math.fsum(of), len(of)) for dialogue, of in sorted(values.items())}


def keys_of(outcome: Outcome) -> dict[tuple[str, str, int], int] | None:
    """How many rows each turn of each set has; None where the folder has no rows."""
    table = _rows(outcome)
    if table is None:
        return None
    found: dict[tuple[str, str, int], int] = {}
    for key in zip(*(table.column(name).to_pylist() for name in _KEYS), strict=True):
        found[key] = found.get(key, 0) + 1
    return found


def _rows(outcome: Outcome) -> Any:
    """The rows of a folder: ``rows.parquet``, or all Parquet files below ``rows``."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder = as_path(outcome.path)
    paths = (
        [folder / "rows.parquet"] if (folder / "rows.parquet").is_file() else sorted(folder.glob("rows/**/*.parquet"))
    )
    tables = []
    for path in paths:
        try:
            with path.open("rb") as handle:
                table = pq.read_table(handle)
        except (pa.ArrowException, OSError) as error:
            raise InputError(f"cannot be read as Parquet: {error}", path) from None
        lacking = [name for name in _KEYS if name not in table.column_names]
        if lacking:
            raise InputError(f"has no column {lacking[0]!r}: these are no rows of 'parapet evaluate'", path)
        numbers = [field.name for field in table.schema if pa.types.is_floating(field.type)]
        tables.append(table.select([*_KEYS, *numbers]))
    return pa.concat_tables(tables) if tables else None


def check_same_sets(systems: Mapping[str, Sequence[Outcome]]) -> None:
    """Raises InputError where two systems were scored on different tasks, sets or turns."""
    (first, reference), *others = systems.items()
    for name, outcomes in systems.items():
        tasks = [outcome.task for outcome in outcomes]
        for outcome in outcomes:
            if tasks.count(outcome.task) > 1:
                raise InputError(f"{name!r} has two results of task {outcome.task!r}", outcome.path)
    for name, outcomes in others:
        mine, theirs = {one.task: one for one in reference}, {one.task: one for one in outcomes}
        for task in sorted(mine.keys() ^ theirs.keys()):
            has, lacks = (first, name) if task in mine else (name, first)
            raise InputError(f"{has!r} has results of task {task!r}, and {lacks!r} has none", "--systems")
        for task, outcome in theirs.items():
            _check_pair(first, mine[task], name, outcome)


def _check_pair(first: str, mine: Outcome, name: str, theirs: Outcome) -> None:
    strange = sorted(mine.groups.keys() ^ theirs.groups.keys())
    if strange:
        has, lacks = (first, name) if strange[0] in mine.groups else (name, first)
        raise InputError(f"different sets: {has!r} has {strange[0]!r}, and {lacks!r} does not", theirs.path)
    own = _OWN | {"model"} if mine.task == "dst" else _OWN  # elsewhere a model is what scores
    for option in sorted((mine.options.keys() | theirs.options.keys()) - own):
        one, other = mine.options.get(option), theirs.options.get(option)
        if one != other:
            raise InputError(
                f"scored in different ways: {option} is {one!r} of {first!r}, {other!r} of {name!r}", theirs.path
            )
    ours, others = keys_of(mine), keys_of(theirs)
    if ours is None or others is None or ours == others:
        return
    key = min(key for key in ours.keys() | others.keys() if ours.get(key) != others.get(key))
    place = f"dialogue {key[1]!r}, turn {key[2]}" + (f", of set {key[0]!r}" if key[0] else "")
    told = f"{ours.get(key, 0)} rows of {first!r} and {others.get(key, 0)} of {name!r}"
    raise InputError(f"different turns were scored: {place} has {told}", theirs.path)


def columns_of(outcomes: Sequence[Outcome], asked: Sequence[str]) -> list[Column]:
    """The columns of a leaderboard.

    Args:
      outcomes: of one system.
      asked: ``metric``, ``group/metric`` or ``task/group/metric``; the defaults where there are none.

    Raises:
      InputError: one that the systems do not have.
    """
    there = [Column(one.task, group, metric) for one in outcomes for group, of in one.groups.items() for metric in of]
    if asked:
        found: list[Column] = []
        for wanted in asked:
            chosen = [one for one in there if wanted in (one.metric, f"{one.group}/{one.metric}", one.name)]
            if not chosen:
                metrics = ", ".join(sorted({one.metric for one in there}))
                raise InputError(f"no such metric: {wanted!r}; there are: {metrics}", "--metrics")
            found += chosen
        return list(dict.fromkeys(_sets_only(found) if not any("/" in one for one in asked) else found))
    found = _sets_only([one for one in there if one.metric in DEFAULTS.get(one.task, ())])
    if not found:
        raise InputError("which metrics? Name some", "--metrics")
    return found


def _sets_only(columns: Sequence[Column]) -> list[Column]:
    """Of a task's metric its sets, for ``#ALL`` and ``#MEAN`` would count them twice; where it has none, the whole."""
    in_sets = {(one.task, one.metric) for one in columns if not one.group.startswith("#")}
    return [
        one
        for one in columns
        if (not one.group.startswith("#") if (one.task, one.metric) in in_sets else one.group in WHOLE)
    ]
