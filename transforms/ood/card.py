"""The README of the sets: what they are, what the rate counts, how they were made, what they came to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from parapet.transforms.ood.injecting import FALLBACKS
from parapet.transforms.ood.plan import MOST_USES, TURNS_A_USE, Recipe

_PLACES = {
    "append": "At the end of the dialogue, after the system's last turn",
    "between": "Between an answer of the system and the user's next turn",
}

_TIMES = {1: "once", 2: "twice"}


def card(numbers: Mapping[str, Any], recipe: Recipe, source: str) -> str:
    """The card in Markdown, given ``statistics.json``, what the sets were made by, and what the source is."""
    rows = [
        f"| {name} | {split} | {of['in_domain_turns']:,} | {of['ood_turns']:,} | "
        f"{'–' if of['share'] is None else format(of['share'], '.1%')} | {of['dialogues_with_ood']:,} |"
        for name, one in numbers["sets"].items()
        for split, of in one["splits"].items()
    ]
    pool = numbers["pool"]
    lines = [
        "# Out-of-domain utterances",
        "",
        "The same dialogues with utterances that are none of the system's business, each answered by a fallback.",
        "",
        "| set | split | in-domain user turns | injected turns | share of all user turns | dialogues with one |",
        "|---|---|--:|--:|--:|--:|",
        *rows,
        "",
        "- **Rate.** Injected turns = rate × in-domain user turns of the split, rounded: exact over the split, not in "
        "every dialogue. A set contains all injections of those with lower rates.",
        f"- **Place.** {_PLACES[recipe.place]}.",
        "- **Annotation.** An injected user turn has the frames of the user turn before it: the same state, nothing "
        "requested, no slots and actions. The system's fallback has no frames. Original turns are as they were.",
        f"- **Source.** {source}: {pool['utterances']:,} utterances, {pool['different']:,} different. Left out: "
        f"{pool['near_duplicate']:,} that share four words in five (Jaccard index 0.8) with an in-domain turn, "
        f"{pool['generic']:,} that could be said in any dialogue, {pool['answer']:,} that answer besides, "
        f"{pool['understood']:,} that other domains may understand, {pool['too_long']:,} too long, "
        f"{pool['empty']:,} without words. Nor is one in a dialogue of a domain that one of its words is typical of.",
        f"- **Uses.** {_uses(numbers['sets'], recipe)}",
        f"- **Disjointness.** Utterances that stand in two splits: {numbers['overlapping']}.",
        f"- **Fallbacks.** {len(FALLBACKS)}, drawn by hash. Seed: `{recipe.seed}`.",
        "",
        "`SET/turns` has a row for every user turn: its place in the new and the original dialogue, the label "
        "(`in_domain`, `ood`), and where the foreign utterance comes from.",
        "",
    ]
    return "\n".join(lines)


def _uses(sets: Mapping[str, Any], recipe: Recipe) -> str:
    if not recipe.own:
        return "Each utterance is used once."
    parts = []
    for name, one in sets.items():
        times: Counter[int] = Counter()
        for of in one["splits"].values():
            times.update({int(n): many for n, many in of["uses"].items()})
        often = ", ".join(f"{many:,} {_TIMES.get(n, f'{n} times')}" for n, many in sorted(times.items()))
        parts.append(f"{name}: {often or 'none'}")
    rule = f"at most once for each {TURNS_A_USE} user turns of the split, {MOST_USES} times at most, once in a dialogue"
    return f"An utterance is used again only where all that fit have been used as often, {rule}. {'; '.join(parts)}."
