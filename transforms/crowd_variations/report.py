"""What ``compose_variations`` says of its results: statistics, report, and the rewritings that are still missing."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from parapet.schemas.decisions import csv_bytes
from parapet.schemas.rows import KINDS, Kind
from parapet.transforms.crowd.composing import Composed, dispositions, reasons
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
from parapet.transforms.crowd_variations.tasks import FIELD_OF
from parapet.transforms.crowd_variations.vet import EXPLANATIONS
from parapet.transforms.hits.rewrite_pages import turn_task_id
from parapet.transforms.hits.terms import REWRITES
from parapet.transforms.report import Report, Section, Table, Tile
from parapet.transforms.text import counted, number, percent

if TYPE_CHECKING:
    from parapet.transforms.crowd_variations.settle import DialogueOutcome

_COLUMNS = ["turns", "short", "answers", *DISPOSITIONS, "words", "letters changed"]

# ``service_name``, ``task``, ``field``, ``have`` and ``need`` are what 'parapet mturk topup' takes.
SHORTFALL_COLUMNS = (
    "task_id",
    "dialogue_id",
    "turn",
    "kind",
    "service_name",
    "task",
    "field",
    "have",
    "need",
    "in_review",
)

SHOWN = 6  # examples of a kind on the page
SHOWN_REASON = 2  # of a reason


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


def fewest(examples: Iterable[Example], n: int) -> list[Example]:
    """Of each kind, disposition and reason the first ``n`` in the drawn order."""
    groups: dict[tuple[str, str, str], list[Example]] = defaultdict(list)
    for example in sorted(examples):
        group = groups[example.kind, example.disposition, example.reason]
        if len(group) < n:
            group.append(example)
    return [example for group in groups.values() for example in group]


def used_examples(examples: Sequence[Example]) -> dict[str, list[Example]]:
    """Of each kind some that are used."""
    used = fewest((example for example in examples if example.disposition == "used"), SHOWN)
    return {kind: [example for example in used if example.kind == kind] for kind in KINDS}


def other_examples(examples: Iterable[Example]) -> dict[tuple[str, str], list[Example]]:
    """(disposition, reason) to some that were rejected or held."""
    groups: dict[tuple[str, str], list[Example]] = defaultdict(list)
    held = (example for example in examples if example.disposition in ("rejected", "review"))
    for example in sorted(fewest(held, SHOWN)):
        group = groups[example.disposition, example.reason]
        if len(group) < SHOWN_REASON:
            group.append(example)
    return dict(sorted(groups.items()))


def statistics(composed: Composed[DialogueOutcome], method: Mapping[str, str]) -> dict[str, Any]:
    """The content of ``statistics.json``; ``method`` has the options of the run."""
    outcomes = composed.outcomes
    turns = sum(outcome.turns for outcome in outcomes)
    short: Counter[Kind] = Counter(missing.kind for outcome in outcomes for missing in outcome.short)
    incomplete = sum(len({missing.turn for missing in outcome.short}) for outcome in outcomes)
    return {
        "turns": turns,
        "complete": turns - incomplete,
        "short": short.total(),
        "answers": dispositions(outcomes, KINDS),
        "reasons": reasons(outcomes, KINDS),
        "kinds": {
            kind: {
                "turns": sum(outcome.answers[kind, "used"] for outcome in outcomes),
                "short": short[kind],
                "answers": dispositions(outcomes, [kind]),
                "reasons": reasons(outcomes, [kind]),
                "words": _share(outcome.words.get(kind) for outcome in outcomes),
                "letters_changed": _share(outcome.letters.get(kind) for outcome in outcomes),
            }
            for kind in KINDS
        },
        "dead_letters": len(composed.dead),
        "agreement": composed.agreement,
        "decisions": composed.decisions(),
        "method": dict(method),
    }


def _share(sums: Iterable[tuple[int, int] | None]) -> float | None:
    """The second sum over the first, of all that is used: 1.4 is 40 % more words."""
    known = [pair for pair in sums if pair]
    before = sum(pair[0] for pair in known)
    return round(sum(pair[1] for pair in known) / before, 4) if before else None


def of_other_sentences(numbers: Mapping[str, Any]) -> bool:
    """Whether most mistyped answers are too far from their sentences: they belong to another corpus or split."""
    typos = numbers["kinds"]["typos"]
    far = sum(typos["reasons"]["rejected"].get(reason, 0) for reason in ("lost_value", "too_many_typos"))
    return bool(2 * far > typos["answers"]["total"])


def shortfall(outcomes: Iterable[DialogueOutcome]) -> bytes:
    """``shortfall.csv``: a row for each turn and kind without a good answer."""
    rows = [
        [
            turn_task_id(missing.dialogue_id, missing.turn),
            missing.dialogue_id,
            str(missing.turn),
            missing.kind,
            f"{missing.dialogue_id}:{missing.turn}",
            REWRITES,
            FIELD_OF[missing.kind],
            "0",
            "1",
            str(missing.in_review),
        ]
        for outcome in outcomes
        for missing in sorted(outcome.short, key=lambda row: (row.turn, KINDS.index(row.kind)))
    ]
    return csv_bytes(SHORTFALL_COLUMNS, rows)
