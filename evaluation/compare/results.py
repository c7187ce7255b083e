"""Reads the outputs of ``parapet evaluate``: numbers by set and group, and what several systems have in common."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from parapet.evaluation.dst.failures import HurtFrame
from parapet.evaluation.results import (
    RESULTS,
    SEEN,
    SENSITIVITY,
    UNSEEN,
    VARIANTS,
    WHOLE,
    read_results,
    variants_of,
)
from parapet.evaluation.sets import ALL, ORIGINAL
from parapet.evaluation.task import sensitivity_is_defined
from parapet.schemas.errors import InputError
from parapet.schemas.layout import as_path, check_published, is_there
from parapet.schemas.limits import read_whole

JGA = "joint_goal_accuracy"

# The metrics of each task that enter the average, and further ones that are shown: RADDLE's Table 2 averages joint goal
# accuracy, Combined, intent accuracy and F1.
AVERAGED = {
    "dst": (JGA,),
    "response": ("combined",),
    "intent": ("accuracy",),
    "ood": ("f1",),
    "ranking": ("per_response", "per_dialogue"),
    "generation": ("sgsacc", "bleu"),
    "tool_calls": ("accuracy",),
}
_BESIDE = {
    "dst": (SENSITIVITY,),
    "intent": ("macro_f1",),
    "response": ("inform", "success", "bleu"),
    "ratings": ("human_faithful", "agreement", "fleiss_kappa"),
    "tool_calls": (SENSITIVITY,),
}
OF_100 = frozenset({"bleu", "combined", "naturalness"})  # on a scale of 100 already; all others are shares
LOW_IS_GOOD = frozenset({"fpr95", "slot_error_rate", "word_error_rate", SENSITIVITY})

# The order of sets on the page: RADDLE's and SGD-X's first, then the others.
_ORDER = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        "original$|standard$", "v[0-9]+$", f"{VARIANTS}$", "typo", "verb", "simpl", "para", "sr(?![a-z])|speech|asr",
        "unseen", "ood", "env", "[^#]", ""
    )
)  # fmt: skip

# Options in which systems may differ.
_OWN = frozenset({"system", "seed", "replicates", "batch_size", "own_turns", "sets"})


class Column(msgspec.Struct, frozen=True, order=True):
    """Identifies a number that systems have.

    Attributes:
      task: the ``--task`` of ``parapet evaluate``.
      set: the name of a set; ``#ALL`` for all sets together, ``#VARIANTS`` for the mean over the variants.
      metric: the name in ``metrics.json``.
      group: ``all``, or the services that are counted: ``seen``, ``unseen``, or the name of a service.
    """

    task: str
    set: str
    metric: str
    group: str = WHOLE

    @property
    def name(self) -> str:
        """The column's name: ``ood/ood-50/f1``, or with a group ``dst/v1/seen/joint_goal_accuracy``."""
        return "/".join([self.task, self.set, *([self.group] if self.group != WHOLE else []), self.metric])

    @property
    def names(self) -> frozenset[str]:
        """The names that ``--metrics`` accepts for it."""
        if self.group != WHOLE:
            return frozenset({f"{self.group}/{self.metric}", f"{self.set}/{self.group}/{self.metric}", self.name})
        return frozenset({self.metric, f"{self.set}/{self.metric}", self.name})

    @property
    def low_is_good(self) -> bool:
        """Whether less is better; such numbers enter no average."""
        return self.metric in LOW_IS_GOOD


class Outcome(msgspec.Struct, frozen=True):
    """One output folder of ``parapet evaluate``.

    Attributes:
      values: the numbers, None if undefined.
      intervals: 95 % intervals, for numbers that have one.
      variants: the sets that ``#VARIANTS`` averages.
      options: the options of the evaluation.
      examples: the frames that variants hurt most.
      refused: set to the number of its items that were not scored, as the endpoint refused the requests.
    """

    task: str
    path: str
    values: dict[Column, float | None]
    intervals: dict[Column, tuple[float, float]] = {}
    variants: tuple[str, ...] = ()
    options: dict[str, Any] = {}
    examples: tuple[HurtFrame, ...] = ()
    refused: dict[str, int] = {}

    @property
    def sets(self) -> list[str]:
        """The names of its sets, and of aggregates over several."""
        return list(dict.fromkeys(column.set for column in self.values))


