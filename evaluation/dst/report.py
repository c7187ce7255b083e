"""The report of ``evaluate --task dst``: accuracy by set, the tables of SGD-X, and frames that variants hurt."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
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

_SGDX = {
    "original": "original",
    "variants": "variants",
    "difference": "relative difference",
    "schema_sensitivity": "schema sensitivity",
}

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
    sets, variants, options = numbers["sets"], numbers.get("variants"), numbers["options"]
    of_all = "#ALL_SERVICES"
    tiles = [Tile("JGA, original", percent(sets[ORIGINAL]["metrics"][of_all].get(JGA)))]
    sections: list[Section] = [_by_set(sets)]
    notes = []
    if variants:
        row, dialogues = variants["table"][of_all], variants["dialogues"]
        tiles += [
            Tile(f"JGA, mean of {', '.join(variants['names'])}", percent(row["variants"])),
            Tile("relative difference", percent(row["difference"], signed=True)),
            Tile("schema sensitivity", percent(row["schema_sensitivity"])),
        ]
        sections += _sensitivity(variants, sets[ORIGINAL]["intervals"])
        if dialogues["compared"] != dialogues["original"]:
            notes.append(
                f"Schema sensitivity is over the {dialogues['compared']:,} of {dialogues['original']:,} dialogues "
                "that all variants have."
            )
    sections += [
        failures_table(sets),
        _set_table("Joint goal accuracy of seen and unseen services", sets, GROUPS, _accuracy),
        _set_table(
            "All metrics, all services", sets, COLUMNS, lambda of, metric: percent(of["metrics"][of_all].get(metric))
        ),
        *_services(sets[ORIGINAL]["metrics"], numbers["seen_services"], variants),
        slots_table(sets),
        _errors(sets, variants),
    ]
    if examples:
        sections.append(examples_table(examples, EXAMPLES_TITLE))
    matching = "fuzzy matching of free slots" if options["fuzzy"] else "exact matching"
    return Report(
        command="evaluate",
        title="Dialogue state tracking",
        headline=f"How {numbers['system']} tracks dialogue states",
        lead=f"Split {options['split']}, {counted(len(sets), 'set')}; {matching}, as the official SGD scoring has it.",
        tiles=tiles,
        sections=sections,
        notes=notes,
        terms=TERMS,
        links={
            "metrics.json": "the original's metrics by aggregate, as the official scoring has them",
            "robustness.json": "all numbers",
            **({"examples.json": "the frames that variants hurt most"} if variants else {}),
            "failures/": "the wrong frames of each set as pages and as JSON: utterances, history and states",
            "rows/": "a row for every frame",
        },
    )


def _by_set(sets: Mapping[str, Any]) -> Dots:
    """Every set in one chart, with its interval: all services, and where there are both the seen and the unseen."""
    dots = [
        Dot(name, of["metrics"].get(key, {}).get(JGA), low, high, group)
        for key, group in GROUPS.items()
        if any(JGA in of["metrics"].get(key, {}) for of in sets.values())
        for name, of in sets.items()
        for low, high in [of["intervals"].get(key) or (None, None)]
    ]
    note = "Lines are 95% intervals. Seen services are those that the training split has."
    return Dots(title="Joint goal accuracy by set", note=note, dots=dots)


def _set_table(
    title: str, sets: Mapping[str, Any], headings: Mapping[str, str], cell: Callable[[Any, str], str]
) -> Table:
    """A row for each set, with a cell for each heading."""
    rows = [[name, *(cell(of, key) for key in headings)] for name, of in sets.items()]
    return Table(title=title, columns=["set", *headings.values()], rows=rows, numbers_in="robustness.json")


def _accuracy(of: Mapping[str, Any], key: str) -> str:
    """The joint goal accuracy of a set in a group of services, with its interval."""
    return _share(of["metrics"].get(key, {}).get(JGA), of["intervals"].get(key))


def _share(value: float | None, interval: Sequence[float] | None, signed: bool = False) -> str:
    """A share, and its interval as small print."""
    small = f"\n{percent(interval[0])} to {percent(interval[1])}" if interval else ""
    return percent(value, signed=signed) + small


def _sensitivity(variants: Mapping[str, Any], original: Mapping[str, Any]) -> Iterator[Table]:
    """The table of SGD-X, and the sensitivity by every unit and policy."""
    table, intervals = variants["table"], variants["schema_sensitivity_intervals"]
    rows = [
        [
            group,
            _share(row["original"], original.get(key)),
            *(_share(row[name], row[f"{name}_interval"], name == "difference") for name in _SGDX if name != "original"),
        ]
        for key, group in GROUPS.items()
        if (row := table.get(key))
    ]
    columns = ["services", *_SGDX.values()]
    yield Table(title="Joint goal accuracy under variants, as in SGD-X", columns=columns, rows=rows)
    headline = "{unit}/{zero}".format(**variants["headline"])
    ordered = sorted(variants["schema_sensitivity"].items(), key=lambda pair: pair[0] != headline)
    yield Table(
        title="Schema sensitivity of JGA by unit and policy",
        note="The other tables have the first.",
        columns=["unit, policy", *GROUPS.values()],
        rows=[
            [
                name.replace("/", ", "),
                *(_share(of.get(key, {}).get(JGA), intervals[name].get(key)) for key in GROUPS),
            ]
            for name, of in ordered
        ],
    )


def failures_table(sets: Mapping[str, Any]) -> Table:
    """How many frames of each set are wrong, with a link to the page that shows them."""
    return Table(
        title="Wrong frames by set",
        note="Each set has a page that shows its wrong frames. Those that are right on the original come first.",
        columns=["set", "frames", "wrong", "right on the original, wrong here"],
        rows=[
            [name, f"{of['frames']:,}", f"{of['wrong']:,}", "" if name == ORIGINAL else f"{of['right_on_original']:,}"]
            for name, of in ((name, entry["failures"]) for name, entry in sets.items())
        ],
        hrefs={(i, 0): page_place(name) for i, name in enumerate(sets)},
        numbers_in="robustness.json",
    )


def _services(
    original: Mapping[str, Any], seen: Sequence[str], variants: Mapping[str, Any] | None
) -> Iterator[Scatter | Table]:
    """A row a service; and with variants SGD-X's Figure 6, a point a service."""
    rows, points = [], []
    names = list(_SGDX) if variants else ["original"]
    for service in sorted(key for key in original if not key.startswith("#") and "_" in key):
        group = "seen" if service in seen else "unseen"
        row = variants["table"].get(service, {}) if variants else {}
        values = {**row, "original": original[service].get(JGA)}
        rows.append([service, group, *(percent(values.get(name), signed=name == "difference") for name in names)])
        mean, sensitivity = row.get("variants"), row.get("schema_sensitivity")
        if mean is not None and sensitivity is not None:
            points.append(Point(service, mean, sensitivity, f"{group} services"))
    if variants and points:
        yield Scatter(
            title="Joint goal accuracy and schema sensitivity by service",
            x_label=f"JGA, mean of {variants['names'][0]} to {variants['names'][-1]}",
            y_label="schema sensitivity",
            points=sorted(points, key=lambda point: point.group),
        )
    yield Table(
        title="Joint goal accuracy by service",
        columns=["service", "in training", *(_SGDX[name] for name in names)],
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
