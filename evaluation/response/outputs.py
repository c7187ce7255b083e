"""Inform, Success, BLEU and Combined, and the files of ``parapet evaluate --task response``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from parapet.evaluation.lines import ALL
from parapet.evaluation.pages import Table, page, percent, plain
from parapet.evaluation.response.goals import Goal, Said, Verdict, judge
from parapet.evaluation.response.sgd import Reference
from parapet.evaluation.rows import ROWS, rows_bytes
from parapet.evaluation.writing import json_bytes

EXAMPLES = 40

TERMS = {
    "Inform": "The share of dialogues in which every search of the user's was met: the entity last offered satisfies "
    "its constraints.",
    "Success": "The share of dialogues in which, besides, every slot that the user asks for was answered.",
    "BLEU": "Corpus BLEU of all responses against the reference's, in small letters, by sacrebleu.",
    "Combined": "(Inform + Success) / 2 + BLEU, all of 100.",
    "Searches, requests": "Of a service, the shares of searches met and of requests answered.",
}


class Result(msgspec.Struct, frozen=True):
    """What a system came to.

    Attributes:
      verdicts: by dialogue.
      signature: of sacrebleu's.
    """

    metrics: dict[str, dict[str, float | None]]
    verdicts: dict[str, Verdict]
    signature: str


def evaluate(reference: Reference, said: Mapping[str, Sequence[Said]], tokenizer: str) -> Result:
    """Scores the responses of all dialogues."""
    verdicts = {name: judge(goal, said.get(name, ()), reference.knowledge) for name, goal in reference.goals.items()}
    bleu, signature = _bleu(reference, said, tokenizer)
    inform = _mean([one.inform for one in verdicts.values()])
    success = _mean([one.success for one in verdicts.values()])
    combined = None if inform is None or success is None else 50 * (inform + success) + bleu
    metrics: dict[str, dict[str, float | None]] = {
        ALL: {"inform": inform, "success": success, "bleu": bleu, "combined": combined}
    }
    for service, (searches, requests) in sorted(_by_service(reference.goals, verdicts).items()):
        metrics[service] = {"searches": _mean(searches), "requests": _mean(requests)}
    return Result(metrics, verdicts, signature)


def _by_service(
    goals: Mapping[str, Goal], verdicts: Mapping[str, Verdict]
) -> dict[str, tuple[list[float], list[float]]]:
    """(searches, requests) of each service: 1 for each that was met."""
    found: dict[str, tuple[list[float], list[float]]] = {}
    for name, goal in goals.items():
        verdict = verdicts[name]
        for search, met in zip(goal.searches, verdict.searches, strict=True):
            found.setdefault(search.service, ([], []))[0].append(float(met))
        for request, met in zip(goal.requests, verdict.requests, strict=True):
            found.setdefault(request.service, ([], []))[1].append(float(met))
    return found


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def _bleu(reference: Reference, said: Mapping[str, Sequence[Said]], tokenizer: str) -> tuple[float, str]:
    from sacrebleu.metrics.bleu import BLEU

    names = sorted(reference.responses)
    hypotheses = [one.response for name in names for one in said.get(name, ())]
    references = [reference.responses[name][t] for name in names for t in sorted(reference.responses[name])]
    metric = BLEU(lowercase=True, tokenize=tokenizer)
    score = metric.corpus_score(hypotheses, [references]).score
    return float(score), str(metric.get_signature())


def missed(goal: Goal, verdict: Verdict) -> list[str]:
    """What of a goal was not met, in words."""
    found = []
    for search, met in zip(goal.searches, verdict.searches, strict=True):
        if not met:
            asked = ", ".join(f"{slot}={'|'.join(values)}" for slot, values in sorted(search.constraints.items()))
            found.append(f"{search.service}: no offer of {asked or 'anything'}")
    for request, met in zip(goal.requests, verdict.requests, strict=True):
        if not met:
            wanted = f" ({request.values[0]})" if request.values else ""
            found.append(f"{request.service}: {request.slot}{wanted} not answered")
    return found


def files_of(reference: Reference, said: Mapping[str, Sequence[Said]], result: Result) -> dict[str, bytes]:
    """The files of the output folder."""
    names = sorted(reference.goals)
    verdicts = [result.verdicts[name] for name in names]
    metrics = {"inform": [one.inform for one in verdicts], "success": [one.success for one in verdicts]}
    texts: dict[str, Sequence[Any]] = {
        "missed": ["; ".join(missed(reference.goals[name], result.verdicts[name])) for name in names]
    }
    return {
        "metrics.json": json_bytes(result.metrics),
        "details.json": json_bytes(details_of(reference, result)),
        ROWS: rows_bytes([("", name, 0) for name in names], metrics, texts),
        "report.html": report(reference, said, result),
    }


def details_of(reference: Reference, result: Result) -> dict[str, Any]:
    """How much there was to be scored."""
    goals = reference.goals.values()
    return {
        "bleu_signature": result.signature,
        "dialogues": len(reference.goals),
        "dialogues_with_searches": sum(bool(goal.searches) for goal in goals),
        "searches": sum(len(goal.searches) for goal in goals),
        "requests": sum(len(goal.requests) for goal in goals),
        "requests_not_counted": reference.skipped,
        "entities": {service: len(rows) for service, rows in reference.knowledge.entities.items()},
    }


def report(reference: Reference, said: Mapping[str, Sequence[Said]], result: Result) -> bytes:
    """The page."""
    of_all, details = result.metrics[ALL], details_of(reference, result)
    services = [
        [name, percent(of["searches"]), percent(of["requests"])] for name, of in result.metrics.items() if name != ALL
    ]
    failed = [name for name in sorted(reference.goals) if result.verdicts[name].success == 0]
    examples = [
        [
            name,
            "\n".join(missed(reference.goals[name], result.verdicts[name])),
            "\n".join(f"{one.turn}: {one.response}" for one in said.get(name, ()))[:2000],
        ]
        for name in failed[:EXAMPLES]
    ]
    tables = [
        Table("In %", ["Service", "Searches met", "Requests answered"], services, "By service"),
        Table(f"The first {len(examples):,} of {len(failed):,} without success", ["Dialogue", "Missed", "Responses"],
              examples, "Dialogues that failed", 2),
    ]  # fmt: skip
    return page(
        title="Responses",
        headline=f"Combined score {plain(of_all['combined'], 1)}",
        lead=f"{details['dialogues']:,} dialogues, {details['searches']:,} searches, {details['requests']:,} requests.",
        tiles={
            "inform, %": percent(of_all["inform"], 1),
            "success, %": percent(of_all["success"], 1),
            "BLEU": plain(of_all["bleu"], 1),
            "combined": plain(of_all["combined"], 1),
        },
        tables=[table for table in tables if table.rows],
        notes=[f"BLEU: {result.signature}"],
        terms=TERMS,
    )
