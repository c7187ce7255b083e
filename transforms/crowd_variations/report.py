"""The page of ``compose_variations``: numbers by kind, rewritings beside their sentences, and what was refused why."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from parapet.transforms import svg
from parapet.transforms.crowd_variations.summary import Example
from parapet.transforms.crowd_variations.vet import EXPLANATIONS
from parapet.transforms.pages import render
from parapet.transforms.reports import (
    DISPOSITIONS,
    disposition_bar,
    disposition_rows,
    plural,
    reason_rows,
    reviewer_rows,
)

_FILES = {
    "rewritten.jsonl": "the rewritings that are used: 'parapet language_variations --rewritten' takes it",
    "review.html": "the answers held for review, to be decided in the browser",
    "review.csv": "the same as a sheet",
    "shortfall.csv": "turns and kinds without a good answer",
    "responses.parquet": "every answer with what became of it and why, and where its values stand",
    "dead_letters.jsonl": "input that could not be used, with file, place and reason",
}
_COLUMNS = ["Turns", "Short", "Answers", *(name.capitalize() for name in DISPOSITIONS), "Words", "Letters changed"]


def report_page(
    numbers: Mapping[str, Any],
    used: Mapping[str, Sequence[Example]],
    others: Mapping[tuple[str, str], Sequence[Example]],
) -> str:
    """The page.

    Args:
      numbers: ``statistics.json``.
      used: kind to some of the rewritings that are used.
      others: (disposition, reason) to some answers that were rejected or held.
    """
    answers, kinds, turns = numbers["answers"], numbers["kinds"], numbers["turns"]
    complete = numbers["complete"]
    return render(
        "compose_variations.html.jinja",
        title="Composed variations",
        brand="compose_variations",
        headline=f"{answers['used']:,} rewritings of {plural(turns, 'user turn')}",
        lead=f"{complete:,} of them {'has' if complete == 1 else 'have'} all four: {', '.join(kinds)}.",
        tiles=[
            {"what": "answers", "value": f"{answers['total']:,}"},
            {"what": "used", "value": f"{answers['used']:,}"},
            {"what": "held for review", "value": f"{answers['review']:,}"},
            {"what": "rejected", "value": f"{answers['rejected']:,}"},
            {"what": "still missing", "value": f"{numbers['short']:,}"},
        ],
        todo=list(_todo(numbers)),
        bar=disposition_bar(answers),
        dispositions=disposition_rows(answers, "in rewritten.jsonl"),
        total=f"{answers['total']:,}",
        columns=_COLUMNS,
        kinds=[{"name": kind, "cells": _cells(of)} for kind, of in kinds.items()],
        reasons=reason_rows(numbers["reasons"], EXPLANATIONS),
        examples=[{"name": kind, "rows": found} for kind, found in used.items() if found],
        others=[
            {"name": reason.replace("_", " ").capitalize(), "style": disposition, "rows": found}
            for (disposition, reason), found in others.items()
        ],
        reviewers=reviewer_rows(numbers),
        method=[{"term": key, "meaning": value} for key, value in numbers["method"].items()],
        files=[{"path": path, "what": what} for path, what in _FILES.items()],
    )


def _cells(of: Mapping[str, Any]) -> list[str]:
    counts = [of["turns"], of["short"], of["answers"]["total"], *(of["answers"][name] for name in DISPOSITIONS)]
    shares = ["–" if of[name] is None else svg.percent(of[name]) for name in ("words", "letters_changed")]
    return [*(f"{n:,}" for n in counts), *shares]


def _todo(numbers: Mapping[str, Any]) -> Iterable[dict[str, Any]]:
    review, short, dead = numbers["answers"]["review"], numbers["short"], numbers["dead_letters"]
    if review:
        text = f"{plural(review, 'answer')} to decide on. Decide, then run again with"
        yield {"text": text, "flag": "--decisions", "links": ["review.html", "review.csv"]}
    if short:
        text = f"{plural(short, 'rewriting')} still missing, of a turn and a kind:"
        yield {"text": text, "flag": "", "links": ["shortfall.csv"]}
    if dead:
        yield {"text": f"{plural(dead, 'record')} not used:", "flag": "", "links": ["dead_letters.jsonl"]}
