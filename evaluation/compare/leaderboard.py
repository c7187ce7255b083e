"""The leaderboard: systems by columns, their unweighted mean as RADDLE has it, and paired tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

from parapet.evaluation.compare.results import OF_100, WHOLE, Column, Outcome, Sums, read_sums
from parapet.evaluation.writing import json_bytes
from parapet.transforms import markdown
from parapet.transforms.report import Dot, Dots, Report, Section, Table, Tile, page
from parapet.transforms.text import counted, number

AVERAGE = "average"
_MOST_SYSTEMS = 8  # of the chart: shapes and colours of more are hard to distinguish

TERMS = {
    "Average": "The unweighted mean of all columns, as of RADDLE's leaderboard; those where low is good are not in it.",
    "p": "How often the difference would be as large if it were chance which of the two systems a dialogue's result is "
    "of: approximate randomisation over dialogues, two-sided. Sets of the same dialogues are resampled together.",
    "p, Holm": "The same, corrected for all tests of this page.",
    "Interval": "95% interval of the difference, of a paired bootstrap over dialogues.",
}


def macro_average(values: Sequence[float | None]) -> float | None:
    """The unweighted mean of all reported numbers (RADDLE); None where there is none, or one is not defined."""
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known and len(known) == len(values) else None


def leaderboard(
    systems: Mapping[str, Sequence[Outcome]],
    columns: Sequence[Column],
    baseline: str | None,
    seed: str,
    replicates: int,
) -> dict[str, Any]:
    """``leaderboard.json``.

    Args:
      systems: name to its results; all of the same tasks and sets.
      columns: what stands in the table.
      baseline: the system that all others are compared with; None compares all pairs.
      seed: of the tests. ``replicates`` of them; 0 for none.
    """
    values = {name: {column.name: _value(outcomes, column) for column in columns} for name, outcomes in systems.items()}
    averaged = [column for column in columns if not column.low_is_good]
    averages = {name: macro_average([of[column.name] for column in averaged]) for name, of in values.items()}
    ranked = sorted(systems, key=lambda name: (averages[name] is None, -(averages[name] or 0.0), name))
    pairs = [(a, b) for a, b in combinations(ranked, 2) if baseline in (None, a, b)]
    sums = {name: _sums(outcomes, columns) for name, outcomes in systems.items()} if replicates else {}
    tested = [column for column in columns if sums and all(column in of for of in sums.values())]
    return {
        "systems": ranked,
        "columns": [
            {"name": one.name, "task": one.task, "group": one.group, "metric": one.metric,
             "in_average": not one.low_is_good, "tested": one in tested}
            for one in columns
        ],
        "values": values,
        AVERAGE: averages,
        "tests": _tests(pairs, sums, tested, averaged, seed, replicates) if tested else [],
        "settings": {"baseline": baseline, "seed": seed, "replicates": replicates},
    }  # fmt: skip


def _value(outcomes: Sequence[Outcome], column: Column) -> float | None:
    value = next((one.groups[column.group].get(column.metric) for one in outcomes if one.task == column.task), None)
    return None if value is None else column.of_100(value)


def _sums(outcomes: Sequence[Outcome], columns: Sequence[Column]) -> dict[Column, Sums]:
    found: dict[Column, Sums] = {}
    for one in outcomes:
        found |= read_sums(one, [column for column in columns if column.task == one.task])
    return found


def _tests(
    pairs: Sequence[tuple[str, str]],
    sums: Mapping[str, Mapping[Column, Sums]],
    tested: Sequence[Column],
    averaged: Sequence[Column],
    seed: str,
    replicates: int,
) -> list[dict[str, Any]]:
    from parapet.evaluation.compare.significance import as_builtins, differences, holm

    # The mean is tested with the columns that are in it, if all of them can be.
    whole = len(averaged) > 1 and set(averaged) <= set(tested)
    inside = [column for column in tested if column in averaged]
    outside = [column for column in tested if column not in averaged]
    found: dict[tuple[str, str], dict[str, Any]] = {pair: {} for pair in pairs}
    for columns in (inside, outside):
        given = [[(sums[a][column], sums[b][column]) for column in columns] for a, b in pairs]
        factors = [column.of_100(1.0) for column in columns]
        done = differences(given, factors, seed, replicates) if columns and pairs else []
        for pair, (each, mean) in zip(pairs, done, strict=False):
            found[pair] |= {column.name: one for column, one in zip(columns, each, strict=True)}
            if whole and columns is inside:
                found[pair][AVERAGE] = mean
    listed = [(pair, name, found[pair][name]) for pair in pairs for name in found[pair]]
    corrected = holm([one.p for _, _, one in listed])
    return [
        {"first": a, "second": b, "column": name, **as_builtins(one), "p_holm": p}
        for ((a, b), name, one), p in zip(listed, corrected, strict=True)
    ]


def files_of(board: Mapping[str, Any]) -> dict[str, bytes]:
    """The files of the output folder."""
    return {
        "leaderboard.json": json_bytes(board),
        "leaderboard.md": _markdown(board).encode("utf-8", "replace"),
        "report.html": page(_report(board)).encode(),
    }


def heads(board: Mapping[str, Any]) -> list[str]:
    """The columns' headings, as short as distinguishes them."""
    columns = board["columns"]
    tasks = {one["task"] for one in columns}
    alone = _metric(board)  # stands above the table
    found = []
    for one in columns:
        parts = [one["task"]] if len(tasks) > 1 else []
        parts += [one["group"]] if one["group"] not in WHOLE else []
        metric = one["metric"].replace("_", " ")
        parts += [] if metric == alone and parts else [metric]
        found.append(" ".join(parts))
    return found


