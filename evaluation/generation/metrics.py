"""The metrics of generated utterances: SGSAcc by turn and by act, slot error rate, BLEU, those of plug-ins."""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from typing import Protocol

import msgspec

from parapet.evaluation.generation.corpus import Corpus, Place, SystemTurn
from parapet.evaluation.generation.references import Act
from parapet.evaluation.generation.scoring import ScoredAct, Scores, TurnAct, Validated
from parapet.evaluation.lines import ALL, with_mean
from parapet.schemas.errors import InputError
from parapet.transforms import plugins
from parapet.transforms.corpora import domain_of

RANKED = "#RANKED"
SEEN_DOMAINS, UNSEEN_DOMAINS = "#SEEN_DOMAINS", "#UNSEEN_DOMAINS"
SEEN_SERVICES, UNSEEN_SERVICES = "#SEEN_SERVICES", "#UNSEEN_SERVICES"
TURN_METRICS = ("sgsacc", "sgsacc_all", "sgsacc_utterance_alone", "slot_error_rate")
ACT_METRICS = ("sgsacc_acts", "sgsacc_acts_all")
METRICS = (*TURN_METRICS, *ACT_METRICS, "bleu")
FLAG = "--metrics"

Numbers = dict[str, float | None]
TurnValues = dict[str, dict[Place, float | None]]  # metric to the value of each turn


class ScoredTurn(msgspec.Struct, frozen=True):
    """A system turn with what a system says in it.

    Attributes:
      utterance: the system's.
      acts: in order; a turn may have none, and is then no part of SGSAcc.
    """

    turn: SystemTurn
    utterance: str
    acts: tuple[ScoredAct, ...]

    @property
    def valid(self) -> bool:
        """Whether all its acts are, so that it enters SGSAcc."""
        return bool(self.acts) and all(one.valid for one in self.acts)

    @property
    def faithful(self) -> bool:
        """Whether all its acts are realised faithfully (section 2)."""
        return all(one.faithful.premise is not None for one in self.acts)

    @property
    def outcome(self) -> str | None:
        """How it counts: ``faithful``, ``unfaithful``, or ``not_valid``; None without acts."""
        return ("faithful" if self.faithful else "unfaithful") if self.valid else "not_valid" if self.acts else None

    @property
    def has_values(self) -> bool:
        """Whether it has a value of a free slot, which is what the slot error rate judges."""
        return any(one.act.kind == "free" and one.act.values for one in self.acts)

    def values(self) -> Numbers:
        """The metrics of turns, 1 or 0; None where the turn does not count."""
        alone = all(one.faithful.premise == "utterance" for one in self.acts)
        return {
            "sgsacc": float(self.faithful) if self.valid else None,
            "sgsacc_all": float(self.faithful) if self.acts else None,
            "sgsacc_utterance_alone": float(alone) if self.valid else None,
            "slot_error_rate": float(bool(missing_values(self.turn.acts, self.utterance))),
        }


def act_values(one: ScoredAct) -> Numbers:
    """The metrics of acts, 1 or 0; None where the act does not count."""
    faithful = float(one.faithful.premise is not None)
    return {"sgsacc_acts": faithful if one.valid else None, "sgsacc_acts_all": faithful}


def scored_turns(corpus: Corpus, acts: Iterable[ScoredAct], utterances: Mapping[Place, str]) -> list[ScoredTurn]:
    """The turns of a corpus with their acts, in order."""
    by_turn: dict[Place, list[ScoredAct]] = {}
    for one in acts:
        by_turn.setdefault(one.turn.place, []).append(one)
    return [ScoredTurn(one, utterances[one.place], tuple(by_turn.get(one.place, ()))) for one in corpus.turns]


def accuracies(turns: Sequence[ScoredTurn]) -> Numbers:
    """SGSAcc and slot error rate of some turns, 0 to 1; None where nothing counts.

    ``sgsacc`` is the share of valid turns that are faithful, ``sgsacc_all`` the same of all turns with acts;
    ``sgsacc_utterance_alone`` is as ``sgsacc`` without the augmented premise. ``sgsacc_acts`` and ``sgsacc_acts_all``
    are the shares of acts.
    """
    of_turns = [one.values() for one in turns]
    of_acts = [act_values(act) for one in turns for act in one.acts]
    return {
        **{name: mean(values[name] for values in of_turns) for name in TURN_METRICS},
        **{name: mean(values[name] for values in of_acts) for name in ACT_METRICS},
    }


