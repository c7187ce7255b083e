"""The README of the sets: what they are, how they were made, what they came to, and what one should know of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from parapet.transforms.markdown import code

HOW = {
    "typos": "Words mistyped: a letter left out, a neighbouring key, a letter twice, two letters swapped, a lost "
    "space; and chat abbreviations. Never numbers, times, money, yes, no and negations; typos never in a first letter.",
    "verbose": "A filler before the turn, one after it, drawn by hash whatever the turn says; full forms inside.",
    "simple": "Fillers and politeness left out, requests cut to what is requested; a yes, a no or thanks to a word or "
    "two. Only where a rule is sure.",
    "paraphrase": "Translated into another language and back, where every value came back and nothing was denied or "
    "affirmed that was not before.",
}
HOW_REWRITTEN = {
    "typos": "Mistyped by people, or by a model.",
    "verbose": "UserTurn at more length by people, or by a model.",
    "simple": "UserTurn more simply by people, or by a model.",
    "paraphrase": "UserTurn in other words by people, or by a model.",
}


def how_of(kind: str, options: Mapping[str, Any]) -> str:
    """How a kind was made, given the flags."""
    return (HOW_REWRITTEN if options["rewritten"] else HOW)[kind]


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
        f"The same dialogues with user turns said in another way{_by(options)}. States and actions are those of the "
        f"original; the span of every value is where the value now stands. {values}",
        "",
        "| set | what | user turns | varied | share |",
        "|---|---|--:|--:|--:|",
        *(
            f"| {kind} | {how_of(kind, options)} | {one['turns']:,} | {one['varied']:,} | {percent(one['changed'])} |"
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
        *_source_lines(numbers, options),
        "- `KIND/turns` has a row for every user turn: what was said, what became of it, each edit, each span.",
        "- Phrases, abbreviations and rules are Parapet's own; English only.",
        "",
    ]
    return "\n".join(lines)


def _by(options: Mapping[str, Any]) -> str:
    if options["rewritten"]:
        return ""
    if "paraphrase" not in options["kinds"]:
        return ", by rules"
    return ", by translation" if len(options["kinds"]) == 1 else ", by rules and by translation"


def _source_lines(numbers: Mapping[str, Any], options: Mapping[str, Any]) -> list[str]:
    lines = []
    if options["pivots"]:
        engine = " ".join(part for part in (options["provider"], options["model"]) if part)
        lines.append(f"- Paraphrases: by way of {', '.join(options['pivots'])}, engine {code(engine)}.")
    if of := numbers["rewritten"]:
        files = ", ".join(code(one["file"]) for one in options["rewritten"])
        unused = f"{of['bad']:,} bad, {of['kind_not_asked']:,} of other kinds, {of['no_user_turn']:,} of no user turn"
        lines.append(f"- Rewritten turns: {files}, {of['lines']:,} lines; not used: {unused}.")
    return lines


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
