"""Scores tool calls: accuracy by category and kind of error, and sensitivity to the wording of a toolset."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import msgspec
import numpy as np

from parapet.evaluation import task as scores
from parapet.evaluation.results import Interval, results_of, sensitivity_is_defined
from parapet.evaluation.sets import ALL, ORIGINAL, group_label, with_mean
from parapet.evaluation.statistics import coefficient, wilson_interval
from parapet.evaluation.tools.checking import KINDS, Call, Fault, fault_of, with_right_values
from parapet.evaluation.tools.tasks import (
    UNREADABLE,
    Expected,
    calls_by,
    list_files,
    predictions_of,
    read_answers,
    read_tasks,
)
from parapet.evaluation.user_code import UserCode, make
from parapet.schemas.errors import InputError
from parapet.schemas.tasks import contradictions, plain
from parapet.transforms.report import text
from parapet.transforms.report.report import Examples, Report, Section, dialogue_example

ACCURACY, SENSITIVITY, REWORDED = "accuracy", "schema_sensitivity", "reworded_values"
BY_MEANING = "accuracy_by_meaning"
EXAMPLES = 30
HEADINGS = {ACCURACY: "accuracy"}
TERMS = {
    "Accuracy": "The share of tasks whose calls are right: the function, the number of calls, each parameter's type "
    "and value, as BFCL's AST checker has it. The order of calls does not count; texts are compared without case, "
    "blanks and punctuation.",
    "Accuracy by meaning": "Accuracy if values also count as right that mean the same as a right value by the rules of "
    "docs/tools.md: numbers, dates, units, letter case and accents.",
    "Schema sensitivity": "How much the accuracy of a task varies over the variants: the sample standard deviation "
    "divided by the mean (SGD-X, Lee et al. 2022, equation 1), 0 if it is always wrong; then the mean over tasks. "
    + scores.UNDEFINED_SENSITIVITY,
    "Reworded values": "Tasks that are wrong only because a value is as the changed request has it, and the right one "
    "as the original had it: the checker's error rather than the system's (Rabinovich and Anaby-Tavor 2025).",
}


class Scored(msgspec.Struct, frozen=True):
    """A task with its calls and their fault.

    ``reworded``: the only fault is that values are those of the request. ``by_meaning``: right if values may be
    written in another way; None if that is not asked.
    """

    set: str
    expected: Expected
    calls: list[Call] | None
    fault: Fault | None
    reworded: bool = False
    by_meaning: bool | None = None


class Inputs(msgspec.Struct, frozen=True):
    """The tasks of each set with their calls.

    ``refused`` counts those that are not scored, by set; ``excluded`` counts those left out of all sets.
    """

    sets: dict[str, list[tuple[Expected, list[Call] | None]]]
    refused: dict[str, int] = {}
    excluded: int = 0


class ToolCalls(scores.Task[Inputs], frozen=True, kw_only=True):
    """The task of ``parapet evaluate --task tool_calls``.

    Attributes:
      references: files of tasks.
      predictions: the answers to them, or a folder with those to all sets; empty to run ``model``.
      model: a class, function or object of the user's.
      sets: name to further tasks; ``variants`` are those with the reference's tasks in other words.
      is_deterministic: whether the system is known to give the same answers in each run.
      exclude_contradictions: leave out tasks whose right calls contradict their own schema, in all sets.
      by_meaning: also compute the accuracy if values may be written in another way.
    """

    name = "evaluate_tool_calls"

    references: tuple[str, ...]
    predictions: str = ""
    model: UserCode | None = None
    sets: dict[str, str] = msgspec.field(default_factory=dict)
    variants: tuple[str, ...] = ()
    is_deterministic: bool = True
    exclude_contradictions: bool = False
    by_meaning: bool = False

    @property
    def is_noisy(self) -> bool:
        """Whether part of the schema sensitivity may be noise."""
        return bool(self.variants) and not self.is_deterministic

    def header(self, result: scores.Result) -> dict[str, object]:
        """Makes the content of ``run.json`` besides the files."""
        return super().header(result) | ({"is_deterministic": False} if self.is_noisy else {})

    def inputs(self) -> dict[str, str | None]:
        """Returns the files."""
        paths: dict[str, str | None] = {}
        for i, (_, tasks, answers) in enumerate(self._files()):
            paths |= {f"reference/{i}": tasks, f"predictions/{i}": answers or None}
        return paths

    def _files(self) -> list[tuple[str, str, str]]:
        return [
            (name, path, predictions_of(self.predictions, name, path) if self.predictions else "")
            for name, paths in list_files(self.references, self.sets).items()
            for path in paths
        ]

    def read(self) -> Inputs:
        """Reads tasks and answers. Raises InputError."""
        # One object answers all sets: one that draws at random would else draw the same for each of them.
        ask = partial(calls_by, self.model, make(self.model, "predict")) if self.model is not None else None
        sets: dict[str, list[tuple[Expected, list[Call] | None]]] = {}
        refused: Counter[str] = Counter()
        for name, path, answers in self._files():
            tasks = read_tasks(path)
            calls_by_task = ask(tasks) if ask else read_answers(answers, tasks)
            sets.setdefault(name, []).extend((tasks[task_id], calls) for task_id, calls in calls_by_task.items())
            refused[name] += len(tasks) - len(calls_by_task)
        scores.check_scored([task for tasks_of_set in sets.values() for task in tasks_of_set], self.predictions)
        excluded = set[str]()
        if self.exclude_contradictions:
            excluded = {
                expected.task.id
                for pairs in sets.values()
                for expected, _ in pairs
                if any(contradictions(expected.task.schemas, expected.calls))
            }
            sets = {name: [pair for pair in pairs if pair[0].task.id not in excluded] for name, pairs in sets.items()}
            if not all(sets.values()):
                raise InputError("leaves no task: all contradict their own schema", "--exclude_contradictions")
        return Inputs(sets, dict(+refused), len(excluded))

    def score(self, inputs: Inputs, stage: scores.Stage) -> scores.Result:
        """Computes accuracy by set, category and kind of error; with variants also their sensitivity."""
        originals = {task.task.id: task.task.request for task, _ in inputs.sets[ORIGINAL]}
        rows = [
            _scored(name, task, calls, originals.get(task.task.id), self.by_meaning)
            for name, tasks in inputs.sets.items()
            for task, calls in tasks
        ]
        metrics, tasks = metrics_of(rows, self.variants), counts_of(rows)
        sizes = {name: sum(categories.values()) for name, categories in tasks.items()}
        right = {name: sum(row.fault is None for row in rows if name in (ALL, row.set)) for name in sizes}
        intervals = {(name, ACCURACY): wilson_interval(right[name], n) for name, n in sizes.items()}
        by_meaning = {BY_MEANING: "accuracy by meaning"} if self.by_meaning else {}
        headings = {**HEADINGS, **by_meaning, **({SENSITIVITY: "schema sensitivity"} if self.variants else {})}
        excluded = f"{text.counted(inputs.excluded, 'task')} left out: the right calls contradict their own schema"
        notes = [excluded] * self.exclude_contradictions + [scores.NOISE_REMARK] * self.is_noisy
        printed = with_defined_sensitivity(metrics, self.variants)
        return scores.Result(
            files=scores.files_of(
                metrics,
                results_of("tool_calls", metrics, sizes, intervals=intervals),
                {"tasks": tasks},
                _rows(rows),
                report(rows, printed, sizes, intervals, headings, inputs.refused, notes),
            ),
            summary=[
                *notes,
                *(
                    f"{scores.line(name, values, headings, 1)}; {text.counted(sizes[name], 'task')}"
                    for name, values in printed.items()
                    if name in sizes
                ),
            ],
            options={"sets": list(inputs.sets), "variants": list(self.variants), **self._own_options()},
            counts={"tasks": len(rows), **({"excluded": inputs.excluded} if self.exclude_contradictions else {})},
            refused=inputs.refused,
        )

    def _own_options(self) -> dict[str, bool]:
        flags = {"exclude_contradictions": self.exclude_contradictions, "by_meaning": self.by_meaning}
        return {name: True for name, is_set in flags.items() if is_set}


def _scored(name: str, task: Expected, calls: list[Call] | None, original: str | None, by_meaning: bool) -> Scored:
    fault = task_fault(task, calls)
    is_right_by_meaning = fault is None
    if fault is not None and by_meaning and calls and calls != [UNREADABLE]:
        is_right_by_meaning = task_fault(task, with_right_values(calls, task.calls)) is None
    reworded = fault is not None and is_reworded(task, calls, original)
    return Scored(name, task, calls, fault, reworded, is_right_by_meaning if by_meaning else None)


def task_fault(expected: Expected, calls: list[Call] | None) -> Fault | None:
    """Returns what is wrong with the calls for a task; None if they are right."""
    if calls is None:
        return Fault("unreadable") if expected.calls else None  # as in BFCL, an unreadable answer calls nothing
    if calls == [UNREADABLE]:
        return Fault("unreadable")
    return fault_of([msgspec.structs.asdict(tool) for tool in expected.task.function], calls, expected.calls)


def is_reworded(expected: Expected, calls: list[Call] | None, original: str | None) -> bool:
    """Whether wrong calls would be right if new words of the request were accepted where it lost the right values.

    Args:
      expected: the task of the set.
      calls: the wrong calls.
      original: the request of the same task in the reference; None if it is missing.
    """
    if not calls or calls == [UNREADABLE] or original is None or original == expected.task.request:
        return False
    before, now = plain(original), plain(expected.task.request)
    own = sorted({text for text in _texts(calls) if plain(text) and plain(text) in now and plain(text) not in before})

    def with_own(right: list[Any]) -> list[Any]:
        own_texts = [plain(value) for value in right if isinstance(value, str) and value]
        was_lost = any(value in before for value in own_texts) and not any(value in now for value in own_texts)
        return [*right, *own] if was_lost else right

    lenient = [
        {
            name: {parameter: with_own(right) for parameter, right in parameters.items()}
            for name, parameters in call.items()
        }
        for call in expected.calls
    ]
    return bool(own) and task_fault(Expected(expected.task, lenient), calls) is None


def _texts(calls: list[Call]) -> Iterator[str]:
    for call in calls:
        for arguments in call.values():
            yield from (value for value in arguments.values() if isinstance(value, str))


def metrics_of(rows: Sequence[Scored], variants: Sequence[str]) -> scores.Metrics:
    """Makes ``metrics.json``: each set's accuracy, in all and by category, and the share of each kind of error.

    The group of all sets also has the sensitivity over variants.
    """
    by_set: dict[str, list[Scored]] = {}
    for row in rows:
        by_set.setdefault(row.set, []).append(row)
    metrics = {ALL: _shares(rows), **{name: _shares(some) for name, some in by_set.items()}}
    if variants:
        metrics[ALL][SENSITIVITY] = sensitivity(rows, variants)
    return with_mean(metrics)


def with_defined_sensitivity(metrics: scores.Metrics, variants: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Replaces a schema sensitivity that says nothing at the accuracies of the original and the variants by words."""
    accuracies = [values[ACCURACY] or 0.0 for name, values in metrics.items() if name in variants]
    of_all: dict[str, Any] = metrics[ALL]
    if accuracies and not sensitivity_is_defined(metrics[ORIGINAL][ACCURACY], sum(accuracies) / len(accuracies)):
        of_all = {**of_all, SENSITIVITY: scores.NOT_DEFINED}
    return {**metrics, ALL: of_all}


