"""Statistics of simulated dialogues, compared with the paper and its files; the overlap of splits; and the report."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from parapet.transforms.reports.report import Examples, Report, Table, Text, Tile, dialogue_example
from parapet.transforms.reports.text import counted
from parapet.transforms.running.counts import Counts
from parapet.transforms.simulators.common import count_distinct, nested_table
from parapet.transforms.simulators.restaurants.simulating import SPLITS, Dialogue, World

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
# The structure of the published files: for tasks 1 and 4 measured on the four splits together, for others as reported
PUBLISHED_STRUCTURE: dict[int, dict[str, Any]] = {
    1: {
        "lines": 6.00,
        "given": {"0": 0.202, "1": 0.196, "2": 0.200, "3": 0.204, "4": 0.199},
        "repeats": 4,
    },
    2: {"lines": 9.5, "given": {"4": 1.0}, "updates": "1 to 4", "ends": {"thank": 1.0}},
    3: {
        "offered": {"3": 0.73, "4": 0.20, "5": 0.07},
        "proposals": {"1": 0.26, "2": 0.18, "3": 0.44, "4": 0.09, "5": 0.03},
    },
    4: {
        "lines": 3.51,
        "asked": {"phone": 0.239, "address": 0.249, "phone+address": 0.511},
        "ends": {"question": 1.0},
        "repeats": 31,
    },
    5: {"given": "1 to 3", "updates": "1 to 3", "ends": {"decline": 1.0}},
}


def count(counts: Counter[tuple[str, str]], world: World, task: int, dialogue: Dialogue) -> None:
    """Count a dialogue by (name, value): its lines, and the outcomes of its random choices."""
    pairs = dialogue.pairs
    users = [pair.user for pair in pairs if pair.user]
    facts = len(world.names) + len(world.ontology.extras) + 1
    counts["dialogues", ""] += 1
    counts["lines", "user"] += len(users)
    counts["lines", "silences"] += len(pairs) - len(users)
    counts["lines", "bot"] += len(pairs)
    counts["lines", "results"] += sum(len(pair.results) for pair in pairs) * facts
    acts = Counter(user.act for user in users)
    if task != 4:
        (request,) = (user for user in users if user.act == "request")
        counts["given", str(len(request.line.spans))] += 1
    if task in (2, 5):
        counts["updates", str(acts["update"])] += 1
    if task in (3, 5):
        options = max(len(pair.results) for pair in pairs)
        proposals = acts["reject"] + acts["accept"]
        counts["offered", str(options)] += 1
        counts["proposals", str(proposals)] += 1
        counts["options", "rejected"] += acts["reject"]
        counts["options", "accepted"] += proposals < options  # the last one is always accepted
    if task in (4, 5):
        counts["asked", "+".join(extra for extra in world.ontology.extras if acts[f"question.{extra}"])] += 1
    counts["ends", users[-1].act.partition(".")[0]] += 1


def repeats(signatures: Iterable[tuple[tuple[str, str], bytes]]) -> Counts:
    """Count the dialogues that equal an earlier one in their task and split.

    Args:
      signatures: ((task, split), eight bytes of each dialogue of a file).
    """
    together: dict[tuple[str, str], list[bytes]] = {}
    for key, data in signatures:
        together.setdefault(key, []).append(data)
    counts = Counts()
    for (task, split), parts in together.items():
        counts.add("repeats", sum(map(len, parts)) // 8 - count_distinct(parts), set=task, split=split)
    return counts


def structure(task: int, counts: Counts) -> dict[str, dict[str, Any]]:
    """Describe the structure of a task's dialogues, simulated and published: shares by outcome, a mean, or a count."""
    published = PUBLISHED_STRUCTURE[task]
    dialogues = counts.sum("dialogues", set=str(task))
    lines = counts.sum("lines", set=str(task), value="bot")
    simulated: dict[str, Any] = {"lines": lines / dialogues if dialogues else None}
    for choice in ("given", "updates", "offered", "proposals", "asked", "ends"):
        outcomes = counts.by("value", choice, set=str(task))
        simulated[choice] = {outcome: n / dialogues for outcome, n in outcomes.items()}
    simulated["repeats"] = counts.sum("repeats", set=str(task))
    return {
        name: {"simulated": value, "published": published.get(name)}
        for name, value in simulated.items()
        if value or value == 0
    }


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
            "structure": structure(task, counts),
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


Seen = dict[tuple[str, str], set[str]]  # (split, kind) to the values in the split's dialogues

REQUEST, ENTITY = "request", "name"


