"""The page of ``babi_task6``: what the splits came to beside the paper's Table 1, and some dialogues."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from parapet.transforms.dstc2.card import HEADINGS, PAPER_DIALOGUES, PAPER_SIZES, means_rows
from parapet.transforms.pages import render
from parapet.transforms.reports import plural

TERMS = {
    "Utterances": "User turns, bot turns and lines of API results of a dialogue, as in Table 1 of Bordes et al. 2017.",
    "Bot turns": "API calls among them.",
    "No result": "API calls that find nothing: the line 'api_call no result'.",
    "Offers found": "Restaurants offered that are in the results of the API call before. The system of DSTC2 acted on "
    "what it heard, and the states say what was meant: not all can be.",
}
_COLUMNS = {
    "left_out": "Left out",
    "api_calls": "API calls",
    "no_result": "No result",
    "offers": "Offers",
    "offers_found": "Offers found",
}


def report_page(numbers: Mapping[str, Any], examples: Mapping[str, Sequence[str]]) -> str:
    """The page, given ``statistics.json`` and some dialogues of each split, as their file has them."""
    splits = numbers["splits"]
    total = sum(one["dialogues"] for one in splits.values())
    sizes = ", ".join(f"{split} {one['dialogues']:,}" for split, one in splits.items())
    return render(
        "babi_task6.html.jinja",
        title="Dialog bAbI task 6",
        brand="babi_task6",
        headline="DSTC2 as dialog bAbI task 6",
        lead=f"{plural(total, 'dialogue')}: {sizes}.",
        tiles=[
            {"what": "restaurants", "value": f"{numbers['restaurants']:,}"},
            {"what": "facts of the knowledge base", "value": f"{numbers['kb_facts']:,}"},
            *(
                {"what": f"{name} (the paper: {PAPER_SIZES[name]:,})", "value": f"{numbers[name]:,}"}
                for name in PAPER_SIZES
            ),
        ],
        columns=["Dialogues", *HEADINGS.values()],
        rows=[{"name": name, "cells": cells} for name, cells in means_rows(numbers)],
        search_columns=list(_COLUMNS.values()),
        searches=[{"name": split, "cells": [f"{one[name]:,}" for name in _COLUMNS]} for split, one in splits.items()],
        notes=[
            f"{split}: {one['dialogues']:,} dialogues; the paper has {PAPER_DIALOGUES[split]:,}."
            for split, one in splits.items()
            if one["dialogues"] != PAPER_DIALOGUES[split]
        ],
        examples=[{"name": split, "texts": texts} for split, texts in examples.items()],
        terms=[{"term": term, "meaning": meaning} for term, meaning in TERMS.items()],
    )
