"""Utterances scored act by act: references chosen and validated, faithfulness judged, ensembles ranked by it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Literal

import msgspec

from parapet.evaluation.generation.asking import ask_all
from parapet.evaluation.generation.choice import (
    Context,
    Faithful,
    Validated,
    any_reference,
    context_of,
    judge,
    validate,
)
from parapet.evaluation.generation.corpus import ORIGINAL, Corpus
from parapet.evaluation.generation.predictions import Candidate, Prediction
from parapet.evaluation.generation.references import Act
from parapet.evaluation.generation.scorers import Scorer
from parapet.evaluation.generation.tampering import tampered
from parapet.evaluation.generation.turns import Place, SystemTurn
from parapet.evaluation.generation.words import ServiceWords

Outcome = Literal["faithful", "unfaithful", "no_reference", "tampered_entailed"]

Stage = Callable[[str], None]


class Asked(msgspec.Struct, frozen=True):
    """An act of a turn, the same with other values, and its context under the original's words."""

    turn: SystemTurn
    act: Act
    tampered: Act | None
    context: Context


class ScoredAct(msgspec.Struct, frozen=True):
    """An act with what the ground truth says of its references, and whether the prediction is faithful to it."""

    turn: SystemTurn
    act: Act
    has_negative: bool
    validated: Validated
    faithful: Faithful

    @property
    def outcome(self) -> Outcome:
        """What became of it. Without validation no act is ``tampered_entailed``."""
        if self.validated.premise is None:
            return "no_reference"
        if self.validated.tampered:
            return "tampered_entailed"
        return "faithful" if self.faithful.premise else "unfaithful"


def acts_of(corpus: Corpus, scorer: Scorer, seed: str, validation: bool) -> list[Asked]:
    """The acts of all turns, in order.

    Args:
      corpus: the turns.
      scorer: the one that will be asked.
      seed: of the tampered values.
      validation: whether tampered values are wanted.
    """
    words = corpus.words[ORIGINAL]
    return [
        Asked(
            turn,
            act,
            tampered(act, corpus.pools, seed, turn.dialogue_id, str(turn.turn), str(i)) if validation else None,
            context_of(act, turn.previous, words[act.service], scorer.joint),
        )
        for turn in corpus.turns
        for i, act in enumerate(turn.acts)
    ]


def check_references(asked: Iterable[Asked], words: Mapping[str, ServiceWords], scorer: Scorer) -> list[Validated]:
    """What the ground truth says of each act's references, built from some schema's words."""
    return ask_all(
        (
            validate(
                one.act,
                one.tampered,
                one.turn.utterance,
                words[one.act.service],
                context_of(one.act, one.turn.previous, words[one.act.service], scorer.joint),
            )
            for one in asked
        ),
        scorer,
    )


def score(
    asked: Sequence[Asked], validated: Sequence[Validated], said: Mapping[Place, str], scorer: Scorer
) -> list[ScoredAct]:
    """Whether what is said is faithful to each act, by its reference; acts that are not valid among them."""
    judged = ask_all(
        (judge(of.reference, said[one.turn.place], one.context) for one, of in zip(asked, validated, strict=True)),
        scorer,
    )
    return [
        ScoredAct(one.turn, one.act, one.tampered is not None, of, faithful)
        for one, of, faithful in zip(asked, validated, judged, strict=True)
    ]


def rank(
    corpus: Corpus, asked: Sequence[Asked], predictions: Mapping[Place, Prediction], scorer: Scorer
) -> dict[Place, str]:
    """Of each turn's candidates the one that is faithful to the most acts (the paper's ensemble).

    An act gives a point where any of its references is entailed: neither the ground truth nor its choice of a reference
    is looked at. Among equals the one with the highest score is taken, then the first.
    """
    words = corpus.words[ORIGINAL]
    candidates = {turn.place: candidates_of(predictions[turn.place]) for turn in corpus.turns}
    wanted = [
        (one, i, candidate)
        for one in asked
        for i, candidate in enumerate(candidates[one.turn.place])
        if len(candidates[one.turn.place]) > 1
    ]
    entailed = ask_all(
        (
            any_reference(one.act, candidate.utterance, words[one.act.service], one.context)
            for one, _, candidate in wanted
        ),
        scorer,
    )
    points: dict[tuple[Place, int], int] = {}
    for (one, i, _), found in zip(wanted, entailed, strict=True):
        points[one.turn.place, i] = points.get((one.turn.place, i), 0) + found
    return {
        place: max(enumerate(some), key=lambda one: (points.get((place, one[0]), 0), one[1].score, -one[0]))[
            1
        ].utterance
        for place, some in candidates.items()
    }


def candidates_of(prediction: Prediction) -> Sequence[Candidate]:
    """Those of an ensemble, or the utterance alone."""
    return prediction.candidates or (Candidate(prediction.utterance, 0.0),)


class Scores(msgspec.Struct, frozen=True):
    """All that was found.

    Attributes:
      said: by place what the system says; ``acts`` how faithful that is.
      ranked: the same for what ranking chose from the candidates; None where there are none.
      checks: for the original and each variant, what the ground truth says of the references from its words.
    """

    said: dict[Place, str]
    acts: list[ScoredAct]
    ranked: tuple[dict[Place, str], list[ScoredAct]] | None
    checks: dict[str, list[tuple[Asked, Validated]]]


def evaluate(
    corpus: Corpus,
    predictions: Mapping[Place, Prediction],
    scorer: Scorer,
    seed: str = "0",
    validation: bool = True,
    stage: Stage = lambda _: None,
) -> Scores:
    """Scores predictions.

    Args:
      corpus: what they are scored against.
      predictions: for each of its turns.
      scorer: the judge of entailment.
      seed: of the tampered values.
      validation: whether acts count only if the ground truth entails a reference, and none with tampered values.
      stage: told what is done next.
    """
    asked = acts_of(corpus, scorer, seed, validation or len(corpus.words) > 1)
    plain = asked if validation else [msgspec.structs.replace(one, tampered=None) for one in asked]
    stage("references")
    validated = check_references(plain, corpus.words[ORIGINAL], scorer)
    stage("utterances")
    said = {place: one.utterance for place, one in predictions.items()}
    acts = score(plain, validated, said, scorer)
    ranked = None
    if any(one.candidates for one in predictions.values()):
        stage("candidates")
        chosen = rank(corpus, plain, predictions, scorer)
        ranked = chosen, score(plain, validated, chosen, scorer)
    return Scores(said, acts, ranked, dict(_checks(corpus, asked, validated, validation, scorer, stage)))


def _checks(
    corpus: Corpus,
    asked: Sequence[Asked],
    validated: Sequence[Validated],
    validation: bool,
    scorer: Scorer,
    stage: Stage,
) -> Iterator[tuple[str, list[tuple[Asked, Validated]]]]:
    for name, words in corpus.words.items():
        if name == ORIGINAL and (validation or len(corpus.words) == 1):
            found = validated
        else:
            stage(name)
            found = check_references(asked, words, scorer)
        yield name, list(zip(asked, found, strict=True))
