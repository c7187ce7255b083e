"""The numbers of a run: ``metrics.json`` as the official scoring has it, ``robustness.json`` with the rest."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import numpy as np

from parapet.evaluation import bootstrap
from parapet.evaluation.dst.failures import Ranked, failure_files
from parapet.evaluation.dst.frames import METRICS
from parapet.evaluation.dst.report import dst_report
from parapet.evaluation.dst.rows import ERRORS, HurtFrame
from parapet.evaluation.dst.sensitivity import POLICIES, UNITS
from parapet.evaluation.dst.sets import Config, Plan
from parapet.evaluation.dst.totals import AGGREGATES, Totals, means, slot_accuracy
from parapet.evaluation.sets import ORIGINAL
from parapet.evaluation.writing import json_bytes
from parapet.schemas.errors import InputError
from parapet.transforms.counts import Counts
from parapet.transforms.report import page

Metrics = Mapping[str, Mapping[str, float]]

JGA = "joint_goal_accuracy"
# Counts: slots that lower joint goal accuracy; of these, those that are right under the original; and the dialogues
# over which schema sensitivity is computed.
WRONG_SLOTS, LOST_SLOTS, COMPARED = "wrong_slots", "lost_slots", "compared_dialogues"
# Counts: frames with a wrong slot, and those of them that are right on the original.
WRONG_FRAMES, RIGHT_ON_ORIGINAL = "wrong_frames", "right_on_original"

SENSITIVITY = "sensitivity/"  # before the key of its sums: sensitivity/frame/zero
SLOTS = "slots/"  # before the name of a set: the sums of its slots
SENSITIVITIES = [f"{unit}/{policy}" for unit in UNITS for policy in POLICIES]


def statistics_of(plan: Plan) -> list[tuple[str, str]]:
    """What has replicates: the joint goal accuracy of each set, and its sensitivities, by aggregate."""
    sensitivities = [SENSITIVITY + name for name in SENSITIVITIES] if len(plan.variants) > 1 else []
    return [(name, key) for name in (*plan.sets, *sensitivities) for key in AGGREGATES]


class FileScores(msgspec.Struct):
    """What is summed up over the dialogue files of a run.

    Attributes:
      totals: by set, and by unit and policy of the sensitivity, the sums of each aggregate; those of each set's slots.
      replicates: one or none, of joint goal accuracy and sensitivity.
      hurt: the frames that variants hurt most.
      failures: by set the wrong frames that come first.
    """

    totals: dict[str, Totals] = {}
    replicates: list[bootstrap.Counts] = []
    hurt: list[HurtFrame] = []
    failures: dict[str, list[Ranked]] = {}


def metadata_files(config: Config, counts: Counts, _examples: object, scores: Sequence[FileScores]) -> dict[str, bytes]:
    """metrics.json, robustness.json, the page, the wrong frames of each set, and with variants examples.json.

    Args:
      config: the run.
      counts: of its slots that are wrong.
      scores: those of all files; none if there are no files.

    Raises:
      InputError: no frame of a set was scored.
    """
    for name in config.plan.sets:
        if not counts.sum("frames", set=name):
            lacks = "user turn has a frame" if counts.sum("scored_dialogues", set=name) else "dialogue has a prediction"
            where = f"set {name!r}, split {config.sources.split!r}"
            place = config.sources.others.get(name, config.sources.reference)
            raise InputError(f"no {lacks}, so there is nothing to score", place, where)
    (of_all,) = scores
    numbers = robustness(config, of_all, counts)
    files = {
        "metrics.json": _json(numbers["sets"][ORIGINAL]["metrics"]),
        "robustness.json": _json(numbers),
        "report.html": page(dst_report(numbers, of_all.hurt)).encode(),
        **({"examples.json": json_bytes(of_all.hurt)} if config.plan.variants else {}),
    }
    for name, of in numbers["sets"].items():
        files |= failure_files(config.system, name, of["failures"], of_all.failures.get(name, []))
    return files


def robustness(config: Config, scores: FileScores, counts: Counts) -> dict[str, Any]:
    """All numbers of a run."""
    plan = config.plan
    intervals = _Intervals(plan, scores.replicates)
    metrics = {name: means(sums) for name, sums in scores.totals.items() if not name.startswith(SLOTS)}

    def kinds(count: str, name: str) -> dict[str, int]:
        """How many slots of a set are wrong, by kind of error."""
        by_kind = counts.by("value", count, set=name)
        return {kind: by_kind.get(kind, 0) for kind in ERRORS}

    failures = {"frames": "frames", "wrong": WRONG_FRAMES, "right_on_original": RIGHT_ON_ORIGINAL}
    numbers: dict[str, Any] = {
        "system": config.system,
        "options": config.options(),
        "sets": {
            name: {
                "kind": of.kind,
                "metrics": metrics.get(name, {}),
                "slot_accuracy": slot_accuracy(scores.totals.get(SLOTS + name, {})),
                "intervals": {key: intervals.of([name], key) for key in AGGREGATES},
                "wrong_slots": kinds(WRONG_SLOTS, name),
                "failures": {key: counts.sum(count, set=name) for key, count in failures.items()},
            }
            for name, of in plan.sets.items()
        },
        "seen_services": sorted(plan.sets[ORIGINAL].seen & plan.sets[ORIGINAL].services.keys()),
    }
    if len(plan.variants) > 1:
        numbers["variants"] = {
            **_variants(config, metrics, intervals),
            "lost_slots": {name: kinds(LOST_SLOTS, name) for name in plan.variants},
            "dialogues": {"compared": counts.sum(COMPARED), "original": counts.sum("scored_dialogues", set=ORIGINAL)},
        }
    return numbers


def _variants(config: Config, metrics: Mapping[str, Metrics], intervals: _Intervals) -> dict[str, Any]:
    """The means over variants, their difference from the original, and the sensitivities."""
    plan, original = config.plan, metrics.get(ORIGINAL, {})
    average = averaged([renamed(metrics.get(name, {}), plan.originals) for name in plan.variants])
    difference = {
        key: {name: _relative(original.get(key, {}).get(name), value) for name, value in of.items()}
        for key, of in average.items()
    }
    sensitivity = {
        name.removeprefix(SENSITIVITY): of for name, of in sorted(metrics.items()) if name.startswith(SENSITIVITY)
    }
    headline = f"{config.unit}/{config.zero}"
    table: dict[str, dict[str, Any]] = {}
    for key, of in average.items():
        table[key] = {
            "original": original.get(key, {}).get(JGA),
            "variants": of.get(JGA),
            "difference": difference[key].get(JGA),
            "schema_sensitivity": sensitivity.get(headline, {}).get(key, {}).get(JGA),
        }
        if key in AGGREGATES:
            table[key] |= {
                "variants_interval": intervals.of(plan.variants, key),
                "difference_interval": intervals.of(plan.variants, key, relative=True),
                "schema_sensitivity_interval": intervals.of([SENSITIVITY + headline], key),
            }
    return {
        "names": plan.variants,
        "average": average,
        "difference": difference,
        "schema_sensitivity": sensitivity,
        "schema_sensitivity_intervals": {
            name: {key: intervals.of([SENSITIVITY + name], key) for key in AGGREGATES} for name in SENSITIVITIES
        },
        "headline": {"unit": config.unit, "zero": config.zero},
        "table": table,
    }


class _Intervals:
    """95 % intervals of what is computed from the replicates; None where there are none."""

    def __init__(self, plan: Plan, replicates: Sequence[bootstrap.Counts]) -> None:
        values = bootstrap.means(replicates[0]).T if replicates else ()
        self._columns = dict(zip(statistics_of(plan), values, strict=bool(replicates)))

    def of(self, names: Sequence[str], key: str, relative: bool = False) -> list[float] | None:
        """Of the mean over some sets; ``relative``: of how far it is from the original, relative to that."""
        if not self._columns:
            return None
        values = np.mean([self._columns[name, key] for name in names], axis=0)
        if relative:
            original = self._columns[ORIGINAL, key]
            with bootstrap.quiet():
                values = (values - original) / original
        interval = bootstrap.interval(values)
        return None if interval is None else list(interval)


def renamed(metrics: Metrics, originals: Mapping[str, str]) -> dict[str, Mapping[str, float]]:
    """The aggregates of a variant under the original's names of services."""
    return {originals.get(key, key): of for key, of in metrics.items()}


def averaged(variants: Sequence[Metrics]) -> dict[str, dict[str, float]]:
    """The mean over variants of every aggregate that all have."""
    keys = [key for key in sorted(variants[0]) if all(key in of for of in variants)]
    return {
        key: {
            name: math.fsum(of[key][name] for of in variants) / len(variants)
            for name in sorted(METRICS)
            if all(name in of[key] for of in variants)
        }
        for key in keys
    }


def _relative(original: float | None, value: float | None) -> float | None:
    return None if not original or value is None else (value - original) / original


def _json(value: object) -> bytes:
    return (json.dumps(value, indent=1, sort_keys=True, allow_nan=False) + "\n").encode()
