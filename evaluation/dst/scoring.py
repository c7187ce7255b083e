"""Scores dialogue files. One element is a file in all sets, so that variants are compared frame by frame."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import apache_beam as beam
import msgspec
import numpy as np

from parapet.evaluation import results as all_results
from parapet.evaluation import statistics, task
from parapet.evaluation.dst import failures
from parapet.evaluation.dst import frames as state_frames
from parapet.evaluation.dst.failures import Ranked, failure_files, page_place
from parapet.evaluation.dst.frames import AGGREGATES, METRICS, Totals, means, slot_accuracy
from parapet.evaluation.dst.model import Config, Job, Model, Plan, load, plugin_of, predicted
from parapet.evaluation.results import FLOOR, JGA, RESULTS, VARIANTS, WHOLE, ResultRow
from parapet.evaluation.sets import ORIGINAL, mixes
from parapet.schemas.errors import InputError
from parapet.schemas.limits import MAX_DIALOGUE_FILE
from parapet.schemas.rows import parquet_bytes
from parapet.transforms.core.counts import Balance, Counts
from parapet.transforms.core.files import prepare, write_staged
from parapet.transforms.core.inputs import read_input
from parapet.transforms.core.plugins import recorded
from parapet.transforms.core.progress import expect_dialogues_in, tracked
from parapet.transforms.core.runs import FileResult, FinishRun, RunInfo, WriteEach
from parapet.transforms.report.report import Dot, Dots, Report, Scatter, Section, Table, Tile, page, sets_chart
from parapet.transforms.report.text import counted, percent

Metrics = Mapping[str, Mapping[str, float]]

COMPARED = "compared_dialogues"  # name of the count of dialogues over which schema sensitivity is computed
# Names of counts: frames with a wrong slot, and those that are right on the original.
WRONG_FRAMES, RIGHT_ON_ORIGINAL = "wrong_frames", "right_on_original"
REFUSED = "refused_frames"  # frames that are not scored, as the request for one of their turn was refused

SENSITIVITY = "#SENSITIVITY"  # the key of its sums, beside those of sets
SLOTS = "slots/"  # prefix of a set's name: the sums of its slots


def statistics_of(plan: Plan) -> list[tuple[str, str]]:
    """Lists the statistics with replicates: joint goal accuracy of each set, and its sensitivity, by aggregate."""
    sensitivity = [SENSITIVITY] if len(plan.variants) > 1 else []
    return [(name, key) for name in (*plan.sets, *sensitivity) for key in AGGREGATES]


class FileScores(msgspec.Struct):
    """The sums over the dialogue files of a run.

    Attributes:
      totals: the sums of each aggregate, by set, and of the sensitivity; and those of each set's slots.
      replicates: at most one array, for joint goal accuracy and sensitivity.
      failures: set to its first wrong frames.
    """

    totals: dict[str, Totals] = {}
    replicates: list[statistics.Counts] = []
    failures: dict[str, list[Ranked]] = {}


def metadata_files(config: Config, counts: Counts, _examples: object, scores: Sequence[FileScores]) -> dict[str, bytes]:
    """Makes metrics.json, robustness.json, the page, and the wrong frames of each set.

    Args:
      config: the settings of the run.
      counts: those of frames and dialogues.
      scores: the scores of all files; empty if there are no files.

    Raises:
      InputError: no frame of a set was scored.
    """
    for name in config.plan.sets:
        if not counts.sum("frames", set=name):
            lacks = "user turn has a frame" if counts.sum("scored_dialogues", set=name) else "dialogue has a prediction"
            lacks = "request was answered" if counts.sum(REFUSED, set=name) else lacks
            where = f"set {name!r}, split {config.sources.split!r}"
            place = config.sources.others.get(name, config.sources.reference)
            raise InputError(f"no {lacks}, so there is nothing to score", place, where)
    (of_all,) = scores
    numbers = robustness(config, of_all, counts)
    files = {
        "metrics.json": _json(numbers["sets"][ORIGINAL]["metrics"]),
        "robustness.json": _json(numbers),
        RESULTS: all_results.results_bytes(result_rows(config, of_all, numbers)),
        "report.html": page(dst_report(numbers, [task.NOISE_REMARK] * config.is_noisy)).encode(),
    }
    for name, numbers_of_set in numbers["sets"].items():
        files |= failure_files(config.system, name, numbers_of_set["failures"], of_all.failures.get(name, []))
    return files


def robustness(config: Config, scores: FileScores, counts: Counts) -> dict[str, Any]:
    """Computes all numbers of a run."""
    plan = config.plan
    intervals = _Intervals(plan, scores.replicates)
    metrics = {name: means(sums) for name, sums in scores.totals.items() if not name.startswith(SLOTS)}

    failures = {"frames": "frames", "wrong": WRONG_FRAMES, "right_on_original": RIGHT_ON_ORIGINAL}
    numbers: dict[str, Any] = {
        "system": config.system,
        "options": config.options(),
        "sets": {
            name: {
                "kind": set_plan.kind,
                "metrics": metrics.get(name, {}),
                "slot_accuracy": slot_accuracy(scores.totals.get(SLOTS + name, {})),
                "intervals": {key: intervals.of([name], key) for key in AGGREGATES},
                "failures": {key: counts.sum(count, set=name) for key, count in failures.items()},
                **({REFUSED: refused} if (refused := counts.sum(REFUSED, set=name)) else {}),
            }
            for name, set_plan in plan.sets.items()
        },
        "seen_services": sorted(plan.sets[ORIGINAL].seen & plan.sets[ORIGINAL].services.keys()),
    }
    if len(plan.variants) > 1:
        numbers["variants"] = {
            **_variants(config, metrics, intervals),
            "dialogues": {"compared": counts.sum(COMPARED), "original": plan.dialogues},
        }
    return numbers


def result_rows(config: Config, scores: FileScores, numbers: Mapping[str, Any]) -> Iterator[ResultRow]:
    """Yields the rows of ``results.parquet``, of all, seen and unseen services, and of each service of the original.

    Args:
      config: the settings of the run.
      scores: the scores of all files.
      numbers: ``robustness.json``.
    """
    system, plan = config.system, config.plan
    groups = {**dict(zip(AGGREGATES, (WHOLE, all_results.SEEN, all_results.UNSEEN), strict=True)), **plan.originals}
    for name, of_set in sorted(numbers["sets"].items()):
        for key, metrics in sorted(of_set["metrics"].items()):
            for metric, value in sorted(metrics.items()) if key in groups else ():
                low, high = (of_set["intervals"].get(key) if metric == JGA else None) or (None, None)
                n = scores.totals[name][key][METRICS.index(metric)][1]
                yield ResultRow(system, "dst", name, groups[key], metric, value, low, high, n)
    variants = numbers.get("variants", {"table": {}})
    for key, row in sorted(variants["table"].items()):
        values = {**variants["average"][key], all_results.SENSITIVITY: row[all_results.SENSITIVITY]}
        intervals = {JGA: row.get("variants_interval"), all_results.SENSITIVITY: row.get("schema_sensitivity_interval")}
        for metric, value in values.items() if key in groups else ():
            low, high = intervals.get(metric) or (None, None)
            yield ResultRow(system, "dst", VARIANTS, groups[key], metric, value, low, high)


def _variants(config: Config, metrics: Mapping[str, Metrics], intervals: _Intervals) -> dict[str, Any]:
    """Computes the means over variants, their difference from the original, and the sensitivity."""
    plan, original = config.plan, metrics.get(ORIGINAL, {})
    # Keys are the original's names of services.
    average = averaged(
        [
            {plan.originals.get(key, key): value for key, value in metrics.get(name, {}).items()}
            for name in plan.variants
        ]
    )
    sensitivity = metrics.get(SENSITIVITY, {})
    table: dict[str, dict[str, Any]] = {}
    for key, means_of_variants in average.items():
        before, after = original.get(key, {}).get(JGA), means_of_variants.get(JGA)
        table[key] = {
            "original": before,
            "variants": after,
            "difference": (after - before) / before if before and after is not None else None,
            "schema_sensitivity": sensitivity.get(key, {}).get(JGA),
        }
        if key in AGGREGATES:
            table[key] |= {
                "variants_interval": intervals.of(plan.variants, key),
                "difference_interval": intervals.of(plan.variants, key, relative=True),
                "schema_sensitivity_interval": intervals.of([SENSITIVITY], key),
            }
    return {"names": plan.variants, "average": average, "schema_sensitivity": sensitivity, "table": table}


class _Intervals:
    """The 95 % intervals of numbers that have replicates; None without replicates."""

    def __init__(self, plan: Plan, replicates: Sequence[statistics.Counts]) -> None:
        names = statistics_of(plan) if replicates else []
        self._columns = dict(zip(names, statistics.means(replicates[0]).T, strict=True)) if names else {}
        self._counts = dict(zip(names, replicates[0][..., 1].T, strict=True)) if names else {}

    def of(self, names: Sequence[str], key: str, relative: bool = False) -> list[float] | None:
        """Returns the interval of the mean over some sets.

        With ``relative``, it is that of the change from the original.
        """
        if not self._columns:
            return None
        values = np.mean([self._columns[name, key] for name in names], axis=0)
        if relative:
            original = self._columns[ORIGINAL, key]
            with statistics.quiet():
                values = (values - original) / original
        if relative or names == [SENSITIVITY]:
            interval = statistics.interval(values)
        else:
            interval = statistics.share_interval(values, statistics.dialogues_of(self._counts[names[0], key]))
        return None if interval is None else list(interval)


def averaged(variants: Sequence[Metrics]) -> dict[str, dict[str, float]]:
    """Averages, over the variants, every aggregate that all of them have."""
    keys = [key for key in sorted(variants[0]) if all(key in metrics for metrics in variants)]
    return {
        key: {
            name: math.fsum(metrics[key][name] for metrics in variants) / len(variants)
            for name in sorted(METRICS)
            if all(name in metrics[key] for metrics in variants)
        }
        for key in keys
    }


def _json(value: object) -> bytes:
    return (json.dumps(value, indent=1, sort_keys=True, allow_nan=False) + "\n").encode()


GROUPS = {"#ALL_SERVICES": "all services", "#SEEN_SERVICES": "seen services", "#UNSEEN_SERVICES": "unseen services"}

COLUMNS = {
    JGA: "JGA",
    "#SEEN_SERVICES": "JGA, seen",
    "#UNSEEN_SERVICES": "JGA, unseen",
    "joint_cat_accuracy": "JGA, categorical",
    "joint_noncat_accuracy": "JGA, free",
    "average_goal_accuracy": "average goal",
    "active_intent_accuracy": "intent",
    "requested_slots_f1": "requested F1",
    "slot_tagging_f1": "tagging F1",
}

_SGDX = {
    "original": "original",
    "variants": "variants",
    "difference": "change",
    "schema_sensitivity": "schema sensitivity",
}

TERMS = {
    "JGA": "Joint goal accuracy: of a frame, the product of its slots' scores; with fuzzy matching a free slot's score "
    "lies between 0 and 1. The mean over the frames of user turns, as the official SGD scoring has it.",
    "Seen, unseen": "Whether the schema of the training split has the service.",
    "Change": "From the original to the mean over the variants, in percentage points. The relative change, (variants − "
    "original) / original, and its interval are beside it where the interval of the original is above 0 and the "
    f"original is at least {FLOOR:.0%}.",
    "Schema sensitivity": "How much the JGA of a frame varies over the variants: the sample standard deviation divided "
    "by the mean; then the mean over frames, in percent (Lee et al. 2022, equation 1). 0 means that the wording of the "
    f"schema does not matter, or that everything is wrong. {task.UNDEFINED_SENSITIVITY}",
    "Intervals": "95%, percentiles of a Poisson bootstrap over dialogues. Where all dialogues have the same accuracy, "
    "as at 0 and 100%, Wilson's interval with each dialogue as one observation.",
}


def dst_report(numbers: Mapping[str, Any], remarks: Sequence[str] = ()) -> Report:
    """Makes the report.

    Args:
      numbers: ``robustness.json``.
      remarks: sentences above the tables.
    """
    sets, variants, options = numbers["sets"], numbers.get("variants"), numbers["options"]
    of_all = "#ALL_SERVICES"
    tiles = [Tile("joint goal accuracy, original", percent(sets[ORIGINAL]["metrics"][of_all].get(JGA)))]
    sections: list[Section] = [_by_set(sets)]
    notes = [*remarks]
    if variants:
        row, dialogues = variants["table"][of_all], variants["dialogues"]
        tiles += [
            Tile(f"joint goal accuracy, mean of {', '.join(variants['names'])}", percent(row["variants"])),
            Tile("change from the original", change_of(row, sets[ORIGINAL]["intervals"].get(of_all))),
            Tile("schema sensitivity", sensitivity_of(row)),
        ]
        sections.append(_sensitivity(variants, sets[ORIGINAL]["intervals"]))
        if dialogues["compared"] != dialogues["original"]:
            notes.append(
                f"Schema sensitivity is over the {dialogues['compared']:,} of {dialogues['original']:,} dialogues "
                "that all variants have."
            )
    refused = {name: n for name, numbers_of_set in sets.items() if (n := numbers_of_set.get(REFUSED))}
    notes += task.refused_notes(refused, "frame")
    sections += [
        task.group_table(
            "Wrong frames by set",
            "set",
            {
                name: {**numbers_of_set["failures"], REFUSED: refused.get(name, 0)}
                for name, numbers_of_set in sets.items()
            },
            {
                "frames": "frames",
                "wrong": "wrong",
                "right_on_original": "right on the original, wrong here",
                **({REFUSED: "refused, not scored"} if refused else {}),
            },
            note="Each set has a page that shows its wrong frames. Those that are right on the original come first.",
            hrefs={(i, 0): page_place(name) for i, name in enumerate(sets)},
            numbers_in="robustness.json",
        ),
        task.group_table(
            "Metrics by set",
            "set",
            {name: _metrics(numbers_of_set["metrics"]) for name, numbers_of_set in sets.items()},
            COLUMNS,
            numbers_in="robustness.json",
        ),
        *_services(sets[ORIGINAL]["metrics"], numbers["seen_services"], variants),
        _slots(sets),
    ]
    matching = "fuzzy matching of free slots" if options["fuzzy"] else "exact matching"
    return Report(
        command="evaluate",
        title="Dialogue state tracking",
        headline=f"How {numbers['system']} tracks dialogue states",
        lead=f"{counted(len(sets), 'set')} of the split {options['split']}, with {matching}, as in the official SGD "
        "scoring.",
        tiles=tiles,
        sections=sections,
        notes=notes,
        terms=TERMS,
        links={
            "metrics.json": "the original's metrics by aggregate, as the official scoring has them",
            "robustness.json": "all numbers",
            "failures/": "the wrong frames of each set as pages and as JSON: utterances, history and states",
            "rows/": "a row for every frame",
        },
    )


def _metrics(metrics: Metrics) -> dict[str, float | None]:
    """Returns the metrics of all services, and joint goal accuracy of seen and of unseen ones."""
    return {**metrics["#ALL_SERVICES"], **{key: metrics.get(key, {}).get(JGA) for key in AGGREGATES}}


def _by_set(sets: Mapping[str, Any]) -> Dots:
    """Charts every set but mixes, with its interval: all services, and the seen and unseen ones if there are both."""
    mixed = mixes(sets.keys())
    rows = [
        (name, group, numbers_of_set["metrics"].get(key, {}).get(JGA), low, high)
        for key, group in GROUPS.items()
        if any(JGA in numbers_of_set["metrics"].get(key, {}) for numbers_of_set in sets.values())
        for name, numbers_of_set in sets.items()
        if name not in mixed
        for low, high in [numbers_of_set["intervals"].get(key) or (None, None)]
    ]
    return sets_chart("Joint goal accuracy by set", rows, subject="joint goal accuracy")


def _share(value: float | None, interval: Sequence[float] | None) -> str:
    """Formats a share, with its interval in small print."""
    return percent(value) + (f"\n{percent(interval[0])} to {percent(interval[1])}" if interval else "")


def change_of(row: Mapping[str, Any], interval: Sequence[float] | None = None) -> str:
    """Formats the change from the original to the mean over the variants; ``interval`` is the original's."""
    if row["original"] is None or row["variants"] is None:
        return percent(None)
    return task.change_text(row["variants"], row["original"], interval[0] if interval else None)