def of_100(metric: str, value: float) -> float:
    """Scales a number to 100, as in tables."""
    return value if metric in OF_100 else 100 * value


def set_order(name: str, first: Sequence[str] = ()) -> tuple[object, ...]:
    """Returns a sort key for sets: those in ``first``, then the order of the page; numbers in names sort by size."""
    chosen = first.index(name) if name in first else len(first)
    rank = next(i for i, pattern in enumerate(_ORDER) if pattern.match(name))
    parts = re.split(r"([0-9]+)", name.casefold())
    return chosen, rank, parts[::2], [int(part) for part in parts[1::2]], name


def read_outcome(path: str) -> Outcome:
    """Reads the numbers of a folder. Raises InputError if it is not a finished evaluation."""
    folder = as_path(path)
    if not is_there(path):
        raise InputError("there is no such folder", path)
    check_published(path)
    if not (folder / "run.json").is_file():
        raise InputError("has no run.json: give the output of 'parapet evaluate', after it has finished", path)
    manifest: _Manifest = _decoded(folder / "run.json", _Manifest)
    if not manifest.pipeline.startswith("evaluate"):
        reason = f"contains the output of 'parapet {manifest.pipeline}': give the output of 'parapet evaluate'"
        raise InputError(reason, path)
    rows = {Column(row.task, row.set, row.metric, row.group): row for row in read_results(folder / RESULTS)}
    examples = folder / "examples.json"
    task = manifest.pipeline.removeprefix("evaluate_")
    variants = manifest.options.get("variants", ()) if task == "dst" else variants_of(column.set for column in rows)
    outcome = Outcome(
        task,
        path,
        {column: row.value for column, row in rows.items()},
        {column: (row.low, row.high) for column, row in rows.items() if row.low is not None and row.high is not None},
        tuple(variants) if any(column.set == VARIANTS for column in rows) else (),
        manifest.options,
        _decoded(examples, tuple[HurtFrame, ...]) if examples.is_file() else (),
        {name.partition("/")[2]: n for name, n in manifest.counts.items() if name.partition("/")[0] == "refused"},
    )
    values = {
        column: value
        if column.metric != SENSITIVITY or sensitivity_is_defined(*accuracies(outcome.values.get, column))
        else None
        for column, value in outcome.values.items()
    }
    return msgspec.structs.replace(outcome, values=values)


class _Manifest(msgspec.Struct, frozen=True):
    """The part of ``run.json`` that comparisons need."""

    pipeline: str
    options: dict[str, Any] = {}
    counts: dict[str, Any] = {}


def accuracies(get: Callable[[Column], float | None], sensitivity: Column) -> list[float | None]:
    """Returns the accuracies that a schema sensitivity is shown beside: on the original, and over the variants."""
    return [
        get(Column(sensitivity.task, name, metric, sensitivity.group))
        for metric in AVERAGED.get(sensitivity.task, ())[:1]
        for name in (ORIGINAL, VARIANTS)
    ]


