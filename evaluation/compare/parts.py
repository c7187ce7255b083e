"""Systems of several parts: a model for each domain, or for a set of another corpus, as RADDLE trains them.

``NAME/PART=OUT`` is the result of one part. PART is a domain, or the set that the result stands for. A number of a
system with parts is one of a result's, or the unweighted mean over domains (Peng et al. 2021: the 53.17 of Soloist in
Table 2 is the mean of the first row of Table 4).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from parapet.evaluation.compare.results import WHOLE, Column, Origin, Outcome, macro_average
from parapet.evaluation.lines import ALL
from parapet.schemas.errors import InputError


class Selection(msgspec.Struct, frozen=True):
    """What of the results a board has.

    Attributes:
      sets: which, in the order of the columns; all where it is empty.
      domains: whose unweighted mean each number is; where it is empty, a number is over all dialogues.
      average: the columns that the average counts, as ``columns_of`` has them; where it is empty, the main metric of
        each task on each set.
    """

    sets: tuple[str, ...] = ()
    domains: tuple[str, ...] = ()
    average: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for flag, names in (("--sets", self.sets), ("--domains", self.domains)):
            twice = [name for name in names if names.count(name) > 1]
            if twice:
                raise InputError(f"{twice[0]!r} appears twice", flag)
        if both := sorted(set(self.sets) & set(self.domains)):
            raise InputError(f"{both[0]!r} is a set and a domain", "--sets, --domains")

    def system_and_part(self, name: str) -> tuple[str, str]:
        """A name of ``--systems`` as the system's and the part's, which is empty for all of the system."""
        system, slash, part = name.rpartition("/")
        return (system, part) if slash and system and part in (*self.sets, *self.domains) else (name, "")


EVERYTHING = Selection()


def assembled(systems: Mapping[str, Sequence[tuple[str, Outcome]]], selection: Selection) -> dict[str, list[Outcome]]:
    """The outcomes of each system, one a task, made of those of its parts.

    Args:
      systems: name to outcomes, each with its part.
      selection: of sets and domains.

    Raises:
      InputError: two results of one part and task; a domain or set that is not there.
    """
    found: dict[str, list[Outcome]] = {}
    for name, parts in systems.items():
        by_task: dict[str, dict[str, Outcome]] = {}
        for part, outcome in parts:
            of_task = by_task.setdefault(outcome.task, {})
            if part in of_task:
                what = f"{name}/{part}" if part else name
                raise InputError(f"{what!r} has two results of task {outcome.task!r}", outcome.path)
            of_task[part] = outcome
        outcomes = [_selected(_of_task(name, of_task, selection), selection.sets) for of_task in by_task.values()]
        found[name] = [outcome for outcome in outcomes if outcome.values]
    known = {of_set for outcomes in found.values() for outcome in outcomes for of_set in outcome.sets}
    for of_set in selection.sets:
        if of_set not in known:
            raise InputError(f"no system has a set {of_set!r}", "--sets")
    return found


def _of_task(name: str, parts: Mapping[str, Outcome], selection: Selection) -> Outcome:
    """One outcome of the parts of a system that have results of a task."""
    whole = parts.get("")
    if whole is not None and len(parts) == 1 and not (selection.domains and whole.by_domain):
        return whole
    pieces = list(parts.values())
    at = {part: i for i, part in enumerate(parts)}
    origins: dict[Column, Origin] = {}
    names: list[dict[str, str]] = [{} for _ in pieces]  # of each piece its sets to those of the outcome
    if whole is not None:
        origins |= {column: ((at[""], column),) for column in whole.values}
    of_domains = [parts[domain] for domain in selection.domains if domain in parts]
    if of_domains or (whole is not None and whole.by_domain and selection.domains):
        there = {part: outcome for part, outcome in parts.items() if part not in selection.sets}
        by_domain = {domain: _of_domain(name, domain, there, at) for domain in selection.domains}
        means = _means(whole.task if whole else of_domains[0].task, by_domain)
        if not means:
            raise InputError(f"{name!r}: no set has all of these domains: {', '.join(selection.domains)}", "--domains")
        sets = {column.set for column in means}
        origins = {column: of for column, of in origins.items() if column.set not in sets and column.set[:1] != "#"}
        origins |= means
    for part, outcome in parts.items():
        if part in selection.sets:
            own = _own_set(name, part, outcome)
            origins = {column: of for column, of in origins.items() if column.set != part and column.set != ALL}
            for column in outcome.values:
                if column.set == own:
                    origins[msgspec.structs.replace(column, set=part)] = ((at[part], column),)
    for merged, of in origins.items():
        for i, column in of:
            names[i][column.set] = merged.set
    values = {column: macro_average([pieces[i].numbers[one] for i, one in of]) for column, of in origins.items()}
    known = {
        column: interval
        for column, of in origins.items()
        if len(of) == 1 and (interval := pieces[of[0][0]].intervals.get(of[0][1])) is not None
    }
    first = whole or pieces[0]
    variants = {outcome.variants for outcome in of_domains} | ({whole.variants} if whole else set())
    return Outcome(
        first.task, first.path, values, known, first.variants if len(variants) == 1 else (),
        _options(parts), first.examples, pieces=tuple(pieces), origins=origins, set_names=tuple(names),
    )  # fmt: skip


def _of_domain(
    name: str, domain: str, parts: Mapping[str, Outcome], at: Mapping[str, int]
) -> dict[tuple[str, str], tuple[int, Column]]:
    """By set and metric where the number of a domain is: in its own result, or in that of all domains."""
    if domain in parts:
        return {(one.set, one.metric): (at[domain], one) for one in parts[domain].values if one.group == WHOLE}
    of_whole = parts[""].by_domain if "" in parts else {}
    found = {(one.set, one.metric): (at[""], one) for one in of_whole if one.group == domain}
    if not found:
        there = sorted({one.group for one in of_whole} | (parts.keys() - {""}))
        raise InputError(f"{name!r} has no domain {domain!r}; it has: {', '.join(there)}", "--domains")
    return found


def _means(task: str, by_domain: Mapping[str, Mapping[tuple[str, str], tuple[int, Column]]]) -> dict[Column, Origin]:
    """The numbers that all domains have: of each domain, and as the mean over them."""
    first, *others = by_domain.values()
    found: dict[Column, Origin] = {}
    for at in [key for key in first if all(key in other for other in others)]:
        found[Column(task, *at)] = tuple(of[at] for of in by_domain.values())
        found |= {Column(task, *at, domain): (of[at],) for domain, of in by_domain.items()}
    return found


def _own_set(name: str, part: str, outcome: Outcome) -> str:
    """The set of a result that stands for a set of the system: of the same name, or the only one."""
    named = [one for one in outcome.sets if not one.startswith("#")]
    if part in named:
        return part
    if len(named) > 1 or not (named or ALL in outcome.sets):
        reason = f"{name}/{part}: which of its sets is it? It has {', '.join(named) or 'none'}"
        raise InputError(reason, outcome.path)
    return named[0] if named else ALL


def _options(parts: Mapping[str, Outcome]) -> dict[str, Any]:
    """How the parts were scored; what differs by part."""
    found: dict[str, Any] = {}
    for key in {key: None for outcome in parts.values() for key in outcome.options}:
        values = {part: outcome.options.get(key) for part, outcome in parts.items()}
        first = next(iter(values.values()))
        found[key] = first if all(value == first for value in values.values()) else values
    return found


def _selected(outcome: Outcome, sets: Sequence[str]) -> Outcome:
    """An outcome with some of its sets. What is over all sets stays where there are no others."""
    if not sets:
        return outcome
    named = any(not name.startswith("#") for name in outcome.sets)
    values = {
        column: value
        for column, value in outcome.values.items()
        if column.set in sets or (not named and column.set == ALL)
    }
    return msgspec.structs.replace(outcome, values=values)
