"""The report of ``evaluate --task dst``: accuracy by set, the tables of SGD-X, and frames that variants hurt."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from parapet.evaluation.dst.failures import page_place
from parapet.evaluation.dst.rows import ERRORS, HurtFrame
from parapet.evaluation.sets import ORIGINAL
from parapet.transforms.report import Dot, Dots, Point, Report, Scatter, Section, Table, Tile
from parapet.transforms.text import counted, percent

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
    "Schema sensitivity": "Of a frame, the sample standard deviation of its JGA under the variants over its mean; then "
    "the mean over frames, in percent (Lee et al. 2022, equation 1). 0: the wording of the schema does not matter, or "
    "everything is wrong.",
    "Zero, drop": "Whether a frame that is wrong under all variants counts with a sensitivity of 0, since the equation "
    "is over all turns, or is dropped.",
    "Frame, turn": "A frame is one service of a user turn. The JGA of a turn is the product of its frames'.",
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
        sections += [_sgdx_table(variants, sets["original"]["intervals"]), _policies(variants)]
    services = _services(sets["original"]["metrics"], numbers["seen_services"], variants)
    sections += [
        failures_table(sets),
        _groups(sets),
        _all_metrics(sets),
        *services,
        slots_table(sets),
        _errors(sets, variants),
    ]
    if examples:
        sections.append(examples_table(examples, EXAMPLES_TITLE))
    return Report(
        command="evaluate",
        title="Dialogue state tracking",
        headline=f"How {numbers['system']} tracks dialogue states",
        lead=_lead(numbers),
        tiles=_tiles(sets["original"]["metrics"]["#ALL_SERVICES"].get(JGA), variants),
        sections=sections,
        notes=[_compared(variants["dialogues"])] if variants and len(set(variants["dialogues"].values())) > 1 else [],
        terms=TERMS,
        links={
            "metrics.json": "the original's metrics by aggregate, as the official scoring has them",
            "robustness.json": "all numbers",
            **({"examples.json": "the frames that variants hurt most"} if variants else {}),
            "failures/": "the wrong frames of each set as pages and as JSON: utterances, history and states",
            "rows/": "a row for every frame",
        },
    )


def _compared(dialogues: Mapping[str, int]) -> str:
    return (
        f"Schema sensitivity is over the {dialogues['compared']:,} of {dialogues['original']:,} dialogues that all "
        "variants have."
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
            Tile("schema sensitivity", percent(row["schema_sensitivity"])),
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


def _sgdx_table(variants: Mapping[str, Any], original: Mapping[str, Any]) -> Table:
    rows = []
    for key, name in GROUPS.items():
        if row := variants["table"].get(key):
            rows.append(
                [
                    name,
                    percent(row["original"]) + _small(original.get(key)),
                    percent(row["variants"]) + _small(row["variants_interval"]),
                    percent(row["difference"], signed=True) + _small(row["difference_interval"]),
                    percent(row["schema_sensitivity"]) + _small(row["schema_sensitivity_interval"]),
                ]
            )
    return Table(title="Joint goal accuracy under variants, as in SGD-X", columns=["services", *_SGDX], rows=rows)


def _policies(variants: Mapping[str, Any]) -> Table:
    headline = "{unit}/{zero}".format(**variants["headline"])
    order = sorted(variants["schema_sensitivity"].items(), key=lambda one: one[0] != headline)
    intervals = variants["schema_sensitivity_intervals"]
    return Table(
        title="Schema sensitivity of JGA by unit and policy",
        note="The other tables have the first.",
        columns=["unit, policy", *GROUPS.values()],
        rows=[
            [
                name.replace("/", ", "),
                *(percent(row.get(key, {}).get(JGA)) + _small(intervals[name].get(key)) for key in GROUPS),
            ]
            for name, row in order
        ],
    )


def failures_table(sets: Mapping[str, Any]) -> Table:
    """How many frames of each set are wrong, with a link to the page that shows them."""
    numbers = {name: entry["failures"] for name, entry in sets.items()}
    return Table(
        title="Wrong frames by set",
        note="Each set has a page that shows its wrong frames. Those that are right on the original come first.",
        columns=["set", "frames", "wrong", "right on the original, wrong here"],
        rows=[
            [name, f"{of['frames']:,}", f"{of['wrong']:,}", "" if name == ORIGINAL else f"{of['right_on_original']:,}"]
            for name, of in numbers.items()
        ],
        hrefs={(i, 0): page_place(name) for i, name in enumerate(numbers)},
        numbers_in="robustness.json",
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


def _services(
    original: Mapping[str, Any], seen: Sequence[str], variants: Mapping[str, Any] | None
) -> Iterator[Scatter | Table]:
    """A row a service; and with variants SGD-X's Figure 6, a point a service."""
    rows, points = [], []
    for name in sorted(key for key in original if not key.startswith("#") and "_" in key):
        group = "seen" if name in seen else "unseen"
        cells = [group, percent(original[name].get(JGA))]
        if variants:
            row = variants["table"].get(name, {})
            mean, sensitivity = row.get("variants"), row.get("schema_sensitivity")
            cells += [percent(mean), percent(row.get("difference"), signed=True), percent(sensitivity)]
            if mean is not None and sensitivity is not None:
                points.append(Point(name, mean, sensitivity, f"{group} services"))
        rows.append([name, *cells])
    if variants and points:
        names = variants["names"]
        yield Scatter(
            title="Joint goal accuracy and schema sensitivity by service",
            x_label=f"JGA, mean of {names[0]} to {names[-1]}",
            y_label="schema sensitivity",
            points=sorted(points, key=lambda point: point.group),
        )
    yield Table(
        title="Joint goal accuracy by service",
        columns=["service", "in training", *(_SGDX if variants else _SGDX[:1])],
        rows=rows,
        text_columns=2,
        numbers_in="robustness.json",
    )


