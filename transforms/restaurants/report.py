"""The card and the page of ``restaurants``: the structure of the dialogues, compared with the paper and its files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from parapet.transforms.report import Examples, Report, Table, Text, Tile, dialogue_example
from parapet.transforms.restaurants.config import Config
from parapet.transforms.simulators import nested_table
from parapet.transforms.text import counted

TITLES = {
    "1": "issuing API calls",
    "2": "updating API calls",
    "3": "displaying options",
    "4": "providing extra information",
    "5": "full dialogues",
}
# The structure of dialogues, as it reads in tables.
STRUCTURE = {
    "lines": "user lines including silences, mean",
    "given": "fields in the first request",
    "updates": "fields updated",
    "offered": "entities to choose from",
    "proposals": "proposals",
    "asked": "asked about",
    "ends": "last act of the user",
    "repeats": "dialogues identical to another one of their split",
    "options": "options before the last",
}
_MEANS = ("utterances", "user", "silences", "bot", "results")
TERMS = {
    "utterances": "Those of the user and of the bot, and lines of facts; without silences.",
    "silences": "Lines in which the user says nothing because the bot speaks twice in a row.",
    "results": "Lines of facts that API calls return.",
    "standard errors": "The difference between observed and expected share, in standard errors of a random draw. More "
    "than 4 happens once in 16,000 draws.",
    "per dialogue": "Dialogues in which the rule-based bot finds every answer.",
}


def report_on(numbers: Mapping[str, Any], examples: Mapping[str, Sequence[Any]], config: Config) -> Report:
    """The card and the page.

    Args:
      numbers: ``statistics.json``.
      examples: task to dialogues: id, and labelled lines.
      config: the options.
    """
    tasks, entities, patterns = numbers["tasks"], numbers["entities"], numbers["patterns"]
    dialogues = counted(sum(task["all"]["dialogues"] for task in tasks.values()), "dialogue")
    tiles = {
        "candidates": numbers["candidates"],
        "facts": numbers["facts"],
        "entities seen in training": entities["seen"],
        "unseen entities": entities["unseen"],
        "patterns of the user": patterns["user"],
        "patterns of the bot": patterns["bot"],
    }
    return Report(
        command="restaurants",
        title=f"Simulated dialogues about a {numbers['domain']}",
        headline=f"Simulated dialogues about a {numbers['domain']}",
        lead=f"{dialogues} of {counted(len(tasks), 'task')} of Bordes et al. 2017, section 3. No sentence and no name "
        "of an entity is from the published files.",
        tiles=[Tile(name, f"{n:,}") for name, n in tiles.items()],
        sections=[
            *(table for table in _tables(numbers) if table.rows),
            Text(title="About these dialogues", paragraphs=list(_about(numbers, config))),
            *(
                Examples(
                    title=f"Examples of task {task}, {TITLES[task]}",
                    examples=[dialogue_example(*example) for example in dialogues],
                )
                for task, dialogues in sorted(examples.items())
            ),
        ],
        terms=TERMS,
        links={"statistics.json": "all numbers"},
    )


def _tables(numbers: Mapping[str, Any]) -> Iterator[Table]:
    tasks = numbers["tasks"]
    means = {
        task: {
            TITLES[task]: parts["all"],
            **parts["splits"],
            "paper, Table 1": parts["paper"],
            "published files": parts["published_files"],
        }
        for task, parts in tasks.items()
    }
    structure, drawn = (
        {task: {STRUCTURE[choice]: values for choice, values in parts[name].items()} for task, parts in tasks.items()}
        for name in ("structure", "drawn")
    )
    yield nested_table("Means per dialogue", "task", means, ["dialogues", *_MEANS])
    note = "Shares of the dialogues."
    columns = ["simulated", "published"]
    yield nested_table("Structure of the dialogues", "task, property", structure, columns, note=note, text_columns=3)
    columns = ["count", "share", "expected", "standard_errors"]
    yield nested_table("Random choices", "task, choice, outcome", drawn, columns, ["share", "expected"], in_card=False)
    title = "Overlap of the out-of-vocabulary test with train, dev and test"
    columns = ["must_be_unseen", "oov", "seen", "both"]
    yield nested_table(title, "values of", numbers["apart"]["oov"], columns, text_columns=2, in_card=False)
    pairs = {pair.replace("+", ", "): {"requests": n} for pair, n in numbers["apart"]["requests"].items()}
    yield nested_table("Requests that two splits share", "splits", pairs, ["requests"], in_card=False)
    columns, shares = ["answers", "per_response", "tried", "per_dialogue"], ["per_response", "per_dialogue"]
    note = "The answers that it finds, given everything before; `plus` has disfluencies. Also the dialogues solved."
    yield nested_table(
        "The rule-based bot", "dialogues, task, test", numbers["bot"], columns, shares, note=note, in_card=False
    )
    plus = {task: parts["babi_plus"] for task, parts in tasks.items()}
    columns, shares = ["turns", "share", "asked", "default"], ["share", "asked", "default"]
    yield nested_table("Disfluencies", "task, kind", plus, columns, shares, in_card=False)


def _about(numbers: Mapping[str, Any], config: Config) -> Iterator[str]:
    yield (
        "No request (a value for each field) is in two splits. No entity, and no value of a field with unseen values, "
        "is both in training and in the out-of-vocabulary test. The run checks this."
    )
    yield f"Seed: `{config.seed}`. Each dialogue depends only on the seed, its task, its split and its number."
    if tests := [test for task in numbers["bot"].get("plain", {}).values() for test in task.values()]:
        answers = sum(test["answers"] for test in tests)
        yield f"A rule-based bot found all of the {answers:,} answers that it was tried on."
    if config.plus:
        rates = ", ".join(f"{kind} {share:.0%}" for kind, share in config.plus)
        yield f"`babi_plus`: the same with disfluencies in user turns: {rates}. API calls are unchanged."
