"""The page, the card and the printed summary of a perturbation, from the declarations of its class; and what they show.

``Perturbation.tables`` declares which numbers of ``statistics.json`` are shown, and how; a perturbation without its own
tables gets one of its counts. This module does not depend on any particular perturbation.

The changed turns that are shown are drawn by a hash of their places in the corpus, so that all sets of a corpus show
the same turns. Of these, similarity to the originals and the values kept are measured.
"""

from __future__ import annotations

import difflib
import inspect
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from hashlib import blake2b
from statistics import median
from typing import TYPE_CHECKING, Any, NamedTuple

from parapet.transforms.perturb.corpora import OTHER_LANGUAGES
from parapet.transforms.report import meaning
from parapet.transforms.report.numbers import Metric, Numbers, rows_at, sections_of, tiles_of
from parapet.transforms.report.report import Example, Examples, Line, Part, Report, Section, Table
from parapet.transforms.report.text import counted

if TYPE_CHECKING:
    from parapet.transforms.core.counts import Counts
    from parapet.transforms.perturb.base import Perturbation

DRAWN = 100  # turns drawn from a set
SHOWN = 12  # of these, the turns on its page
_SEED = "0"  # of the draw, whatever that of the run


class Changed(NamedTuple):
    """A user turn that was changed in a set.

    Attributes:
      dialogue_id: the dialogue.
      turn: its position in the dialogue in the set, from 0.
      previous: if the turn is new, the text of the turn before it.
      before: the original text; empty if the turn is new.
      after: the text in the set.
      kept: for each annotated value of the original turn, whether the turn in the set still has it.
    """

    dialogue_id: str
    turn: int
    previous: str
    before: str
    after: str
    kept: tuple[bool, ...] = ()


def drawn_turns(place: str, dialogue: Mapping[str, Any], changed: Mapping[str, Any]) -> Iterator[tuple[bytes, Changed]]:
    """Yields the changed user turns of a dialogue, each with its draw: the lowest ones are shown.

    Args:
      place: the dialogue's place in the corpus.
      dialogue: the original dialogue.
      changed: the dialogue in the set; if it has more or fewer turns, those that do not occur in the original are new.
    """
    before, after = dialogue["turns"], changed["turns"]
    same = len(before) == len(after)
    known = Counter(turn["utterance"] for turn in before)
    for i, turn in enumerate(after):
        text = turn["utterance"]
        was = before[i]["utterance"] if same else "" if known[text] == 0 else text
        known[text] -= not same
        if turn["speaker"] == "USER" and text != was:
            key = "\0".join((_SEED, place, str(i))).encode("utf-8", "surrogatepass")
            previous = after[i - 1]["utterance"] if i and not was else ""
            kept = tuple(_values_kept(before[i], turn)) if same else ()
            yield blake2b(key, digest_size=8).digest(), Changed(changed["dialogue_id"], i, previous, was, text, kept)