def _shares(rows: Sequence[Scored]) -> dict[str, float | None]:
    kinds = Counter(row.fault.kind for row in rows if row.fault is not None)
    by_category: dict[str, list[bool]] = {}
    for row in rows:
        by_category.setdefault(row.expected.task.category, []).append(row.fault is None)
    return {
        ACCURACY: _share([row.fault is None for row in rows]),
        **{f"{ACCURACY}/{category}": _share(right) for category, right in sorted(by_category.items())},
        **{f"error/{kind}": kinds[kind] / len(rows) for kind in KINDS},
        REWORDED: _share([row.reworded for row in rows]),
        **{name: sum(values) / len(values) for name, values in _by_meaning(rows).items()},
    }


def _by_meaning(rows: Sequence[Scored]) -> dict[str, list[float]]:
    """Returns the second accuracy of each row; empty if it is not asked for."""
    values = [float(row.by_meaning) for row in rows if row.by_meaning is not None]
    return {BY_MEANING: values} if values else {}


def sensitivity(rows: Sequence[Scored], variants: Sequence[str]) -> float | None:
    """Computes the mean sensitivity over the tasks in all variants (equation 1); None with fewer than two variants."""
    accuracies: dict[str, list[float]] = {}
    for row in rows:
        if row.set in variants:
            accuracies.setdefault(row.expected.task.id, []).append(float(row.fault is None))
    complete = [right for right in accuracies.values() if len(right) == len(variants) > 1]
    return float(coefficient(np.transpose(complete)).mean()) if complete else None


