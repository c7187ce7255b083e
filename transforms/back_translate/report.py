"""The page of ``back_translate``: the numbers, what stayed as it was and why, and how names came back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from parapet.schemas.translation import BackTranslation
from parapet.transforms import svg
from parapet.transforms.back_translate.composing import REASONS
from parapet.transforms.pages import render
from parapet.transforms.reports import plural

EXAMPLES = 200  # rows of the table of names; a page with more is slow to open

# Lee et al. 2022, "Schema Augmentation": back-translations of SGD's training schemas, mean over the three pivots.
PUBLISHED = {"name_distance": 0.14, "description_bleu": 34.1, "self_bleu": 41.8}

TERMS = {
    "Name distance": "1 − Levenshtein ratio of a name and its back-translation, the mean over intents and slots.",
    "BLEU": "Word sequences that the descriptions share with the original's: 100 the same, 0 nothing in common.",
    "Self-BLEU": "BLEU of the pivots' descriptions against each other, the mean over ordered pairs. Low means diverse.",
    "Identical": "The share that came back as it was sent.",
    "Kept": "Names and descriptions that could not be used, and stay as in the original.",
}


def report_page(statistics: Mapping[str, Any], audit: Iterable[BackTranslation]) -> str:
    """The page, given ``statistics.json`` and the rows of the audit."""
    pivots = statistics["pivots"]
    rows = list(audit)
    return render(
        "back_translate.html.jinja",
        title="Back-translation",
        brand="back-translation",
        headline="Schemas through another language and back",
        lead=f"{plural(statistics['services'], 'service')}, {plural(len(pivots), 'pivot language')}.",
        tiles=[
            _tile("average name distance", statistics["average"]["name_distance"], svg.number(2)),
            _tile("average BLEU of descriptions", statistics["average"]["description_bleu"], svg.number(1)),
            _tile("self-BLEU", statistics["self_bleu"], svg.number(1)),
        ],
        columns=["Name distance", "BLEU", "Names identical", "Descriptions identical", "Kept"],
        rows=[_row(pivot, numbers) for pivot, numbers in pivots.items()],
        published=PUBLISHED,
        plot=_kept_plot(pivots),
        reasons=[{"term": reason, "meaning": meaning} for reason, meaning in REASONS.items()],
        terms=[{"term": term, "meaning": meaning} for term, meaning in TERMS.items()],
        pivots=list(pivots),
        names=_names(rows, list(pivots))[:EXAMPLES],
        hidden=max(0, len({row.element_id for row in rows if row.field == "name"}) - EXAMPLES),
        signature=statistics["bleu_signature"],
    )


def _row(pivot: str, numbers: Mapping[str, Any]) -> dict[str, Any]:
    kept = sum(sum(numbers[f"{field}_fallbacks"].values()) for field in ("name", "description"))
    cells = [
        _shown(numbers["name_distance"], svg.number(2)),
        _shown(numbers["description_bleu"], svg.number(1)),
        _shown(numbers["names_identical"], svg.percent),
        _shown(numbers["descriptions_identical"], svg.percent),
        str(kept),
    ]
    return {"name": pivot, "total": False, "cells": [{"value": cell, "published": ""} for cell in cells]}


def _kept_plot(pivots: Mapping[str, Mapping[str, Any]]) -> dict[str, Any] | None:
    """Names and descriptions that stay as in the original, by reason."""
    reasons: dict[str, dict[str, int]] = {}
    for pivot, numbers in pivots.items():
        for field in ("name", "description"):
            for reason, n in numbers[f"{field}_fallbacks"].items():
                of_reason = reasons.setdefault(reason, {})
                of_reason[pivot] = of_reason.get(pivot, 0) + n
    if not reasons:
        return None
    styles = ("s1", "s2", "ref")
    series = [
        svg.Series(pivot, tuple(float(of.get(pivot, 0)) for of in reasons.values()), styles[i % len(styles)])
        for i, pivot in enumerate(pivots)
    ]
    title = "Kept as in the original"
    return {
        "title": title,
        "hint": "by reason and pivot",
        "svg": svg.bars("kept", title, "how many, by reason", list(reasons), series, svg.number(0)),
    }


def _names(rows: Sequence[BackTranslation], pivots: Sequence[str]) -> list[dict[str, Any]]:
    """Names side by side: the original, and of each pivot what was said there and what came back."""
    by_element: dict[str, dict[str, BackTranslation]] = {}
    for row in rows:
        if row.field == "name":
            by_element.setdefault(row.element_id, {})[row.pivot] = row
    return [
        {"id": element, "original": of[pivots[0]].original, "pivots": [of[pivot] for pivot in pivots]}
        for element, of in by_element.items()
    ]


def _tile(what: str, value: float | None, form: svg.Format) -> dict[str, str]:
    return {"what": what, "value": _shown(value, form)}


def _shown(value: float | None, form: svg.Format) -> str:
    return "–" if value is None else form(value)
