"""The report of ``evaluate --task dst``: accuracy by set, the tables of SGD-X, and frames that variants hurt."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from parapet.evaluation.dst.rows import HurtFrame
from parapet.transforms.report import Dot, Dots, Report, Section, Table, Tile
from parapet.transforms.text import counted, number, percent

JGA = "joint_goal_accuracy"
GROUPS = {"#ALL_SERVICES": "all services", "#SEEN_SERVICES": "seen services", "#UNSEEN_SERVICES": "unseen services"}

COLUMNS = {
    "joint_goal_accuracy": "JGA",
    "joint_cat_accuracy": "JGA, categorical",
    "joint_noncat_accuracy": "JGA, free",
    "average_goal_accuracy": "average goal",
    "active_intent_accuracy": "intent",
    "requested_slots_f1": "requested F1",
    "slot_tagging_f1": "tagging F1",
}

_SGDX = ["original", "variants", "relative difference", "schema sensitivity"]

TERMS = {
    "JGA": "Joint goal accuracy: of a frame, the product of its slots' scores; with fuzzy matching a free slot's score "
    "lies between 0 and 1. The mean over the frames of user turns, as the official SGD scoring has it.",
    "Seen, unseen": "Whether the schema of the training split has the service.",
    "Relative difference": "(Mean over the variants − original) / original.",
    "Schema sensitivity": "Of a frame, sample standard deviation over mean of its JGA under the variants (Lee et al. "
    "2022, section 4); then the mean over frames. 0: the wording of the schema does not matter.",
    "Drop, zero": "A frame wrong under every variant has no sensitivity: it is dropped, or counts as zero.",
    "Intervals": "95%, percentiles of a Poisson bootstrap over dialogues.",
}


def dst_report(numbers: Mapping[str, Any], examples: Sequence[HurtFrame]) -> Report:
    """The report.

    Args:
      numbers: ``robustness.json``.
      examples: the frames that a variant hurt most.
    """
    sets, variants = numbers["sets"], numbers.get("variants")
    sections: list[Section] = [_by_set(sets)]
    if variants:
        sections += [_sgdx_table(variants), _policies(variants)]
    sections += [_groups(sets), _all_metrics(sets), _services(sets["original"]["metrics"], variants)]
    if examples:
        sections.append(examples_table(examples, "Frames for which a variant's wording costs most"))
    return Report(
        command="evaluate",
        title="Dialogue state tracking",
        headline=f"How {numbers['system']} tracks dialogue states",
        lead=_lead(numbers),
        tiles=_tiles(sets["original"]["metrics"]["#ALL_SERVICES"].get(JGA), variants),
        sections=sections,
        terms=TERMS,
        links={
            "metrics.json": "the original's metrics by aggregate, as the official scoring has them",
            "robustness.json": "all numbers",
            "examples.json": "the frames that variants hurt most",
            "rows/": "a row for every frame",
        },
    )


def _lead(numbers: Mapping[str, Any]) -> str:
    options = numbers["options"]
    matching = "fuzzy matching of free slots" if options["fuzzy"] else "exact matching"
    return (
        f"Split {options['split']}, {counted(len(numbers['sets']), 'set')}; {matching}, as the official SGD scoring "
        "has it."
    )


def _tiles(original: float | None, variants: Mapping[str, Any] | None) -> list[Tile]:
    tiles = [Tile("JGA, original", percent(original))]
    if variants:
        row = variants["table"]["#ALL_SERVICES"]
        tiles += [
            Tile(f"JGA, mean of {', '.join(variants['names'])}", percent(row["variants"])),
            Tile("relative difference", percent(row["difference"], signed=True)),
            Tile("schema sensitivity", number(row["schema_sensitivity"], 3)),
        ]
    return tiles


def _by_set(sets: Mapping[str, Any]) -> Dots:
    """Every set in one chart, with its interval: all services, and where there are both the seen and the unseen."""
    dots = []
    for key, group in GROUPS.items():
        if any(JGA in entry["metrics"].get(key, {}) for entry in sets.values()):
            for name, entry in sets.items():
                low, high = entry["intervals"].get(key) or (None, None)
                dots.append(Dot(name, entry["metrics"].get(key, {}).get(JGA), low, high, group))
    return Dots(
        title="Joint goal accuracy by set",
        note="Lines are 95% intervals. Seen services are those that the training split has.",
        dots=dots,
    )


def _sgdx_table(variants: Mapping[str, Any]) -> Table:
    rows = []
    for key, name in GROUPS.items():
        if row := variants["table"].get(key):
            sensitivity = number(row["schema_sensitivity"], 3)
            interval = row["schema_sensitivity_interval"]
            rows.append(
                [
                    name,
                    percent(row["original"]),
                    percent(row["variants"]) + _small(row["variants_interval"]),
                    percent(row["difference"], signed=True) + _small(row["difference_interval"]),
                    sensitivity + (f"\n{number(interval[0], 3)} to {number(interval[1], 3)}" if interval else ""),
                ]
            )
    return Table(title="Joint goal accuracy under variants, as in SGD-X", columns=["services", *_SGDX], rows=rows)


def _policies(variants: Mapping[str, Any]) -> Table:
    return Table(
        title="Schema sensitivity of JGA by unit and policy",
        columns=["unit, policy", *GROUPS.values()],
        rows=[
            [name.replace("/", ", "), *(number(row.get(key, {}).get(JGA), 3) for key in GROUPS)]
            for name, row in variants["schema_sensitivity"].items()
        ],
    )


def _groups(sets: Mapping[str, Any]) -> Table:
    rows = [
        [
            name,
            *(percent(entry["metrics"].get(key, {}).get(JGA)) + _small(entry["intervals"].get(key)) for key in GROUPS),
        ]
        for name, entry in sets.items()
    ]
    return Table(title="Joint goal accuracy of seen and unseen services", columns=["set", *GROUPS.values()], rows=rows)


def _all_metrics(sets: Mapping[str, Any]) -> Table:
    rows = [
        [name, *(percent(entry["metrics"].get("#ALL_SERVICES", {}).get(metric)) for metric in COLUMNS)]
        for name, entry in sets.items()
    ]
    return Table(title="All metrics, all services", columns=["set", *COLUMNS.values()], rows=rows)


def _services(original: Mapping[str, Any], variants: Mapping[str, Any] | None) -> Table:
    rows = []
    for name in sorted(key for key in original if not key.startswith("#") and "_" in key):
        cells = [percent(original[name].get(JGA))]
        if variants:
            row = variants["table"].get(name, {})
            cells += [percent(row.get("variants")), percent(row.get("difference"), signed=True)]
            cells.append(number(row.get("schema_sensitivity"), 3))
        rows.append([name, *cells])
    return Table(
        title="Joint goal accuracy by service",
        columns=["service", *(_SGDX if variants else _SGDX[:1])],
        rows=rows,
        numbers_in="robustness.json",
    )


def examples_table(examples: Sequence[HurtFrame], title: str) -> Table:
    """Frames that a variant hurts, a row a wrong slot."""
    rows = []
    for example in examples:
        accuracy = f"{percent(example.accuracy)} → {percent(example.variant_accuracy)}"
        place = [
            f"{example.dialogue_id}, turn {example.turn}\n“{example.utterance}”",
            f"{example.service}\nas {example.variant_service}: {accuracy}",
        ]
        for slot in example.slots:
            slots = [f"{slot.original}\n{slot.original_description}", f"{slot.variant}\n{slot.variant_description}"]
            values = [slot.reference or "–", slot.predicted or "–", slot.predicted_variant or "–"]
            rows.append([*place, *slots, *values])
            place = ["", ""]
    columns = ["turn", "service", "slot", "in the variant", "expected", "predicted", "predicted in the variant"]
    return Table(title=title, columns=columns, rows=rows, text_columns=len(columns), in_card=False)


def _small(interval: Sequence[float] | None) -> str:
    """An interval as the small print of a cell."""
    return f"\n{percent(interval[0])} to {percent(interval[1])}" if interval else ""
