"""Make the page, the card and the printed summary of a perturbation from the declarations of its class.

``Perturbation.tables`` declares which numbers of ``statistics.json`` are shown, and how; a perturbation without its own
statistics gets a table of its metrics. This module does not depend on any particular perturbation.
"""

from __future__ import annotations

import difflib
import inspect
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from parapet.transforms.perturbation import quality
from parapet.transforms.perturbation.languages import OTHER_LANGUAGES
from parapet.transforms.reports.numbers import Metric, Numbers
from parapet.transforms.reports.report import Example, Examples, Line, Report, Section, Table, edited
from parapet.transforms.reports.sections import rows_at, sections_of, tiles_of
from parapet.transforms.reports.text import counted

if TYPE_CHECKING:
    from parapet.transforms.perturbation.base import Perturbation
    from parapet.transforms.running.counts import Counts

_WORDS = re.compile(r"\w+|\W")


def statistics_of(perturbation: Perturbation, counts: Counts) -> dict[str, Any]:
    """Return the metrics of each set, in total and by split; metrics by value have a number for each value."""
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


def tables_of(perturbation: Perturbation) -> Sequence[Numbers]:
    """Return the tables that a perturbation declares, or else tables of its metrics."""
    if perturbation.tables is not None:
        return perturbation.tables
    simple = []
    for metric in (metric for metric in perturbation.metrics if not metric.by_value):
        simple.append(metric._replace(shown_first=True))
        if metric.of:
            simple.append(Metric(f"{metric.name}_share", "share", percent=True))
    by_value = [
        Numbers(
            metric.label.capitalize(),
            f"sets/*/{metric.name}/*",
            ("set", metric.label),
            (Metric("", metric.label),),
        )
        for metric in perturbation.metrics
        if metric.by_value
    ]
    return (Numbers("Sets", "sets/*", ("set",), simple), *by_value)


def report_of(
    perturbation: Perturbation,
    statistics: Mapping[str, Any],
    examples: Mapping[str, Sequence[Example]],
    options: Mapping[str, object],
) -> Report:
    """Make the page and the card: the declared tables, the options, examples and terms."""
    title = perturbation.title or perturbation.name.replace("_", " ").capitalize()
    tables = [*tables_of(perturbation), *([quality.table()] if "quality" in statistics else [])]
    sections: list[Section] = [
        Examples(title=f"Examples of {name}" if len(examples) > 1 else "Examples", examples=of_set, in_card=True)
        for name, of_set in examples.items()
    ]
    sections += sections_of(statistics, *tables)
    chosen = {**options, **(statistics.get("made_with") or {})}
    rows = [[name, text] for name, value in chosen.items() if (text := _listed(value))]
    sections.append(Table(title="Options", columns=["option", "value"], text_columns=2, rows=rows))
    metrics = [metric for table in tables for metric in table.metrics]
    meanings = {metric.label: metric.meaning for metric in metrics if metric.meaning}
    counts = [f"{statistics[name]:,} {label}" for name, label in _WHOLE.items() if name in statistics]
    return Report(
        command=perturbation.name,
        title=title,
        headline=summary_of(type(perturbation)) or title,
        lead=", ".join(counts) + (". Read the examples before you use the set." if counts and examples else ""),
        tiles=tiles_of(tables[0], statistics) if tables else [],
        sections=sections,
        terms={**meanings, **({"known to be odd": perturbation.known_odd} if perturbation.known_odd else {})},
        notes=list(notes_of(perturbation, statistics)),
        links={
            "statistics.json": "all numbers",
            **perturbation.links,
            "dead_letters.jsonl": "records that could not be used",
        },
    )


def notes_of(perturbation: Perturbation, statistics: Mapping[str, Any]) -> Iterator[str]:
    """Yield what a user must know before the numbers: dialogues in other languages, and the perturbation's notes."""
    if others := statistics.get(OTHER_LANGUAGES):
        listed = ", ".join(f"{language} {n:,}" for language, n in others.items())
        known = ", ".join(perturbation.languages)
        dialogues = counted(sum(others.values()), "dialogue")
        yield f"{dialogues} in other languages than {known} ({listed}): they are in every set as they are"
    yield from perturbation.notes(statistics)


_WHOLE = {"dialogues": "dialogues", "left_out": "left out"}


def lines_of(perturbation: Perturbation, statistics: Mapping[str, Any]) -> Iterator[str]:
    """Yield a line for each row of the first table with its ``shown_first`` numbers, for the terminal."""
    for table in tables_of(perturbation)[:1]:
        for row in rows_at(statistics, table.path):
            parts = [row.phrase(metric) for metric in table.metrics if metric.shown_first]
            yield ": ".join(part for part in (" ".join(row.keys), ", ".join(parts)) if part)


def _listed(value: object) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_listed(part)}" for name, part in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(map(_listed, value))
    return "" if value is None else str(value)


def summary_of(perturbation: type[Perturbation]) -> str:
    """Return the first line of a perturbation's docstring, without its full stop."""
    return (inspect.getdoc(perturbation) or "").partition("\n")[0].rstrip(".")


def place_of(row: Mapping[str, Any]) -> str:
    """Describe the place of a row: ``dialogue 1_00000, turn 3``."""
    place = ", ".join(f"{name} {row[name]}" for name in ("dialogue_id", "turn") if name in row)
    return place.replace("dialogue_id", "dialogue")


def example_of(row: Mapping[str, Any]) -> Example:
    """Make an example from a row: the differences between ``original`` and ``utterance``, or else its columns."""
    if isinstance(row.get("original"), str) and isinstance(row.get("utterance"), str):
        edits = edits_between(row["original"], row["utterance"])
        return Example(place_of(row), [Line("USER", edited(row["original"], edits))])
    return Example(place_of(row), [Line(str(name), edited(str(value), ())) for name, value in row.items()])


def edits_between(original: str, utterance: str) -> list[tuple[int, int, str, str]]:
    """Return the edits, word by word, from one text to another: (start, end, new text, a hint)."""
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
