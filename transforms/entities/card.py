"""The README of the set: what it is, how it was made, what it came to, and what one should know of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

REASONS = {
    "closed": "a number or a truth value, or a categorical value for which its closed set has no other: every value "
    "there can be has been seen",
    "categorical": "of a categorical slot: its closed set is in the schema, which a model is given",
    "no_generator": "of a slot of no kind that we can make values of",
    "not_in_file": "of a slot that the gazetteer does not name",
    "ambiguous_word": "what is said for it is also said where it may mean something else",
    "two_values": "two values are said in the same way",
    "overlapping_spans": "its span overlaps another's",
    "kept_elsewhere": "a value of a slot that is kept too, or a part of one",
    "unknown_form": "no date, time, price, phone number or reference in a form that we can write again",
    "not_said_so": "a categorical value that is said in other words, or said where nothing marks it",
    "no_unseen_value": "no value of its kind was found that training does not have",
}
SOURCES = {
    "generated": "made up, by kind of slot",
    "corpus": "names from the half of the corpus's own values that is held out by hash (Bordes et al. 2017, section "
    "3.1.2); dates, times, prices and phone numbers made up",
    "file": "from the gazetteer that the user gave",
}


def card(numbers: Mapping[str, Any], options: Mapping[str, Any]) -> str:
    """The card in Markdown, given ``statistics.json`` and the flags."""
    training = numbers["training"]
    lines = [
        "# Unseen entities",
        "",
        "The same dialogues with other slot values: each is replaced by one that occurs nowhere in training, in "
        "utterances, spans, states, actions, service calls and results alike. One value has one replacement in a "
        "dialogue, and another in the next.",
        "",
        f"- {numbers['changed']:,} of {numbers['dialogues']:,} dialogues changed, {numbers['turns_changed']:,} of "
        f"{numbers['turns']:,} turns; {numbers['left_out']:,} dialogues left out (`dead_letters.jsonl`).",
        f"- {numbers['values']['replaced']:,} values replaced, {numbers['values']['kept']:,} kept.",
        f"- New values: {SOURCES[options['values']]}.",
        f"- Leaks: {numbers['leaks']}. No new value of one word, and no two words that stand together in one, occur "
        f"in training ({training['texts']:,} different texts: utterances, values, and the schemas' possible values; "
        "case folded, punctuation off).",
        f"- Seed: `{options['seed']}`.",
        "",
        "| kind | replaced | kept |",
        "|---|--:|--:|",
        *(f"| {kind} | {found['replaced']:,} | {found['kept']:,} |" for kind, found in numbers["kinds"].items()),
        "",
    ]
    if numbers["kept"]:
        lines += ["What was kept, and why:", "", "| reason | values | |", "|---|--:|---|"]
        lines += [f"| `{reason}` | {n:,} | {REASONS[reason]} |" for reason, n in numbers["kept"].items()]
        lines.append("")
    lines += [
        "`replacements` has a row for every value of every dialogue. Dates of a dialogue move by the same number of "
        "weeks; times by the same minutes, where that can be; times and prices are multiples of what those of "
        "their slot are. A name that ends as a park or a hotel does stays one, "
        "but what is made up is no real place, and two values that fit together (a city and its airport) no longer do.",
        "",
    ]
    if options["categorical"] == "replace":
        lines += [
            "Categorical values were replaced too, by others of their closed set: those are **not** unseen "
            "(`unseen` is false in their rows).",
            "",
        ]
    return "\n".join(lines)