def note(world: World, split: str, dialogue: Dialogue, seen: Seen) -> None:
    """Record the values in a dialogue's utterances and facts."""

    def add(kind: str, value: str) -> None:
        seen.setdefault((split, kind), set()).add(value)

    listed = seen.setdefault((split, ENTITY), set())
    for request in dialogue.requests:
        add(REQUEST, " ".join(request))
    for pair in dialogue.pairs:
        for entity in pair.results:  # before an entity is mentioned
            if entity.name not in listed:
                listed.add(entity.name)
                for name, value in world.facts(entity).items():
                    add(name, value)
        for utterance in (pair.user, pair.bot):
            for slot, value in utterance.values.items() if utterance else ():
                add(slot, value)


def intersections(world: World, seen: Mapping[tuple[str, str], Iterable[str]]) -> dict[str, Any]:
    """Compute the overlap of splits.

    Returns:
      ``requests``: pairs of splits to the number of shared requests; ``oov``: for each kind of value, how many values
        are in the out-of-vocabulary test, in the other splits, and in both.

    Raises:
      RuntimeError: a request is in two splits, or a value that must be unseen is in training.
    """
    sets = {key: set(values) for key, values in seen.items()}
    simulated = [split for split in SPLITS if (split, REQUEST) in sets]
    pairs = {
        f"{first}+{second}": len(sets[first, REQUEST] & sets[second, REQUEST])
        for first, second in itertools.combinations(simulated, 2)
    }
    disjoint = [field.name for field in world.ontology.fields if not field.shared]
    shared = [field.name for field in world.ontology.fields if field.shared]
    rows = {}
    for kind in (ENTITY, *disjoint, *world.ontology.extras, *shared, "rating"):
        oov = sets.get(("oov", kind), set())
        train = set().union(*(sets.get((split, kind), set()) for split in SPLITS[:-1]))
        unseen = kind not in shared and kind != "rating"
        rows[kind] = {"oov": len(oov), "seen": len(train), "both": len(oov & train), "must_be_unseen": unseen}
    wrong = [pair for pair, n in pairs.items() if n]
    wrong += [kind for kind, row in rows.items() if row["must_be_unseen"] and row["both"]]
    if wrong:
        raise RuntimeError(f"the splits overlap: {', '.join(wrong)}")
    return {"requests": pairs, "oov": rows}


TITLES = {
    "1": "issuing API calls",
    "2": "updating API calls",
    "3": "displaying options",
    "4": "providing extra information",
    "5": "full dialogues",
}
# The structure of dialogues, as named in tables.
STRUCTURE = {
    "lines": "user lines including silences, mean",
    "given": "fields in the first request",
    "updates": "fields updated",
    "offered": "entities to choose from",
    "proposals": "proposals",
    "asked": "asked about",
    "ends": "last act of the user",
    "repeats": "dialogues identical to another one of their split",
}
_MEANS = ("utterances", "user", "silences", "bot", "results")
TERMS = {
    "utterances": "Those of the user and of the bot, and lines of facts; without silences.",
    "silences": "Lines in which the user says nothing because the bot speaks twice in a row.",
    "results": "Lines of facts that API calls return.",
    "per dialogue": "Dialogues in which the rule-based bot finds every answer.",
}


def report_on(
    numbers: Mapping[str, Any], examples: Mapping[str, Sequence[Any]], seed: str, plus: Sequence[tuple[str, float]]
) -> Report:
    """Create the report for the card and the page.

    Args:
      numbers: the content of ``statistics.json``.
      examples: task to (id, labelled lines) of some dialogues.
      seed: the seed of the run.
      plus: the rates of disfluencies; may be empty.
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
            Text(title="About these dialogues", paragraphs=list(_about(numbers, seed, plus))),
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
    structure = {
        task: {STRUCTURE[choice]: values for choice, values in parts["structure"].items()}
        for task, parts in tasks.items()
    }
    yield nested_table("Means per dialogue", "task", means, ["dialogues", *_MEANS])
    note = "Shares of the dialogues."
    columns = ["simulated", "published"]
    yield nested_table("Structure of the dialogues", "task, property", structure, columns, note=note, text_columns=3)
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


def _about(numbers: Mapping[str, Any], seed: str, plus: Sequence[tuple[str, float]]) -> Iterator[str]:
    yield (
        "No request (a value for each field) is in two splits. No entity, and no value of a field with unseen values, "
        "is both in training and in the out-of-vocabulary test. The run checks this."
    )
    yield f"Seed: `{seed}`. Each dialogue depends only on the seed, its task, its split and its number."
    if tests := [test for task in numbers["bot"].get("plain", {}).values() for test in task.values()]:
        answers = sum(test["answers"] for test in tests)
        yield f"A rule-based bot found all of the {answers:,} answers that it was tried on."
    if plus:
        rates = ", ".join(f"{kind} {share:.0%}" for kind, share in plus)
        yield f"`babi_plus`: the same with disfluencies in user turns: {rates}. API calls are unchanged."
