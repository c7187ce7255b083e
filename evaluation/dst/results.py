"""The numbers of a run: ``metrics.json`` as the official scoring has it, ``robustness.json`` with the rest."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

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


def metadata_files(
    config: Config,
    counts: Counts,
    _examples: object,
    totals: Iterable[tuple[str, Totals]],
    replicates: Sequence[bootstrap.Counts],
    hurt: Sequence[Sequence[HurtFrame]],
    failures: Iterable[tuple[str, Sequence[Ranked]]],
) -> dict[str, bytes]:
    """metrics.json, robustness.json, the page, the wrong frames of each set, and with variants examples.json.

    Args:
      config: the run.
      counts: of its slots that are wrong.
      totals: by set, and by unit and policy of the sensitivity, the sums of each aggregate; those of each set's slots.
      replicates: one or none, of joint goal accuracy and sensitivity.
      hurt: one list or none, the frames that variants hurt most.
      failures: by set the wrong frames that come first.

    Raises:
      InputError: no frame of a set was scored.
    """
    for name in config.plan.sets:
        if not counts.sum("frames", set=name):
            lacks = "user turn has a frame" if counts.sum("scored_dialogues", set=name) else "dialogue has a prediction"
            where = f"set {name!r}, split {config.sources.split!r}"
            place = config.sources.others.get(name, config.sources.reference)
            raise InputError(f"no {lacks}, so there is nothing to score", place, where)
    found = dict(totals)
    slots = {name.removeprefix(SLOTS): slot_accuracy(found.pop(name)) for name in list(found) if name.startswith(SLOTS)}
    metrics = {name: means(sums) for name, sums in found.items()}
    numbers = robustness(config, metrics, slots, counts, replicates[0] if replicates else None)
    examples = hurt[0] if hurt else []
    report = dst_report(numbers, examples)
    files = {
        "metrics.json": _json(metrics.get(ORIGINAL, {})),
        "robustness.json": _json(numbers),
        "report.html": page(report).encode(),
        **({"examples.json": json_bytes(examples)} if config.plan.variants else {}),
    }
    shown = dict(failures)
    for name, of in numbers["sets"].items():
        files |= failure_files(config.system, name, of["failures"], shown.get(name, []))
    return files


def robustness(
    config: Config,
    metrics: Mapping[str, Metrics],
    slots: Mapping[str, Metrics],
    counts: Counts,
    replicates: bootstrap.Counts | None,
) -> dict[str, Any]:
    """All numbers of a run.

    Args:
      config: the run.
      metrics: by set, and by unit and policy of the sensitivity, the means of each aggregate.
      slots: by set and service, the accuracy of each slot.
      counts: of slots that are wrong.
      replicates: of joint goal accuracy and sensitivity; None where there are none.
    """
    plan = config.plan
    intervals = _Intervals(plan, replicates)
    numbers: dict[str, Any] = {
        "system": config.system,
        "options": config.options(),
        "sets": {
            name: {
                "kind": one.kind,
                "metrics": metrics.get(name, {}),
                "slot_accuracy": slots.get(name, {}),
                "intervals": {key: intervals.of([name], key) for key in AGGREGATES},
                "wrong_slots": _by_kind(counts, WRONG_SLOTS, name),
                "failures": {
                    "frames": counts.sum("frames", set=name),
                    "wrong": counts.sum(WRONG_FRAMES, set=name),
                    "right_on_original": counts.sum(RIGHT_ON_ORIGINAL, set=name),
                },
            }
            for name, one in plan.sets.items()
        },
        "seen_services": sorted(plan.sets[ORIGINAL].seen & plan.sets[ORIGINAL].services.keys()),
    }
    if len(plan.variants) > 1:
        lost = {name: _by_kind(counts, LOST_SLOTS, name) for name in plan.variants}
        dialogues = {"compared": counts.sum(COMPARED), "original": counts.sum("scored_dialogues", set=ORIGINAL)}
        numbers["variants"] = {**_variants(config, metrics, intervals), "lost_slots": lost, "dialogues": dialogues}
    return numbers


def _by_kind(counts: Counts, name: str, of_set: str) -> dict[str, int]:
    """How many slots of a set are wrong, by kind of error."""
    found = counts.by("value", name, set=of_set)
    return {kind: found.get(kind, 0) for kind in ERRORS}


def _variants(config: Config, metrics: Mapping[str, Metrics], intervals: _Intervals) -> dict[str, Any]:
    plan, original = config.plan, metrics.get(ORIGINAL, {})
    average = averaged([renamed(metrics.get(name, {}), plan.originals) for name in plan.variants])
    sensitivity = {
        name.removeprefix(SENSITIVITY): of for name, of in sorted(metrics.items()) if name.startswith(SENSITIVITY)
    }
    headline = f"{config.unit}/{config.zero}"
    table: dict[str, dict[str, Any]] = {}
    for key, of in average.items():
        before, after = original.get(key, {}).get(JGA), of.get(JGA)
        table[key] = {
            "original": before,
            "variants": after,
            "difference": _relative(before, after),
            "schema_sensitivity": sensitivity.get(headline, {}).get(key, {}).get(JGA),
        }
        if key in AGGREGATES:
            table[key] |= {
                "variants_interval": intervals.of(plan.variants, key),
                "difference_interval": intervals.of_difference(plan.variants, key),
                "schema_sensitivity_interval": intervals.of([SENSITIVITY + headline], key),
            }
    return {
        "names": plan.variants,
        "average": average,
        "difference": {
            key: {name: _relative(original.get(key, {}).get(name), value) for name, value in of.items()}
            for key, of in average.items()
        },
        "schema_sensitivity": sensitivity,
        "schema_sensitivity_intervals": {
            name: {key: intervals.of([SENSITIVITY + name], key) for key in AGGREGATES} for name in SENSITIVITIES
        },
        "headline": {"unit": config.unit, "zero": config.zero},
        "table": table,
    }


class _Intervals:
    """95 % intervals of what is computed from the replicates; None where there are none."""

    def __init__(self, plan: Plan, replicates: bootstrap.Counts | None) -> None:
        self._place = {name: i for i, name in enumerate(statistics_of(plan))}
        self._values = None if replicates is None else bootstrap.means(replicates)

    def of(self, names: Sequence[str], key: str) -> list[float] | None:
        """Of the mean over some sets."""
        return self._interval(self._mean(names, key))

    def of_difference(self, names: Sequence[str], key: str) -> list[float] | None:
        """Of how far the mean over some sets is from the original, relative to that."""
        original, mean = self._mean([ORIGINAL], key), self._mean(names, key)
        if original is None or mean is None:
            return None
        with bootstrap.quiet():
            return self._interval((mean - original) / original)

    def _mean(self, names: Sequence[str], key: str) -> NDArray[np.float64] | None:
        if self._values is None:
            return None
        found: NDArray[np.float64] = np.mean([self._values[:, self._place[name, key]] for name in names], axis=0)
        return found

    def _interval(self, values: NDArray[np.float64] | None) -> list[float] | None:
        found = None if values is None else bootstrap.interval(values)
        return None if found is None else list(found)


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
