"""The statistics, the page and the card of a perturbation that brings none of its own: they are made of its metrics."""

from __future__ import annotations

import difflib
import inspect
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from parapet.transforms.report import Example, Examples, Line, Report, Section, Table, Tile, edited
from parapet.transforms.text import counted, percent

if TYPE_CHECKING:
    from parapet.transforms.counts import Counts
    from parapet.transforms.perturbation import Metric, Perturbation

_WORDS = re.compile(r"\w+|\W")


def statistics_of(perturbation: Perturbation, counts: Counts) -> dict[str, Any]:
    """The metrics of each set, over all and by split; those by value as a number for each value."""
    return {
        "files": counts.sum("files"),
        "dialogues": counts.sum("dialogues", set=""),
        "left_out": counts.sum("left_out"),
        "sets": {name: _of_set(perturbation, name, counts) for name in perturbation.sets},
    }


def _of_set(perturbation: Perturbation, name: str, counts: Counts) -> dict[str, Any]:
    numbers: dict[str, Any] = {}
    for metric in perturbation.metrics:
        if metric.by_value:
            numbers[metric.name] = counts.by("value", metric.name, set=name)
        else:
            numbers |= _numbers(metric, counts, set=name)
    simple = [metric for metric in perturbation.metrics if not metric.by_value]
    splits = sorted({split for metric in simple for split in counts.by("split", metric.name, set=name)} - {""})
    numbers["splits"] = {
        split: {
            key: n
            for metric in simple
            if metric.name != "dialogues"
            for key, n in _numbers(metric, counts, set=name, split=split).items()
        }
        for split in splits
    }
    return numbers


def _numbers(metric: Metric, counts: Counts, **parts: str) -> dict[str, Any]:
    n = counts.sum(metric.name, **parts)
    if not metric.of:
        return {metric.name: n}
    total = counts.sum(metric.of, **parts)
    return {metric.name: n, f"{metric.name}_share": n / total if total else None}


def report_of(
    perturbation: Perturbation,
    statistics: Mapping[str, Any],
    examples: Mapping[str, Sequence[Example]],
    options: Mapping[str, object],
) -> Report:
    """The page and the card: a table of the sets, one for each metric by value, examples and terms."""
    title = perturbation.name.replace("_", " ").capitalize()
    simple = [metric for metric in perturbation.metrics if not metric.by_value]
    columns = [heading for metric in simple for heading in ([metric.label, "share"] if metric.of else [metric.label])]
    rows = [[name, *_cells(simple, numbers)] for name, numbers in statistics["sets"].items()]
    sections: list[Section] = [Table(title="Sets", columns=["set", *columns], rows=rows)]
    for metric in perturbation.metrics:
        if metric.by_value:
            sections.append(_by_value(metric, statistics["sets"]))
    sections += [
        Examples(title=f"Examples of {name}" if len(examples) > 1 else "Examples", examples=of_set)
        for name, of_set in examples.items()
    ]
    shares = [(metric, name) for name in statistics["sets"] for metric in simple if metric.of]
    tiles = [Tile("dialogues", f"{statistics['dialogues']:,}")]
    for metric, name in shares[:4]:
        label = metric.label if len(statistics["sets"]) == 1 else f"{metric.label}, {name}"
        tiles.append(Tile(label, percent(statistics["sets"][name][f"{metric.name}_share"])))
    said = ", ".join(f"{option} {_listed(value)}" for option, value in options.items() if value not in ("", None))
    meanings = {metric.label: metric.meaning for metric in perturbation.metrics if metric.meaning}
    files = {"statistics.json": "all numbers", "dead_letters.jsonl": "records that could not be used"}
    return Report(
        command=perturbation.name,
        title=title,
        headline=summary_of(type(perturbation)) or title,
        lead=f"{counted(statistics['dialogues'], 'dialogue')}, {statistics['left_out']:,} left out. Options: {said}.",
        tiles=tiles,
        sections=sections,
        terms={**meanings, **perturbation.terms},
        links=files,
    )


def lines_of(perturbation: Perturbation, statistics: Mapping[str, Any]) -> Iterator[str]:
    """A line for each set: its metrics, for the terminal."""
    simple = [metric for metric in perturbation.metrics if not metric.by_value]
    for name, numbers in statistics["sets"].items():
        parts = []
        for metric in simple:
            share = f" ({percent(numbers[f'{metric.name}_share'])})" if metric.of else ""
            parts.append(f"{numbers[metric.name]:,} {metric.label}{share}")
        yield f"{name}: {', '.join(parts)}"


def _listed(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def _cells(metrics: Sequence[Metric], numbers: Mapping[str, Any]) -> list[str]:
    cells = []
    for metric in metrics:
        cells.append(f"{numbers[metric.name]:,}")
        if metric.of:
            cells.append(percent(numbers[f"{metric.name}_share"]))
    return cells


def _by_value(metric: Metric, sets: Mapping[str, Mapping[str, Any]]) -> Table:
    values = sorted({value for numbers in sets.values() for value in numbers[metric.name]})
    rows = [
        [metric.values.get(value, value), *(f"{numbers[metric.name].get(value, 0):,}" for numbers in sets.values())]
        for value in values
    ]
    return Table(title=metric.label.capitalize(), columns=[metric.label, *sets], rows=rows)


def summary_of(perturbation: type[Perturbation]) -> str:
    """The first line of a perturbation's docstring, without its full stop."""
    return (inspect.getdoc(perturbation) or "").partition("\n")[0].rstrip(".")


def example_of(row: Mapping[str, Any]) -> Example:
    """An example of a row: the words that differ between ``original`` and ``utterance``, or else its columns."""
    place = ", ".join(f"{name} {row[name]}" for name in ("dialogue_id", "turn") if name in row)
    place = place.replace("dialogue_id", "dialogue")
    if isinstance(row.get("original"), str) and isinstance(row.get("utterance"), str):
        edits = edits_between(row["original"], row["utterance"])
        return Example(place, [Line("USER", edited(row["original"], edits))])
    return Example(place, [Line(str(name), edited(str(value), ())) for name, value in row.items()])


def edits_between(original: str, utterance: str) -> list[tuple[int, int, str, str]]:
    """The edits, word by word, that make one text of another: (start, end, new text, a hint)."""
    before, after = _WORDS.findall(original), _WORDS.findall(utterance)
    starts = [0]
    for word in before:
        starts.append(starts[-1] + len(word))
    matcher = difflib.SequenceMatcher(None, before, after, autojunk=False)
    return [
        (starts[i], starts[j], "".join(after[k:end]), "")
        for tag, i, j, k, end in matcher.get_opcodes()
        if tag != "equal"
    ]
