"""The text files of ``compose``: from the summaries of all services to named bytes."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from parapet.schemas.responses import DeadLetter
from parapet.transforms.crowd import summary
from parapet.transforms.crowd.report import compose_report
from parapet.transforms.crowd.review import review_csv, review_pages
from parapet.transforms.crowd.vet import explanations
from parapet.transforms.report import page

_EXAMPLES = 2  # services whose paraphrases the report shows


def summary_files(
    _: Any,
    summaries: Iterable[summary.ServiceSummary],
    dead: Iterable[DeadLetter],
    agreement: Sequence[tuple[dict[str, Any], bytes]],
    splits: Mapping[str, Sequence[str]],
    method: Mapping[str, str],
    vetting_rules: Sequence[str] = (),
) -> Iterator[tuple[str, bytes]]:
    """Yields (path, bytes): statistics, report, review sheet and pages, shortfall, dead letters, adjudication.

    Args:
      summaries: one a service, in any order; they are put into the order of the schema files.
      dead: all dead letters.
      agreement: of two reviewers, with what to adjudicate; empty where there were none.
      splits: schema file to the names of its services.
      method: what the run was told.
      vetting_rules: of plug-ins, by name.
    """
    order = {name: i for i, name in enumerate(dict.fromkeys(name for names in splits.values() for name in names))}
    summaries = sorted(summaries, key=lambda found: order[found.service_name])
    dead = list(dead)
    reviews = [item for found in summaries for item in found.reviews]
    statistics = summary.statistics(summaries, splits, len(dead), agreement[0][0] if agreement else None, method)
    yield "statistics.json", (json.dumps(statistics, indent=2) + "\n").encode()
    examples = {found.service_name: found.examples for found in summaries if found.examples}
    explained = explanations(vetting_rules)
    report = compose_report(statistics, explained, dict(islice(examples.items(), _EXAMPLES)))
    yield "report.html", page(report).encode()
    yield "review.csv", review_csv(reviews, explained)
    yield from review_pages(reviews, explained)
    yield "shortfall.csv", summary.shortfall_csv(summaries)
    yield "top_up_plan.json", (json.dumps(summary.top_up_plan(summaries), indent=2) + "\n").encode()
    yield "dead_letters.jsonl", summary.dead_letters_jsonl(dead)
    if agreement:
        yield "adjudicate.csv", agreement[0][1]
