"""The numbers of a run: SGSAcc, coverage, slot error rate and BLEU; by act, slot type and service; F1 by variant."""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from typing import Any, Protocol

import msgspec

from parapet.evaluation.generation.corpus import Corpus, Place
from parapet.evaluation.generation.references import Act
from parapet.evaluation.generation.scoring import Asked, ScoredAct, Scores, Validated
from parapet.evaluation.lines import ALL
from parapet.schemas.errors import InputError
from parapet.transforms import plugins

SEEN, UNSEEN, RANKED = "#SEEN_SERVICES", "#UNSEEN_SERVICES", "#RANKED"
METRICS = ("sgsacc", "sgsacc_utterance_alone", "sgsacc_all_acts", "faithful_turns", "slot_error_rate", "bleu")
OUTCOMES = ("faithful", "unfaithful", "no_reference", "tampered_entailed")

Numbers = dict[str, float | None]


def accuracies(acts: Iterable[ScoredAct]) -> Numbers:
    """SGSAcc of some acts: in 0 to 1, None where no act counts.

    ``sgsacc`` is over valid acts, ``sgsacc_all_acts`` over all of them; ``sgsacc_utterance_alone`` is over valid acts
    too, and takes none for faithful that is so only by the turn before.
    """
    acts = list(acts)
    valid = [one for one in acts if one.validated.valid]
    return {
        "sgsacc": share(one.faithful.premise is not None for one in valid),
        "sgsacc_utterance_alone": share(one.faithful.premise == "utterance" for one in valid),
        "sgsacc_all_acts": share(one.faithful.premise is not None for one in acts),
    }


def turn_values(corpus: Corpus, acts: Iterable[ScoredAct], said: Mapping[Place, str]) -> dict[Place, Numbers]:
    """Of each turn: whether it misses a value (an error), and whether it is faithful to all its valid acts."""
    by_turn: dict[Place, list[bool]] = {}
    for one in acts:
        if one.validated.valid:
            by_turn.setdefault(one.turn.place, []).append(one.faithful.premise is not None)
    return {
        turn.place: {
            "slot_error_rate": float(bool(missing_values(turn.acts, said[turn.place]))),
            "faithful_turns": float(all(by_turn[turn.place])) if turn.place in by_turn else None,
        }
        for turn in corpus.turns
    }


def overall(corpus: Corpus, acts: Sequence[ScoredAct], said: Mapping[Place, str]) -> Numbers:
    """The metrics of a system."""
    of_turns = turn_values(corpus, acts, said).values()
    bleu, _ = corpus_bleu([said[turn.place] for turn in corpus.turns], [turn.utterance for turn in corpus.turns])
    return {
        **accuracies(acts),
        **{name: mean(one[name] for one in of_turns) for name in ("faithful_turns", "slot_error_rate")},
        "bleu": bleu,
    }


def metrics_of(corpus: Corpus, acts: Sequence[ScoredAct], said: Mapping[Place, str]) -> dict[str, Numbers]:
    """``metrics.json``, but for ranked candidates: of all, and SGSAcc of services seen in training and not."""
    found = {ALL: overall(corpus, acts, said)}
    if corpus.seen is not None:
        for key, known in ((SEEN, True), (UNSEEN, False)):
            some = [one for one in acts if (one.act.service in corpus.seen) == known]
            if some:
                found[key] = accuracies(some)
    return found


def coverage(acts: Sequence[ScoredAct]) -> dict[str, Any]:
    """How many acts SGSAcc is about: with a reference that the ground truth entails, and valid among these."""
    entailed = [one for one in acts if one.validated.premise is not None]
    return {
        "acts": len(acts),
        "with_tampered_reference": sum(one.has_negative for one in acts),
        "entailed": len(entailed),
        "entailed_by_utterance_alone": sum(one.validated.premise == "utterance" for one in entailed),
        "valid": sum(one.validated.valid for one in acts),
        "share_entailed": share(one.validated.premise is not None for one in acts),
        "share_valid": share(one.validated.valid for one in acts),
    }


def breakdown(acts: Iterable[ScoredAct], key: Callable[[ScoredAct], str]) -> dict[str, dict[str, Any]]:
    """Acts, outcomes, coverage and SGSAcc of each group, by its name."""
    groups: dict[str, list[ScoredAct]] = {}
    for one in acts:
        groups.setdefault(key(one), []).append(one)
    return {
        name: {
            "acts": len(some),
            **{outcome: sum(one.outcome == outcome for one in some) for outcome in OUTCOMES},
            "coverage": share(one.validated.valid for one in some),
            **accuracies(some),
        }
        for name, some in sorted(groups.items())
    }