def _share(right: Sequence[bool]) -> float | None:
    return sum(right) / len(right) if right else None


def counts_of(rows: Sequence[Scored]) -> dict[str, Counter[str]]:
    """Counts the tasks of all sets together and of each set, by category."""
    counts: dict[str, Counter[str]] = {ALL: Counter()}
    for row in rows:
        for name in (ALL, row.set):
            counts.setdefault(name, Counter())[row.expected.task.category] += 1
    return counts


def _rows(rows: Sequence[Scored]) -> bytes:
    return scores.rows_bytes(
        [(row.set, row.expected.task.id, 0) for row in rows],
        {ACCURACY: [float(row.fault is None) for row in rows], **_by_meaning(rows)},
        {
            "category": [row.expected.task.category for row in rows],
            "request": [row.expected.task.request for row in rows],
            "error": [row.fault.kind if row.fault else None for row in rows],
            "reworded": ["yes" if row.reworded else None for row in rows],
            "where": [row.fault.where if row.fault else None for row in rows],
            "expected": [_json(row.expected.calls) for row in rows],
            "called": [_json(row.calls) for row in rows],
        },
    )


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def report(
    rows: Sequence[Scored],
    metrics: scores.Metrics,
    sizes: Mapping[str, int],
    intervals: Mapping[tuple[str, str], Interval],
    headings: Mapping[str, str],
    refused: Mapping[str, int] = {},
    notes: Sequence[str] = (),
) -> Report:
    """Makes the report: accuracy by set and by category, kinds of error, and wrong tasks."""
    sets = [name for name in sizes if name != ALL or len(sizes) > 2]
    errors = {f"error/{kind}": label for kind, label in KINDS.items()} | {REWORDED: "of these reworded values"}
    categories = {
        metric.removeprefix(f"{ACCURACY}/"): {name: metrics[name].get(metric) for name in sets if name != ALL}
        for metric in metrics[ALL]
        if metric.startswith(f"{ACCURACY}/")
    }
    group = scores.main_group(metrics)
    low, high = intervals[group, ACCURACY] or (0.0, 0.0)
    facts = {scores.with_group("95% interval", metrics, group, ACCURACY): f"{text.percent(low)} – {text.percent(high)}"}
    if BY_MEANING in headings:
        label = scores.with_group("Accuracy by meaning", metrics, group, ACCURACY)
        facts[label] = text.percent(metrics[group][BY_MEANING])
    if SENSITIVITY in headings:
        facts = {headings[SENSITIVITY]: scores.shown(SENSITIVITY, metrics[ALL][SENSITIVITY]), **facts}
    sections: list[Section] = [
        scores.group_table(
            "Accuracy by category",
            "category",
            categories,
            {name: name for name in sets if name != ALL},
            numbers_in="metrics.json",
        ),
        scores.group_table(
            "Kinds of error, of all tasks",
            "set",
            {group_label(name): metrics[name] for name in sets},
            {metric: label for metric, label in errors.items() if metrics[ALL][metric]},
            numbers_in="metrics.json",
        ),
        _wrong(rows),
    ]
    return scores.set_report(
        metrics,
        {**headings, "tasks": "tasks"},
        sizes={name: {"tasks": sizes[name]} for name in sets},
        sections=sections,
        tiles=HEADINGS,
        facts=facts,
        chart=HEADINGS,
        terms=TERMS,
        refused=refused,
        notes=notes,
        title="Tool calls",
        headline=f"{scores.with_group('Accuracy', metrics, group, ACCURACY)}: {text.percent(metrics[group][ACCURACY])}",
        lead=f"{text.counted(len(rows), 'task')} in {text.counted(len(sizes) - 1, 'set')}.",
    )


def _wrong(rows: Sequence[Scored]) -> Examples:
    """Shows wrong tasks, beginning with those that are right in the original."""
    right = {row.expected.task.id for row in rows if row.set == ORIGINAL and row.fault is None}
    wrong = sorted((row for row in rows if row.fault is not None), key=lambda row: row.expected.task.id not in right)
    examples = []
    for row in wrong[:EXAMPLES]:
        assert row.fault is not None
        why = KINDS[row.fault.kind] + (f": {row.fault.where}" if row.fault.where else "")
        lines = {"user": row.expected.task.request, "expected": _json(row.expected.calls), "called": _json(row.calls)}
        note = "; right in the original" if row.set != ORIGINAL and row.expected.task.id in right else ""
        examples.append(dialogue_example(f"{row.expected.task.id} of {row.set}: {why}{note}", lines.items()))
    note = f"{len(examples):,} of {text.counted(len(wrong), 'wrong task')}. All right values of a parameter are listed."
    return Examples(title="Tasks that are wrong", note=note, examples=examples)
