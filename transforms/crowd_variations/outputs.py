"""The small files of ``compose_variations``: from the summaries of all dialogues to named bytes."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from parapet.schemas.responses import DeadLetter
from parapet.transforms.crowd.review import review_csv, review_pages
from parapet.transforms.crowd.summary import dead_letters_jsonl
from parapet.transforms.crowd_variations.report import compose_variations_report
from parapet.transforms.crowd_variations.summary import (
    Summary,
    other_examples,
    shortfall_csv,
    statistics,
    used_examples,
)
from parapet.transforms.crowd_variations.vet import EXPLANATIONS
from parapet.transforms.report import page


def summary_files(
    _: Any,
    summaries: Iterable[Summary],
    dead: Iterable[DeadLetter],
    agreement: Sequence[tuple[dict[str, Any], bytes]],
    method: Mapping[str, str],
) -> Iterator[tuple[str, bytes]]:
    """Yields (path, bytes): statistics, report, review sheet and pages, shortfall, dead letters, adjudication.

    Args:
      summaries: one a dialogue, in any order.
      dead: all dead letters.
      agreement: of two reviewers, with what to adjudicate; empty where there were none.
      method: what the run was told.
    """
    summaries, dead = list(summaries), list(dead)
    reviews = [item for found in summaries for item in found.reviews]
    numbers = statistics(summaries, len(dead), agreement[0][0] if agreement else None, method)
    yield "statistics.json", (json.dumps(numbers, indent=2) + "\n").encode()
    report = compose_variations_report(numbers, used_examples(summaries), other_examples(summaries))
    yield "report.html", page(report).encode()
    yield "review.csv", review_csv(reviews, EXPLANATIONS)
    yield from review_pages(reviews, EXPLANATIONS, command="compose_variations")
    yield "shortfall.csv", shortfall_csv(short for found in summaries for short in found.short)
    yield "dead_letters.jsonl", dead_letters_jsonl(dead)
    if agreement:
        yield "adjudicate.csv", agreement[0][1]