def slots_table(sets: Mapping[str, Any]) -> Table:
    """A row a slot, a column a set. Variants are left out: their slots have other names."""
    accuracies = {name: entry["slot_accuracy"] for name, entry in sets.items() if entry["kind"] != "variant"}
    names = sorted({(service, slot) for of in accuracies.values() for service, slots in of.items() for slot in slots})
    return Table(
        title="Accuracy by slot",
        note="Over the frames in which the slot is active (RADDLE, Table 7).",
        columns=["service", "slot", *accuracies],
        rows=[
            [service, slot, *(percent(of.get(service, {}).get(slot)) for of in accuracies.values())]
            for service, slot in names
        ],
        text_columns=2,
        numbers_in="robustness.json",
        in_card=False,
    )


def _errors(sets: Mapping[str, Any], variants: Mapping[str, Any] | None) -> Table:
    """How many slots are wrong in each set, by kind of error; and those that only a variant gets wrong."""
    lost = variants["lost_slots"] if variants else {}
    rows = [_kinds(name, entry["wrong_slots"]) for name, entry in sets.items()]
    return Table(
        title="Wrong slots by kind of error",
        note="In all frames of user turns; in percent of the wrong slots of the set. A free slot is wrong unless its "
        "value matches in full.",
        columns=["set", "wrong slots", "active, not predicted", "wrong value", "predicted, not active"],
        rows=[*rows, *(_kinds(name, kinds) for name, kinds in lost.items())],
        groups={0: "All", len(rows): "Right under the original's wording"} if lost else {},
        numbers_in="robustness.json",
    )


def _kinds(name: str, kinds: Mapping[str, int]) -> list[str]:
    every = sum(kinds.values())
    shares = (f"{percent(kinds[kind] / every if every else None)}\n{kinds[kind]:,}" for kind in ERRORS)
    return [name, f"{every:,}", *shares]


EXAMPLES_TITLE = "Slots lost under a variant's wording"


def examples_table(examples: Sequence[HurtFrame], title: str) -> Table:
    """Slots that are right under the original and wrong under a variant, as SGD-X's Table 4 has them."""
    rows = []
    for example in examples:
        accuracy = f"{percent(example.accuracy, 0)} → {percent(example.variant_accuracy, 0)}"
        group = "" if example.seen is None else " (seen)" if example.seen else " (unseen)"
        place = [
            f"{example.service}{group}\n{example.variant}: JGA {accuracy}",
            f"“{example.utterance}”\n{example.dialogue_id}, turn {example.turn}",
        ]
        for slot in example.slots:
            slots = [f"{slot.original}\n{slot.original_description}", f"{slot.variant}\n{slot.variant_description}"]
            rows.append([*place, *slots, slot.reference or "–", slot.predicted_variant or "–"])
            place = ["", ""]
    return Table(
        title=title,
        note="These slots are right under the original schema and wrong under the variant. The user's last turn is "
        "beside them. A dash (–) stands for no value.",
        columns=["service", "user", "slot", "in the variant", "right value", "predicted in the variant"],
        rows=rows,
        text_columns=6,
        in_card=False,
    )


def _small(interval: Sequence[float] | None) -> str:
    """An interval as the small print of a cell."""
    return f"\n{percent(interval[0])} to {percent(interval[1])}" if interval else ""
