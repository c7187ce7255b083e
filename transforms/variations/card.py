"""The README of the sets: what they are, how they were made, what they came to, and what one should know of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

HOW = {
    "typos": "Words mistyped: a letter left out, a neighbouring key, a letter twice, two letters swapped, a lost "
    "space; and chat abbreviations. Never numbers, times, money, yes, no and negations; typos never in a first letter.",
    "verbose": "A sentence before the turn, one after it, fitted to its dialogue acts; full forms and hedges inside.",
    "simple": "Fillers and politeness left out, requests cut to what is requested; a yes, a no or thanks to a word or "
    "two. Only where a rule is sure.",
}


def percent(value: float | None, digits: int = 1) -> str:
    """A share as per cent."""
    return "–" if value is None else f"{100 * value:.{digits}f}%"


def card(numbers: Mapping[str, Any], options: Mapping[str, Any]) -> str:
    """The card in Markdown, given ``statistics.json`` and the flags."""
    values = (
        "Values may have typos too; states keep the original values, and `turns` has both."
        if options["perturb_values"]
        else "No annotated value is touched."
    )
    lines = [
        "# Language variations",
        "",
        "The same dialogues with user turns said in another way, by rules. States and actions are those of the "
        f"original; the span of every value is where the value now stands. {values}",
        "",
        "| set | what | user turns | varied | share |",
        "|---|---|--:|--:|--:|",
        *(
            f"| {kind} | {HOW[kind]} | {one['turns']:,} | {one['varied']:,} | {percent(one['changed'])} |"
            for kind, one in numbers["kinds"].items()
        ),
        "",
        *_env_lines(numbers),
        "| kind | operation | count | share | per word |",
        "|---|---|--:|--:|--:|",
        *(
            f"| {kind} | {name} | {of['count']:,} | {percent(of['share'])} | {percent(of['per_word'])} |"
            for kind, one in numbers["kinds"].items()
            for name, of in one["operations"].items()
        ),
        "",
        f"- Seed: `{options['seed']}`. Splits: {options['split']}.",
        "- `KIND/turns` has a row for every user turn: what was said, what became of it, each edit, each span.",
        "- Phrases, abbreviations and rules are Parapet's own; English only.",
        "",
    ]
    return "\n".join(lines)


def _env_lines(numbers: Mapping[str, Any]) -> list[str]:
    rows = [
        f"| {name} | {split} | {percent(env['rate'], 0)} | {of['can_be_varied']:,} | {of['replaced']:,} | "
        f"{percent(of['share_of_user_turns'])} |"
        for one in numbers["kinds"].values()
        for name, env in one["envs"].items()
        for split, of in env["splits"].items()
    ]
    if not rows:
        return []
    return [
        "An Env set has that share of the turns that can be varied, to the turn (halves up), each in the next as well:",
        "",
        "| set | split | rate | can be varied | varied | of all user turns |",
        "|---|---|--:|--:|--:|--:|",
        *rows,
        "",
    ]
