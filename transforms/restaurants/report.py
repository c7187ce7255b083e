"""The page of ``restaurants``: structure beside the paper's, what was drawn, what splits share, and some dialogues."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from parapet.transforms import svg
from parapet.transforms.pages import render
from parapet.transforms.reports import plural
from parapet.transforms.restaurants.card import PARTS, TITLES, mean, parts_rows, percent, structure_rows

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
