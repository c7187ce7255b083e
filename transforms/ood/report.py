"""The page of ``ood``: what was injected, what became of the foreign utterances, and how injected turns look."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from parapet.transforms import svg
from parapet.transforms.ood.plan import Recipe
from parapet.transforms.ood.pool import STATUSES
from parapet.transforms.pages import render
from parapet.transforms.reports import plural

TERMS = {
    "Rate": "Injected turns for each in-domain user turn of the split, exact over the split.",
    "Share": "Injected turns among all user turns of the set.",
    "near_duplicate": "The words are those of an in-domain turn, but for one in five (Jaccard index of 0.8 or more).",
    "generic": "Fewer than three content words, and none of them tells what it is about: it could be said anywhere.",
    "answer": "It says yes, no, thanks or the like besides, which any dialogue understands; of the corpus's own.",
    "understood": "No word of it is foreign to most other domains: they may understand it; of the corpus's own.",
    "Different": "Utterances that were injected; of the corpus's own one may be used again.",
    "Most uses": "Of one utterance, in the split.",
    "too_long": "Over 400 characters.",
    "empty": "Without a word.",
}
_MOST = 12  # rows of the table of sources


def report_page(
    numbers: Mapping[str, Any], recipe: Recipe, source: str, examples: Mapping[str, Sequence[Mapping[str, Any]]]
) -> str:
    """The page.

    Args:
      numbers: ``statistics.json``.
      recipe: what the sets were made by.
      source: what the source is.
      examples: set to some injected turns, with the turns around them.
    """
    sets = numbers["sets"]
    pool = numbers["pool"]
    in_domain = sum(of["in_domain_turns"] for of in next(iter(sets.values()))["splits"].values())
    return render(
        "ood.html.jinja",
        title="Out-of-domain utterances",
        brand="out-of-domain utterances",
        headline="Dialogues with utterances from elsewhere",
        lead=f"{plural(in_domain, 'in-domain user turn')}; foreign utterances of {source}, "
        f"{'appended' if recipe.place == 'append' else 'breaking in between'}.",
        tiles=_tiles(sets, pool),
        rows=[
            {"name": name, "split": split, "cells": _cells(one, of)}
            for name, one in sets.items()
            for split, of in one["splits"].items()
        ],
        plots=[_plot(pool)],
        sources=_sources(sets),
        sets=list(sets),
        examples=[{"name": name, "rows": rows} for name, rows in sorted(examples.items())],
        terms=[{"term": term, "meaning": meaning} for term, meaning in TERMS.items()],
    )


def _tiles(sets: Mapping[str, Any], pool: Mapping[str, Any]) -> list[dict[str, str]]:
    injected = {name: sum(of["ood_turns"] for of in one["splits"].values()) for name, one in sets.items()}
    tiles = [{"what": f"turns injected in {name}", "value": f"{n:,}"} for name, n in injected.items()][-3:]
    return [*tiles, {"what": "foreign utterances to choose from", "value": f"{pool['kept']:,}"}]


def _cells(one: Mapping[str, Any], of: Mapping[str, Any]) -> list[str]:
    share = "–" if of["share"] is None else f"{of['share']:.1%}"
    counts = [f"{of[name]:,}" for name in ("in_domain_turns", "ood_turns")]
    uses = of["uses"]
    different, most = f"{sum(uses.values()):,}", str(max(map(int, uses), default=0))
    return [f"{one['rate']:.0%}", *counts, share, f"{of['dialogues_with_ood']:,}", different, most]


def _plot(pool: Mapping[str, Any]) -> dict[str, Any]:
    said = ", ".join(f"{status} {pool[status]:,}" for status in STATUSES)
    series = [svg.Series("utterances", tuple(float(pool[status]) for status in STATUSES))]
    return {
        "title": "What became of the foreign utterances",
        "hint": f"{pool['different']:,} different ones",
        "svg": svg.bars("pool", "Foreign utterances", said, list(STATUSES), series, svg.number(0)),
    }


def _sources(sets: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Injected turns by domain or file, the most frequent of the last set first."""
    last = list(sets.values())[-1]["sources"]
    names = sorted(last, key=lambda name: (-last[name], name))[:_MOST]
    return [{"name": name, "cells": [f"{one['sources'].get(name, 0):,}" for one in sets.values()]} for name in names]
