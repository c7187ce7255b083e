"""The page of ``evaluate --task dst``: the tables and figures of SGD-X, and what went wrong, to be read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from parapet.evaluation.dst.rows import Example
from parapet.transforms import svg
from parapet.transforms.pages import render

JGA = "joint_goal_accuracy"
GROUPS = {"#ALL_SERVICES": "All", "#SEEN_SERVICES": "Seen services", "#UNSEEN_SERVICES": "Unseen services"}

COLUMNS = {
    "joint_goal_accuracy": "JGA",
    "joint_cat_accuracy": "JGA, categorical",
    "joint_noncat_accuracy": "JGA, free",
    "average_goal_accuracy": "Average goal",
    "active_intent_accuracy": "Intent",
    "requested_slots_f1": "Requested F1",
    "slot_tagging_f1": "Tagging F1",
}

TERMS = {
    "JGA": "Joint goal accuracy: of a frame, the product of its slots' scores; with fuzzy matching a free slot's score "
    "lies between 0 and 1. The mean over the frames of user turns, as the official SGD scoring has it.",
    "Seen, unseen": "Whether the schema of the training split has the service.",
    "Relative difference": "The mean over the variants, less the original, over the original.",
    "Schema sensitivity": "Of a frame, sample standard deviation over mean of its JGA under the variants (Lee et al. "
    "2022, section 4); then the mean over frames. 0: the wording of the schema does not matter.",
    "Drop, zero": "A frame wrong under every variant has no sensitivity: it is dropped, or counts as zero.",
    "Intervals": "95 %, percentiles of a Poisson bootstrap over dialogues.",
}


def report_page(numbers: Mapping[str, Any], examples: Sequence[Example]) -> str:
    """The page.

    Args:
      numbers: ``robustness.json``.
      examples: the frames that a variant hurt most.
    """
    sets, variants = numbers["sets"], numbers.get("variants")
    original = sets["original"]["metrics"]["#ALL_SERVICES"].get(JGA)
    return render(
        "evaluate_dst.html.jinja",
        title="Dialogue state tracking",
        brand="evaluation",
        headline=f"How {numbers['system']} tracks dialogue states",
        lead=_lead(numbers),
        tiles=_tiles(original, variants),
        table=_table(variants) if variants else [],
        policies=_policies(variants) if variants else [],
        columns=list(COLUMNS.values()),
        sets=[{"name": name, "kind": one["kind"], "cells": _cells(one)} for name, one in sets.items()],
        groups=_groups(sets),
        services=_services(sets["original"]["metrics"], variants),
        plots=_plots(sets, variants),
        examples=[_example(one) for one in examples],
        terms=[{"term": term, "meaning": meaning} for term, meaning in TERMS.items()],
    )


def _lead(numbers: Mapping[str, Any]) -> str:
    options = numbers["options"]
    matching = "fuzzy matching of free slots" if options["fuzzy"] else "exact matching"
    return f"Split {options['split']}, {len(numbers['sets'])} sets; {matching}, as the official SGD scoring has it."


def _tiles(original: float | None, variants: Mapping[str, Any] | None) -> list[dict[str, str]]:
    tiles = [{"what": "JGA, original", "value": percent(original)}]
    if variants:
        row = variants["table"]["#ALL_SERVICES"]
        tiles += [
            {"what": f"JGA, mean of {', '.join(variants['names'])}", "value": percent(row["variants"])},
            {"what": "relative difference", "value": percent(row["difference"], signed=True)},
            {"what": "schema sensitivity", "value": three(row["schema_sensitivity"])},
        ]
    return tiles


def _table(variants: Mapping[str, Any]) -> list[dict[str, Any]]:
    rows = []
    for key, name in GROUPS.items():
        if row := variants["table"].get(key):
            cells = [
                (percent(row["original"]), ""),
                (percent(row["variants"]), between(row["variants_interval"])),
                (percent(row["difference"], signed=True), between(row["difference_interval"])),
                (three(row["schema_sensitivity"]), between(row["schema_sensitivity_interval"], three)),
            ]
            rows.append({"name": name, "cells": [{"value": value, "between": said} for value, said in cells]})
    return rows


def _policies(variants: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [
        {"name": name.replace("/", ", "), "cells": [three(of.get(key, {}).get(JGA)) for key in GROUPS]}
        for name, of in variants["schema_sensitivity"].items()
    ]


def _cells(one: Mapping[str, Any]) -> list[str]:
    found = one["metrics"].get("#ALL_SERVICES", {})
    return [percent(found.get(name)) for name in COLUMNS]


def _groups(sets: Mapping[str, Any]) -> list[dict[str, Any]]:
    rows = []
    for name, one in sets.items():
        cells = []
        for key in GROUPS:
            value = percent(one["metrics"].get(key, {}).get(JGA))
            cells.append({"value": value, "between": between(one["intervals"].get(key))})
        rows.append({"name": name, "cells": cells})
    return rows


def _services(original: Mapping[str, Any], variants: Mapping[str, Any] | None) -> list[dict[str, Any]]:
    rows = []
    for name in sorted(key for key in original if not key.startswith("#") and "_" in key):
        row = variants["table"].get(name, {}) if variants else {}
        cells = [percent(original[name].get(JGA))]
        if variants:
            cells += [percent(row.get("variants")), percent(row.get("difference"), signed=True)]
            cells.append(three(row.get("schema_sensitivity")))
        rows.append({"name": name, "cells": cells})
    return rows


def _plots(sets: Mapping[str, Any], variants: Mapping[str, Any] | None) -> list[dict[str, Any]]:
    plots = []
    if variants:
        names = ["original", *variants["names"]]
        plots.append(_by_set("variants", "JGA by variant", names, sets))
        points = [
            svg.Point(name, row["variants"], row["schema_sensitivity"])
            for name, row in variants["table"].items()
            if not name.startswith("#") and "_" in name and None not in (row["variants"], row["schema_sensitivity"])
        ]
        said = "Each service: its mean JGA over the variants, and how much it varies."
        axes = ("mean JGA of the variants", "schema sensitivity")
        title = "JGA and sensitivity by service"
        plot = svg.scatter("services", title, said, points, axes)
        plots.append({"title": title, "hint": "upper left: weak and fickle", "svg": plot})
    others: dict[str, list[str]] = {}
    for name, one in sets.items():
        if one["kind"] == "other":
            others.setdefault(_family(name), []).append(name)
    for family, names in others.items():
        plots.append(_by_set(f"set-{family}", f"JGA on {family}", ["original", *names], sets))
    return plots


def _family(name: str) -> str:
    """``typos`` of ``typos-env1``, ``SR`` of ``SR-10``: sets of one kind stand in one plot."""
    return name.partition("-")[0]


def _by_set(key: str, title: str, names: Sequence[str], sets: Mapping[str, Any]) -> dict[str, Any]:
    values = tuple(sets[name]["metrics"].get("#ALL_SERVICES", {}).get(JGA) for name in names)
    intervals = tuple(
        pair and (pair[0], pair[1]) for pair in (sets[name]["intervals"]["#ALL_SERVICES"] for name in names)
    )
    series = [svg.Series("JGA", values, intervals=intervals)]
    said = ", ".join(f"{name} {percent(value)}" for name, value in zip(names, values, strict=True))
    plot = svg.lines(key, title, said, names, series, svg.percent)
    return {"title": title, "hint": "joint goal accuracy", "svg": plot}


def _example(one: Example) -> dict[str, Any]:
    return {
        "where": f"{one.dialogue_id}, turn {one.turn}",
        "utterance": one.utterance,
        "service": one.service,
        "variant": one.variant,
        "variant_service": one.variant_service,
        "fell": f"{percent(one.accuracy)} → {percent(one.variant_accuracy)}",
        "slots": one.slots,
    }


def percent(value: float | None, signed: bool = False) -> str:
    """A share in per cent, with one digit."""
    return "–" if value is None else f"{100 * value:+.1f}%" if signed else f"{100 * value:.1f}%"


def three(value: float | None) -> str:
    """A number with three digits."""
    return "–" if value is None else f"{value:.3f}"


def between(interval: Sequence[float] | None, form: Any = percent) -> str:
    """An interval."""
    return "" if not interval else f"{form(interval[0])} to {form(interval[1])}"
