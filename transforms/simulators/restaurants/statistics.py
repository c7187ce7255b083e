"""Statistics of simulated dialogues, compared with the paper and its files, and the report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from parapet.transforms.core.counts import Counts
from parapet.transforms.report.numbers import Numbers, metrics_named, sections_of
from parapet.transforms.report.report import Examples, Report, Text, Tile, dialogue_example
from parapet.transforms.report.text import counted
from parapet.transforms.simulators.restaurants.simulating import RATES, Dialogue, World

# Bordes et al. 2017, Table 1: means per dialogue. The first row is the sum of the others except for task 3, where the
PAPER = {
    1: {"utterances": 12, "user": 5, "bot": 7, "results": 0},
    2: {"utterances": 17, "user": 7, "bot": 10, "results": 0},
    3: {"utterances": 43, "user": 7, "bot": 10, "results": 23},
    4: {"utterances": 15, "user": 4, "bot": 4, "results": 7},
    5: {"utterances": 55, "user": 13, "bot": 18, "results": 24},
}
# Measured on the published files of these tasks, all four splits together.
PUBLISHED = {
    1: {"utterances": 10.00, "user": 4.00, "silences": 2.00, "bot": 6.00, "results": 0.0},
    4: {"utterances": 14.02, "user": 3.51, "silences": 0.0, "bot": 3.51, "results": 7.0},
}
LINES = ("user", "silences", "bot", "results")


def count(counts: Counter[tuple[str, str]], world: World, dialogue: Dialogue) -> None:
    """Count the lines of a dialogue by (name, value)."""
    pairs = dialogue.pairs
    users = sum(pair.user is not None for pair in pairs)
    facts = len(world.names) + len(world.ontology.extras) + 1
    counts["dialogues", ""] += 1
    counts["lines", "user"] += users
    counts["lines", "silences"] += len(pairs) - users
    counts["lines", "bot"] += len(pairs)
    counts["lines", "results"] += sum(len(pair.results) for pair in pairs) * facts


def statistics(tasks: Sequence[int], sizes: Sequence[tuple[str, int]], counts: Counts) -> dict[str, Any]:
    """Return the part of ``statistics.json`` about dialogues, by task.

    Args:
      tasks: the simulated tasks.
      sizes: (split, dialogues).
      counts: the counts of the run.
    """
    return {
        str(task): {
            "splits": {split: _means(counts, set=str(task), split=split) for split, _ in sizes},
            "all": _means(counts, set=str(task)),
            "paper": PAPER[task],
            "published_files": PUBLISHED.get(task),
        }
        for task in tasks
    }


def _means(counts: Counts, **parts: str) -> dict[str, Any]:
    n = counts.sum("dialogues", **parts)
    lines = {name: counts.sum("lines", value=name, **parts) for name in LINES}
    means = {name: lines[name] / n if n else None for name in LINES}
    utterances = lines["user"] + lines["bot"] + lines["results"]
    return {"dialogues": n, "utterances": utterances / n if n else None, **means}


def solved(tasks: Sequence[int], counts: Counts) -> dict[str, dict[str, Any]]:
    """Return the bot's results by set (``plain``, ``plus``), task and kind of test: answers and dialogues."""
    results: dict[str, dict[str, Any]] = {}
    for name in ("plain", "plus"):
        for task in tasks:
            for test, splits in (("seen", ("train", "dev", "test")), ("oov", ("oov",))):
                sums = {
                    key: sum(counts.sum(key, set=str(task), split=split, value=name) for split in splits)
                    for key in ("answers", "right", "tried", "solved")
                }
                if sums["tried"]:
                    shares = {
                        "per_response": sums["right"] / sums["answers"],
                        "per_dialogue": sums["solved"] / sums["tried"],
                    }
                    results.setdefault(name, {}).setdefault(str(task), {})[test] = {**sums, **shares}
    return results


TITLES = {
    "1": "issuing API calls",
    "2": "updating API calls",
    "3": "displaying options",
    "4": "providing extra information",
    "5": "full dialogues",
}
_MEANS = ("utterances", "user", "silences", "bot", "results")
TERMS = {
    "utterances": "Those of the user and of the bot, and lines of facts; without silences.",
    "silences": "Lines in which the user says nothing because the bot speaks twice in a row.",
    "results": "Lines of facts that API calls return.",
    "per dialogue": "Dialogues in which the rule-based bot finds every answer.",
}


def report_on(numbers: Mapping[str, Any], examples: Mapping[str, Sequence[Any]], seed: str, plus: bool) -> Report:
    """Create the report for the card and the page.

    Args:
      numbers: the content of ``statistics.json``.
      examples: task to (id, labelled lines) of some dialogues.
      seed: the seed of the run.
      plus: whether there are copies with disfluencies.
    """
    tasks = numbers["tasks"]
    means = {
        TITLES[task]: {
            "all": parts["all"],
            **parts["splits"],
            "paper, Table 1": parts["paper"],
            **({"published files": parts["published_files"]} if parts["published_files"] else {}),
        }
        for task, parts in tasks.items()
    }
    metrics = metrics_named("dialogues", *_MEANS, digits=2)
    answers, right, tried, done = metrics_named("answers", "per_response", "tried", "per_dialogue")
    dialogues = counted(sum(task["all"]["dialogues"] for task in tasks.values()), "dialogue")
    notes = [
        "No request (a value for each field) is in two splits. No entity, and no value of a field with unseen values, "
        "is both in training and in the out-of-vocabulary test.",
        f"Seed: `{seed}`. Each dialogue depends only on the seed, its task, its split and its number.",
    ]
    if plus:
        rates = ", ".join(f"{kind} {share:.0%}" for kind, share in RATES.items())
        notes.append(f"`babi_plus`: the same with disfluencies in user turns: {rates}. API calls are unchanged.")
    return Report(
        command="restaurants",
        title=f"Simulated dialogues about a {numbers['domain']}",
        headline=f"Simulated dialogues about a {numbers['domain']}",
        lead=f"{dialogues} of {counted(len(tasks), 'task')} of Bordes et al. 2017, section 3.",
        tiles=[Tile(name, f"{numbers[name]:,}") for name in ("candidates", "facts")],
        sections=[
            *sections_of(
                {"means": means}, Numbers("Means per dialogue", "means/*/*", ("task", "dialogues of"), metrics)
            ),
            *sections_of(
                numbers,
                Numbers(
                    "The rule-based bot",
                    "bot/*/*/*",
                    ("dialogues", "task", "test"),
                    (answers, right._replace(percent=True), tried, done._replace(percent=True)),
                    note="The answers that it finds, given everything before; `plus` has disfluencies. Also the "
                    "dialogues solved.",
                    in_card=False,
                ),
            ),
            Text(title="About these dialogues", paragraphs=notes),
            *(
                Examples(
                    title=f"Examples of task {task}, {TITLES[task]}",
                    examples=[dialogue_example(*example) for example in of_task],
                )
                for task, of_task in sorted(examples.items())
            ),
        ],
        terms=TERMS,
        links={"statistics.json": "all numbers"},
    )