def _values_kept(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[bool]:
    """Yields for each slot span whether its text stands in the turn of the set, or that turn annotates the slot itself.

    The latter holds for values that a set replaces, such as unseen entities.
    """
    annotated = {key for key, _ in span_texts(after)}
    for key, value in span_texts(before):
        word = rf"(?<!\w){re.escape(value)}(?!\w)"
        yield key in annotated or re.search(word, after["utterance"], re.IGNORECASE) is not None


def span_texts(turn: Mapping[str, Any]) -> Iterator[tuple[tuple[str, str], str]]:
    """Yields (service, slot) and the text of each span."""
    for frame in turn.get("frames", ()):
        for span in frame.get("slots", ()):
            if "start" in span:
                yield (frame["service"], span["slot"]), turn["utterance"][span["start"] : span["exclusive_end"]]


def quality_of(turns: Sequence[Changed]) -> dict[str, Any]:
    """Returns the median similarity of turns, and the share of values kept."""
    similar = [meaning.similarity(turn.before, turn.after) for turn in turns if turn.before]
    numbers: dict[str, Any] = {"turns": len(turns), "similarity": round(median(similar), 2) if similar else None}
    if kept := [value for turn in turns for value in turn.kept]:
        numbers["values_kept"] = sum(kept) / len(kept)
    return numbers


def table() -> Numbers:
    """Returns the table for the page and the card."""
    metrics = [
        Metric("turns", "turns drawn"),
        Metric("similarity", "similarity", meaning="How similar changed turns are to their originals: "
               f"{meaning.measure()}; 1 means equal. The median of the turns drawn."),
        Metric("values_kept", "values kept", percent=True, meaning="The share of the annotated values of the original "
               "turns that stand in the changed turns, or that the set replaces by other annotated values."),
    ]  # fmt: skip
    return Numbers("How the changed user turns read", "quality/*", ("set",), metrics)


_WORDS = re.compile(r"\w+|\W")
_CHANGES = {"dialogues_changed": "dialogues", "turns_changed": "turns"}  # counted for plug-ins
# Counts that are also shown as shares of others.
_SHARES = {**_CHANGES, "varied": "turns", "replaced": "values", "open_changed": "open"}


def statistics_of(perturbation: Perturbation, counts: Counts) -> dict[str, Any]:
    """Returns the counts of each set; those with values have a number for each value."""
    sets: dict[str, dict[str, Any]] = {}
    for name in perturbation.sets:
        by_value = {key.name: counts.by("value", key.name, set=name) for key in counts if key.set == name}
        numbers: dict[str, Any] = {count: n.get("", 0) if [*n] == [""] else n for count, n in by_value.items()}
        if perturbation.tables is None:
            numbers = dict.fromkeys(_CHANGES, 0) | numbers
        for count, total in _SHARES.items():
            if count in numbers:
                numbers[f"{count}_share"] = numbers[count] / numbers[total] if numbers.get(total) else None
        sets[name] = dict(sorted(numbers.items()))
    return {
        "files": counts.sum("files"),
        "dialogues": counts.sum("dialogues", set=""),
        "left_out": counts.sum("left_out"),
        "sets": sets,
    }


def tables_of(perturbation: Perturbation, statistics: Mapping[str, Any]) -> Sequence[Numbers]:
    """Returns the tables that a perturbation declares, or else tables of all counts."""
    if perturbation.tables is not None:
        return perturbation.tables
    counts = {name: n for numbers in statistics["sets"].values() for name, n in numbers.items()}
    metrics, by_value = [], []
    for name, n in counts.items():
        label = name.replace("_", " ")
        if isinstance(n, Mapping):
            by_value.append(Numbers(label.capitalize(), f"sets/*/{name}/*", ("set", label), (Metric("", label),)))
        else:
            is_share = name.endswith("_share")
            metrics.append(Metric(name, label, _SHARES.get(name, ""), percent=is_share, shown_first=not is_share))
    return (Numbers("Sets", "sets/*", ("set",), metrics), *by_value)


def report_of(
    perturbation: Perturbation,
    statistics: Mapping[str, Any],
    examples: Mapping[str, Sequence[Example]],
    options: Mapping[str, object],
) -> Report:
    """Makes the page and the card: the declared tables, the options, examples and terms."""
    title = perturbation.title or perturbation.name.replace("_", " ").capitalize()
    tables = [*tables_of(perturbation, statistics), *([table()] if "quality" in statistics else [])]
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
    counts = [
        f"{statistics[name]:,} {name.replace('_', ' ')}" for name in ("dialogues", "left_out") if name in statistics
    ]
    return Report(
        command=perturbation.name,
        title=title,
        headline=(inspect.getdoc(type(perturbation)) or "").partition("\n")[0].rstrip(".") or title,
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
    """Yields what a user must know before the numbers: dialogues in other languages, and the perturbation's notes."""
    if others := statistics.get(OTHER_LANGUAGES):
        listed = ", ".join(f"{language} {n:,}" for language, n in others.items())
        known = ", ".join(perturbation.languages)
        dialogues = counted(sum(others.values()), "dialogue")
        yield f"{dialogues} in other languages than {known} ({listed}): they are in every set as they are"
    yield from perturbation.notes(statistics)


def lines_of(perturbation: Perturbation, statistics: Mapping[str, Any]) -> Iterator[str]:
    """Yields a line for each row of the first table with its ``shown_first`` numbers, for the terminal."""
    for table in tables_of(perturbation, statistics)[:1]:
        for row in rows_at(statistics, table.path):
            parts = [row.phrase(metric) for metric in table.metrics if metric.shown_first]
            yield ": ".join(part for part in (" ".join(row.keys), ", ".join(parts)) if part)


def _listed(value: object) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_listed(part)}" for name, part in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(map(_listed, value))
    return "" if value is None else str(value)


def example_of(changed: Changed) -> Example:
    """Makes an example from a changed turn: the differences, and before a new turn what it follows."""
    lines = [Line("SYSTEM", [Part(changed.previous)])] if changed.previous else []
    lines.append(Line("USER", _differences(changed.before, changed.after)))
    return Example(f"dialogue {changed.dialogue_id}, turn {changed.turn}", lines)


def _differences(original: str, utterance: str) -> list[Part]:
    """Returns a text in parts, with the differences to another one word by word."""
    before, after = _WORDS.findall(original), _WORDS.findall(utterance)
    parts, same = [], ""
    for tag, i, j, k, end in difflib.SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        if tag == "equal":
            same = "".join(before[i:j])
        else:
            parts.append(Part(same, "".join(before[i:j]), "".join(after[k:end])))
            same = ""
    return [*parts, Part(same)] if same or not parts else parts