def _change_with_interval(row: Mapping[str, Any], original: Sequence[float] | None) -> str:
    """Formats the change in points, with the relative change and its interval in small print."""
    points, _, relative = change_of(row, original).partition(" (")
    between = row["difference_interval"]
    small = f": {percent(between[0], signed=True)} to {percent(between[1], signed=True)}" if between else ""
    return f"{points}\n{relative.rstrip(')')}{small}" if relative else points


def sensitivity_of(row: Mapping[str, Any], interval: Sequence[float] | None = None) -> str:
    """Formats the schema sensitivity of a row of the table of variants, or says that it is not defined."""
    is_defined = all_results.sensitivity_is_defined(row.get("original"), row.get("variants"))
    return _share(row["schema_sensitivity"], interval) if is_defined else task.NOT_DEFINED


def _sensitivity(variants: Mapping[str, Any], original: Mapping[str, Any]) -> Table:
    """Makes SGD-X's table."""
    rows = [
        [
            group,
            _share(row["original"], original.get(key)),
            _share(row["variants"], row["variants_interval"]),
            _change_with_interval(row, original.get(key)),
            sensitivity_of(row, row["schema_sensitivity_interval"]),
        ]
        for key, group in GROUPS.items()
        if (row := variants["table"].get(key))
    ]
    columns = ["services", *_SGDX.values()]
    return Table(title="Joint goal accuracy under variants, as in SGD-X", columns=columns, rows=rows)


