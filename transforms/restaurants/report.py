"""The card and the page of ``restaurants``: the structure of the dialogues, compared with the paper and its files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from parapet.transforms.report import (
    Bars,
    Examples,
    Report,
    Section,
    Series,
    Table,
    Text,
    Tile,
    dialogue_example,
)
from parapet.transforms.restaurants.config import Config
from parapet.transforms.text import counted, number, percent

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
    "dialogues solved": "Dialogues in which the rule-based bot finds every answer.",
}


def report_of(numbers: Mapping[str, Any], examples: Mapping[str, Sequence[Any]], config: Config) -> Report:
    """The card and the page.

    Args:
      numbers: ``statistics.json``.
      examples: task to dialogues: id, and labelled lines.
      config: the options.
    """
    tasks, entities, patterns = numbers["tasks"], numbers["entities"], numbers["patterns"]
    dialogues = counted(sum(of_task["all"]["dialogues"] for of_task in tasks.values()), "dialogue")
    return Report(
        command="restaurants",
        title=f"Simulated dialogues about a {numbers['domain']}",
        headline=f"Simulated dialogues about a {numbers['domain']}",
        lead=f"{dialogues} of {counted(len(tasks), 'task')} of Bordes et al. 2017, section 3. No sentence and no name "
        "of an entity is from the published files.",
        tiles=[
            Tile("candidates", f"{numbers['candidates']:,}"),
            Tile("facts", f"{numbers['facts']:,}"),
            Tile("entities seen in training", f"{entities['seen']:,}"),
            Tile("unseen entities", f"{entities['unseen']:,}"),
            Tile("patterns of the user", f"{patterns['user']:,}"),
            Tile("patterns of the bot", f"{patterns['bot']:,}"),
        ],
        sections=[
            _means(tasks),
            *(_bars(task, of_task) for task, of_task in tasks.items()),
            *_published(tasks),
            Table(
                title="Structure of the dialogues",
                note="Shares of the dialogues.",
                columns=["task, property", "simulated", "published files"],
                rows=[
                    [f"{task}, {STRUCTURE[what]}", _cell(values["simulated"]), _cell(values["published"])]
                    for task, of_task in tasks.items()
                    for what, values in of_task["structure"].items()
                ],
                text_columns=3,
            ),
            Table(
                title="Means per dialogue by split",
                columns=["task, split", "dialogues", *_MEANS],
                rows=[
                    [f"{task}, {split}", f"{means['dialogues']:,}", *(number(means[name], 2) for name in _MEANS)]
                    for task, of_task in tasks.items()
                    for split, means in of_task["splits"].items()
                ],
                in_card=False,
            ),
            _outcomes(tasks),
            *_overlap(numbers["apart"]),
            *_solved(numbers["bot"]),
            *_disfluencies(tasks),
            Text(title="About these dialogues", paragraphs=list(_about(numbers, config))),
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


def _means(tasks: Mapping[str, Any]) -> Table:
    rows = []
    for task, of_task in tasks.items():
        means, paper = of_task["all"], of_task["paper"]
        cells = [
            f"{number(means[name], 2)} ({paper[name]})" if name in paper else number(means[name], 2) for name in _MEANS
        ]
        rows.append([f"{task}, {TITLES[task]}", f"{means['dialogues']:,}", *cells])
    return Table(
        title="Means per dialogue",
        note="In parentheses those of the paper's Table 1, which has whole numbers.",
        columns=["task", "dialogues", *_MEANS],
        rows=rows,
    )


def _bars(task: str, of_task: Mapping[str, Any]) -> Bars:
    names = ("user", "bot", "results")
    return Bars(
        title=f"Task {task}, {TITLES[task]}",
        note="Means per dialogue.",
        categories=names,
        series=[
            Series("simulated", tuple(of_task["all"][name] for name in names)),
            Series("paper", tuple(float(of_task["paper"][name]) for name in names)),
        ],
        digits=1,
    )


def _published(tasks: Mapping[str, Any]) -> list[Section]:
    rows = [
        [f"{task}, {which}", *(number(means[name], 2) for name in _MEANS)]
        for task, of_task in tasks.items()
        if of_task["published_files"]
        for which, means in (("simulated", of_task["all"]), ("published files", of_task["published_files"]))
    ]
    title = "Means per dialogue compared with the published files"
    return [Table(title=title, columns=["task", *_MEANS], rows=rows, in_card=False)] if rows else []


def _cell(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{outcome}:\N{NO-BREAK SPACE}{percent(share)}" for outcome, share in value.items())
    if isinstance(value, float):
        return number(value, 2)
    return "–" if value is None else str(value)


def _outcomes(tasks: Mapping[str, Any]) -> Table:
    return Table(
        title="Random choices",
        columns=["task, choice, outcome", "count", "share", "expected", "standard errors"],
        rows=[
            [
                f"{task}, {STRUCTURE[what]}: {outcome}",
                f"{values['count']:,}",
                percent(values["share"]),
                percent(values["expected"]),
                number(values["standard_errors"], 1, signed=True),
            ]
            for task, of_task in tasks.items()
            for what, outcomes in of_task["drawn"].items()
            for outcome, values in outcomes.items()
        ],
        in_card=False,
    )


def _overlap(overlap: Mapping[str, Any]) -> list[Section]:
    values = Table(
        title="Overlap of the out-of-vocabulary test with train, dev and test",
        columns=["values of", "allowed", "out of vocabulary", "seen", "both"],
        rows=[
            [kind, "no" if n["must_be_unseen"] else "yes", f"{n['oov']:,}", f"{n['seen']:,}", f"{n['both']:,}"]
            for kind, n in overlap["oov"].items()
        ],
        text_columns=2,
        in_card=False,
    )
    pairs = [[pair.replace("+", ", "), f"{n:,}"] for pair, n in overlap["requests"].items()]
    requests = Table(title="Requests that two splits share", columns=["splits", "requests"], rows=pairs, in_card=False)
    return [values, requests] if pairs else [values]


def _solved(sets: Mapping[str, Any]) -> list[Section]:
    names = {"plain": "", "plus": ", with disfluencies"}
    tests = {"seen": "", "oov": ", out of vocabulary"}
    rows = [
        [
            f"{task}{tests[test]}{names[name]}",
            f"{numbers['answers']:,}",
            percent(numbers["per_response"]),
            f"{numbers['tried']:,}",
            percent(numbers["per_dialogue"]),
        ]
        for name, of_set in sets.items()
        for task, of_task in of_set.items()
        for test, numbers in of_task.items()
    ]
    columns = ["task", "answers", "correct", "dialogues", "dialogues solved"]
    note = "The answers that it finds, given everything before."
    return [Table(title="The rule-based bot", note=note, columns=columns, rows=rows, in_card=False)] if rows else []


def _disfluencies(tasks: Mapping[str, Any]) -> list[Section]:
    rows = [
        [
            f"{task}, {kind}",
            f"{numbers['turns']:,}",
            *(percent(numbers[name], digits) for name, digits in (("share", 1), ("asked", 0), ("default", 0))),
        ]
        for task, of_task in tasks.items()
        for kind, numbers in (of_task["babi_plus"] or {}).items()
    ]
    columns = ["task, kind", "user turns", "share", "requested", "default"]
    return [Table(title="Disfluencies", columns=columns, rows=rows, in_card=False)] if rows else []


def _about(numbers: Mapping[str, Any], config: Config) -> Sequence[str]:
    entities, patterns = numbers["entities"], numbers["patterns"]
    tests = [test for task in numbers["bot"].get("plain", {}).values() for test in task.values()]
    paragraphs = [
        f"{patterns['user']} patterns of the user, {patterns['bot']} of the bot; {numbers['candidates']:,} candidates; "
        f"{numbers['facts']:,} facts about {entities['seen']:,} entities that occur in training and "
        f"{entities['unseen']:,} that only the out-of-vocabulary test has.",
        "No request (a value for each field) is in two splits. No entity, and no value of a field with unseen values, "
        "is both in training and in the out-of-vocabulary test. The run checks this.",
        f"Seed: `{config.seed}`. Each dialogue depends only on the seed, its task, its split and its number.",
    ]
    if tests:
        answers = sum(test["answers"] for test in tests)
        paragraphs.append(f"A rule-based bot found all of the {answers:,} answers that it was tried on.")
    if config.plus:
        rates = ", ".join(f"{kind} {share:.0%}" for kind, share in config.plus)
        paragraphs.append(f"`babi_plus`: the same with disfluencies in user turns: {rates}. API calls are unchanged.")
    return paragraphs
