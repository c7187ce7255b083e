"""The numbers of ``few_shot``: dialogues, turns and slots of every set, and which domains are short."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from parapet.transforms.few_shot.candidates import Candidate, Rule
from parapet.transforms.few_shot.choosing import Chosen


def statistics(chosen: Mapping[str, Chosen], schema_slots: Mapping[str, Sequence[str]], rule: Rule) -> dict[str, Any]:
    """``statistics.json``.

    Args:
      chosen: domain to what it gets.
      schema_slots: domain to the element ids of its services' slots, of the training split.
      rule: what was wanted.
    """
    domains = {name: _of_domain(chosen[name], schema_slots.get(name, ()), rule) for name in rule.domains}
    return {"domains": domains, "short": [*_short(domains, rule), *without_training(chosen)]}


def _of_domain(one: Chosen, schema_slots: Iterable[str], rule: Rule) -> dict[str, Any]:
    occurring = set(one.occurring)
    return {
        "train_candidates": one.candidates,
        "test_candidates": one.test_candidates,
        "repeated": one.repeated,
        "same_id": one.same_id,
        "several_domains": {"train": one.several[0], "test": one.several[1]},
        "slots_that_occur": len(occurring),
        "slots_that_never_occur": sorted(set(schema_slots) - occurring),
        "train": {str(size): _of_set(one.train[:size], occurring) for size in rule.sizes},
        "test": {**numbers(one.test)},
    }


def _of_set(dialogues: Sequence[Candidate], occurring: set[str]) -> dict[str, Any]:
    missing = occurring - {slot for one in dialogues for slot in one.slots}
    return {**numbers(dialogues), "slots": len(occurring) - len(missing), "slots_missing": sorted(missing)}


def numbers(dialogues: Sequence[Candidate]) -> dict[str, int]:
    """Dialogues and user turns."""
    return {"dialogues": len(dialogues), "user_turns": sum(one.turns for one in dialogues)}


def without_training(chosen: Mapping[str, Chosen]) -> list[str]:
    """Which domains have no training dialogue, and why: lines for the user, of which the first is about what helps."""
    lacking = {name: one for name, one in chosen.items() if not one.train}
    several = {name: one.several[0] for name, one in lacking.items() if one.several[0]}
    none = [name for name in lacking if name not in several]
    lines = []
    if several:
        found = ", ".join(f"{name} ({n:,})" for name, n in several.items())
        lines.append(f"training dialogues of these touch other domains too, so no set without --multi_domain: {found}")
    if none:
        lines.append(f"no training dialogue touches these, so no set: {', '.join(none)}")
    return lines


def _short(domains: Mapping[str, Any], rule: Rule) -> list[str]:
    """What is less than was asked for: a line for each domain that has a training dialogue."""
    found = []
    largest = str(rule.sizes[-1])
    for name, one in domains.items():
        train = one["train"][largest]
        if not train["dialogues"]:
            continue
        parts = [
            f"{there} of {asked} {what} dialogues" + (f" (--multi_domain: {more:,} more)" if more else "")
            for what, there, asked, more in (
                ("training", train["dialogues"], rule.sizes[-1], one["several_domains"]["train"]),
                ("test", one["test"]["dialogues"], rule.test, one["several_domains"]["test"]),
            )
            if there < asked
        ]
        if train["slots_missing"]:
            parts.append(f"no training dialogue has {', '.join(train['slots_missing'])}")
        if parts:
            found.append(f"{name}: {'; '.join(parts)}")
    return found


def card(numbers: Mapping[str, Any], rule: Rule) -> str:
    """The README of the sets, in Markdown."""
    rows = []
    for name, one in numbers["domains"].items():
        if not any(of["dialogues"] for of in one["train"].values()):
            continue
        for size, of in one["train"].items():
            slots = f"{of['slots']} of {one['slots_that_occur']}"
            rows.append(f"| {name} | {size} | {of['dialogues']:,} | {of['user_turns']:,} | {slots} |")
        rows.append(f"| {name} | test | {one['test']['dialogues']:,} | {one['test']['user_turns']:,} | |")
    kind = "Dialogues that touch the domain." if rule.multi_domain else "Dialogues of the one domain alone."
    lines = [
        "# Few-shot splits",
        "",
        "Small training sets for each domain, each with its test.",
        "",
        "| domain | set | dialogues | user turns | slots |",
        "|---|---|--:|--:|--:|",
        *rows,
        "",
        f"- {kind} Training dialogues are of `{rule.train_split}`, tests of `{rule.test_split}`; no dialogue id is in "
        "both, nor the text of a whole dialogue.",
        "- Training sets are nested: a smaller one has the first dialogues of the next. The first are those that "
        "together have every slot of the domain that occurs in its training dialogues; the others are drawn. Few "
        "dialogues have many slots, so small sets have longer dialogues than a draw would give.",
        f"- Seed: `{rule.seed}`.",
        *(
            ["", "Short of what was asked for:", "", *(f"- {line}" for line in numbers["short"])]
            if numbers["short"]
            else []
        ),
        "",
    ]
    return "\n".join(lines)