def _services(
    original: Mapping[str, Any], seen: Sequence[str], variants: Mapping[str, Any] | None
) -> Iterator[Scatter | Table]:
    """Makes a row for each service; with variants also SGD-X's Figure 6, with a point for each service."""
    rows: dict[str, dict[str, Any]] = {}
    points = []
    for service in sorted(key for key in original if not key.startswith("#") and "_" in key):
        group = "seen" if service in seen else "unseen"
        row = variants["table"].get(service, {}) if variants else {}
        rows[service] = {**row, "group": group, "original": original[service].get(JGA)}
        mean, sensitivity = row.get("variants"), row.get("schema_sensitivity")
        if row:
            rows[service] |= {"difference": change_of(row), "schema_sensitivity": sensitivity_of(row)}
        if mean is not None and sensitivity is not None and sensitivity_of(row) != task.NOT_DEFINED:
            points.append(Dot(service, sensitivity, group=f"{group} services", x=mean))
    if variants and points:
        yield Scatter(
            title="Joint goal accuracy and schema sensitivity by service",
            x_label=f"JGA, mean of {variants['names'][0]} to {variants['names'][-1]}",
            y_label="schema sensitivity",
            dots=sorted(points, key=lambda point: point.group),
        )
    headings = {"group": "in training", **(_SGDX if variants else {"original": "original"})}
    title, numbers_in = "Joint goal accuracy by service", "robustness.json"
    yield task.group_table(title, "service", rows, headings, text_columns=2, numbers_in=numbers_in)


