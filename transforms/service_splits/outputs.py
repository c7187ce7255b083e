"""What ``unseen_services`` writes besides dialogues: schemas, numbers, a card and a page; and what must balance."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from parapet.schemas.layout import schema_bytes
from parapet.transforms import svg
from parapet.transforms.markdown import code, table
from parapet.transforms.pages import render
from parapet.transforms.reports import plural
from parapet.transforms.service_splits.plan import BOTH, DEV, ONLY, OTHERS, SETS, TEST, TEST_SEEN, TRAIN, HeldOut
from parapet.transforms.service_splits.statistics import About, sets_of, statistics
from parapet.transforms.service_splits.writing import Combination

SHARES = ("slot_names_seen", "intent_names_seen", "slots_and_descriptions_seen")
COLUMNS = ("train", "dev", "test", "test_seen", "left out", "slot names seen", "intent names seen", "slots as they are")
GIVEN = (
    *("dialogues", "services", "unseen", "of seen alone", "of both", "of unseen alone"),
    *("slot names seen", "intent names seen", "slots as they are"),
)
TERMS = {
    "Left out": "Dialogues of train or dev that touch what is held out; and those of the test split that do not.",
    "Names seen": "Of the names of the services that are tested on, the share that services trained on have too.",
    "Slots as they are": "The same for names together with their descriptions.",
}


def metadata_files(
    about: About, combinations: Iterable[tuple[Combination, int]], counts: Iterable[tuple[str, int]]
) -> list[tuple[str, bytes]]:
    """(path below the output, bytes) of each file."""
    found = sorted(combinations)
    numbers = statistics(about, found, dict(counts).get("left_out", 0))
    files = {
        "statistics.json": (json.dumps(numbers, indent=2) + "\n").encode(),
        "README.md": card(numbers).encode(),
        "report.html": report_page(numbers).encode(),
    }
    return sorted({**files, **dict(_schemas(about, found))}.items())


def _schemas(about: About, combinations: Sequence[tuple[Combination, int]]) -> Iterator[tuple[str, bytes]]:
    """The schema of every set: the services of its dialogues, in the order of the corpus's own schema."""
    of_set = {TRAIN: TRAIN, DEV: DEV, TEST: about.held_out.test_split, TEST_SEEN: about.held_out.test_split}
    for group in about.held_out.groups:
        for name, one in sets_of(about, group, combinations)[0].items():
            if one.dialogues:
                raw = [service for key, service in about.raw[of_set[name]].items() if key in one.services]
                yield f"{group}/{name}/schema.json", schema_bytes(raw)


def check_invariants(counts: dict[str, int], held_out: HeldOut) -> dict[str, int]:
    """Every dialogue is once in the split of everything that is held out, or left out with a reason.

    Raises:
      RuntimeError: they do not balance.
    """
    wrong = []
    for group in held_out.groups:
        ends = sum(counts.get(f"{group}/{end}", 0) for end in (*SETS, ONLY, BOTH, OTHERS))
        if counts.get("dialogues", 0) != ends + counts.get("left_out", 0):
            wrong.append(group)
    if wrong:
        raise RuntimeError(f"the counts do not balance for {', '.join(wrong)}: {counts}")
    return counts


def percent(value: float | None) -> str:
    """A share as per cent."""
    return "–" if value is None else f"{100 * value:.0f}%"


def _cells(one: Mapping[str, Any]) -> list[str]:
    sets = [f"{one['sets'][name]['dialogues']:,}" if name in one["sets"] else "–" for name in SETS]
    return [*sets, f"{sum(one['left_out'].values()):,}", *(percent(one["seen"][share]) for share in SHARES)]


def _given_cells(of: Mapping[str, Any]) -> list[str]:
    kinds = of["dialogues_by_services"]
    there = sum(n > 0 for n in of["services"].values())
    numbers = (of["dialogues"], there, len(of["unseen_services"]), kinds["seen"], kinds["both"], kinds["unseen"])
    return [*(f"{n:,}" for n in numbers), *(percent(of["seen"][share]) for share in SHARES)]


def card(numbers: Mapping[str, Any]) -> str:
    """The README of the splits, in Markdown."""
    by = numbers["by"]
    lines = [
        "# Unseen services",
        "",
        f"One corpus for each {by} that is held out: in `train` and `dev` no dialogue touches it, in `test` every one "
        f"does. Tests are of the split `{numbers['test_split']}`. A schema lists the services of its dialogues.",
        "",
        table([by, *COLUMNS], [[code(name), *_cells(one)] for name, one in numbers["held_out"].items()], len(COLUMNS)),
        "",
        *([f"- {line[:1].upper()}{line[1:]}." for line in numbers["short"]]),
        "- Left out are dialogues of the other splits that touch what is held out, alone or with others, and those of "
        "the test split that do not: see `statistics.json`.",
        "- Seen is a name that a service of `train` has too; a slot as it is, where the description is the same as "
        "well.",
        "",
        "## As given",
        "",
        "The corpus's own splits. Unseen are services that its training does not have.",
        "",
        table(
            ["split", *GIVEN], [[code(name), *_given_cells(of)] for name, of in numbers["as_given"].items()], len(GIVEN)
        ),
        "",
    ]
    return "\n".join(lines)


def report_page(numbers: Mapping[str, Any]) -> str:
    """The page, given ``statistics.json``."""
    held = numbers["held_out"]
    dialogues = sum(of["dialogues"] for of in numbers["as_given"].values())
    series = [
        svg.Series("slot names", tuple(one["seen"]["slot_names_seen"] for one in held.values())),
        svg.Series("intent names", tuple(one["seen"]["intent_names_seen"] for one in held.values()), "s2"),
    ]
    said = "; ".join(
        f"{name}: slots {percent(one['seen']['slot_names_seen'])}, intents {percent(one['seen']['intent_names_seen'])}"
        for name, one in held.items()
    )
    title = "Names of what is held out that training has"
    return render(
        "unseen_services.html.jinja",
        title="Unseen services",
        brand="unseen services",
        headline=f"Splits by {numbers['by']}",
        lead=f"{plural(dialogues, 'dialogue')}, {plural(len(held), numbers['by'])} held out, one at a time.",
        by=numbers["by"],
        columns=COLUMNS,
        rows=[{"name": name, "cells": _cells(one)} for name, one in held.items()],
        given_columns=GIVEN,
        given=[{"name": name, "cells": _given_cells(of)} for name, of in numbers["as_given"].items()],
        short=numbers["short"],
        plots=[
            {"title": title, "hint": "share", "svg": svg.bars("seen", title, said, list(held), series, svg.percent)}
        ],
        terms=[{"term": term, "meaning": meaning} for term, meaning in TERMS.items()],
    )