def _decoded(path: Path, kind: Any) -> Any:
    """Reads a JSON file of an evaluation. Raises InputError if it is missing or of another kind."""
    if not path.is_file():
        raise InputError("there is no such file", path)
    try:
        return msgspec.json.decode(read_whole(path), type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InputError(f"not written by 'parapet evaluate': {error}", path) from None


def shared(
    systems: Mapping[str, Sequence[Outcome]], everything: bool = False
) -> tuple[dict[str, list[Outcome]], list[str]]:
    """Returns what all systems were scored on, and a message for each thing that only some were scored on.

    Args:
      systems: system to its outcomes, one for each task.
      everything: whether to keep what only some systems were scored on.

    Raises:
      InputError: the systems share nothing, were scored with different options, or one has two results of a task.
    """
    by_task: dict[str, dict[str, Outcome]] = {}
    for name, outcomes in systems.items():
        for outcome in outcomes:
            if name in by_task.setdefault(outcome.task, {}):
                raise InputError(f"{name!r} has two results of task {outcome.task!r}", outcome.path)
            by_task[outcome.task][name] = outcome
    kept_outcomes: dict[str, list[Outcome]] = {name: [] for name in systems}
    left_out: list[str] = []
    for task, of_task in by_task.items():
        if len(of_task) < len(systems) and not everything:
            left_out.append(f"task {task}: {_who(of_task, systems)}")
            continue
        _check_options(of_task)
        kept = _common_sets(task, of_task, everything, left_out)
        for name, outcome in of_task.items():
            values = {column: value for column, value in outcome.values.items() if column.set in kept}
            if values:
                kept_outcomes[name].append(msgspec.structs.replace(outcome, values=values))
    if not all(kept_outcomes.values()):
        reason = f"the systems have no task and set in common: {'; '.join(left_out)}"
        raise InputError(f"{reason}. --all shows all numbers", "--systems")
    return kept_outcomes, left_out


def _common_sets(task: str, outcomes: Mapping[str, Outcome], everything: bool, left_out: list[str]) -> set[str]:
    """Returns the sets of a task to keep; adds a message for each other set to ``left_out``."""
    sets = {name: set(outcome.sets) for name, outcome in outcomes.items()}
    # Other rows whose name begins with # are groups, or choices among candidates; all are computed over the sets.
    alike = len({frozenset(name for name in names if name[0] != "#") for names in sets.values()}) == 1
    kept = set()
    for set_name in sorted(set().union(*sets.values()), key=set_order):
        having = [name for name in sets if set_name in sets[name]]
        if set_name.startswith("#") and set_name != VARIANTS and not alike:
            continue  # is computed over different sets
        if set_name == VARIANTS and len({outcomes[name].variants for name in having}) > 1:
            left_out.append(f"mean over the variants of {task}: the systems were not scored on the same variants")
        elif everything or len(having) == len(sets):
            kept.add(set_name)
        elif not set_name.startswith("#"):
            left_out.append(f"set {set_name} of task {task}: {_who(having, outcomes)}")
    return kept


def _who(having: Iterable[str], systems: Iterable[str]) -> str:
    has = set(having)
    lacks = [name for name in systems if name not in has]
    return f"not scored for {', '.join(map(repr, lacks))}"


def _check_options(outcomes: Mapping[str, Outcome]) -> None:
    """Raises InputError if a system was scored with other options than the first."""
    (first, mine), *others = outcomes.items()
    # In other tasks, the model is the scorer.
    own = _OWN | {"model", "model_args", "variants"} if mine.task == "dst" else _OWN
    for name, theirs in others:
        for option in sorted((mine.options.keys() | theirs.options.keys()) - own):
            mine_value, other = mine.options.get(option), theirs.options.get(option)
            if mine_value != other:
                reason = f"scored in different ways: {option} is {mine_value!r} for {first!r}, {other!r} for {name!r}"
                raise InputError(reason, theirs.path)


def absent_groups(there: Iterable[Column], requested: Iterable[str]) -> list[str]:
    """Lists requested columns of seen services for metrics that the systems only have for unseen ones, or the reverse.

    All domains of SGD's dev set are seen, so a list of columns should work for both dev and test.
    """
    groups = {(column.group, column.metric) for column in there}
    opposite = {SEEN: UNSEEN, UNSEEN: SEEN}
    of_one = {f"{opposite[group]}/{metric}" for group, metric in groups if group in opposite
              and (opposite[group], metric) not in groups}  # fmt: skip
    return [name for name in requested if name in of_one]


def columns_of(
    available: Collection[Column], requested: Sequence[str] = (), sets: Sequence[str] = (), flag: str = "--metrics"
) -> list[Column]:
    """Returns the columns of a leaderboard, in the order of the page.

    Args:
      available: the columns that the systems have.
      requested: ``metric``, ``set/metric``, ``group/metric`` or ``task/set/metric``; empty for the defaults. Those of
        :func:`absent_groups` are left out.
      sets: the sets that come first, in this order.
      flag: the flag that requests columns, for messages.

    Raises:
      InputError: the systems do not have a requested column.
    """
    absent = absent_groups(available, requested)
    for name in requested:
        if name not in absent and not any(name in column.names for column in available):
            known = ", ".join(sorted({column.metric for column in available}))
            raise InputError(f"there is no metric {name!r}: must be one of {known}", flag)
    if requested:
        selected = [column for column in available if column.names & set(requested)]
        # If a set has the name of a group, ``unseen/METRIC`` refers to the set.
        of_sets = {f"{column.set}/{column.metric}" for column in selected if column.group == WHOLE}
        selected = [column for column in selected if column.names & set(requested) - of_sets or column.group == WHOLE]
    else:
        selected = [
            column for column in available if column.group == WHOLE and column.metric in shown_metrics(column.task)
        ]
    if not selected:
        raise InputError("must name at least one metric", flag)
    tasks = [*AVERAGED, *(column.task for column in available)]  # dialogue states first, as RADDLE has them
    metrics = [name.rpartition("/")[2] for name in requested]

    def order(column: Column) -> tuple[object, ...]:
        ranked = [*metrics, *shown_metrics(column.task), column.metric]
        place = set_order(column.set, sets)
        return tasks.index(column.task), ranked.index(column.metric), column.metric, place, column.group

    return sorted(_sets_only(selected, frozenset(requested)), key=order)


def shown_metrics(task: str) -> tuple[str, ...]:
    """Returns the default metrics of a task, those of the average first."""
    return AVERAGED.get(task, ()) + _BESIDE.get(task, ())


def _sets_only(columns: Sequence[Column], requested: frozenset[str]) -> list[Column]:
    """Drops ``#ALL`` if there are sets, as it would count them twice, unless it was requested as SET/METRIC."""
    in_sets = {(column.task, column.metric) for column in columns if not column.set.startswith("#")}
    return [
        column
        for column in columns
        if not column.set.startswith("#")
        or column.set == VARIANTS
        or (column.names - {column.metric}) & requested
        or (column.set == ALL and (column.task, column.metric) not in in_sets)
    ]


class Selection(msgspec.Struct, frozen=True):
    """The part of the results that a leaderboard shows.

    Attributes:
      sets: the sets, in the order of the columns; empty for all.
      average: the columns of the average, see :func:`columns_of`; empty for the main metric of each task on each set.
    """

    sets: tuple[str, ...] = ()
    average: tuple[str, ...] = ()


EVERYTHING = Selection()


def selected(systems: Mapping[str, Sequence[Outcome]], sets: Sequence[str]) -> dict[str, list[Outcome]]:
    """Restricts the outcomes of systems to some sets; empty for all. Raises InputError if no system has one of them."""
    selected = {
        name: [outcome for outcome in (_of_sets(outcome, sets) for outcome in outcomes) if outcome.values]
        for name, outcomes in systems.items()
    }
    known = {name for outcomes in selected.values() for outcome in outcomes for name in outcome.sets}
    for name in sets:
        if name not in known:
            raise InputError(f"no system has a set {name!r}", "--sets")
    return selected


def _of_sets(outcome: Outcome, sets: Sequence[str]) -> Outcome:
    """Restricts an outcome to some sets. Numbers over all sets remain if it has no single sets."""
    if not sets:
        return outcome
    named = any(not name.startswith("#") for name in outcome.sets)
    values = {
        column: value
        for column, value in outcome.values.items()
        if column.set in sets or (not named and column.set == ALL)
    }
    return msgspec.structs.replace(outcome, values=values)
