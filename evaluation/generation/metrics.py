"""The metrics of generated utterances: SGSAcc by turn and act, slot error rate, BLEU and plug-ins, also by group."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Container, Iterable, Mapping, Sequence
from typing import Any, Protocol

import msgspec

from parapet.evaluation.generation.corpus import Act, Corpus, Place, SystemTurn
from parapet.evaluation.generation.scoring import ScoredAct, Scores, TurnAct, Validated
from parapet.evaluation.sets import ALL, ORIGINAL, with_mean
from parapet.schemas.errors import InputError
from parapet.transforms.core import plugins
from parapet.transforms.perturb.corpora import domain_of

SEEN_DOMAINS, UNSEEN_DOMAINS = "#SEEN_DOMAINS", "#UNSEEN_DOMAINS"
SEEN_SERVICES, UNSEEN_SERVICES = "#SEEN_SERVICES", "#UNSEEN_SERVICES"
TURN_METRICS = ("sgsacc", "sgsacc_all", "sgsacc_utterance_alone", "slot_error_rate")
ACT_METRICS = ("sgsacc_acts", "sgsacc_acts_all")
METRICS = (*TURN_METRICS, *ACT_METRICS, "bleu")
FLAG = "--metrics"

Numbers = dict[str, float | None]


class ScoredTurn(msgspec.Struct, frozen=True):
    """A system turn with the predicted utterance.

    Attributes:
      utterance: the prediction.
      acts: in order; SGSAcc ignores turns without acts.
      plugins: the values of plug-ins' metrics.
    """

    turn: SystemTurn
    utterance: str
    acts: tuple[ScoredAct, ...]
    plugins: Numbers = {}

    @property
    def valid(self) -> bool:
        """Whether all its acts are valid, so that SGSAcc includes it."""
        return bool(self.acts) and all(act.valid for act in self.acts)

    @property
    def faithful(self) -> bool:
        """Whether all its acts are realised faithfully (section 2)."""
        return all(act.premise is not None for act in self.acts)

    @property
    def outcome(self) -> str | None:
        """The outcome: ``faithful``, ``unfaithful``, or ``not_valid``; None without acts."""
        return ("faithful" if self.faithful else "unfaithful") if self.valid else "not_valid" if self.acts else None

    @property
    def has_values(self) -> bool:
        """Whether it has a value of a free slot, which slot error rate checks."""
        return any(act.act.kind == "free" and act.act.values for act in self.acts)

    def values(self) -> Numbers:
        """Returns the metrics of turns, 1 or 0; None if the metric ignores the turn."""
        alone = all(act.premise == "utterance" for act in self.acts)
        return {
            "sgsacc": float(self.faithful) if self.valid else None,
            "sgsacc_all": float(self.faithful) if self.acts else None,
            "sgsacc_utterance_alone": float(alone) if self.valid else None,
            "slot_error_rate": float(bool(missing_values(self.turn.acts, self.utterance))),
            **self.plugins,
        }


def act_values(one: ScoredAct) -> Numbers:
    """Returns the metrics of acts, 1 or 0; None if the metric ignores the act."""
    faithful = float(one.premise is not None)
    return {"sgsacc_acts": faithful if one.valid else None, "sgsacc_acts_all": faithful}


def accuracies(turns: Sequence[ScoredTurn]) -> Numbers:
    """Computes SGSAcc and slot error rate over turns, 0 to 1; None if no turn counts.

    ``sgsacc`` is the share of valid turns that are faithful, ``sgsacc_all`` that of all turns with acts;
    ``sgsacc_utterance_alone`` is ``sgsacc`` without the augmented premise. ``sgsacc_acts`` and ``sgsacc_acts_all`` are
    shares of acts.
    """
    of_turns = [turn.values() for turn in turns]
    of_acts = [act_values(act) for turn in turns for act in turn.acts]
    return {**means(of_turns, TURN_METRICS), **means(of_acts, ACT_METRICS)}


def seen_by(seen: frozenset[str] | None, name_of: Callable[[str], str]) -> Callable[[ScoredTurn], bool | None]:
    """Returns a function that tells whether all services of a turn are seen; None without a training schema or acts.

    Args:
      seen: the services of the training schema.
      name_of: returns the name to look up for a service: its own, or its domain.
    """
    known = frozenset(map(name_of, seen or ()))

    def is_seen(one: ScoredTurn) -> bool | None:
        if seen is None or not one.acts:
            return None
        return all(name_of(act.act.service) in known for act in one.acts)

    return is_seen


class ScoredSet(msgspec.Struct, frozen=True):
    """A set with its scores.

    Attributes:
      turns: the predicted utterances.
      checks: see :class:`Scores`.
    """

    corpus: Corpus
    turns: list[ScoredTurn]
    checks: dict[str, list[tuple[TurnAct, Validated]]]


def scored_set(corpus: Corpus, scores: Scores, metrics: Mapping[str, ChosenMetric] = {}) -> ScoredSet:
    """Scores a set turn by turn. Raises InputError if a plug-in returns values that are not shares, or too few."""
    plugins = {name: _values(*metric, corpus, scores.utterances) for name, metric in metrics.items()}
    acts: dict[Place, list[ScoredAct]] = {}
    for act in scores.acts:
        acts.setdefault(act.turn.place, []).append(act)
    turns = []
    for i, turn in enumerate(corpus.turns):
        values = {name: column[i] for name, column in plugins.items()}
        turns.append(ScoredTurn(turn, scores.utterances[turn.place], tuple(acts.get(turn.place, ())), values))
    return ScoredSet(corpus, turns, scores.checks)


def overall(turns: Sequence[ScoredTurn]) -> Numbers:
    """Computes all metrics over turns."""
    return {
        **accuracies(turns),
        "bleu": corpus_bleu([turn.utterance for turn in turns], [turn.turn.utterance for turn in turns])[0],
        **means([turn.plugins for turn in turns], turns[0].plugins if turns else ()),
    }


def metrics_of(sets: Mapping[str, ScoredSet]) -> dict[str, Numbers]:
    """Computes the metrics of a system's utterances.

    They are over all sets and over each named set. SGSAcc and slot error rate are also by whether the turn's domains,
    and its services, were all seen in training.
    """
    of_all = overall([turn for scored in sets.values() for turn in scored.turns])
    metrics = with_mean({ALL: of_all, **{name: overall(scored.turns) for name, scored in sets.items() if name}})
    for name_of, keys in ((domain_of, (UNSEEN_DOMAINS, SEEN_DOMAINS)), (str, (UNSEEN_SERVICES, SEEN_SERVICES))):
        groups: dict[bool | None, list[ScoredTurn]] = {}
        for scored in sets.values():
            is_seen = seen_by(scored.corpus.seen, name_of)
            for turn in scored.turns:
                groups.setdefault(is_seen(turn), []).append(turn)
        metrics |= {keys[seen]: accuracies(groups[seen]) for seen in (True, False) if seen in groups}
    return metrics


Details = dict[str, Any]


def coverage(turns: Iterable[ScoredTurn]) -> Details:
    """Counts the turns and acts that SGSAcc and slot error rate include (section 2.2).

    Turns without acts are ignored. Turns: ``valid`` ones have only valid acts and enter SGSAcc; ``slot_error_rate``
    counts those with a value of a free slot; ``free_slot`` those with an act on a free slot, including a REQUEST
    without a value; ``categorical`` those with the value of a categorical or boolean slot. Acts: ``entailed`` ones have
    a reference sentence that the ground truth entails.
    """
    turns = [turn for turn in turns if turn.acts]
    acts = [act for turn in turns for act in turn.acts]
    of_turns = {
        "valid": sum(turn.valid for turn in turns),
        "slot_error_rate": sum(turn.has_values for turn in turns),
        "free_slot": sum(any(act.act.kind == "free" for act in turn.acts) for turn in turns),
        "categorical": sum(
            any(act.act.kind in ("categorical", "boolean") and act.act.states for act in turn.acts) for turn in turns
        ),
    }
    of_acts = {
        "entailed": sum(act.validated.premise is not None for act in acts),
        "valid": sum(act.valid for act in acts),
    }
    return {"turns": _with_shares("turns", len(turns), of_turns), "acts": _with_shares("acts", len(acts), of_acts)}


def _with_shares(name: str, whole: int, parts: Mapping[str, int]) -> Details:
    return {name: whole, **parts, **{f"share_{part}": ratio(n, whole) for part, n in parts.items()}}


def agreement(turns: Iterable[ScoredTurn]) -> Details:
    """Counts turns on which SGSAcc (only acts on free slots) and slot error rate agree, of those that both include.

    See section 2.2.
    """
    judged = [turn for turn in turns if turn.valid and turn.has_values]
    same = 0
    for turn in judged:
        free = [act for act in turn.acts if act.act.kind == "free" and act.act.values]
        same += all(act.premise is not None for act in free) != bool(missing_values(turn.turn.acts, turn.utterance))
    return {"turns": len(judged), "same": same, "share": ratio(same, len(judged))}


def by_group(items: Iterable[tuple[str, Numbers]], counted: str, metric: str) -> dict[str, Details]:
    """Averages the metrics of the items of each group, sorted by name.

    Args:
      items: (group, metrics) of each turn or act.
      counted: the name of the number of items.
      metric: ``coverage`` is the share of the items for which this metric is defined.
    """
    groups: dict[str, list[Numbers]] = {}
    for name, values in items:
        groups.setdefault(name, []).append(values)
    return {
        name: {
            counted: len(group),
            "coverage": ratio(sum(values[metric] is not None for values in group), len(group)),
            **means(group, group[0]),
        }
        for name, group in sorted(groups.items())
    }


def tampered_f1(checks: Iterable[tuple[TurnAct, Validated]]) -> Details:
    """Measures how well the ground truth distinguishes true sentences from tampered ones (the paper's Appendix A).

    Each act with tampered values yields two examples: its sentences, one of which should be entailed, and the sentences
    with tampered values, none of which should be.
    """
    pairs = [validated for _, validated in checks if validated.tampered is not None]
    right = sum(pair.premise is not None for pair in pairs)
    wrong = sum(bool(pair.tampered) for pair in pairs)
    return {
        "acts": len(pairs),
        "true_entailed": right,
        "tampered_entailed": wrong,
        "precision": ratio(right, right + wrong),
        "recall": ratio(right, len(pairs)),
        "f1": ratio(2 * right, right + wrong + len(pairs)),
    }


def details_of(sets: Mapping[str, ScoredSet], **options: object) -> Details:
    """Makes ``details.json``, which has ``sets`` if there are several. ``options`` are the settings of the scoring."""
    turns = [turn for scored in sets.values() for turn in scored.turns]
    acts = [act for turn in turns for act in turn.acts]
    checks: dict[str, Details] = {}
    for name, one in sets.items():
        # The original has checks in the words of each schema, and other sets in their own words; variants have the same
        # acts.
        schemas = one.checks if name in ("", ORIGINAL) else {name: one.checks[ORIGINAL]}
        checks |= {
            schema: tampered_f1(examples_of_schema)
            for schema, examples_of_schema in schemas.items()
            if schema not in checks
        }
    by_set = {
        name: {"turns": len(one.turns), "coverage": coverage(one.turns), "agreement": agreement(one.turns)}
        for name, one in sets.items()
        if name
    }
    return {
        **options,
        "turns": len(turns),
        "coverage": coverage(turns),
        "agreement": agreement(turns),
        "by_service": by_group(
            ((name, turn.values()) for turn in turns for name in {act.act.service for act in turn.acts}),
            "turns",
            "sgsacc",
        ),
        "by_act": by_group(((act.act.act, act_values(act)) for act in acts), "acts", "sgsacc_acts"),
        "by_slot_type": by_group(((act.act.kind, act_values(act)) for act in acts), "acts", "sgsacc_acts"),
        "tampered_references": {schema: check for schema, check in checks.items() if check["acts"]},
        "bleu_signature": corpus_bleu([""], [""])[1],
        **({"sets": by_set} if by_set else {}),
    }


def ratio(part: int, whole: int) -> float | None:
    """Returns a share; None if ``whole`` is 0."""
    return part / whole if whole else None


def means(rows: Collection[Numbers], names: Iterable[str]) -> Numbers:
    """Averages metrics."""
    return {name: mean(values[name] for values in rows) for name in names}


def mean(values: Iterable[float | None]) -> float | None:
    """Averages the values that are not None; None if there are none."""
    defined = [value for value in values if value is not None]
    return math.fsum(defined) / len(defined) if defined else None


def missing_values(acts: Iterable[Act], utterance: str) -> list[tuple[str, str]]:
    """Returns (slot, value) of the values that an utterance should contain verbatim, ignoring case, but does not.

    Only values of free slots count, as categorical ones may be expressed in any words. An utterance that lacks a value
    is an error; the slot error rate is the share of errors among all utterances, including those without values.
    """
    lower = utterance.lower()
    return [
        (act.slot, value) for act in acts if act.kind == "free" for value in act.values if value.lower() not in lower
    ]


def corpus_bleu(utterances: Sequence[str], references: Sequence[str]) -> tuple[float, str]:
    """Computes the BLEU of a corpus, 0 to 100; also returns sacrebleu's signature, which describes the computation."""
    from sacrebleu.metrics.bleu import BLEU

    metric = BLEU()
    score = metric.corpus_score(list(utterances), [list(references)]).score
    return float(score), str(metric.get_signature())


class Metric(Protocol):
    """The interface of a plug-in's metric."""

    def score(self, utterances: Sequence[str], references: Sequence[str], /) -> Sequence[float | None]:
        """Scores utterances.

        Args:
          utterances: all utterances of a run, in order.
          references: the corpus's utterances of the same turns.

        Returns:
          For each utterance a share, 0 to 1, where more is better; None for no score.
        """
        ...


ChosenMetric = tuple[plugins.Chosen, Metric]


def read_metrics(names: Sequence[str], taken: Container[str]) -> dict[str, ChosenMetric]:
    """Returns the metrics that ``--metrics`` names, by name.

    Args:
      names: the names.
      taken: names of other metrics, and of other columns of the rows.

    Raises:
      InputError: a metric is not installed, cannot be constructed, is repeated, or has a taken name.
    """
    metrics: dict[str, ChosenMetric] = {}
    for name_here in names:
        chosen = plugins.choose(plugins.METRICS, name_here, FLAG)
        name = chosen.plugin.name
        if name in metrics:
            raise InputError(f"{name!r} appears twice", FLAG)
        if name in taken:
            raise chosen.refused("cannot be used, because the rows have a column of that name")
        metrics[name] = chosen, plugins.make(chosen, plugins.members(Metric))
    return metrics


def _values(
    chosen: plugins.Chosen, metric: Metric, corpus: Corpus, utterances: Mapping[Place, str]
) -> list[float | None]:
    references = [turn.utterance for turn in corpus.turns]
    values = list(metric.score([utterances[turn.place] for turn in corpus.turns], references))
    if len(values) != len(references):
        raise chosen.refused(f"returned {len(values)} values for {len(references)} turns")
    shares = [*map(_as_float, values)]
    for turn, value in zip(corpus.turns, shares, strict=True):
        if value is not None and not 0 <= value <= 1:
            place = f"{turn.dialogue_id}, turn {turn.turn}"
            raise chosen.refused(f"returned a value that is not between 0 and 1 for {place}")
    return shares


def _as_float(value: object) -> float | None:
    """Converts a number of any library to a float; NaN if it is not a number."""
    try:
        return None if value is None else float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return math.nan
