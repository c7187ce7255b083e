"""What ``reminders`` writes besides dialogues: the schema, numbers, a card and a page."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from parapet.schemas.layout import schema_bytes
from parapet.transforms import svg
from parapet.transforms.markdown import table
from parapet.transforms.pages import render
from parapet.transforms.reminders.service import SCHEMA, SERVICE
from parapet.transforms.reminders.wording import TODAY, templates
from parapet.transforms.reminders.writing import Config, Key, Place
from parapet.transforms.reports import plural

SHOWN = 6  # dialogues on the page
_ALL = ("dialogues", "turns", "spans", "calls", "failed_calls")


def statistics(
    config: Config, tallies: Iterable[tuple[Key, int]], texts: Iterable[tuple[str, int]], counts: Mapping[str, int]
) -> dict[str, Any]:
    """``statistics.json``.

    Args:
      config: the options.
      tallies: summed.
      texts: split, and how many different utterances it has.
      counts: summed.
    """
    different = dict(texts)
    splits: dict[str, dict[str, Any]] = {}
    for split in config.sizes:
        splits[split] = dict.fromkeys(_ALL, 0)
        splits[split]["different_utterances"] = different.get(split, 0)
        splits[split]["made_again"] = counts.get(f"again/{split}", 0)
    for (split, what, which), n in sorted(tallies):
        if what == "all":
            splits[split][which] = n
        else:
            splits[split].setdefault(what, {})[which] = n
    found = templates()
    patterns = sum(len(of_key) for texts_of in found.texts.values() for of_key in texts_of.values())
    return {
        "service": SERVICE,
        "today": TODAY.isoformat(),
        "names": len(found.names),
        "templates": patterns,
        "splits": splits,
    }


def metadata_files(
    config: Config,
    tallies: Iterable[tuple[Key, int]],
    texts: Iterable[tuple[str, int]],
    counts: Iterable[tuple[str, int]],
    examples: Iterable[tuple[Place, list[tuple[str, str]]]],
) -> list[tuple[str, bytes]]:
    """(path below the output, bytes) of each file."""
    numbers = statistics(config, tallies, texts, dict(counts))
    shown = [lines for _, lines in sorted(examples)[:SHOWN]]
    files = {
        "statistics.json": (json.dumps(numbers, indent=2) + "\n").encode(),
        "README.md": card(numbers, config.seed).encode(),
        "report.html": report_page(numbers, shown).encode(),
    }
    schemas = {f"{split}/schema.json": schema_bytes([SCHEMA]) for split in config.sizes}
    return sorted({**files, **schemas}.items())


def card(numbers: Mapping[str, Any], seed: str) -> str:
    """The README of the corpus, in Markdown."""
    rows = [
        [split, *(f"{of[name]:,}" for name in ("dialogues", "turns", "different_utterances", "calls", "failed_calls"))]
        for split, of in numbers["splits"].items()
    ]
    lines = [
        "# Reminders",
        "",
        f"Made dialogues about reminders, the service `{numbers['service']}`, in the SGD layout: an agenda-based user "
        "(Schatzmann et al. 2007) speaks with a system that sets, finds, moves and cancels them. They are seed "
        "dialogues, as those of the reminder domain of RADDLE (Peng et al. 2021) were: made by act templates, to be "
        "rewritten by people, or to have their values replaced by unseen ones.",
        "",
        table(["split", "dialogues", "turns", "different utterances", "service calls", "that fail"], rows, 5),
        "",
        f"- Today is {numbers['today']}, as in SGD. {numbers['templates']} templates, {numbers['names']} things to be "
        "reminded of; days and times in several ways of saying, with canonical values.",
        "- Users slip and correct themselves, change their minds, deny what was misheard, tell several values at once. "
        "Calls that fail are meant: the time is taken, or there is no such reminder.",
        "- A new intent begins with an empty state; a reminder that is selected brings its name.",
        "- The splits share names, days and times, but no dialogue. For values that training does not have, run "
        "`parapet unseen_entities` on it.",
        f"- Seed: `{seed}`. Texts are Parapet's own.",
        "",
    ]
    return "\n".join(lines)


def report_page(numbers: Mapping[str, Any], examples: list[list[tuple[str, str]]]) -> str:
    """The page.

    Args:
      numbers: ``statistics.json``.
      examples: dialogues, as (speaker, utterance).
    """
    splits = numbers["splits"]
    every = {name: sum(of[name] for of in splits.values()) for name in _ALL}
    return render(
        "reminders.html.jinja",
        title="Reminders",
        brand="reminders",
        headline="Dialogues about reminders",
        lead=f"{plural(every['dialogues'], 'made dialogue')}, {plural(every['turns'], 'turn')}.",
        tiles=[
            {"what": "different utterances", "value": f"{sum(of['different_utterances'] for of in splits.values()):,}"},
            {"what": "templates", "value": f"{numbers['templates']:,}"},
            {"what": "things to be reminded of", "value": f"{numbers['names']:,}"},
        ],
        splits=[
            {"name": split, "cells": [f"{of[name]:,}" for name in (*_ALL, "different_utterances", "made_again")]}
            for split, of in splits.items()
        ],
        plots=[_plot(what, title, splits) for what, title in _PLOTS],
        examples=[[{"speaker": speaker.lower(), "text": text} for speaker, text in lines] for lines in examples],
        terms=[{"term": term, "meaning": meaning} for term, meaning in TERMS.items()],
    )


_PLOTS = (("intents", "Tasks"), ("users", "What users do"), ("user_acts", "Acts of the user"))
TERMS = {
    "Calls that fail": "Meant: the time is taken by another reminder, or there is no such reminder.",
    "Made again": "Dialogues that had come out as another one, and were drawn anew.",
    "slip, mind": "A value that was told wrongly and is corrected; one that is changed when it is to be confirmed.",
    "denies": "Confirmations that are denied, for one of these, for what the system misheard or took for granted.",
    "found": "The task is about a reminder that was looked up before.",
    "retry": "Another time is tried, for the first is taken.",
}


def _plot(what: str, title: str, splits: Mapping[str, Any]) -> dict[str, Any]:
    sums: dict[str, int] = {}
    for of in splits.values():
        for name, n in of.get(what, {}).items():
            sums[name] = sums.get(name, 0) + n
    sums = dict(sorted(sums.items()))
    said = ", ".join(f"{name} {n:,}" for name, n in sums.items())
    series = [svg.Series(title, tuple(map(float, sums.values())))]
    plot = svg.bars(f"plot-{what}", title, said, list(sums), series, svg.number(0))
    return {"title": title, "hint": "all splits", "svg": plot}
