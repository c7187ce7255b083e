"""The page of ``language_variations``: what the sets came to, what was done, and examples with their edits marked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from parapet.transforms import svg
from parapet.transforms.pages import render
from parapet.transforms.reports import plural
from parapet.transforms.variations.card import how_of, percent
from parapet.transforms.variations.made import RULES

TERMS = {
    "Can be varied": "User turns for which the kind has a rule that is sure, or words that keep every value. The "
    "others are as they were.",
    "Env": "A mix: that share of the turns that can be varied, to the turn; Env-1 lies within Env-2, that in Env-3.",
    "Per word": "Operations for each word of all user turns, changed or not.",
    "Characters edited": "Of each operation what it took or put, whichever is more.",
}


def report_page(
    numbers: Mapping[str, Any], examples: Mapping[str, Sequence[Mapping[str, Any]]], options: Mapping[str, Any]
) -> str:
    """The page.

    Args:
      numbers: ``statistics.json``.
      examples: kind to rows of turns that were varied.
      options: the flags.
    """
    kinds = numbers["kinds"]
    turns = max((one["turns"] for one in kinds.values()), default=0)
    return render(
        "language_variations.html.jinja",
        title="Language variations",
        brand="language variations",
        headline="Dialogues said in another way",
        lead=f"{plural(turns, 'user turn')}: {', '.join(kinds)}.",
        tiles=[{"what": f"of turns changed: {kind}", "value": percent(one["changed"])} for kind, one in kinds.items()],
        odd=plural(numbers["odd_spans"], "span") if numbers["odd_spans"] else "",
        kinds=[{"name": kind, "how": how_of(kind, options), "cells": _cells(one)} for kind, one in kinds.items()],
        envs=[
            {"name": name, "cells": [split, percent(env["rate"], 0), *_env_cells(of)]}
            for one in kinds.values()
            for name, env in one["envs"].items()
            for split, of in env["splits"].items()
        ],
        plots=[_plot(kind, one) for kind, one in kinds.items() if one["operations"]],
        domains=_domains(kinds),
        names=list(kinds),
        sources=[
            {"kind": kind, "source": source, "turns": f"{n:,}"}
            for kind, one in kinds.items()
            for source, n in one["sources"].items()
            if source != RULES
        ],
        lines=_lines(numbers["rewritten"]),
        reasons=[
            {"kind": kind, "reason": reason, "turns": f"{n:,}"}
            for kind, one in kinds.items()
            for reason, n in one["reasons"].items()
        ],
        examples=[
            {"name": kind, "rows": [{"turn": _turn(row), "pieces": pieces(row)} for row in examples[kind]]}
            for kind in kinds
            if examples.get(kind)
        ],
        terms=[{"term": term, "meaning": meaning} for term, meaning in TERMS.items()],
    )


def _lines(of: Mapping[str, Any] | None) -> str:
    """What became of the lines of files, in words."""
    if of is None:
        return ""
    fates = [
        f"{plural(sum(of['with_a_turn'].values()), 'line')} with a user turn",
        f"{of['kind_not_asked']:,} of kinds that were not asked for",
        f"{of['no_user_turn']:,} of no user turn",
        f"{of['bad']:,} that could not be used",
    ]
    return f"{plural(of['lines'], 'rewritten line')}: {', '.join(fates)}."


def _cells(one: Mapping[str, Any]) -> list[str]:
    counts = [f"{one[name]:,}" for name in ("turns", "varied")]
    mean = one["characters_after"] / one["characters_before"] if one["characters_before"] else None
    return [*counts, percent(one["changed"]), f"{one['characters_edited']:,}", percent(mean, 0)]


def _env_cells(of: Mapping[str, Any]) -> list[str]:
    counts = [f"{of[name]:,}" for name in ("can_be_varied", "asked", "replaced")]
    return [*counts, percent(of["share"], 2), percent(of["share_of_user_turns"], 2)]


def _plot(kind: str, one: Mapping[str, Any]) -> dict[str, Any]:
    shares = {name: 100 * of["share"] for name, of in one["operations"].items()}
    said = ", ".join(f"{name} {share:.1f}%" for name, share in shares.items())
    series = [svg.Series(kind, tuple(shares.values()))]
    plot = svg.bars(f"operations-{kind}", f"Operations of {kind}", said, list(shares), series, svg.number(1))
    return {"title": f"Operations of {kind}", "hint": "% of them", "svg": plot}


def _domains(kinds: Mapping[str, Any]) -> list[dict[str, Any]]:
    rows = []
    for name in sorted({name for one in kinds.values() for name in one["domains"]}):
        of = [one["domains"].get(name, {}) for one in kinds.values()]
        turns = max(found.get("turns", 0) for found in of)
        rows.append({"name": name, "cells": [f"{turns:,}", *(percent(found.get("changed")) for found in of)]})
    return rows


def _turn(row: Mapping[str, Any]) -> str:
    return f"{row['dialogue_id']}, {row['turn']}"


def pieces(row: Mapping[str, Any]) -> list[dict[str, str]]:
    """The original cut into what stayed (``kept``), and for each operation what went (``gone``) and came (``new``)."""
    found, at = [], 0
    for one in row["operations"]:
        found.append({"kept": row["original"][at : one["start"]], "gone": "", "new": "", "kind": ""})
        found.append({"kept": "", "gone": one["before"], "new": one["after"], "kind": one["kind"]})
        at = one["end"]
    found.append({"kept": row["original"][at:], "gone": "", "new": "", "kind": ""})
    return found
