"""The report of ``statistics``: the measures of ``parapet.transforms.table1`` as tables and charts, beside SGD-X's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from parapet.transforms.report import Bars, Report, Series, Table, Tile
from parapet.transforms.text import counted, number, percent

Measured = Mapping[str, float | None]

# Lee et al. 2022, Table 1: the whole of SGD (45 services); the original, v1 to v5, and their average.
PUBLISHED = {
    "slot_names_seen": (0.65, 0.13, 0.14, 0.05, 0.06, 0.02, 0.08),
    "intent_names_seen": (0.71, 0.0, 0.0, 0.04, 0.0, 0.04, 0.02),
    "name_distance": (None, 0.30, 0.42, 0.49, 0.56, 0.61, 0.48),
    "description_bleu": (None, 18.8, 11.3, 5.6, 2.9, 1.0, 7.9),
}
PUBLISHED_SELF_BLEU = 4.5
SGD_X = ("v1", "v2", "v3", "v4", "v5")
# As the rows of Table 1 are named; the split is test there.
TABLE_1 = {
    "slot_names_seen": "% of {split} slot names seen in train",
    "intent_names_seen": "% of {split} intent names seen in train",
    "name_distance": "Levenshtein Distance (names)",
    "description_bleu": "BLEU (desc)",
}

# Column of statistics.json to its heading.
MEASURES = {
    "slot_names_seen": "slots seen",
    "intent_names_seen": "intents seen",
    "name_distance": "name distance",
    "description_bleu": "BLEU",
}
_SEEN = (
    "Slots seen, intents seen",
    "Of the names of the services that train lacks, the share that occurs in train. Low is hard.",
)
# What they mean, by the column; self-BLEU is of all variants together.
TERMS = {
    "slot_names_seen": _SEEN,
    "intent_names_seen": _SEEN,
    "name_distance": (
        "Name distance",
        "1 − Levenshtein ratio of a name and its paraphrase, the mean over all intents and slots: 0 is the same, "
        "1 has nothing in common.",
    ),
    "description_bleu": (
        "BLEU",
        "Word sequences that a variant's descriptions share with the original's: 100 is the same, 0 has nothing in "
        "common.",
    ),
    "self_bleu": (
        "Self-BLEU",
        "BLEU of the variants' descriptions against each other, the mean over ordered pairs. Low means diverse.",
    ),
}
_BY_DESCRIPTION = (
    "Self-BLEU by description",
    "The same of single descriptions, the mean over pairs and descriptions, as footnote 3 of SGD-X defines self-BLEU: "
    "sentence BLEU, smoothed. The 4.5 that SGD-X published is near the other.",
)


def statistics_report(statistics: Mapping[str, Any]) -> Report:
    """The report of ``parapet statistics``, given the content of its statistics.json."""
    variants, average, original = statistics["variants"], statistics["average"], statistics["original"]
    services, split, unseen = statistics["services"], statistics["split"], statistics["unseen_services"]
    whose = f"the {counted(unseen, 'service')} of {split} that train lacks"
    seen = {"slots": "slot_names_seen", "intents": "intent_names_seen"}
    averages = {"name distance": "name_distance", "BLEU of descriptions": "description_bleu"}
    tiles = [Tile(f"{what[:-1]} names seen, original", measured(key, original[key])) for what, key in seen.items()]
    lead = f"Names are counted over {whose}."
    if variants:
        tiles = [
            *(Tile(f"average {what}", measured(key, average[key])) for what, key in averages.items()),
            Tile("self-BLEU", number(statistics["self_bleu"], 1)),
            Tile("self-BLEU by description", number(statistics["self_bleu_by_description"], 1)),
            *(Tile(f"{what[:-1]} names seen, average", measured(key, average[key])) for what, key in seen.items()),
        ]
        lead = f"{counted(services, 'service')} in {counted(len(variants), 'variant')}. " + (
            f"Names seen in train are counted over {whose}."
            if unseen
            else "Names seen in train are not counted: train has all of these services, or there is no train."
        )
    rows = {"original": original, **variants}
    bars = Bars(
        title="Names seen in train",
        note="Of the services that train lacks.",
        categories=list(rows),
        series=[Series(what, tuple(row[key] for row in rows.values())) for what, key in seen.items()],
        percent=True,
    )
    left_out = statistics["services_without_variants"]
    shown = ", ".join(left_out[:12]) + (", …" if len(left_out) > 12 else "")
    return Report(
        command="statistics",
        title="Variant statistics" if variants else "Names seen in train",
        headline="How far the variants are from the original" if variants else "Which names of unseen services are new",
        lead=lead,
        tiles=tiles,
        sections=[
            _statistics_table(statistics),
            *distance_charts(variants, tuple(variants) == SGD_X),
            *([bars] if unseen else []),
        ],
        terms=dict([*TERMS.values(), _BY_DESCRIPTION] if variants else [_SEEN]),
        notes=[f"{counted(len(left_out), 'service')} of the original in no variant and not counted: {shown}."]
        if left_out
        else [],
        links={"statistics.json": f"all numbers; BLEU by sacrebleu, `{statistics['bleu_signature']}`"},
    )


def text_table(statistics: Mapping[str, Any]) -> str:
    """The numbers of statistics.json for the terminal, a line a variant."""
    variants = statistics["variants"]
    rows = {"original": statistics["original"], **variants, **({"average": statistics["average"]} if variants else {})}
    width = max(len(name) for name in rows)
    lines = [f"{'':{width}}  slots seen  intents seen{'  name distance  description BLEU' if variants else ''}"]
    for name, row in rows.items():
        cells = [_cell(row["slot_names_seen"], ".1%", 10), _cell(row["intent_names_seen"], ".1%", 12)]
        if variants:
            cells.append(_cell(row.get("name_distance"), ".3f", 13))
            cells.append(_cell(row.get("description_bleu"), ".2f", 16))
        lines.append("  ".join((f"{name:{width}}", *cells)).rstrip())
    if variants:
        lines.append(f"self-BLEU {_cell(statistics['self_bleu'], '.2f', 0)}")
        lines.append(f"  by description {_cell(statistics['self_bleu_by_description'], '.2f', 0)}")
    return "\n".join(lines)


def _cell(value: float | None, form: str, width: int) -> str:
    return f"{'-' if value is None else format(value, form):>{width}}"


def measured(key: str, value: float | None) -> str:
    """A value of one of ``MEASURES`` as text."""
    if key in ("slot_names_seen", "intent_names_seen"):
        return percent(value, 0)
    return number(value, 2 if key == "name_distance" else 1)


def measures_table(
    title: str,
    variants: Mapping[str, Measured],
    average: Measured | None,
    keys: Sequence[str],
    published: Mapping[str, Mapping[str, float]] | None = None,
    note: str = "",
) -> Table:
    """A row for each variant.

    Args:
      title: of the table.
      variants: name to its numbers; a dash where one is missing.
      average: the last row.
      keys: of ``MEASURES``, the columns.
      published: name to numbers that are shown below.
      note: above the table.
    """
    rows = []
    for name, row in [*variants.items(), *([("Average", average)] if average is not None else [])]:
        beside = (published or {}).get(name, {})
        small = {key: f"\nSGD-X {measured(key, value)}" for key, value in beside.items()}
        rows.append([name, *(measured(key, row.get(key)) + small.get(key, "") for key in keys)])
    return Table(
        title=title,
        columns=["variant", *(MEASURES[key] for key in keys)],
        rows=rows,
        note=note,
        total_rows=int(average is not None),
    )


def distance_charts(variants: Mapping[str, Measured], published: bool = False, prefix: str = "") -> list[Bars]:
    """Name distance and BLEU by variant, of those that were measured.

    Args:
      variants: name to its numbers.
      published: whether those of SGD-X stand beside them; there must be as many variants.
      prefix: of the titles, where a page has several of each.
    """
    charts = []
    for key, title, note in (
        ("name_distance", "Name distance", "Higher is farther from the original."),
        ("description_bleu", "BLEU of descriptions", "Lower is farther from the original."),
    ):
        if any(row.get(key) is not None for row in variants.values()):
            series = [Series("here", tuple(row.get(key) for row in variants.values()))]
            if published:
                series.append(Series("SGD-X, whole SGD", PUBLISHED[key][1:-1], "ref"))
            digits = 2 if key == "name_distance" else 1
            charts.append(
                Bars(title=f"{prefix}{title}", note=note, categories=[*variants], series=series, digits=digits)
            )
    return charts


def _statistics_table(statistics: Mapping[str, Any]) -> Table:
    """Table 1 as SGD-X prints it, a column a variant."""
    variants = statistics["variants"]
    columns = {"Orig": statistics["original"], **variants, **({"Avg": statistics["average"]} if variants else {})}
    same = tuple(variants) in ((), SGD_X)
    rows = []
    for key, label in TABLE_1.items():
        if not variants and key not in statistics["original"]:
            continue
        cells = [measured(key, column.get(key)) for column in columns.values()]
        published = PUBLISHED[key][: len(cells)] if same else ()
        for i, value in enumerate(published):
            cells[i] += f"\nSGD-X {measured(key, value)}" if value is not None else ""
        rows.append([label.format(split=statistics["split"]), *cells])
    note = (
        "Small figures are those that SGD-X published for the whole of SGD: 45 services, names seen over the 15 of "
        "test that train lacks. Other services give other numbers; order and size should agree."
    )
    note += f" The published self-BLEU is {PUBLISHED_SELF_BLEU}." if variants else ""
    return Table(
        title="Measures by variant, as in Table 1 of SGD-X",
        columns=["metric", *columns],
        rows=rows,
        note=note if same else "",
    )
