"""Inform, Success, BLEU and Combined by set and domain, with intervals: RADDLE's Tables 3 and 5 (Peng et al. 2021).

A dialogue counts for each domain that its goal has, with the searches and requests of that domain alone; a response for
the domains that its turn speaks of.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import cache

import msgspec
import numpy as np
from numpy.typing import NDArray

from parapet.evaluation import bootstrap
from parapet.evaluation.response.goals import Goal, Reference, Response, Verdict
from parapet.transforms.corpora import domain_of
from parapet.transforms.report import Table
from parapet.transforms.text import number

METRICS = ("inform", "success", "bleu", "combined")
SEED = "0"  # of the bootstrap's weights

# Of one dialogue: Inform and how often it is defined, Success and the same, BLEU's four counts and four totals, lengths
# of the responses and of the references, the number of responses.
_Sums = NDArray[np.int64]
_SIZE = 15
DialogueSums = dict[str, dict[str, _Sums]]  # by domain ("": all of them together) and dialogue
_ORDER = 4  # of BLEU's n-grams

Real = NDArray[np.float64]


class Scores(msgspec.Struct, frozen=True):
    """The metrics of a set, of one of its domains, or the unweighted mean over them.

    Attributes:
      inform, success: of 1; None where no dialogue has a search or request.
      bleu, combined: of 100.
      dialogues: with a search or request; ``responses`` how many BLEU is over. None of the mean.
      intervals: of 95 %, by metric; of a Poisson bootstrap over dialogues.
    """

    inform: float | None
    success: float | None
    bleu: float | None
    combined: float | None
    dialogues: int | None = None
    responses: int | None = None
    intervals: dict[str, tuple[float, float] | None] = {}


class SetScores(msgspec.Struct, frozen=True):
    """A set in ``domains.json``: all of its dialogues, each domain, the unweighted mean over the domains."""

    all: Scores
    domains: dict[str, Scores]
    mean: Scores | None


def scores_of(rows: DialogueSums, bleu: Bleu) -> SetScores:
    """The metrics of a set and of its domains, of the sums of :func:`dialogue_sums`."""
    drawn = {domain: _replicates(of, bleu) for domain, of in rows.items()}
    scores = {domain: _scores(metrics_of(of.values(), bleu), drawn[domain], of) for domain, of in rows.items()}
    domains = {domain: scores[domain] for domain in sorted(scores) if domain}
    return SetScores(
        scores[""] if scores else Scores(None, None, None, None, 0, 0),
        domains,
        _mean(list(domains.values()), [drawn[domain] for domain in domains]),
    )


def dialogue_sums(
    reference: Reference,
    responses: Mapping[str, Sequence[Response]],
    verdicts: Mapping[str, Verdict],
    bleu: Bleu,
) -> DialogueSums:
    """What the metrics of a set are made of.

    Args:
      reference: goals, responses and which domains each turn speaks of.
      responses: of the system, by dialogue.
      verdicts: by dialogue.
      bleu: counts n-grams.
    """
    rows: DialogueSums = {}
    for dialogue, goal in reference.goals.items():
        verdict, own = verdicts[dialogue], reference.responses[dialogue]
        of_turns = reference.domains.get(dialogue, {})
        said = responses.get(dialogue, ())
        for domain in sorted({"", *goal.domains, *(name for names in of_turns.values() for name in names)}):
            spoken = [response for response in said if not domain or domain in of_turns.get(response.turn, ())]
            pairs = [(response.response, own[response.turn]) for response in spoken]
            judged = _within(domain, goal, verdict) if domain else verdict
            known = int(judged.inform is not None)
            shares = [int(judged.inform or 0), known, int(judged.success or 0), known]
            row = np.array([*shares, *bleu.sums(pairs), len(pairs)], np.int64)
            rows.setdefault(domain, {})[dialogue] = row
    return rows


def _within(domain: str, goal: Goal, verdict: Verdict) -> Verdict:
    """The verdict on the searches and requests of a domain."""
    searches = zip(goal.searches, verdict.searches, strict=True)
    requests = zip(goal.requests, verdict.requests, strict=True)
    return Verdict(
        tuple(met for one, met in searches if domain_of(one.service) == domain),
        tuple(met for one, met in requests if domain_of(one.service) == domain),
    )


class Bleu:
    """BLEU by its sums, which can be added up over dialogues."""

    def __init__(self, tokenizer: str) -> None:
        from sacrebleu.metrics.bleu import BLEU

        self._metric = BLEU(lowercase=True, tokenize=tokenizer)
        self._metric.corpus_score([""], [[""]])  # without which it has no signature
        self.signature = str(self._metric.get_signature())

    def sums(self, pairs: Sequence[tuple[str, str]]) -> list[int]:
        """Counts, totals and lengths of (response, reference)."""
        if not pairs:
            return [0] * (2 * _ORDER + 2)
        of = self._metric.corpus_score([pair[0] for pair in pairs], [[pair[1] for pair in pairs]])
        return [*of.counts, *of.totals, of.sys_len, of.ref_len]

    def of_sums(self, sums: Sequence[int]) -> float:
        """BLEU, with the smoothing of ``corpus_score``; NaN where there is no reference."""
        if not sums[-1]:
            return math.nan
        counts, totals = list(sums[:_ORDER]), list(sums[_ORDER : 2 * _ORDER])
        return float(self._metric.compute_bleu(counts, totals, sums[-2], sums[-1], smooth_method="exp").score)


def metrics_of(rows: Iterable[_Sums], bleu: Bleu) -> Real:
    """METRICS of dialogues together; NaN where one is not defined."""
    values: Real = _metrics(sum(rows, np.zeros(_SIZE, np.int64))[None], bleu)[0]
    return values


def _metrics(sums: _Sums, bleu: Bleu) -> Real:
    """METRICS of each row of sums: shape (rows, 4), NaN where one is not defined."""
    with bootstrap.quiet():
        inform, success = sums[:, 0] / sums[:, 1], sums[:, 2] / sums[:, 3]
    of_bleu = np.array([bleu.of_sums(row) for row in sums[:, 4:-1].tolist()])
    return np.stack([inform, success, of_bleu, 50 * (inform + success) + of_bleu], axis=1)


def _replicates(rows: Mapping[str, _Sums], bleu: Bleu) -> Real:
    """METRICS in each replicate of the bootstrap: shape (replicates, 4)."""
    names = sorted(rows)
    sums = np.zeros((bootstrap.REPLICATES, _SIZE), np.int64)
    for start in range(0, len(names), bootstrap.CHUNK):
        chunk = names[start : start + bootstrap.CHUNK]
        sums += bootstrap.weighted(np.stack([_weights(name) for name in chunk]), np.stack([rows[n] for n in chunk]))
    return _metrics(sums, bleu)


@cache
def _weights(dialogue: str) -> NDArray[np.uint8]:
    return bootstrap.weights(SEED, dialogue).astype(np.uint8)


def _scores(values: Real, drawn: Real, rows: Mapping[str, _Sums] | None) -> Scores:
    inform, success, bleu, combined = (None if np.isnan(value) else float(value) for value in values)
    intervals = {name: bootstrap.interval(column) for name, column in zip(METRICS, drawn.T, strict=True)}
    counts: tuple[int | None, int | None] = (None, None)
    if rows is not None:
        counts = sum(bool(row[1]) for row in rows.values()), sum(int(row[-1]) for row in rows.values())
    return Scores(inform, success, bleu, combined, *counts, intervals)


def _mean(domains: Sequence[Scores], drawn: Sequence[Real]) -> Scores | None:
    """The unweighted mean over domains of what is defined for all of them; None where there is no domain."""
    if not domains:
        return None
    values = np.array([[getattr(scores, name) for name in METRICS] for scores in domains], dtype=float)
    return _scores(values.mean(axis=0), np.mean(drawn, axis=0), None)


def table_of(sets: Mapping[str, SetScores]) -> Table:
    """A row a domain, below each set: RADDLE's Tables 3 and 5."""
    rows: list[list[str]] = []
    groups: dict[int, str] = {}
    for name, of in sets.items():
        groups |= {len(rows): name} if len(sets) > 1 else {}
        rows += [_cells(domain, scores) for domain, scores in of.domains.items()]
        rows += [_cells("mean over domains", of.mean)] if of.mean and len(of.domains) > 1 else []
    return Table(
        title="Domains, of 100",
        note="In small print: the 95% interval. A dialogue counts for each of its domains, with the searches and "
        "requests of that domain alone; a response for the domains that its turn speaks of.",
        columns=["domain", "Inform", "Success", "BLEU", "Combined", "dialogues"],
        rows=rows, groups=groups, numbers_in="domains.json", in_card=False,
    )  # fmt: skip


def _cells(name: str, scores: Scores) -> list[str]:
    return [
        name,
        *(_cell(scores, metric) for metric in METRICS),
        "" if scores.dialogues is None else f"{scores.dialogues:,}",
    ]


def _cell(scores: Scores, metric: str) -> str:
    factor = 1 if metric in ("bleu", "combined") else 100
    value, interval = getattr(scores, metric), scores.intervals.get(metric)
    text = number(None if value is None else factor * value, 1)
    return text if interval is None else f"{text}\n{factor * interval[0]:.1f} to {factor * interval[1]:.1f}"