def _slots(sets: Mapping[str, Any]) -> Table:
    """Makes a table with a row for each slot and a column for each set. Variants are left out, as they rename slots."""
    rows: dict[str, dict[str, float]] = {}
    for name, numbers_of_set in sets.items():
        for service, slots in numbers_of_set["slot_accuracy"].items() if numbers_of_set["kind"] != "variant" else ():
            for slot, accuracy in slots.items():
                rows.setdefault(f"{service}, {slot}", {})[name] = accuracy
    return task.group_table(
        "Accuracy by slot",
        "slot",
        dict(sorted(rows.items())),
        {name: name for name in sets if any(name in accuracies for accuracies in rows.values())},
        note="Over the frames in which the slot is active (RADDLE, Table 7).",
        numbers_in="robustness.json",
        in_card=False,
    )


PIPELINE = "evaluate_dst"
SCORES = "scores"  # tag of the output with the scores of files
_FLAG = "--variants"

Parts = dict[str, list[state_frames.FilePart]]  # set to the parts of prediction files that belong to a reference file


class ScoreFile:
    """Scores a file in all sets: returns rows, counts, totals, replicates, and wrong frames.

    Args:
      config: the settings of the run.
    """

    def __init__(self, config: Config) -> None:
        self.config = config

    def load(self) -> Model | None:
        """Makes the model, if the run has one."""
        return load(self.config.model) if self.config.model else None

    def __call__(self, element: tuple[Job, Parts], model: Model | None = None) -> FileResult:
        """Scores a job.

        Args:
          element: the job, and by set the parts of loose prediction files that belong to it.
          model: the result of :meth:`load`.

        Raises:
          InputError: a file cannot be read, or the predictions do not fit.
        """
        job, loose = element
        config, result = self.config, FileResult(job.name)
        plan, sums = config.plan, FileScores()
        result.others[SCORES] = [sums]
        scored: dict[str, list[list[state_frames.Scored]]] = {}
        original: failures.ScoredFile | None = None
        for member in job.members:
            name, dialogue_set, passed_over = member.set, plan.sets[member.set], state_frames.PassedOver()
            references = state_frames.parse_dialogues(read_input(member.reference, MAX_DIALOGUE_FILE), member.reference)
            known, common = references, plan.common
            if common is not None:
                references = [reference for reference in references if reference.dialogue_id in common]
            predictions, path = self._predictions(
                model, name, known if model is None else references, member.predictions, loose.get(name, ())
            )
            if not config.scoring.official:
                state_frames.check_known(known, predictions, path)
            frames = state_frames.score_dialogues(
                references, predictions, dialogue_set.slots(), config.scoring, path, passed_over
            )
            # With a model, the progress counts predictions rather than scores, as they take most of the time.
            scored[name] = list(frames if model is not None else tracked(frames, "dialogues"))
            table = failures.table(name, scored[name], plan.originals, dialogue_set.seen)
            path = f"rows/{name}/{job.name.removesuffix('.json')}.parquet"
            result.written.append(write_staged(config.output, path, parquet_bytes(table)))
            file = failures.ScoredFile(
                {reference.dialogue_id: reference for reference in references}, predictions, scored[name]
            )
            slots = failures.original_slots(plan, name) if dialogue_set.kind == "variant" else {}
            shown, wrong, right_on_original = failures.failures(file, original, plan.originals, slots, config.seed)
            sums.failures[name] = shown
            original = file if name == ORIGINAL else original
            sums.totals[name] = state_frames.add_up(scored[name], dialogue_set.seen, config.across_turn)
            sums.totals[SLOTS + name] = state_frames.add_up_slots(scored[name])
            counts = {
                "frames": sum(not frame.refused for frames in scored[name] for frame in frames),
                "dialogues": len(references),
                "scored_dialogues": len(scored[name]),
                WRONG_FRAMES: wrong,
                RIGHT_ON_ORIGINAL: right_on_original,
                **msgspec.structs.asdict(passed_over),
            }
            if refused := sum(frame.refused for frames in scored[name] for frame in frames):
                counts[REFUSED] = refused
            for count, n in counts.items():
                result.counts.add(count, n, set=name)
        self._compare(scored, sums, result)
        return result

    def _predictions(
        self,
        model: Model | None,
        name: str,
        references: Sequence[state_frames.Dialogue],
        path: str,
        loose: Sequence[state_frames.FilePart],
    ) -> tuple[dict[str, state_frames.Dialogue], str]:
        """Returns the predictions for the dialogues of a file, and their place for messages."""
        config = self.config
        if model is not None and config.model is not None:
            services, target = config.plan.sets[name].services, config.model.target
            return predicted(model, references, services, config.batch_size, target), f"{target} on {name}"
        place = path or f"--predictions: {name}"
        return state_frames.as_dialogues(
            references, list(state_frames.read_predictions(path) if path else state_frames.predictions_in(loose)), place
        ), place

    def _compare(
        self, scored: Mapping[str, Sequence[Sequence[state_frames.Scored]]], sums: FileScores, result: FileResult
    ) -> None:
        """Adds numbers over several sets: sensitivity and replicates."""
        plan, config = self.config.plan, self.config
        variants = plan.variants if all(name in scored for name in (ORIGINAL, *plan.variants)) else []
        together = state_frames.aligned([scored[name] for name in variants], _FLAG) if len(variants) > 1 else []
        coefficients: state_frames.Coefficients | None = None
        if together:
            coefficients = state_frames.measured(
                together, lambda name: state_frames.keys_of(plan.originals[name], plan.sets[ORIGINAL].seen)
            )
            sums.totals[SENSITIVITY] = state_frames.add_up_coefficients(coefficients, config.zero)
        result.counts.add(COMPARED, len(together))
        if config.replicates:
            sums.replicates.append(self._replicates(scored, coefficients))

    def _replicates(
        self,
        scored: Mapping[str, Sequence[Sequence[state_frames.Scored]]],
        coefficients: state_frames.Coefficients | None,
    ) -> statistics.Counts:
        """Computes the replicates: shape (replicates, statistics, 2), with the statistics of :func:`statistics_of`."""
        config = self.config
        values_by_key: dict[tuple[str, str], statistics.Statistic] = {}
        for name, dialogues in scored.items():
            of_set = state_frames.metric_values(
                dialogues, config.plan.sets[name].seen, config.across_turn, state_frames.METRICS[state_frames.JOINT]
            )
            values_by_key |= {(name, key): statistic for key, statistic in of_set.items()}
        if coefficients is not None:
            values_by_key |= {
                (SENSITIVITY, key): coefficients.statistic(config.zero, state_frames.JOINT, key)
                for key in state_frames.AGGREGATES
            }
        nothing: statistics.Statistic = ([], [])
        wanted = [values_by_key.get(name, nothing) for name in statistics_of(config.plan)]
        return statistics.replicated(config.seed, wanted, config.replicates)


