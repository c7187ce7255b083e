"""The report of ``back_translate``: how far back-translations are from the original, and how names came back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from parapet.schemas.rows import BackTranslation
from parapet.transforms.back_translate.composing import REASONS
from parapet.transforms.report import Report, Section, Table, Tile
from parapet.transforms.text import counted, number, percent

EXAMPLES = 200  # rows of the table of names; a page with more is slow to open

# Lee et al. 2022, "Schema Augmentation": back-translations of SGD's training schemas, mean over the three pivots.
PUBLISHED = {"name_distance": 0.14, "description_bleu": 34.1, "self_bleu": 41.8}

_TERMS = {
    "Name distance": "1 − Levenshtein ratio of a name and its back-translation, the mean over intents and slots.",
    "BLEU": "Word sequences that the descriptions share with the original's: 100 is the same, 0 has nothing in common.",
    "Self-BLEU": "BLEU of the pivots' descriptions against each other, the mean over ordered pairs. Low means diverse.",
    "Identical": "The share whose back-translation is the same text.",
    "Not replaced": "Names and descriptions whose back-translation cannot be used: the original stays.",
}


def back_translate_report(statistics: Mapping[str, Any], audit: Iterable[BackTranslation]) -> Report:
    """The report, given ``statistics.json`` and the rows of the audit."""
    pivots, average = statistics["pivots"], statistics["average"]
    return Report(
        command="back_translate",
        title="Back-translation",
        headline="Schemas through another language and back",
        lead=f"{counted(statistics['services'], 'service')}, {counted(len(pivots), 'pivot language')}.",
        tiles=[
            Tile("average name distance", number(average["name_distance"], 2)),
            Tile("average BLEU of descriptions", number(average["description_bleu"], 1)),
            Tile("self-BLEU", number(statistics["self_bleu"], 1)),
        ],
        sections=[
            Table(
                title="How far each back-translation is from the original",
                note="SGD-X reports for the back-translations of SGD's training schemas, as means over Mandarin, "
                f"Japanese and Korean: name distance {PUBLISHED['name_distance']}, BLEU "
                f"{PUBLISHED['description_bleu']}, self-BLEU {PUBLISHED['self_bleu']}.",
                columns=["pivot", "name distance", "BLEU", "names identical", "descriptions identical", "not replaced"],
                rows=[_row(pivot, numbers) for pivot, numbers in pivots.items()],
            ),
            *_reasons(pivots),
            _names(list(audit), list(pivots)),
        ],
        terms=_TERMS,
        links={
            "statistics.json": f"all numbers; BLEU by sacrebleu, `{statistics['bleu_signature']}`",
            "translations.parquet": "every name and description, its translation and back-translation",
        },
    )


def _row(pivot: str, numbers: Mapping[str, Any]) -> list[str]:
    kept = sum(sum(numbers[f"{field}_fallbacks"].values()) for field in ("name", "description"))
    return [
        pivot,
        number(numbers["name_distance"], 2),
        number(numbers["description_bleu"], 1),
        percent(numbers["names_identical"]),
        percent(numbers["descriptions_identical"]),
        number(kept),
    ]


def _reasons(pivots: Mapping[str, Mapping[str, Any]]) -> list[Section]:
    """Names and descriptions that stay as in the original, by reason."""
    fallbacks = {
        pivot: Counter(numbers["name_fallbacks"]) + Counter(numbers["description_fallbacks"])
        for pivot, numbers in pivots.items()
    }
    reasons = dict.fromkeys(reason for of_pivot in fallbacks.values() for reason in of_pivot)
    if not reasons:
        return []
    rows = [
        [
            reason.replace("_", " ").capitalize(),
            REASONS.get(reason, ""),
            *(number(of_pivot[reason]) for of_pivot in fallbacks.values()),
        ]
        for reason in reasons
    ]
    title = "Names and descriptions that were not replaced"
    return [Table(title=title, columns=["reason", "meaning", *pivots], rows=rows, text_columns=2)]


def _names(rows: Sequence[BackTranslation], pivots: Sequence[str]) -> Table:
    """Names side by side: the original, what came back from each pivot, and in small print the pivot's words."""
    by_element: dict[str, dict[str, BackTranslation]] = {}
    for row in rows:
        if row.field == "name":
            by_element.setdefault(row.element_id, {})[row.pivot] = row
    hidden = len(by_element) - EXAMPLES
    more = f" {hidden:,} more names and all" if hidden > 0 else " All"
    return Table(
        title="Names",
        note="The back-translation of each name; in small print its translation, and why the name was not replaced."
        f"{more} descriptions are in `translations.parquet`.",
        columns=["name", *pivots],
        rows=[
            [_one_line(of[pivots[0]].original), *(_cell(of[pivot]) for pivot in pivots)]
            for of in list(by_element.values())[:EXAMPLES]
        ],
        text_columns=1 + len(pivots),
        in_card=False,
    )


def _cell(row: BackTranslation) -> str:
    reason = f" · {REASONS.get(row.reason, row.reason)}" if row.reason else ""
    return f"{_one_line(row.emitted)}\n{_one_line(row.pivot_text) or '–'}{reason}"


def _one_line(text: str) -> str:
    return " ".join(text.split())
