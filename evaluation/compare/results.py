"""Reads the outputs of ``parapet evaluate``: numbers by set and group, and what several systems have in common."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from parapet.evaluation.dst.failures import HurtFrame
from parapet.evaluation.dst.model import originals_of
from parapet.evaluation.response.task import METRICS, SetScores
from parapet.evaluation.sets import ALL, ORIGINAL
from parapet.evaluation.task import Metrics, sensitivity_is_defined
from parapet.schemas.errors import InputError
from parapet.schemas.layout import as_path, check_published, is_there
from parapet.schemas.limits import read_whole

JGA, SENSITIVITY = "joint_goal_accuracy", "schema_sensitivity"
VARIANTS = "#VARIANTS"  # for means over the variants, and schema sensitivity
WHOLE, SEEN, UNSEEN = "all", "seen", "unseen"
_BY_DOMAIN = {"#SEEN_DOMAINS": SEEN, "#UNSEEN_DOMAINS": UNSEEN}  # domains of generated utterances, over all sets
_AGGREGATES = {"#ALL_SERVICES": WHOLE, "#SEEN_SERVICES": SEEN, "#UNSEEN_SERVICES": UNSEEN}
_VARIANT = re.compile(r"v[0-9]+")
_MIX = re.compile(r"(.+)-env[0-9]+")

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


def mixes(sets: Collection[str]) -> set[str]:
    """Returns the sets that mix another set with the original: ``typos-env1`` if ``typos`` is a set, too."""
    return {name for name in sets if (match := _MIX.fullmatch(name)) and match[1] in sets}


def read_outcome(path: str) -> Outcome:
    """Reads the numbers of a folder. Raises InputError if it is not a finished evaluation."""
    folder = as_path(path)
    if not is_there(path):
        raise InputError("there is no such folder", path)
    check_published(path)
    manifest = _decoded(folder / "run.json") if (folder / "run.json").is_file() else None
    if not isinstance(manifest, dict):
        raise InputError("has no run.json: give the output of 'parapet evaluate', after it has finished", path)
    command = str(manifest.get("pipeline", ""))
    if not command.startswith("evaluate"):
        raise InputError(f"contains the output of 'parapet {command}': give the output of 'parapet evaluate'", path)
    options = manifest.get("options")
    options = options if isinstance(options, dict) else {}
    task = command.removeprefix("evaluate").lstrip("_") or str(options.get("task", ""))
    if task == "dst" and (folder / "robustness.json").is_file():
        return _with_defined_sensitivity(msgspec.structs.replace(_of_dst(folder, path), options=options))
    values, variants = _of_groups(task, options.get("sets", []), folder / "metrics.json")
    refused = {
        name.partition("/")[2]: n for name, n in (manifest.get("counts") or {}).items() if name.startswith("refused")
    }
    intervals = _intervals_of_responses(values, folder / "domains.json") if task == "response" else {}
    return _with_defined_sensitivity(Outcome(task, path, values, intervals, variants, options, refused=refused))


def _with_defined_sensitivity(outcome: Outcome) -> Outcome:
    """Drops schema sensitivities that say nothing, as the system is nearly always wrong."""
    values = {
        column: value
        if column.metric != SENSITIVITY or sensitivity_is_defined(*accuracies(outcome.values.get, column))
        else None
        for column, value in outcome.values.items()
    }
    return msgspec.structs.replace(outcome, values=values)


def accuracies(get: Callable[[Column], float | None], sensitivity: Column) -> list[float | None]:
    """Returns the accuracies that a schema sensitivity is shown beside: on the original, and over the variants."""
    return [
        get(Column(sensitivity.task, name, metric, sensitivity.group))
        for metric in AVERAGED.get(sensitivity.task, ())[:1]
        for name in (ORIGINAL, VARIANTS)
    ]


def _decoded(path: Path, kind: Any = Any) -> Any:
    """Reads a JSON file of an evaluation. Raises InputError if it is missing or of another kind."""
    if not path.is_file():
        raise InputError("there is no such file", path)
    try:
        return msgspec.json.decode(read_whole(path), type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InputError(f"not written by 'parapet evaluate': {error}", path) from None


def _of_groups(task: str, sets: Collection[str], path: Path) -> tuple[dict[Column, float | None], tuple[str, ...]]:
    """Reads the numbers of ``metrics.json``, and the mean over variants if there are several.

    In task ``response``, groups that are not sets are services, over all sets; seen and unseen domains are also groups.
    """
    numbers: Metrics = _decoded(path, Metrics)

    def column(group: str, metric: str) -> Column:
        if task == "response" and group not in sets and not group.startswith("#"):
            return Column(task, ALL, metric, group)
        return Column(task, ALL, metric, _BY_DOMAIN[group]) if group in _BY_DOMAIN else Column(task, group, metric)

    values = {column(group, metric): value for group, metrics in numbers.items() for metric, value in metrics.items()}
    variants = tuple(sorted({column.set for column in values if _VARIANT.fullmatch(column.set)}, key=set_order))
    if len(variants) > 1:
        for metric in dict.fromkeys(column.metric for column in values):
            mean = macro_average([values.get(Column(task, name, metric)) for name in variants])
            # Schema sensitivity is not a mean over variants, and is among the numbers of all sets.
            own = values.pop(Column(task, ALL, metric), None) if metric == SENSITIVITY else mean
            values[Column(task, VARIANTS, metric)] = own
    return values, variants


def _intervals_of_responses(values: Mapping[Column, object], path: Path) -> dict[Column, tuple[float, float]]:
    """Reads the intervals of ``domains.json``, if it exists."""
    if not path.is_file():
        return {}
    sets: dict[str, SetScores] = _decoded(path, dict[str, SetScores])
    known = {column.set for column in values}
    return {
        Column("response", name if name in known else ALL, metric): interval
        for name, numbers in sets.items()
        for metric in METRICS
        if (interval := numbers.all.intervals.get(metric))
    }


def _of_dst(folder: Path, path: str) -> Outcome:
    """Reads each set's metrics, the numbers over variants, and the examples from ``robustness.json``."""
    place = folder / "robustness.json"
    numbers = _decoded(place)
    values: dict[Column, Any] = {}
    intervals: dict[Column, Any] = {}
    try:
        together = numbers.get("variants") or {}
        variants = tuple(together.get("names", ()))
        services = _services(numbers["sets"][ORIGINAL]["metrics"])
        for name, numbers_here in numbers["sets"].items():
            renamed = originals_of(name, numbers_here["metrics"], services) if name in variants else {}
            for key, metrics in numbers_here["metrics"].items():
                group = _AGGREGATES.get(key) or renamed.get(key, key)
                if key in _AGGREGATES or group in services:
                    values |= {Column("dst", name, metric, group): value for metric, value in metrics.items()}
            for key, interval in numbers_here.get("intervals", {}).items():
                intervals[Column("dst", name, JGA, _AGGREGATES[key])] = interval
        for key, row in together.get("table", {}).items():
            group = _AGGREGATES.get(key, key)
            if key in _AGGREGATES or key in services:
                numbers_here = {**together["average"][key], SENSITIVITY: row[SENSITIVITY]}
                values |= {Column("dst", VARIANTS, metric, group): value for metric, value in numbers_here.items()}
                for metric, interval in ((JGA, "variants_interval"), (SENSITIVITY, f"{SENSITIVITY}_interval")):
                    intervals[Column("dst", VARIANTS, metric, group)] = row.get(interval)
        known = {at: (float(pair[0]), float(pair[1])) for at, pair in intervals.items() if pair}
    except (TypeError, KeyError, AttributeError, ValueError, IndexError):
        raise InputError("not the numbers of 'parapet evaluate --task dst'", place) from None
    place = folder / "examples.json"
    examples: tuple[HurtFrame, ...] = _decoded(place, tuple[HurtFrame, ...]) if place.is_file() else ()
    return Outcome("dst", path, values, known, variants, {}, examples)


