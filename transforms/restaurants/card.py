"""The README of a simulation: what was simulated, its structure beside the paper's, and how to read the files."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from parapet.transforms.markdown import code, table

TITLES = {
    "1": "issuing API calls",
    "2": "updating API calls",
    "3": "displaying options",
    "4": "providing extra information",
    "5": "full dialogues",
}


def mean(value: float | None, digits: int = 2) -> str:
    """A mean, or a dash."""
    return "–" if value is None else f"{value:,.{digits}f}"


def percent(value: float | None, digits: int = 1) -> str:
    """A share as per cent."""
    return "–" if value is None else f"{100 * value:.{digits}f}%"


def structure_rows(numbers: Mapping[str, Any]) -> list[list[str]]:
    """A row for each task: dialogues and means, each mean with the paper's in brackets."""
    rows = []
    for task, one in numbers["tasks"].items():
        means, paper = one["all"], one["paper"]
        cells = [
            f"{mean(means[name])} ({paper[name]})" if name in paper else mean(means[name])
            for name in ("utterances", "user", "silences", "bot", "results")
        ]
        rows.append([f"{task}, {TITLES[task]}", f"{means['dialogues']:,}", *cells])
    return rows


# What dialogues consist of, as it reads in tables.
PARTS = {
    "lines": "lines of the user, silences too, mean",
    "given": "fields in the first request",
    "updates": "fields updated",
    "offered": "entities to choose from",
    "proposals": "proposals",
    "asked": "asked about",
    "ends": "what the user does last",
    "repeats": "dialogues that say what another of their split says",
}


def parts_rows(numbers: Mapping[str, Any]) -> list[list[str]]:
    """A row for each task and what its dialogues consist of: simulated, and in the published files."""
    return [
        [f"{task}, {PARTS[what]}", _part(sides["simulated"]), _part(sides["published"])]
        for task, task_numbers in numbers["tasks"].items()
        for what, sides in task_numbers["structure"].items()
    ]


def _part(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{outcome}: {percent(share)}" for outcome, share in value.items())
    if isinstance(value, float):
        return mean(value)
    return "–" if value is None else str(value)


def card(numbers: Mapping[str, Any], options: Mapping[str, Any]) -> str:
    """The card in Markdown, given ``statistics.json`` and the flags."""
    entities, bot = numbers["entities"], numbers["bot"].get("plain", {})
    columns = ["task", "dialogues", "utterances", "user", "silences", "bot", "results"]
    responses = sum(of["answers"] for one in bot.values() for of in one.values())
    sentences = f"{numbers['patterns']['user']} patterns of the user's, {numbers['patterns']['bot']} of the bot's"
    lines = [
        f"# Simulated dialogues about a {numbers['domain']}",
        "",
        "Tasks of Bordes et al. 2017, section 3, simulated: no sentence and no name of entities is of the published "
        f"files. {sentences}; {numbers['candidates']:,} candidates; {numbers['facts']:,} facts of {entities['seen']:,} "
        f"entities that training sees and {entities['unseen']:,} that only the out-of-vocabulary test has.",
        "",
        "Means of a dialogue, in brackets the paper's Table 1:",
        "",
        table(columns, structure_rows(numbers), 6),
        "",
        "What dialogues consist of, shares of the dialogues, beside the published files where their figures are known:",
        "",
        table(["task", "simulated", "published"], parts_rows(numbers), 0),
        "",
        "- No request (a value for each field) is in two splits; no entity, and no value of a field with unseen ones, "
        "is in training and in the out-of-vocabulary test. Checked in the run.",
        f"- Seed: {code(str(options['seed']))}. Each dialogue depends on the seed, its task, split and number alone.",
    ]
    if responses:
        lines.append(f"- A bot of rules found all of {responses:,} answers that it was tried on.")
    if options["babi_plus"]:
        rates = ", ".join(f"{kind} {share:.0%}" for kind, share in options["babi_plus"].items())
        lines.append(f"- `babi_plus`: the same with disfluencies in the user's turns: {rates}. API calls unchanged.")
    return "\n".join([*lines, ""])
