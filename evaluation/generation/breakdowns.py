"""``details.json``: coverage, agreement of SGSAcc and slot error rate, groups, F1 on tampered references."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec

from parapet.evaluation.generation.metrics import (
    ScoredSet,
    ScoredTurn,
    accuracies,
    act_values,
    corpus_bleu,
    mean,
    missing_values,
    ratio,
)
from parapet.evaluation.generation.references import Rules
from parapet.evaluation.generation.scoring import Outcome, ScoredAct, TurnAct, Validated
from parapet.evaluation.sets import ORIGINAL
from parapet.transforms.corpora import domain_of


class TurnCoverage(msgspec.Struct, frozen=True):
    """How many turns SGSAcc and slot error rate judge (section 2.2).

    Attributes:
      turns: those that have acts.
      valid: whose acts are all valid: SGSAcc judges them.
      slot_error_rate: with a value of a free slot: slot error rate judges them.
      free_slot: with an act on a free slot, be it a REQUEST without a value.
      categorical: with the value of a categorical slot, booleans included.
    """

    turns: int
    valid: int
    slot_error_rate: int
    free_slot: int
    categorical: int
    share_valid: float | None
    share_slot_error_rate: float | None
    share_free_slot: float | None
    share_categorical: float | None


class ActCoverage(msgspec.Struct, frozen=True):
    """How many acts have a reference that the ground truth entails, and are valid among these."""

    acts: int
    with_tampered_reference: int
    entailed: int
    entailed_by_utterance_alone: int
    valid: int
    share_entailed: float | None
    share_valid: float | None


class Coverage(msgspec.Struct, frozen=True):
    """The coverage of turns, and of acts."""

    turns: TurnCoverage
    acts: ActCoverage


def coverage(turns: Iterable[ScoredTurn]) -> Coverage:
    """The coverage of some turns; those without acts are not counted."""
    turns = [one for one in turns if one.acts]
    acts = [act for one in turns for act in one.acts]
    entailed = [one for one in acts if one.validated.premise is not None]
    n_valid, n_valid_acts = sum(one.valid for one in turns), sum(one.valid for one in acts)
    with_values = sum(one.has_values for one in turns)
    with_free_slot = sum(any(act.act.kind == "free" for act in one.acts) for one in turns)
    with_categorical = sum(
        any(act.act.kind in ("categorical", "boolean") and act.act.states for act in one.acts) for one in turns
    )
    return Coverage(
        TurnCoverage(
            turns=len(turns),
            valid=n_valid,
            slot_error_rate=with_values,
            free_slot=with_free_slot,
            categorical=with_categorical,
            share_valid=ratio(n_valid, len(turns)),
            share_slot_error_rate=ratio(with_values, len(turns)),
            share_free_slot=ratio(with_free_slot, len(turns)),
            share_categorical=ratio(with_categorical, len(turns)),
        ),
        ActCoverage(
            acts=len(acts),
            with_tampered_reference=sum(one.has_negative for one in acts),
            entailed=len(entailed),
            entailed_by_utterance_alone=sum(one.validated.premise == "utterance" for one in entailed),
            valid=n_valid_acts,
            share_entailed=ratio(len(entailed), len(acts)),
            share_valid=ratio(n_valid_acts, len(acts)),
        ),
    )


class Agreement(msgspec.Struct, frozen=True):
    """On how many turns SGSAcc and slot error rate have the same result (section 2.2).

    Attributes:
      turns: those that both judge: valid ones with a value of a free slot.
      same: where SGSAcc of the acts on free slots that have values is that of the slot error rate.
      same_all_acts: where that of all acts is, the categorical ones included.
    """

    turns: int
    same: int
    same_all_acts: int
    share: float | None
    share_all_acts: float | None


def agreement(turns: Iterable[ScoredTurn]) -> Agreement:
    """The agreement of both metrics on some turns."""
    judged = [one for one in turns if one.valid and one.has_values]
    same = same_all = 0
    for one in judged:
        no_error = not missing_values(one.turn.acts, one.utterance)
        free = [act for act in one.acts if act.act.kind == "free" and act.act.values]
        same += all(act.faithful.premise is not None for act in free) == no_error
        same_all += one.faithful == no_error
    return Agreement(len(judged), same, same_all, ratio(same, len(judged)), ratio(same_all, len(judged)))


class TurnGroup(msgspec.Struct, frozen=True):
    """The turns of a service or domain.

    Attributes:
      turns: with acts; ``valid`` those that SGSAcc judges.
      seen: whether it is in the training schema; None where there is none.
      coverage: the share of valid turns.
    """

    turns: int
    valid: int
    faithful: int
    seen: bool | None
    coverage: float | None
    sgsacc: float | None
    sgsacc_all: float | None
    slot_error_rate: float | None
    sgsacc_acts: float | None


def by_service(sets: Iterable[ScoredSet], name_of: Callable[[str], str]) -> dict[str, TurnGroup]:
    """The turns of each service, sorted; a turn with several is one of each.

    Args:
      sets: whose turns.
      name_of: gives the name of the group of a service: its own, or its domain.
    """
    groups: dict[str, list[ScoredTurn]] = {}
    seen: dict[str, bool | None] = {}
    for one in sets:
        known = None if one.corpus.seen is None else {name_of(service) for service in one.corpus.seen}
        for turn in one.turns:
            for name in {name_of(act.act.service) for act in turn.acts}:
                groups.setdefault(name, []).append(turn)
                seen[name] = None if known is None else name in known
    return {name: _turn_group(groups[name], seen[name]) for name in sorted(groups)}


def _turn_group(turns: Sequence[ScoredTurn], seen: bool | None) -> TurnGroup:
    numbers = accuracies(turns)
    valid = [one for one in turns if one.valid]
    return TurnGroup(
        turns=len(turns),
        valid=len(valid),
        faithful=sum(one.faithful for one in valid),
        seen=seen,
        coverage=ratio(len(valid), len(turns)),
        sgsacc=numbers["sgsacc"],
        sgsacc_all=numbers["sgsacc_all"],
        slot_error_rate=numbers["slot_error_rate"],
        sgsacc_acts=numbers["sgsacc_acts"],
    )


class ActGroup(msgspec.Struct, frozen=True):
    """The acts of a group: how many have each outcome, the share that counts, and SGSAcc by act."""

    acts: int
    faithful: int
    unfaithful: int
    no_reference: int
    tampered_entailed: int
    coverage: float | None
    sgsacc_acts: float | None
    sgsacc_acts_all: float | None


def breakdown(acts: Iterable[ScoredAct], key: Callable[[ScoredAct], str]) -> dict[str, ActGroup]:
    """The groups of acts by name, sorted."""
    groups: dict[str, list[ScoredAct]] = {}
    for one in acts:
        groups.setdefault(key(one), []).append(one)
    return {name: _act_group(group) for name, group in sorted(groups.items())}


def _act_group(acts: Sequence[ScoredAct]) -> ActGroup:
    outcomes: Counter[Outcome] = Counter(one.outcome for one in acts)
    values = [act_values(one) for one in acts]
    return ActGroup(
        acts=len(acts),
        faithful=outcomes["faithful"],
        unfaithful=outcomes["unfaithful"],
        no_reference=outcomes["no_reference"],
        tampered_entailed=outcomes["tampered_entailed"],
        coverage=ratio(sum(one.valid for one in acts), len(acts)),
        sgsacc_acts=mean(one["sgsacc_acts"] for one in values),
        sgsacc_acts_all=mean(one["sgsacc_acts_all"] for one in values),
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
        precision=ratio(right, right + wrong),
        recall=ratio(right, len(pairs)),
        f1=ratio(2 * right, right + wrong + len(pairs)),
        share_valid=ratio(sum(one.valid for one in pairs), len(pairs)),
    )


class ScorerName(msgspec.Struct, frozen=True):
    """The judge of entailment, and its model with the version."""

    name: str
    model: str


class SetDetails(msgspec.Struct, frozen=True):
    """What ``details.json`` has of a set."""

    turns: int
    coverage: Coverage
    agreement: Agreement


class Details(msgspec.Struct, frozen=True, omit_defaults=True):
    """``details.json``; ``sets`` where there are several."""

    scorer: ScorerName
    rules: Rules
    validation: bool
    turns: int
    coverage: Coverage
    agreement: Agreement
    by_domain: dict[str, TurnGroup]
    by_service: dict[str, TurnGroup]
    by_act: dict[str, ActGroup]
    by_slot_type: dict[str, ActGroup]
    by_act_and_slot_type: dict[str, ActGroup]
    tampered_references: dict[str, TamperedF1]
    bleu_signature: str
    sets: dict[str, SetDetails] = {}


def details_of(sets: Mapping[str, ScoredSet], scorer: ScorerName, rules: Rules, validation: bool) -> Details:
    """``details.json``."""
    turns = [turn for one in sets.values() for turn in one.turns]
    acts = [act for turn in turns for act in turn.acts]
    checks: dict[str, list[tuple[TurnAct, Validated]]] = {}
    for name, one in sets.items():
        # Of the original in the words of each schema, and of other sets in its words; variants have the same acts.
        schemas = one.checks.items() if name in ("", ORIGINAL) else [(name, one.checks[ORIGINAL])]
        checks |= {schema: of for schema, of in schemas if schema not in checks}
    return Details(
        scorer=scorer,
        rules=rules,
        validation=validation,
        turns=len(turns),
        coverage=coverage(turns),
        agreement=agreement(turns),
        by_domain=by_service(sets.values(), domain_of),
        by_service=by_service(sets.values(), str),
        by_act=breakdown(acts, lambda one: one.act.act),
        by_slot_type=breakdown(acts, lambda one: one.act.kind),
        by_act_and_slot_type=breakdown(acts, lambda one: f"{one.act.act} {one.act.kind}"),
        tampered_references={
            schema: tampered_f1(of)
            for schema, of in checks.items()
            if any(validated.tampered is not None for _, validated in of)
        },
        bleu_signature=corpus_bleu([""], [""])[1],
        sets={
            name: SetDetails(len(one.turns), coverage(one.turns), agreement(one.turns))
            for name, one in sets.items()
            if name
        },
    )