def _metric(board: Mapping[str, Any]) -> str:
    """The metric of all columns that are of a set, or of all; empty where they have several."""
    of_sets = [one for one in board["columns"] if one["group"] not in WHOLE]
    metrics = {one["metric"].replace("_", " ") for one in of_sets or board["columns"]}
    return metrics.pop() if len(metrics) == 1 else ""


def _caption(board: Mapping[str, Any]) -> str:
    metric = _metric(board)
    others = len({one["metric"] for one in board["columns"]}) > 1
    words = f"{metric} where no other metric is named" if others else metric
    return f"{words[:1].upper()}{words[1:]}, of 100" if metric else "All of 100"


def _rows(board: Mapping[str, Any]) -> list[list[str]]:
    with_average = len(board["columns"]) > 1
    return [
        [name, *([number(board[AVERAGE][name], 2)] if with_average else []),
         *(number(board["values"][name][column["name"]], 2) for column in board["columns"])]
        for name in board["systems"]
    ]  # fmt: skip


def _columns(board: Mapping[str, Any]) -> list[str]:
    return ["System", *(["Average"] if len(board["columns"]) > 1 else []), *heads(board)]


def _test_rows(board: Mapping[str, Any]) -> list[list[str]]:
    names = dict(zip((one["name"] for one in board["columns"]), heads(board), strict=True)) | {AVERAGE: "Average"}
    return [
        [f"{one['first']} – {one['second']}", names[one["column"]], f"{one['difference']:+.2f}",
         "–" if one["interval"] is None else f"{one['interval'][0]:+.2f} to {one['interval'][1]:+.2f}",
         f"{one['p']:.4f}", f"{one['p_holm']:.4f}", f"{one['dialogues']:,}"]
        for one in board["tests"]
    ]  # fmt: skip


_TESTS = ["Systems", "Column", "Difference", "Interval", "p", "p, Holm", "Dialogues"]


def untested(board: Mapping[str, Any]) -> str:
    """What of the columns could not be tested, in a sentence; empty where all were, or none was to be."""
    lacking = [head for one, head in zip(board["columns"], heads(board), strict=True) if not one["tested"]]
    if not lacking or not board["settings"]["replicates"]:
        return ""
    return f"Not tested, because not a mean over rows of dialogues: {', '.join(lacking)}."


def _markdown(board: Mapping[str, Any]) -> str:
    parts = [
        markdown.Markdown("# Leaderboard"),
        markdown.table(_columns(board), _rows(board), len(_columns(board)) - 1),
        markdown.text(f"{_caption(board)}. {TERMS['Average']}"),
    ]
    if board["tests"]:
        parts += [markdown.Markdown("## Differences"), markdown.table(_TESTS, _test_rows(board), 5)]
        parts += [markdown.bullets(f"{name}: {meaning}" for name, meaning in TERMS.items() if name != "Average")]
    parts += [markdown.text(sentence) for sentence in [untested(board)] if sentence]
    return "\n\n".join(parts) + "\n"


def _report(board: Mapping[str, Any]) -> Report:
    several = len(board["columns"]) > 1
    numbers = board[AVERAGE] if several else _only(board)
    shown = {name: numbers[name] for name in board["systems"]}
    sections: list[Section] = [
        Table(title=_caption(board), columns=_columns(board), rows=_rows(board)),
        *_chart(board),
    ]
    if board["tests"]:
        note = "The first system less the second."
        columns, rows = _TESTS, _test_rows(board)
        sections.append(Table(title="Differences", note=note, columns=columns, rows=rows, text_columns=2))
    return Report(
        command="compare",
        title="Leaderboard",
        headline=_headline(board["systems"], shown),
        lead=f"{counted(len(board['systems']), 'system')}, {counted(len(board['columns']), 'number')} each.",
        tiles=[Tile(name, number(shown[name], 2)) for name in board["systems"][:6]],
        sections=sections,
        notes=[sentence for sentence in [untested(board)] if sentence],
        terms=TERMS,
        links={"leaderboard.json": "all numbers", "leaderboard.md": "the tables as Markdown"},
    )


def _headline(systems: Sequence[str], shown: Mapping[str, float | None]) -> str:
    first, second = (shown[name] for name in systems[:2])
    return "Systems next to each other" if first is None or first == second else f"{systems[0]} leads"


def _chart(board: Mapping[str, Any]) -> list[Dots]:
    """All columns that are shares in one chart, a row a column and a mark a system."""
    dots = [
        Dot(head, None if value is None else value / 100, group=name)
        for column, head in zip(board["columns"], heads(board), strict=True)
        if column["metric"] not in OF_100
        for name in board["systems"][:_MOST_SYSTEMS]
        for value in [board["values"][name][column["name"]]]
    ]
    more = len(board["systems"]) - _MOST_SYSTEMS
    note = f"The first {_MOST_SYSTEMS} of {len(board['systems']):,} systems." if more > 0 else ""
    return [Dots(title="Systems by column", dots=dots, note=note)] if dots else []


def _only(board: Mapping[str, Any]) -> dict[str, float | None]:
    (column,) = board["columns"]
    return {name: board["values"][name][column["name"]] for name in board["systems"]}
