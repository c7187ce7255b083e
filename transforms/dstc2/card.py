"""The README of task 6: what it is, how it was made, what it came to, and what one should know of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from parapet.transforms.markdown import table

# Bordes et al. 2017, Table 1, task 6: means of a dialogue, dialogues of a split, sizes of all.
PAPER_MEANS = {"utterances": 54, "user_turns": 6, "bot_turns": 8, "facts": 40}
PAPER_DIALOGUES = {"train": 1618, "dev": 500, "test": 1117}
PAPER_SIZES = {"vocabulary": 1229, "candidates": 2406}
HEADINGS = {
    "utterances": "Utterances",
    "user_turns": "User turns",
    "bot_turns": "Bot turns",
    "facts": "Facts of API calls",
}


def means_rows(numbers: Mapping[str, Any]) -> list[tuple[str, list[str]]]:
    """Of each split, and of the paper: (name, dialogues and means per dialogue)."""
    rows = [
        (split, [f"{one['dialogues']:,}", *(_mean(one["per_dialogue"][name]) for name in HEADINGS)])
        for split, one in numbers["splits"].items()
    ]
    paper = " / ".join(f"{n:,}" for n in PAPER_DIALOGUES.values())
    return [*rows, ("the paper", [paper, *(str(PAPER_MEANS[name]) for name in HEADINGS)])]


def _mean(value: float | None) -> str:
    return "–" if value is None else f"{value:.1f}"


def card(numbers: Mapping[str, Any], options: Mapping[str, Any]) -> str:
    """The card in Markdown, given ``statistics.json`` and the flags."""
    said = {"transcription": "the transcription", "asr": "what the recogniser heard first"}[options["user"]]
    base = "the file given" if options["kb"] else "what the system says of the restaurants it offers, in all calls"
    offers = sum(one["offers"] for one in numbers["splits"].values())
    found = sum(one["offers_found"] for one in numbers["splits"].values())
    rows = [[name, *cells] for name, cells in means_rows(numbers)]
    moved = numbers["moved_from_dev_to_train"]
    lines = [
        "# Dialog bAbI task 6 of DSTC2",
        "",
        "Calls of DSTC2 (Henderson et al. 2014) in the format of dialog bAbI (Bordes et al. 2017, section 3.3), and in "
        "the SGD layout below `sgd/`.",
        "",
        table(["Split", "Dialogues", *HEADINGS.values()], rows, numbers=5),
        "",
        f"- Users say {said}, noise included; bots say the system's prompts.",
        "- API calls are made from the labelled states: where an answer needs a search, and food, area or price range "
        "are not those of the search before.",
        f"- Knowledge base: {base}: {numbers['restaurants']:,} restaurants, {numbers['kb_facts']:,} facts.",
        "- Ratings are invented, anew for each API call: what the system offers next has the highest. "
        f"{found:,} of {offers:,} offers are in the results of the call before.",
        f"- {numbers['candidates']:,} candidates (the paper's: {PAPER_SIZES['candidates']:,}), a vocabulary of "
        f"{numbers['vocabulary']:,} ({PAPER_SIZES['vocabulary']:,}).",
        f"- Split: DSTC2's lists; {moved:,} of dev moved to train. The paper says only that it uses DSTC2's test set "
        "and a slightly different split of the rest.",
        f"- Seed: `{options['seed']}`.",
        "",
    ]
    return "\n".join(lines)