def added(several: Iterable[FileScores]) -> FileScores:
    """Adds up the scores of several files."""
    parts = list(several)
    names = dict.fromkeys(name for part in parts for name in part.totals)
    sets = dict.fromkeys(name for part in parts for name in part.failures)
    replicates = [array for part in parts for array in part.replicates]
    return FileScores(
        {name: state_frames.merged(part.totals[name] for part in parts if name in part.totals) for name in names},
        [sum(replicates[1:], start=replicates[0])] if replicates else [],
        {name: failures.first(part.failures.get(name, ()) for part in parts) for name in sets},
    )


def with_parts(plan: Plan, official: bool) -> Iterator[tuple[Job, Parts]]:
    """Yields each job with the parts of loose prediction files that belong to it.

    Raises:
      InputError: a file cannot be read; or, unless ``official``, the reference lacks a predicted dialogue.
    """
    parts: dict[str, Parts] = {job.name: {} for job in plan.jobs}
    for name in dict(plan.loose):
        places: dict[str, str] = {}
        for job in plan.jobs:
            for path in (member.reference for member in job.members if member.set == name):
                dialogues = state_frames.parse_dialogues(read_input(path, MAX_DIALOGUE_FILE), path)
                places |= {dialogue.dialogue_id: job.name for dialogue in dialogues}
        for path in (path for set_name, path in plan.loose if set_name == name):
            before = None
            for prediction, part in state_frames.read_parts(path, name):
                place = places.get(prediction.dialogue_id)
                if place is None:
                    if not official:
                        raise InputError(f"dialogue {prediction.dialogue_id!r} is not in the reference of {name}", path)
                elif place == before:
                    set_parts = parts[place][name]
                    set_parts[-1] = state_frames.FilePart(path, set_parts[-1].start, part.end)
                else:
                    parts[place].setdefault(name, []).append(part)
                before = place
    return ((job, parts[job.name]) for job in plan.jobs)


