"""The metadata files of ``compose``, from one summary per service: statistics, report, shortfall, top-up plan."""

from __future__ import annotations

import csv
import io
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from parapet.schemas.decisions import neutralise
from parapet.schemas.elements import VARIANTS, task_id
from parapet.schemas.responses import DISPOSITIONS
from parapet.schemas.service import parse_service
from parapet.transforms import table1
from parapet.transforms.counts import Balance, Invariant
from parapet.transforms.crowd.report import Example
from parapet.transforms.crowd.settle import NEEDED, Outcome, Short
from parapet.transforms.hits.plan import make_plan, top_up_terms
from parapet.transforms.hits.records import PageRecord
from parapet.transforms.hits.records import Settings as HitSettings
from parapet.transforms.hits.render_service import render_service

# Nothing is lost: all that is read is merged, and every answer is in the audit or in the dead letters.
INVARIANTS: Sequence[Invariant] = (
    Balance("assignments_read", ("assignments_merged",)),
    Balance("assignments", ("assignments_settled",)),
    Balance("decisions", ("decisions_settled",)),
    Balance("answers_given", ("answers_audited", "answers_dead")),
)
# In ``run.json``. How often an assignment was read is not: reading it again changes nothing.
RECORDED = ("assignments", "answers_given")

SHORTFALL_COLUMNS = (
    "service_name",
    "element_id",
    "task",
    "field",
    "have",
    "need",
    "in_review",
    "reason",
    "composed",
    "filled_variants",
)


class ServiceSummary(msgspec.Struct):
    """All of an :class:`Outcome` but its answers and variants: small, so that one worker can gather every service.

    Attributes:
      answers: disposition to number of answers.
      reasons: disposition to reason to number of answers.
      measured: the service and its variants, where it was composed.
      top_up: the HITs of a top-up.
      examples: some of the paraphrases, for the report.
    """

    service_name: str
    composed: bool
    answers: dict[str, int]
    reasons: dict[str, dict[str, int]]
    short: list[Short]
    decisions: dict[str, int]
    measured: table1.Item | None = None
    top_up: list[PageRecord] = []
    examples: list[Example] = []


def summarise(raw: Mapping[str, Any], outcome: Outcome) -> ServiceSummary:
    """The summary of one service's outcome."""
    reasons: dict[str, Counter[str]] = defaultdict(Counter)
    for row in outcome.audit:
        if row.reason:
            reasons[row.disposition][row.reason.partition(":")[0]] += 1
    measured = None
    if outcome.variants:
        services = {f"v{k}": parse_service(variant) for k, variant in zip(VARIANTS, outcome.variants, strict=True)}
        measured = table1.Item(parse_service(raw), services)
    return ServiceSummary(
        outcome.service_name,
        bool(outcome.variants),
        dict(Counter(row.disposition for row in outcome.audit)),
        {disposition: dict(sorted(found.items())) for disposition, found in sorted(reasons.items())},
        outcome.short,
        outcome.decisions,
        measured,
        _top_up(raw, outcome.short),
        list(_examples(raw, outcome.variants)),
    )


def _examples(raw: Mapping[str, Any], variants: Sequence[Mapping[str, Any]]) -> Iterator[Example]:
    """The first intent, and the first slots, of a composed service: names, then descriptions."""
    for field in ("name", "description"):
        for kind, n in (("intents", 1), ("slots", 4)):
            for i, element in enumerate(raw[kind][:n] if variants else ()):
                yield Example(element[field], [variant[kind][i][field] for variant in variants])


def _top_up(raw: Mapping[str, Any], short: Sequence[Short]) -> list[PageRecord]:
    if not short:
        return []
    only = frozenset((task_id(raw["service_name"], each.task), each.form_field) for each in short)
    return [page.record for page in render_service(0, parse_service(raw), HitSettings(only=only)).pages]


def statistics(
    summaries: Sequence[ServiceSummary],
    splits: Mapping[str, Sequence[str]],
    dead_letters: int,
    agreement: dict[str, Any] | None,
    method: Mapping[str, str],
) -> dict[str, Any]:
    """The content of ``statistics.json``.

    Args:
      summaries: one a service, in order.
      splits: schema file to the names of its services.
      dead_letters: how many.
      agreement: of two reviewers, or None.
      method: the options of the run: distances, stopwords, seed, …
    """
    of_service: dict[str, list[str]] = defaultdict(list)
    for path, names in splits.items():
        for name in names:
            of_service[name].append(path.rpartition("/")[0] or "schema")
    reasons: dict[str, Counter[str]] = {name: Counter() for name in ("rejected", "review", "surplus", "duplicate")}
    decisions: Counter[str] = Counter({"accept": 0, "reject": 0, "fix": 0})
    for summary in summaries:
        decisions.update(summary.decisions)
        for disposition, found in summary.reasons.items():
            reasons[disposition].update(found)
    measured = [summary.measured for summary in summaries if summary.measured is not None]
    measures = table1.measures_of(measured, [f"v{k}" for k in VARIANTS]) if measured else {}
    content = {
        "answers": _dispositions(summaries),
        "dead_letters": dead_letters,
        "reasons": {disposition: dict(sorted(found.items())) for disposition, found in reasons.items()},
        "services": {
            summary.service_name: {
                "splits": of_service[summary.service_name],
                "composed": summary.composed,
                "partial": summary.composed and bool(summary.short),
                "answers": _dispositions([summary]),
                "short": len(summary.short),
            }
            for summary in summaries
        },
        "variants": measures.get("variants", {}),
        "average": measures.get("average", {}),
        "self_bleu": measures.get("self_bleu"),
        "agreement": agreement,
        "decisions": dict(sorted(decisions.items())),
        "method": dict(method),
    }
    return {key: table1.rounded(value) for key, value in content.items()}


def _dispositions(summaries: Iterable[ServiceSummary]) -> dict[str, int]:
    counts: Counter[str] = Counter()
    for summary in summaries:
        counts.update(summary.answers)
    return {"total": sum(counts.values()), **{name: counts[name] for name in DISPOSITIONS}}


def shortfall_rows(summaries: Iterable[ServiceSummary]) -> list[dict[str, Any]]:
    """One row for each element and task that lacks good answers, in ``SHORTFALL_COLUMNS``."""
    return [
        {
            "service_name": summary.service_name,
            "element_id": short.element_id,
            "task": short.task,
            "field": short.form_field,
            "have": short.have,
            "need": NEEDED,
            "in_review": short.in_review,
            "reason": short.reason,
            "composed": "partial" if summary.composed else "no",
            "filled_variants": " ".join(f"v{k}" for k in short.filled),
        }
        for summary in summaries
        for short in summary.short
    ]


def shortfall_csv(summaries: Iterable[ServiceSummary]) -> bytes:
    """The same as a sheet."""
    out = io.StringIO()
    writer = csv.DictWriter(out, SHORTFALL_COLUMNS, lineterminator="\n")
    writer.writeheader()
    for row in shortfall_rows(summaries):
        writer.writerow({**row, **{name: neutralise(row[name]) for name in ("service_name", "element_id")}})
    return out.getvalue().encode()


def top_up_plan(summaries: Sequence[ServiceSummary]) -> dict[str, Any]:
    """The cost of HITs for the missing answers only, and the command that makes them."""
    lacks = [max(1, NEEDED - each.have) for summary in summaries for each in summary.short]
    terms = top_up_terms(max(lacks, default=1))
    plan = make_plan([record for summary in summaries for record in summary.top_up], [], terms)
    return {"command": "parapet hits --schemas ROOT --shortfall shortfall.csv --output TOP_UP", **plan.to_json()}
