"""The metrics of generated utterances: SGSAcc, coverage, slot error rate, BLEU, those of plug-ins; F1 by variant."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from typing import Protocol

import msgspec

from parapet.evaluation.generation.corpus import Corpus, Place
from parapet.evaluation.generation.references import Act
from parapet.evaluation.generation.scoring import Outcome, ScoredAct, Scores, TurnAct, Validated
from parapet.evaluation.lines import ALL, with_mean
from parapet.schemas.errors import InputError
from parapet.transforms import plugins

SEEN, UNSEEN, RANKED = "#SEEN_SERVICES", "#UNSEEN_SERVICES", "#RANKED"
METRICS = ("sgsacc", "sgsacc_utterance_alone", "sgsacc_all_acts", "faithful_turns", "slot_error_rate", "bleu")
FLAG = "--metrics"

Numbers = dict[str, float | None]
TurnValues = dict[str, dict[Place, float | None]]  # metric to the value of each turn


def accuracies(acts: Iterable[ScoredAct]) -> Numbers:
    """SGSAcc of some acts, 0 to 1; None where no act counts.

    ``sgsacc`` is over valid acts, ``sgsacc_all_acts`` over all of them. ``sgsacc_utterance_alone`` is over valid acts,
    too, but an act that is entailed only together with the turn before is not faithful.
    """
    acts = list(acts)
    valid = [one for one in acts if one.validated.valid]
    return {
        "sgsacc": share(one.faithful.premise is not None for one in valid),
        "sgsacc_utterance_alone": share(one.faithful.premise == "utterance" for one in valid),
        "sgsacc_all_acts": share(one.faithful.premise is not None for one in acts),
    }


def turn_values(corpus: Corpus, acts: Iterable[ScoredAct], utterances: Mapping[Place, str]) -> dict[Place, Numbers]:
    """For each turn, whether it misses a value (an error), and whether it is faithful to all its valid acts."""
    by_turn: dict[Place, list[bool]] = {}
    for one in acts:
        if one.validated.valid:
            by_turn.setdefault(one.turn.place, []).append(one.faithful.premise is not None)
    return {
        turn.place: {
            "slot_error_rate": float(bool(missing_values(turn.acts, utterances[turn.place]))),
            "faithful_turns": float(all(by_turn[turn.place])) if turn.place in by_turn else None,
        }
        for turn in corpus.turns
    }


class PluginValues(msgspec.Struct, frozen=True):
    """The values of plug-ins' metrics, for the system's utterances and for those chosen among its candidates."""

    system: TurnValues = {}
    ranked: TurnValues = {}


class ScoredSet(msgspec.Struct, frozen=True):
    """A set with its scores."""

    corpus: Corpus
    scores: Scores
    plugins: PluginValues = PluginValues()


def overall(sets: Sequence[ScoredSet], ranked: bool = False) -> Numbers:
    """The metrics of a system over some sets together; ``ranked``: of the utterances chosen among its candidates."""
    acts: list[ScoredAct] = []
    of_turns: list[Numbers] = []
    pairs: list[tuple[str, str]] = []
    plugins: dict[str, list[float | None]] = {}
    for one in sets:
        scores = one.scores.ranked if ranked else one.scores
        if scores is None:
            continue
        acts += scores.acts
        of_turns += turn_values(one.corpus, scores.acts, scores.utterances).values()
        pairs += [(scores.utterances[turn.place], turn.utterance) for turn in one.corpus.turns]
        for name, by_turn in (one.plugins.ranked if ranked else one.plugins.system).items():
            plugins.setdefault(name, []).extend(by_turn.values())
    return {
        **accuracies(acts),
        **{name: mean(values[name] for values in of_turns) for name in ("faithful_turns", "slot_error_rate")},
        "bleu": corpus_bleu([said for said, _ in pairs], [reference for _, reference in pairs])[0],
        **{name: _mean_of_shares(values) for name, values in plugins.items()},
    }


def metrics_of(sets: Mapping[str, ScoredSet]) -> dict[str, Numbers]:
    """The metrics of a system's utterances.

    Of all together and of each set that has a name; SGSAcc of services seen in training and not; with candidates, of
    the utterances chosen among them.
    """
    metrics = with_mean({ALL: overall(list(sets.values())), **{name: overall([sets[name]]) for name in sets if name}})
    for key, seen in ((SEEN, True), (UNSEEN, False)):
        group = [
            act
            for one in sets.values()
            for act in one.scores.acts
            if one.corpus.seen is not None and (act.act.service in one.corpus.seen) == seen
        ]
        if group:
            metrics[key] = accuracies(group)
    if any(one.scores.ranked for one in sets.values()):
        metrics[RANKED] = overall(list(sets.values()), ranked=True)
    return metrics


class Coverage(msgspec.Struct, frozen=True):
    """How many acts SGSAcc is about: with a reference that the ground truth entails, and valid among these."""

    acts: int
    with_tampered_reference: int
    entailed: int
    entailed_by_utterance_alone: int
    valid: int
    share_entailed: float | None
    share_valid: float | None


def coverage(acts: Sequence[ScoredAct]) -> Coverage:
    """The coverage of acts."""
    entailed = [one for one in acts if one.validated.premise is not None]
    valid = sum(one.validated.valid for one in acts)
    return Coverage(
        acts=len(acts),
        with_tampered_reference=sum(one.has_negative for one in acts),
        entailed=len(entailed),
        entailed_by_utterance_alone=sum(one.validated.premise == "utterance" for one in entailed),
        valid=valid,
        share_entailed=len(entailed) / len(acts) if acts else None,
        share_valid=valid / len(acts) if acts else None,
    )


class Group(msgspec.Struct, frozen=True):
    """The acts of a group: how many came to each outcome, the share that counts, and SGSAcc."""

    acts: int
    faithful: int
    unfaithful: int
    no_reference: int
    tampered_entailed: int
    coverage: float | None
    sgsacc: float | None
    sgsacc_utterance_alone: float | None
    sgsacc_all_acts: float | None


def breakdown(acts: Iterable[ScoredAct], key: Callable[[ScoredAct], str]) -> dict[str, Group]:
    """The groups of acts by name, sorted."""
    groups: dict[str, list[ScoredAct]] = {}
    for one in acts:
        groups.setdefault(key(one), []).append(one)
    return {name: _group(group) for name, group in sorted(groups.items())}


def _group(acts: Sequence[ScoredAct]) -> Group:
    outcomes: Counter[Outcome] = Counter(one.outcome for one in acts)
    shares = accuracies(acts)
    return Group(
        acts=len(acts),
        faithful=outcomes["faithful"],
        unfaithful=outcomes["unfaithful"],
        no_reference=outcomes["no_reference"],
        tampered_entailed=outcomes["tampered_entailed"],
        coverage=share(one.validated.valid for one in acts),
        sgsacc=shares["sgsacc"],
        sgsacc_utterance_alone=shares["sgsacc_utterance_alone"],
        sgsacc_all_acts=shares["sgsacc_all_acts"],
    )


class TamperedF1(msgspec.Struct, frozen=True):
    """How well the ground truth distinguishes true references from tampered ones (the paper's Appendix A).

    Each act with tampered values gives two examples: its references, of which one has to be entailed, and those from
    the tampered values, of which none may be.
    """

    acts: int
    true_entailed: int
    tampered_entailed: int
    precision: float | None
    recall: float | None
    f1: float | None
    share_valid: float | None


def tampered_f1(checks: Iterable[tuple[TurnAct, Validated]]) -> TamperedF1:
    """F1 over the acts that have tampered values."""
    pairs = [validated for _, validated in checks if validated.tampered is not None]
    right = sum(one.premise is not None for one in pairs)
    wrong = sum(bool(one.tampered) for one in pairs)
    return TamperedF1(
        acts=len(pairs),
        true_entailed=right,
        tampered_entailed=wrong,
        precision=right / (right + wrong) if right + wrong else None,
        recall=right / len(pairs) if pairs else None,
        f1=2 * right / (right + wrong + len(pairs)) if pairs else None,
        share_valid=share(one.valid for one in pairs),
    )


def share(values: Iterable[bool]) -> float | None:
    """The share of true ones; None where there are no values."""
    return mean(float(value) for value in values)


def mean(values: Iterable[float | None]) -> float | None:
    """The mean of those that are defined; None where none is. Of zeros and ones only, so that it is exact."""
    defined = [value for value in values if value is not None]
    return sum(defined) / len(defined) if defined else None


def missing_values(acts: Iterable[Act], utterance: str) -> list[tuple[str, str]]:
    """(slot, value) of the values that an utterance must contain verbatim, whatever their case, and does not.

    These are the values of free slots; categorical ones may be said in any words. An utterance that misses a value is
    an error; the slot error rate is the share of errors among all utterances, those without any value included.
    """
    lower = utterance.lower()
    return [
        (act.slot, value) for act in acts if act.kind == "free" for value in act.values if value.lower() not in lower
    ]


def corpus_bleu(utterances: Sequence[str], references: Sequence[str]) -> tuple[float, str]:
    """BLEU of a corpus, 0 to 100, and sacrebleu's signature, which says how it was computed."""
    from sacrebleu.metrics.bleu import BLEU

    metric = BLEU()
    score = metric.corpus_score(list(utterances), [list(references)]).score
    return float(score), str(metric.get_signature())


class Metric(Protocol):
    """A metric of a plug-in, as its entry point makes it."""

    def score(self, utterances: Sequence[str], references: Sequence[str], /) -> Sequence[float | None]:
        """Scores utterances.

        Args:
          utterances: of all turns of a run, in order.
          references: what the corpus says there.

        Returns:
          For each a share, 0 to 1, where high is good; None where it has none.
        """
        ...


ChosenMetric = tuple[plugins.Chosen, Metric]


def read_metrics(names: Sequence[str], taken: Container[str]) -> dict[str, ChosenMetric]:
    """The metrics that ``--metrics`` names, by name.

    Args:
      names: the names.
      taken: names of other metrics, and of other columns of the rows.

    Raises:
      InputError: one is not installed, cannot be made, is repeated, or has a name that is taken.
    """
    metrics: dict[str, ChosenMetric] = {}
    for given in names:
        chosen = plugins.choose(plugins.METRICS, given, FLAG)
        name = chosen.plugin.name
        if name in metrics:
            raise InputError(f"{name!r} appears twice", FLAG)
        if name in taken:
            raise chosen.refused("cannot be used: the rows have a column of that name")
        metrics[name] = chosen, plugins.make(chosen, plugins.members(Metric))
    return metrics


def plugin_values(metrics: Mapping[str, ChosenMetric], corpus: Corpus, scores: Scores) -> PluginValues:
    """The values of all plug-ins' metrics. Raises InputError for what is not a share, or too few of them."""
    ranked = scores.ranked
    return PluginValues(
        {name: _values(*metric, corpus, scores.utterances) for name, metric in metrics.items()},
        {name: _values(*metric, corpus, ranked.utterances) for name, metric in metrics.items()} if ranked else {},
    )


def _values(
    chosen: plugins.Chosen, metric: Metric, corpus: Corpus, utterances: Mapping[Place, str]
) -> dict[Place, float | None]:
    references = [turn.utterance for turn in corpus.turns]
    values = list(metric.score([utterances[turn.place] for turn in corpus.turns], references))
    if len(values) != len(references):
        raise chosen.refused(f"gave {len(values)} values for {len(references)} turns")
    shares = {turn.place: _as_float(value) for turn, value in zip(corpus.turns, values, strict=True)}
    for (dialogue_id, turn), value in shares.items():
        if value is not None and not 0 <= value <= 1:
            raise chosen.refused(f"gave a value that is not a share, 0 to 1, for {dialogue_id}, turn {turn}")
    return shares


def _as_float(value: object) -> float | None:
    """As a plain number, whichever library it is from; NaN for what is none."""
    try:
        return None if value is None else float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return math.nan


def _mean_of_shares(values: Sequence[float | None]) -> float | None:
    """The mean over the turns that have a value; None where none has."""
    defined = [value for value in values if value is not None]
    return math.fsum(defined) / len(defined) if defined else None
