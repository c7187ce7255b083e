"""The report of ``ood``: what was injected, what became of the foreign utterances, and how injected turns look."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from parapet.transforms.ood.injecting import FALLBACKS
from parapet.transforms.ood.plan import MOST_USES, TURNS_A_USE, Config
from parapet.transforms.ood.pool import KEPT, STATUSES
from parapet.transforms.report import Bars, Example, Examples, Line, Part, Report, Section, Series, Table, Text, Tile
from parapet.transforms.text import counted, number, percent

_MOST_SOURCES = 12  # rows of the table of sources
_PLACES = {
    "append": "at the end of the dialogue, after the system's last turn",
    "between": "between an answer of the system and the user's next turn",
}
_TIMES = {1: "once", 2: "twice"}
_TERMS = {
    "Rate": "Injected turns per in-domain user turn of the split: exact over the split, not in each dialogue. A set "
    "contains all injections of the sets with lower rates.",
    "Share": "Injected turns among all user turns of the set.",
    "Different utterances": "Those that were injected; one of the corpus's own may be used again.",
    "Most uses": "How often one utterance is used in the split at most.",
}


def report_of(
    statistics: Mapping[str, Any], examples: Mapping[str, Sequence[Example]], config: Config, source: str
) -> Report:
    """The page and the card.

    Args:
      statistics: ``statistics.json``.
      examples: set to some injected turns, with the turns around them.
      config: of the sets.
      source: what the source is.
    """
    sets, pool = statistics["sets"], statistics["pool"]
    in_domain = sum(of["in_domain_turns"] for of in next(iter(sets.values()))["splits"].values())
    injected = {name: sum(of["ood_turns"] for of in numbers["splits"].values()) for name, numbers in sets.items()}
    return Report(
        command="ood",
        title="Out-of-domain utterances",
        headline="Dialogues with out-of-domain utterances",
        lead=f"The same dialogues with user turns that the system cannot help with, each answered by a fallback: "
        f"{counted(in_domain, 'in-domain user turn')}; foreign utterances from {source}, injected "
        f"{_PLACES[config.place]}.",
        tiles=[
            *[Tile(f"turns injected in {name}", number(n)) for name, n in injected.items()][-3:],
            Tile("foreign utterances to choose from", number(pool[KEPT])),
        ],
        sections=[
            _sets(sets),
            *_pool(pool),
            _sources(sets),
            Text(title="How they were made", paragraphs=_how(statistics, config, source)),
            *(Examples(title=f"Examples of {name}", examples=of) for name, of in examples.items()),
        ],
        terms=_TERMS,
        links={
            "statistics.json": "all numbers",
            "dead_letters.jsonl": "dialogues and rows of the source that could not be used",
        },
    )


def _sets(sets: Mapping[str, Any]) -> Table:
    columns = ["set", "split", "rate", "in-domain user turns", "injected turns", "share", "dialogues with one"]
    return Table(
        title="The sets",
        columns=[*columns, "different utterances", "most uses"],
        text_columns=2,
        rows=[
            [name, split, *_cells(numbers["rate"], of)]
            for name, numbers in sets.items()
            for split, of in numbers["splits"].items()
        ],
    )


def _cells(rate: float, of: Mapping[str, Any]) -> list[str]:
    uses = {int(n): times for n, times in of["uses"].items()}
    turns = [number(of[name]) for name in ("in_domain_turns", "ood_turns")]
    different, most = number(sum(uses.values())), number(max(uses, default=0))
    return [f"{100 * rate:g}%", *turns, percent(of["share"]), number(of["dialogues_with_ood"]), different, most]


def _pool(pool: Mapping[str, Any]) -> list[Section]:
    names = {status: status.replace("near_", "near-").replace("_", " ") for status in STATUSES}
    rows = [[names[status], meaning, number(pool[status])] for status, meaning in STATUSES.items()]
    counts = tuple(float(pool[status]) for status in STATUSES)
    note = f"{counted(pool['utterances'], 'utterance')}, {number(pool['different'])} different."
    return [
        Table(
            title="The foreign utterances",
            columns=["status", "meaning", "different utterances"],
            text_columns=2,
            rows=rows,
            note=note,
        ),
        Bars(title="Foreign utterances by status", categories=[*names.values()], series=[Series("utterances", counts)]),
    ]


def _sources(sets: Mapping[str, Any]) -> Table:
    """Injected turns by domain or file, the most frequent of the last set first."""
    last = list(sets.values())[-1]["sources"]
    names = sorted(last, key=lambda name: (-last[name], name))[:_MOST_SOURCES]
    return Table(
        title="Injected turns by domain or file",
        columns=["source", *sets],
        rows=[[name, *(number(of["sources"].get(name, 0)) for of in sets.values())] for name in names],
        in_card=False,
    )


def _how(statistics: Mapping[str, Any], config: Config, source: str) -> list[str]:
    return [
        f"Source: {source}. No utterance is injected into a dialogue of a domain that one of its words is typical of.",
        "Annotation: an injected user turn has the frames of the user turn before it: the same state, nothing "
        "requested, no slots and actions. The system's fallback has no frames. Original turns are unchanged.",
        f"Uses: {_uses(statistics['sets'], config)}",
        f"Utterances that occur in two splits: {statistics['overlapping']}.",
        f"Fallbacks: {len(FALLBACKS)}, chosen at random. Seed: `{config.seed}`.",
        "`SET/turns` has a row for every user turn: its position in the new and the original dialogue, the label "
        "(`in_domain`, `ood`), and where the foreign utterance comes from.",
    ]


def _uses(sets: Mapping[str, Any], config: Config) -> str:
    if not config.own:
        return "each utterance is used once."
    parts = []
    for name, numbers in sets.items():
        times: Counter[int] = Counter()
        for of in numbers["splits"].values():
            times.update({int(n): many for n, many in of["uses"].items()})
        often = ", ".join(f"{many:,} {_TIMES.get(n, f'{n} times')}" for n, many in sorted(times.items()))
        parts.append(f"{name}: {often or 'none'}")
    rule = f"at most once per {TURNS_A_USE} user turns of the split, {MOST_USES} times at most, once in a dialogue"
    return f"an utterance is used again only where all that fit have been used as often, {rule}. {'; '.join(parts)}."


def example_of(shown: Mapping[str, Any]) -> Example:
    """An injected turn and its fallback, with the turns around them, where there are any."""
    lines = [
        Line("SYSTEM", [Part(shown["before"])]),
        Line("USER", [Part(added=shown["utterance"])]),
        Line("SYSTEM", [Part(added=shown["fallback"])]),
        Line("USER", [Part(shown["after"])]),
    ]
    around = [line for line in lines if line.parts[0].text or line.parts[0].added]
    return Example(f"dialogue {shown['dialogue_id']}, turn {shown['turn']}; from {shown['source']}", around)
