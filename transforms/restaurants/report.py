"""The card and the page of ``restaurants``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from parapet.transforms import svg
from parapet.transforms.markdown import code, table
from parapet.transforms.pages import render
from parapet.transforms.reports import plural

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


TERMS = {
    "Utterances": "Of the user, of the bot, and facts that stand in the dialogue; silences apart.",
    "Silences": "Lines in which the user says nothing, because the bot speaks twice in a row.",
    "In brackets": "The paper's Table 1, as it was printed: whole numbers.",
    "Standard errors": "How far the share is from the one it was drawn with, in standard errors of such a draw: beyond "
    "4 would be one in 16,000.",
    "Per dialogue": "Share of the dialogues of which the bot of rules finds every answer.",
}
DRAWN = {
    **PARTS,
    "options": "options before the last",
}


def report_page(numbers: Mapping[str, Any], examples: Mapping[int, Sequence[str]]) -> str:
    """The page.

    Args:
      numbers: ``statistics.json``.
      examples: task to texts of dialogues.
    """
    tasks = numbers["tasks"]
    dialogues = sum(one["all"]["dialogues"] for one in tasks.values())
    return render(
        "restaurants.html.jinja",
        title="Simulated dialogues",
        brand="restaurants",
        headline=f"Simulated dialogues about a {numbers['domain']}",
        lead=f"{plural(dialogues, 'dialogue')} of {plural(len(tasks), 'task')} after Bordes et al. 2017.",
        tiles=_tiles(numbers),
        structure=[{"name": row[0], "cells": row[1:]} for row in structure_rows(numbers)],
        published=_published(tasks),
        consists=[
            {"name": row[0], "cells": [cell.replace(": ", ":\N{NO-BREAK SPACE}") for cell in row[1:]]}
            for row in parts_rows(numbers)
        ],
        plots=[_plot(task, one) for task, one in tasks.items()],
        splits=_splits(tasks),
        drawn=_drawn(tasks),
        bot=_bot(numbers["bot"]),
        oov=[
            {"name": kind, "cells": [f"{row['oov']:,}", f"{row['seen']:,}", f"{row['both']:,}", _may(row)]}
            for kind, row in numbers["apart"]["oov"].items()
        ],
        requests=[{"name": pair.replace("+", ", "), "cells": [f"{n:,}"]} for pair, n in _pairs(numbers).items()],
        plus=_plus(tasks),
        examples=[{"title": f"Task {task}, {TITLES[str(task)]}", "texts": list(examples[task])} for task in examples],
        terms=[{"term": term, "meaning": meaning} for term, meaning in TERMS.items()],
    )


def _tiles(numbers: Mapping[str, Any]) -> list[dict[str, str]]:
    values = {
        "candidates": numbers["candidates"],
        "facts": numbers["facts"],
        "entities seen in training": numbers["entities"]["seen"],
        "entities unseen": numbers["entities"]["unseen"],
        "patterns of the user's": numbers["patterns"]["user"],
        "patterns of the bot's": numbers["patterns"]["bot"],
    }
    return [{"what": what, "value": f"{n:,}"} for what, n in values.items()]


def _published(tasks: Mapping[str, Any]) -> list[dict[str, Any]]:
    names = ("utterances", "user", "silences", "bot", "results")
    return [
        {"name": f"{task}, {what}", "cells": [mean(of[name]) for name in names]}
        for task, one in tasks.items()
        if one["published_files"]
        for what, of in (("simulated", one["all"]), ("published files", one["published_files"]))
    ]


def _plot(task: str, one: Mapping[str, Any]) -> dict[str, Any]:
    names = ("user", "bot", "results")
    means, paper = [one["all"][name] for name in names], [float(one["paper"][name]) for name in names]
    series = [svg.Series("simulated", tuple(means)), svg.Series("paper", tuple(paper), "s2")]
    said = ", ".join(
        f"{name} {mean(value, 1)}, in the paper {of:.0f}" for name, value, of in zip(names, means, paper, strict=True)
    )
    title = f"Task {task}, {TITLES[task]}"
    return {
        "title": title,
        "hint": "mean of a dialogue",
        "svg": svg.bars(f"task{task}", title, said, names, series, svg.number(1)),
    }


def _splits(tasks: Mapping[str, Any]) -> list[dict[str, Any]]:
    names = ("utterances", "user", "silences", "bot", "results")
    return [
        {"name": f"{task}, {split}", "cells": [f"{of['dialogues']:,}", *(mean(of[name]) for name in names)]}
        for task, one in tasks.items()
        for split, of in one["splits"].items()
    ]


def _drawn(tasks: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [
        {
            "name": f"{task}, {DRAWN[what]}: {outcome}",
            "cells": [
                f"{of['count']:,}",
                percent(of["share"]),
                percent(of["expected"]),
                "–" if of["standard_errors"] is None else f"{of['standard_errors']:+.1f}",
            ],
        }
        for task, one in tasks.items()
        for what, outcomes in one["drawn"].items()
        for outcome, of in outcomes.items()
    ]


def _bot(sets: Mapping[str, Any]) -> list[dict[str, Any]]:
    said = {"plain": "", "plus": ", with disfluencies"}
    tests = {"seen": "", "oov": ", out of vocabulary"}
    return [
        {
            "name": f"{task}{tests[test]}{said[name]}",
            "cells": [
                f"{of['answers']:,}",
                percent(of["per_response"]),
                f"{of['tried']:,}",
                percent(of["per_dialogue"]),
            ],
        }
        for name, of_set in sets.items()
        for task, of_task in of_set.items()
        for test, of in of_task.items()
    ]


def _may(row: Mapping[str, Any]) -> str:
    return "must be 0" if row["must_be_unseen"] else "may be shared"


def _pairs(numbers: Mapping[str, Any]) -> Mapping[str, int]:
    pairs: Mapping[str, int] = numbers["apart"]["requests"]
    return pairs


def _plus(tasks: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [
        {
            "name": f"{task}, {kind}",
            "cells": [f"{of['turns']:,}", percent(of["share"]), percent(of["asked"], 0), percent(of["default"], 0)],
        }
        for task, one in tasks.items()
        for kind, of in (one["babi_plus"] or {}).items()
    ]
