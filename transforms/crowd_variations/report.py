"""The report of ``compose_variations``: numbers by kind, rewritten turns, and answers that were refused and why."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from parapet.schemas.rewritings import Kind
from parapet.transforms.crowd.report import (
    DISPOSITIONS,
    FILES,
    answers_table,
    dead_letters_note,
    method_table,
    reasons_tables,
    review_notes,
    reviewers_text,
    words,
)
from parapet.transforms.crowd_variations.vet import EXPLANATIONS
from parapet.transforms.report import Report, Section, Table, Tile
from parapet.transforms.text import counted, number, percent

_COLUMNS = ["turns", "short", "answers", *DISPOSITIONS, "words", "letters changed"]


class Example(msgspec.Struct, frozen=True, order=True):
    """An answer for the page; ``draw`` says which are shown."""

    draw: int
    kind: Kind
    disposition: str
    reason: str
    place: str
    original: str
    text: str


def compose_variations_report(
    numbers: Mapping[str, Any],
    used: Mapping[str, Sequence[Example]],
    others: Mapping[tuple[str, str], Sequence[Example]],
) -> Report:
    """The report.

    Args:
      numbers: ``statistics.json``.
      used: kind to some of the rewritten turns that are used.
      others: (disposition, reason) to some answers that were rejected or held.
    """
    answers, kinds, complete = numbers["answers"], numbers["kinds"], numbers["complete"]
    sections: list[Section] = [
        answers_table(answers, "in rewritten.jsonl"),
        Table(
            title="By kind",
            note="Of the rewritten turns that are used: their words, in percent of those of the originals; and the "
            "letters inserted, deleted or replaced, in percent of the originals' letters.",
            columns=["kind", *_COLUMNS],
            rows=[[kind, *_cells(row)] for kind, row in kinds.items()],
        ),
        *reasons_tables(numbers["reasons"], EXPLANATIONS),
        *(_examples(f"{words(kind)}: some rewritten turns", rows, "rewritten") for kind, rows in used.items() if rows),
        *(
            _examples(f"{words(disposition)}, {words(reason).lower()}: some answers", rows, "answer")
            for (disposition, reason), rows in others.items()
        ),
    ]
    return Report(
        command="compose_variations",
        title="Composed variations",
        headline=f"{answers['used']:,} rewritten turns from {counted(numbers['turns'], 'user turn')}",
        lead=f"{complete:,} of them {'has' if complete == 1 else 'have'} all four kinds: {', '.join(kinds)}.",
        tiles=[
            Tile("answers", number(answers["total"])),
            Tile("used", number(answers["used"])),
            Tile("held for review", number(answers["review"])),
            Tile("rejected", number(answers["rejected"])),
            Tile("still missing", number(numbers["short"])),
        ],
        notes=list(_notes(numbers)),
        sections=[*sections, *reviewers_text(numbers), method_table(numbers["method"])],
        links={
            "review.html": FILES["review.html"],
            "rewritten.jsonl": "the rewritten turns that are used, for `parapet language_variations --rewritten`",
            **FILES,
        },
    )


def _examples(title: str, rows: Sequence[Example], column: str) -> Table:
    return Table(
        title=title,
        columns=["dialogue:turn", "kind", "original", column],
        rows=[[row.place, row.kind, row.original, row.text] for row in rows],
        text_columns=4,
        in_card=False,
    )


def _cells(row: Mapping[str, Any]) -> list[str]:
    counts = [row["turns"], row["short"], row["answers"]["total"], *(row["answers"][name] for name in DISPOSITIONS)]
    return [*map(number, counts), percent(row["words"], 0), percent(row["letters_changed"], 0)]


def _notes(numbers: Mapping[str, Any]) -> Iterable[str]:
    yield from review_notes(numbers)
    if short := numbers["short"]:
        yield f"{counted(short, 'rewritten turn')} still missing, each of a turn and a kind: see `shortfall.csv`."
    yield from dead_letters_note(numbers["dead_letters"])
