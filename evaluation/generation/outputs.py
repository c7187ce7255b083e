"""The files of ``parapet evaluate --task generation``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from parapet.evaluation.generation import metrics as totals
from parapet.evaluation.generation.corpus import Corpus, Place
from parapet.evaluation.generation.metrics import NOTHING, Further, corpus_bleu, means, missing_values
from parapet.evaluation.generation.report import report
from parapet.evaluation.generation.scorers import Scorer
from parapet.evaluation.generation.scoring import ScoredAct, Scores
from parapet.evaluation.lines import ALL
from parapet.evaluation.rows import ROWS, rows_bytes
from parapet.evaluation.writing import json_bytes

_ACT_METRICS = ("sgsacc", "sgsacc_utterance_alone", "sgsacc_all_acts")
_TURN_METRICS = ("slot_error_rate", "faithful_turns")
_TEXTS = ("kind", "service", "act", "slot", "slot_type", "values", "reference", "outcome", "premise", "utterance")

# What no further metric can be called.
TAKEN = frozenset({"set", "dialogue_id", "turn", *_TEXTS, *totals.METRICS})


def numbers_of(
    corpus: Corpus, scores: Scores, scorer: Scorer, validation: bool, further: Further = NOTHING
) -> tuple[dict[str, Any], dict[str, Any]]:
    """(``metrics.json``, ``details.json``)."""
    metrics = totals.metrics_of(corpus, scores.acts, scores.said)
    metrics[ALL] |= means(further.said)
    if scores.ranked is not None:
        said, acts = scores.ranked
        metrics[totals.RANKED] = {**totals.overall(corpus, acts, said), **means(further.ranked)}
    _, signature = corpus_bleu([""], [""])
    details = {
        "scorer": {"name": scorer.name, "model": scorer.model},
        "validation": validation,
        "turns": len(corpus.turns),
        "coverage": totals.coverage(scores.acts),
        "by_act": totals.breakdown(scores.acts, lambda one: one.act.act),
        "by_slot_type": totals.breakdown(scores.acts, lambda one: one.act.kind),
        "by_act_and_slot_type": totals.breakdown(scores.acts, lambda one: f"{one.act.act} {one.act.kind}"),
        "by_service": totals.breakdown(scores.acts, lambda one: one.act.service),
        "tampered_references": {
            name: totals.tampered_f1(checks)
            for name, checks in scores.checks.items()
            if any(of.tampered is not None for _, of in checks)
        },
        "bleu_signature": signature,
    }
    return metrics, details


def files_of(
    corpus: Corpus, scores: Scores, metrics: Mapping[str, Any], details: Mapping[str, Any], further: Further = NOTHING
) -> dict[str, bytes]:
    """The files of the output folder."""
    return {
        "metrics.json": json_bytes(metrics),
        "details.json": json_bytes(details),
        ROWS: rows_of(corpus, scores.acts, scores.said, further),
        "report.html": report(corpus, scores, metrics, details),
    }


def rows_of(corpus: Corpus, acts: Sequence[ScoredAct], said: Mapping[Place, str], further: Further = NOTHING) -> bytes:
    """A row for each turn, with what is of turns, and after it one for each of its acts."""
    of_turns = totals.turn_values(corpus, acts, said)
    by_turn: dict[Place, list[ScoredAct]] = {}
    for one in acts:
        by_turn.setdefault(one.turn.place, []).append(one)
    keys: list[tuple[str, str, int]] = []
    texts: dict[str, list[str | None]] = {name: [] for name in _TEXTS}
    values: dict[str, list[float | None]] = {name: [] for name in (*_ACT_METRICS, *_TURN_METRICS, *further.said)}
    for turn in corpus.turns:
        missing = "; ".join(f"{slot}: {value}" for slot, value in missing_values(turn.acts, said[turn.place]))
        told = {"kind": "turn", "values": missing or None, "utterance": said[turn.place]}
        rows: list[tuple[Mapping[str, str | None], Mapping[str, float | None]]] = [
            (told, {**of_turns[turn.place], **{name: of[turn.place] for name, of in further.said.items()}})
        ]
        rows += ((_told(one), totals.accuracies([one])) for one in by_turn.get(turn.place, ()))
        for told_of, measured in rows:
            keys.append((corpus.name, *turn.place))
            for name in texts:
                texts[name].append(told_of.get(name))
            for name in values:
                values[name].append(measured.get(name))
    return rows_bytes(keys, values, texts)


def _told(one: ScoredAct) -> dict[str, str | None]:
    return {
        "kind": "act",
        "service": one.act.service,
        "act": one.act.act,
        "slot": one.act.slot or None,
        "slot_type": one.act.kind,
        "values": "; ".join(one.act.values) or None,
        "reference": one.validated.reference,
        "outcome": one.outcome,
        "premise": one.faithful.premise,
    }