class EvaluateStates(beam.PTransform):
    """Scores all files of a plan, and publishes rows, metrics and the page.

    Args:
      config: the settings of the run.
    """

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config

    def expand(self, pipeline: beam.Pipeline) -> beam.PCollection:
        """Turns the pipeline into a PCollection of the run's manifest."""
        config = self.config
        prepare(config.output, PIPELINE)
        expect_dialogues_in(member.reference for job in config.plan.jobs for member in job.members)
        score = ScoreFile(config)
        jobs = (
            pipeline
            | "Plan" >> beam.Create([config.plan])
            | "Files" >> beam.FlatMap(with_parts, config.scoring.official)
            | "Spread" >> beam.Reshuffle()
        )
        # There are no dead letters and no sampled examples, only numbers of sets and files.
        outputs = jobs | "Score" >> WriteEach(score, shown=0, others=(SCORES,), progress=(), setup=score.load)
        scores = outputs.others[SCORES] | "Add up" >> beam.CombineGlobally(added).without_defaults()
        plugin = recorded(plugin_of(config.model.target) if config.model else None)
        header = {**plugin, **({"is_deterministic": False} if config.is_noisy else {})}
        balance = Balance("dialogues", ("scored_dialogues", "missing_dialogues"), tuple(config.plan.sets), by_set=True)
        published: beam.PCollection = outputs._replace(dead_letters=None) | FinishRun(
            RunInfo(PIPELINE, config.output, {**config.options(), "variants": config.plan.variants}, header=header),
            partial(metadata_files, config),
            beam.pvalue.AsList(scores),
            invariants=[balance],
            recorded=("frames", "dialogues", REFUSED, *state_frames.PassedOver.__struct_fields__),
        )
        return published