def _services(metrics: Iterable[str]) -> frozenset[str]:
    """Returns the services among the keys of the official scoring, which also has #ALL_SERVICES, ... and domains."""
    names = [name for name in metrics if not name.startswith("#")]
    domains = {name.split("_")[0] for name in names if "_" in name}
    return frozenset(names) - domains


def macro_average(values: Sequence[float | None]) -> float | None:
    """Computes the unweighted mean of all numbers (RADDLE); None if there are none, or one is undefined."""
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known and len(known) == len(values) else None


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
    alike = (
        len(
            {
                frozenset(set_name for set_name in set_names if not set_name.startswith("#"))
                for set_names in sets.values()
            }
        )
        == 1
    )
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
    own = _OWN | {"model", "model_args"} if mine.task == "dst" else _OWN  # in other tasks, the model is the scorer
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
    outcomes: Sequence[Outcome], requested: Sequence[str] = (), sets: Sequence[str] = (), flag: str = "--metrics"
) -> list[Column]:
    """Returns the columns of a leaderboard, in the order of the page.

    Args:
      outcomes: the outcomes of one system.
      requested: ``metric``, ``set/metric``, ``group/metric`` or ``task/set/metric``; empty for the defaults. Those of
        :func:`absent_groups` are left out.
      sets: the sets that come first, in this order.
      flag: the flag that requests columns, for messages.

    Raises:
      InputError: the systems do not have a requested column.
    """
    available = [column for outcome in outcomes for column in outcome.values]
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
    tasks = [*AVERAGED, *(outcome.task for outcome in outcomes)]  # dialogue states first, as RADDLE has them
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