def tampered_f1(checks: Iterable[tuple[Asked, Validated]]) -> dict[str, Any]:
    """How well true references are told from tampered ones (the paper's Appendix A).

    Each act with tampered values gives two examples to the ground truth: its references, of which one has to be
    entailed, and those from the tampered values, of which none may be.
    """
    pairs = [one for _, one in checks if one.tampered is not None]
    right = sum(one.premise is not None for one in pairs)
    wrong = sum(bool(one.tampered) for one in pairs)
    precision = right / (right + wrong) if right + wrong else None
    recall = right / len(pairs) if pairs else None
    f1 = 2 * right / (right + wrong + len(pairs)) if pairs else None
    valid = share(one.valid for one in pairs)
    return {
        "acts": len(pairs),
        "true_entailed": right,
        "tampered_entailed": wrong,
        "precision": precision,
        "recall": recall,
        "f1": f1,
        "share_valid": valid,
    }


def share(found: Iterable[bool]) -> float | None:
    """Of true ones; None where there are none at all."""
    return mean(float(one) for one in found)


def mean(values: Iterable[float | None]) -> float | None:
    """Of those that are defined; None where none is. Of zeros and ones only, so that it is exact."""
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def missing_values(acts: Iterable[Act], utterance: str) -> list[tuple[str, str]]:
    """(slot, value) of what is to be said word by word and is not: values of free slots, whatever their case.

    An utterance that misses one is an error; the slot error rate is the share of errors among all utterances, those
    without any value among them. Values of categorical slots may be said in any words, so they do not count.
    """
    said = utterance.lower()
    return [
        (act.slot, value) for act in acts if act.kind == "free" for value in act.values if value.lower() not in said
    ]


def corpus_bleu(utterances: Sequence[str], references: Sequence[str]) -> tuple[float, str]:
    """BLEU of a corpus, 0 to 100, and sacrebleu's signature, which says how it was computed."""
    from sacrebleu.metrics.bleu import BLEU

    metric = BLEU()
    score = metric.corpus_score(list(utterances), [list(references)]).score
    return float(score), str(metric.get_signature())


# Metric to the value of each turn.
Values = dict[str, dict[Place, float | None]]

FLAG = "--metrics"


class Metric(Protocol):
    """What the entry point of a metric gives when it is called."""

    def score(self, said: Sequence[str], references: Sequence[str]) -> Sequence[float | None]:
        """Of each utterance against its reference a share, 0 to 1, high is good; None where it has none.

        All turns of a run are given at once, in order.
        """
        ...


class Further(msgspec.Struct, frozen=True):
    """The values for what the system says; ``ranked``, for what ranking chose from its candidates."""

    said: Values = {}
    ranked: Values = {}


NOTHING = Further()


def read_metrics(given: Sequence[str], taken: Container[str]) -> dict[str, tuple[plugins.Chosen, Metric]]:
    """The metrics that ``--metrics`` names, by name.

    Args:
      given: the names.
      taken: names of other metrics, and of other columns of the rows.

    Raises:
      InputError: one is not installed, cannot be made, stands twice, or has a name that is taken.
    """
    found: dict[str, tuple[plugins.Chosen, Metric]] = {}
    for one in given:
        chosen = plugins.choose(plugins.METRICS, one, FLAG)
        name = chosen.plugin.name
        if name in found:
            raise InputError(f"{name!r} stands twice", FLAG)
        if name in taken:
            raise chosen.refused("cannot be used: the rows have a column of that name")
        found[name] = chosen, plugins.make(chosen, plugins.members(Metric))
    return found


def measured(metrics: Mapping[str, tuple[plugins.Chosen, Metric]], corpus: Corpus, scores: Scores) -> Further:
    """The values of all metrics. Raises InputError for what is no share, or too few of them."""
    ranked = scores.ranked[0] if scores.ranked is not None else None
    return Further(
        {name: _values(*one, corpus, scores.said) for name, one in metrics.items()},
        {name: _values(*one, corpus, ranked) for name, one in metrics.items()} if ranked is not None else {},
    )


def _values(
    chosen: plugins.Chosen, metric: Metric, corpus: Corpus, said: Mapping[Place, str]
) -> dict[Place, float | None]:
    references = [turn.utterance for turn in corpus.turns]
    given = list(metric.score([said[turn.place] for turn in corpus.turns], references))
    if len(given) != len(references):
        raise chosen.refused(f"gave {len(given)} values for {len(references)} turns")
    found = {turn.place: _share(value) for turn, value in zip(corpus.turns, given, strict=True)}
    for (dialogue_id, turn), value in found.items():
        if value is not None and not 0 <= value <= 1:
            raise chosen.refused(f"gave what is no share, 0 to 1, for {dialogue_id}, turn {turn}")
    return found


def _share(given: object) -> float | None:
    """As a plain number, whichever library it is of; NaN for what is none."""
    try:
        return None if given is None else float(given)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return math.nan


def means(values: Mapping[str, Mapping[Place, float | None]]) -> dict[str, float | None]:
    """The mean of each metric over the turns that have it; None where none has."""
    found = {}
    for name, of in values.items():
        known = [value for value in of.values() if value is not None]
        found[name] = math.fsum(known) / len(known) if known else None
    return found
