"""What ``anonymise`` writes besides chats: numbers, a card and a page. None of them has a word of a chat."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from parapet.transforms.anonymise import second_look
from parapet.transforms.anonymise.mentions import KINDS
from parapet.transforms.markdown import table
from parapet.transforms.pages import render
from parapet.transforms.reports import plural

_SUMS = ("files", "broken_files", "chats", "written", "left_out", "turns", "facts_left_out", "chats_with_suspects")
_NOTES = (
    "The same thing has the same placeholder throughout its chat, and nothing else: no table of what was replaced is "
    "kept anywhere.",
    "Rules and models miss things. What a second look, by other means, suspects is in suspects/, by chat and turn, "
    "with its first character and its length. Read a sample before you publish.",
    "API calls have lost their arguments, and facts of a knowledge base are left out, as in the Concierge data.",
)


def statistics(counts: Mapping[str, int]) -> dict[str, Any]:
    """``statistics.json``, given the summed counts."""
    numbers: dict[str, Any] = {name: counts.get(name, 0) for name in _SUMS}
    replaced = sorted({name.partition("/")[2] for name in counts if name.startswith("mentions/")})
    numbers["replaced"] = {
        kind: {"mentions": counts[f"mentions/{kind}"], "things": counts[f"things/{kind}"]} for kind in replaced
    }
    numbers["suspects"] = {kind: counts.get(f"suspects/{kind}", 0) for kind in second_look.KINDS}
    return numbers


def metadata_files(options: Mapping[str, Any], counts: Iterable[tuple[str, int]]) -> list[tuple[str, bytes]]:
    """(path below the output, bytes) of each file, given the flags that shape the content."""
    numbers = statistics(dict(counts))
    return [
        ("README.md", card(numbers, options).encode()),
        ("report.html", report_page(numbers, options).encode()),
        ("statistics.json", (json.dumps(numbers, indent=2) + "\n").encode()),
    ]


def _replaced_rows(numbers: Mapping[str, Any]) -> list[list[str]]:
    return [
        [kind, KINDS.get(kind, "of --entities"), f"{one['mentions']:,}", f"{one['things']:,}"]
        for kind, one in numbers["replaced"].items()
    ]


def _suspect_rows(numbers: Mapping[str, Any]) -> list[list[str]]:
    return [[kind, meaning, f"{numbers['suspects'][kind]:,}"] for kind, meaning in second_look.KINDS.items()]


def _how(options: Mapping[str, Any]) -> str:
    by = f"the spaCy model {options['spacy_model']}" if options["spacy_model"] else "the words around them (no model)"
    listed = f", and a list of {options['entities']:,}" if options["entities"] else ""
    kept = f" Not replaced: {', '.join(options['keep'])}." if options["keep"] else ""
    return f"Names by {by}{listed}; numbers by their form.{kept}"


def card(numbers: Mapping[str, Any], options: Mapping[str, Any]) -> str:
    """The card in Markdown."""
    lines = [
        "# Anonymised chats",
        "",
        f"{plural(numbers['written'], 'chat')} with {plural(numbers['turns'], 'turn')}, in the style of the Concierge "
        "data of Bordes et al. 2017 (section 3.3).",
        _how(options),
        "",
        table(["Kind", "What", "Replaced", "Different, in their chats"], _replaced_rows(numbers), numbers=2),
        "",
        "## What a second look suspects",
        "",
        table(["Kind", "What", "Suspects"], _suspect_rows(numbers), numbers=1),
        "",
        *(f"- {note}" for note in _NOTES),
        "",
    ]
    return "\n".join(lines)


def report_page(numbers: Mapping[str, Any], options: Mapping[str, Any]) -> str:
    """The page."""
    replaced = sum(one["mentions"] for one in numbers["replaced"].values())
    return render(
        "anonymise.html.jinja",
        title="Anonymised chats",
        brand="anonymise",
        headline="What was replaced, and what may have been missed",
        lead=_how(options),
        tiles=[
            {"what": "chats", "value": f"{numbers['written']:,}"},
            {"what": "turns", "value": f"{numbers['turns']:,}"},
            {"what": "mentions replaced", "value": f"{replaced:,}"},
            {"what": "suspects of a second look", "value": f"{sum(numbers['suspects'].values()):,}"},
            {"what": "chats left out", "value": f"{numbers['left_out']:,}"},
        ],
        replaced=_replaced_rows(numbers),
        suspects=_suspect_rows(numbers),
        notes=_NOTES,
    )