def seen_by(seen: frozenset[str] | None, name_of: Callable[[str], str]) -> Callable[[ScoredTurn], bool | None]:
    """Says of a turn whether all its services are in the training schema; None where there is none, or no act.

    Args:
      seen: the services of the training schema.
      name_of: of a service: itself, or its domain, which is then what has to be there.
    """
    known = frozenset(map(name_of, seen or ()))

    def is_seen(one: ScoredTurn) -> bool | None:
        if seen is None or not one.acts:
            return None
        return all(name_of(act.act.service) in known for act in one.acts)

    return is_seen


class PluginValues(msgspec.Struct, frozen=True):
    """The values of plug-ins' metrics, for the system's utterances and for those chosen among its candidates."""

    system: TurnValues = {}
    ranked: TurnValues = {}


class ScoredSet(msgspec.Struct, frozen=True):
    """A set with its scores.

    Attributes:
      turns: what the system says.
      ranked: what is chosen among its candidates; empty where there are none.
      checks: as :class:`Scores` has them.
    """

    corpus: Corpus
    turns: list[ScoredTurn]
    ranked: list[ScoredTurn]
    checks: dict[str, list[tuple[TurnAct, Validated]]]
    plugins: PluginValues


def scored_set(corpus: Corpus, scores: Scores, of_plugins: PluginValues) -> ScoredSet:
    """The scores of a set, turn by turn."""
    ranked = scores.ranked
    return ScoredSet(
        corpus,
        scored_turns(corpus, scores.acts, scores.utterances),
        scored_turns(corpus, ranked.acts, ranked.utterances) if ranked else [],
        scores.checks,
        of_plugins,
    )


def overall(sets: Sequence[ScoredSet], ranked: bool = False) -> Numbers:
    """The metrics of a system over some sets together; ``ranked``: of the utterances chosen among its candidates."""
    turns = [turn for one in sets for turn in (one.ranked if ranked else one.turns)]
    plugins: dict[str, list[float | None]] = {}
    for one in sets:
        for name, by_turn in (one.plugins.ranked if ranked else one.plugins.system).items():
            plugins.setdefault(name, []).extend(by_turn.values())
    return {
        **accuracies(turns),
        "bleu": corpus_bleu([one.utterance for one in turns], [one.turn.utterance for one in turns])[0],
        **{name: mean(values) for name, values in plugins.items()},
    }


def metrics_of(sets: Mapping[str, ScoredSet]) -> dict[str, Numbers]:
    """The metrics of a system's utterances.

    Of all together and of each set that has a name; SGSAcc and slot error rate of turns whose domains, and whose
    services, were all seen in training, and of the others; with candidates, of the utterances chosen among them.
    """
    metrics = with_mean({ALL: overall(list(sets.values())), **{name: overall([sets[name]]) for name in sets if name}})
    for name_of, seen_key, unseen_key in (
        (domain_of, SEEN_DOMAINS, UNSEEN_DOMAINS),
        (str, SEEN_SERVICES, UNSEEN_SERVICES),
    ):
        groups: dict[str, list[ScoredTurn]] = {seen_key: [], unseen_key: []}
        for one in sets.values():
            is_seen = seen_by(one.corpus.seen, name_of)
            for turn in one.turns:
                seen = is_seen(turn)
                if seen is not None:
                    groups[seen_key if seen else unseen_key].append(turn)
        metrics |= {key: accuracies(turns) for key, turns in groups.items() if turns}
    if any(one.ranked for one in sets.values()):
        metrics[RANKED] = overall(list(sets.values()), ranked=True)
    return metrics


def ratio(part: int, whole: int) -> float | None:
    """A share; None of nothing."""
    return part / whole if whole else None


def mean(values: Iterable[float | None]) -> float | None:
    """The mean of those that are defined; None where none is."""
    defined = [value for value in values if value is not None]
    return math.fsum(defined) / len(defined) if defined else None


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
