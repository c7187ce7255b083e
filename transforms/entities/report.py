"""The report of ``unseen_entities``: what was replaced, what was kept and why, and how turns read now."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from parapet.transforms.report import Bars, Example, Examples, Line, Part, Report, Series, Table, Text, Tile
from parapet.transforms.text import counted, number, percent

# Why a value is kept: the key in statistics.json and in the rows, what the page calls it, and what it means.
REASONS = {
    "closed": (
        "closed set",
        "a number, a truth value, or a categorical value whose closed set has no other: every possible value is known",
    ),
    "categorical": ("categorical", "of a categorical slot: its closed set is in the schema, which a model is given"),
    "no_generator": ("no generator", "of a slot whose kind has no generator"),
    "not_in_file": ("not in the gazetteer", "of a slot that the gazetteer does not name"),
    "ambiguous_word": ("ambiguous word", "its words also occur where they may mean something else"),
    "two_values": ("two values", "two values are written alike"),
    "overlapping_spans": ("overlapping spans", "its span overlaps another one"),
    "kept_elsewhere": ("kept elsewhere", "also a value of a slot that is kept, or a part of such a value"),
    "unknown_form": ("unknown form", "a date, time, price, phone number or reference in a form that is not supported"),
    "not_said_so": (
        "unmarked categorical value",
        "a categorical value that turns say in other words, or where nothing marks it",
    ),
    "no_unseen_value": ("no unseen value", "no value of its kind was found that training does not have"),
}
SOURCES = {
    "generated": "generated, by kind of slot",
    "corpus": "names from the half of the corpus's own values that is held out by hash (Bordes et al. 2017, section "
    "3.1.2); generated dates, times, prices and phone numbers",
    "file": "from the gazetteer that was given",
}
_TERMS = {
    "Value": "A value of a slot in a dialogue, however often and in however many forms it occurs.",
    "Leak": "A new value of one word that occurs in training, or two adjacent words of one that are adjacent there "
    "(case and punctuation ignored).",
    "Places": "Where values were replaced: utterances (in a span or not), states, actions, service calls and results.",
    "Kind": "The kind of the values of a slot, inferred from its name, its description and its values.",
}


def report_of(statistics: Mapping[str, Any], examples: Sequence[Example], options: Mapping[str, object]) -> Report:
    """The page and the card.

    Args:
      statistics: ``statistics.json``.
      examples: turns with their replaced values marked.
      options: those that shape the content.
    """
    values, source = statistics["values"], SOURCES[str(options["values"])]
    replaces_choices = options["categorical"] == "replace"
    return Report(
        command="unseen_entities",
        title="Unseen entities",
        headline="Slot values that do not occur in training",
        lead=f"The same dialogues with other slot values: {counted(statistics['dialogues'], 'dialogue')}, "
        f"{counted(statistics['turns'], 'turn')}, {statistics['left_out']:,} dialogues left out. New values: {source}.",
        notes=[
            "Categorical values were replaced, too, by others of their closed set: those are not unseen "
            "(`unseen` is false in their rows)."
        ]
        if replaces_choices
        else [],
        tiles=[
            Tile("of dialogues with open slots changed", percent(statistics["changed_rate"])),
            Tile("values replaced", number(values["replaced"])),
            Tile("values kept", number(values["kept"])),
            Tile("leaks", number(statistics["leaks"])),
        ],
        sections=[
            Table(
                title="Values by kind",
                columns=["kind", "replaced", "kept"],
                rows=[[kind, number(of["replaced"]), number(of["kept"])] for kind, of in statistics["kinds"].items()],
            ),
            _places(statistics["places"]),
            Examples(title="Examples", examples=examples),
            Table(
                title="Unchanged values by reason",
                columns=["reason", "meaning", "values"],
                text_columns=2,
                rows=[[*REASONS[reason], number(n)] for reason, n in statistics["kept"].items()],
            ),
            Table(
                title="Values by slot",
                columns=["slot", "kinds", "kept, by reason", "replaced"],
                text_columns=3,
                rows=[[slot, *_cells(of)] for slot, of in statistics["slots"].items()],
                in_card=False,
            ),
            Text(title="How they were made", paragraphs=_how(statistics, options)),
        ],
        terms=_TERMS,
        links={"statistics.json": "all numbers", "dead_letters.jsonl": "dialogues that were left out"},
    )


def _cells(of_slot: Mapping[str, Any]) -> list[str]:
    kept = ", ".join(f"{REASONS[reason][0]} {n:,}" for reason, n in of_slot["kept"].items())
    return [", ".join(of_slot["kinds"]), kept, number(of_slot["replaced"])]


def _places(places: Mapping[str, int]) -> Bars:
    names = [place.replace("service_call", "service calls") for place in places]
    title, note = "Places where values were replaced", "Spans are among the utterances."
    series = [Series("places", tuple(float(n) for n in places.values()))]
    return Bars(title=title, note=note, categories=names, series=series)


def _how(statistics: Mapping[str, Any], options: Mapping[str, object]) -> list[str]:
    training = statistics["training"]
    return [
        f"{statistics['changed']:,} of {counted(statistics['dialogues'], 'dialogue')} and "
        f"{statistics['turns_changed']:,} of {counted(statistics['turns'], 'turn')} changed. Values are replaced in "
        "utterances, spans, states, actions, service calls and results alike. A value has one replacement in a "
        "dialogue, and another one in the next.",
        f"Training: {counted(training['texts'], 'different text')} (utterances, values, and the possible values of the "
        f"schemas). Leaks: {statistics['leaks']:,}.",
        "All dates of a dialogue move by the same number of weeks, all times by the same number of minutes where "
        "possible. Times and prices are as round as those of their slot. A park keeps a name of a park, but made-up "
        "names are no real places, and two values that belong together (a city and its airport) no longer do.",
        f"Seed: `{options['seed']}`.",
        "`replacements` has a row for every value of every dialogue.",
    ]


def example_of(shown: Mapping[str, Any]) -> Example:
    """A turn with its replaced values marked."""
    parts = [Part(old) if old == new else Part("", old, new) for old, new in shown["parts"]]
    return Example(f"dialogue {shown['dialogue_id']}, turn {shown['turn']}", [Line(shown["speaker"], parts)])
