"""SGSAcc (Chen, Lin and Byrne 2023, section 3): references chosen and validated, utterances judged and ranked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

import msgspec

from parapet.evaluation.generation.corpus import Corpus, Place, SystemTurn, tampered
from parapet.evaluation.generation.predictions import Candidate, Prediction
from parapet.evaluation.generation.references import Act, ServiceWords, references
from parapet.evaluation.generation.scorers import Question, Scorer, any_entailed, ask_all, best_of, entails
from parapet.evaluation.sets import ORIGINAL
from parapet.evaluation.task import Stage

Premise = Literal["utterance", "augmented"]


class Context(msgspec.Struct, frozen=True):
    """What augments an act's premise where the utterance alone entails nothing.

    Attributes:
      previous: the turn before.
      description: of the act's slot, or nothing.
      joint: is put between the parts.
    """

    previous: str
    description: str
    joint: str

    def premises(self, utterance: str) -> tuple[tuple[Premise, str], ...]:
        """The utterance, and after it the augmented one, where that is another. Each part is one line."""
        plain = _line(utterance)
        parts = [part for part in (_line(self.previous), _line(self.description), plain) if part]
        whole = self.joint.join(parts) if plain else ""
        return (("utterance", plain), ("augmented", whole)) if plain != whole else (("utterance", plain),)


def context_of(act: Act, previous: str, words: ServiceWords, joint: str) -> Context:
    """The context of an act."""
    return Context(previous, words.slot(act.slot).description if act.slot else "", joint)


def _line(text: str) -> str:
    return " ".join(text.split())


class Validated(msgspec.Struct, frozen=True):
    """What the ground truth says of an act's references.

    Attributes:
      reference: the candidate that it entails most.
      entailment: how much.
      premise: which entails one, or None where no candidate is entailed.
      tampered: whether it entails a reference built from tampered values; None where there is none.
    """

    reference: str
    entailment: float
    premise: Premise | None
    tampered: bool | None

    @property
    def valid(self) -> bool:
        """Whether a candidate is entailed and no tampered reference is."""
        return self.premise is not None and not self.tampered


def validate(
    act: Act, tampered: Act | None, utterance: str, words: ServiceWords, context: Context
) -> Question[Validated]:
    """Chooses the reference by the ground truth, and tests it.

    Args:
      act: the act.
      tampered: the same with other values, or None: it has no value, or acts are not validated.
      utterance: the ground truth.
      words: the schema's.
      context: of the act.
    """
    candidates = references(act, words)
    best, premise = (0, -1.0), None
    for name, text in context.premises(utterance):
        judged = yield [(text, candidate) for candidate in candidates]
        i = best_of(judged)
        if any_entailed(judged):
            best, premise = (i, judged[i][0]), name
            break
        if best[1] < 0:  # where none is entailed, the utterance alone decides
            best = i, judged[i][0]
    entails_tampered = None
    if tampered is not None:
        entails_tampered = yield from _any(references(tampered, words), utterance, context)
    return Validated(candidates[best[0]], best[1], premise, entails_tampered)


def any_reference(act: Act, utterance: str, words: ServiceWords, context: Context) -> Question[bool]:
    """Whether an utterance entails any of an act's references: needs no ground truth."""
    return (yield from _any(references(act, words), utterance, context))


def _any(candidates: Sequence[str], utterance: str, context: Context) -> Question[bool]:
    for _, text in context.premises(utterance):
        if any_entailed((yield [(text, candidate) for candidate in candidates])):
            return True
    return False


class Faithful(msgspec.Struct, frozen=True):
    """Whether an utterance is faithful to an act, by which premise, and how much it entails the reference."""

    premise: Premise | None
    entailment: float


def judge(reference: str, utterance: str, context: Context) -> Question[Faithful]:
    """Whether an utterance entails the reference, alone or, if it does not, with the turn before and the slot."""
    alone = 0.0
    for name, text in context.premises(utterance):
        (judgement,) = yield [(text, reference)]
        if entails(judgement):
            return Faithful(name, judgement[0])
        if name == "utterance":
            alone = judgement[0]
    return Faithful(None, alone)


Outcome = Literal["faithful", "unfaithful", "no_reference", "tampered_entailed"]


class TurnAct(msgspec.Struct, frozen=True):
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
        """How it counts. Without validation no act is ``tampered_entailed``."""
        if self.validated.premise is None:
            return "no_reference"
        if self.validated.tampered:
            return "tampered_entailed"
        return "faithful" if self.faithful.premise else "unfaithful"


def acts_of(corpus: Corpus, scorer: Scorer, seed: str, validation: bool) -> list[TurnAct]:
    """The acts of all turns, in order.

    Args:
      corpus: the turns.
      scorer: the judge of entailment.
      seed: of the tampered values.
      validation: whether tampered values are needed.
    """
    words = corpus.words[ORIGINAL]
    return [
        TurnAct(
            turn,
            act,
            tampered(act, corpus.pools, seed, turn.dialogue_id, str(turn.turn), str(i)) if validation else None,
            context_of(act, turn.previous, words[act.service], scorer.joint),
        )
        for turn in corpus.turns
        for i, act in enumerate(turn.acts)
    ]


def check_references(acts: Iterable[TurnAct], words: Mapping[str, ServiceWords], scorer: Scorer) -> list[Validated]:
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
            for one in acts
        ),
        scorer,
    )


def score(
    acts: Sequence[TurnAct], validated: Sequence[Validated], utterances: Mapping[Place, str], scorer: Scorer
) -> list[ScoredAct]:
    """Whether utterances are faithful to each act, by its reference; also for acts that are not valid."""
    judged = ask_all(
        (
            judge(reference.reference, utterances[one.turn.place], one.context)
            for one, reference in zip(acts, validated, strict=True)
        ),
        scorer,
    )
    return [
        ScoredAct(one.turn, one.act, one.tampered is not None, reference, faithful)
        for one, reference, faithful in zip(acts, validated, judged, strict=True)
    ]


def rank(
    corpus: Corpus, acts: Sequence[TurnAct], predictions: Mapping[Place, Prediction], scorer: Scorer
) -> dict[Place, str]:
    """For each turn the candidate that is faithful to the most acts (the paper's ensemble).

    An act gives a point where any of its references is entailed: neither the ground truth nor its choice of a reference
    is used. Among equals the one with the highest score is taken, then the first.
    """
    words = corpus.words[ORIGINAL]
    candidates = {turn.place: candidates_of(predictions[turn.place]) for turn in corpus.turns}
    pairs = [
        (one, i, candidate)
        for one in acts
        for i, candidate in enumerate(candidates[one.turn.place])
        if len(candidates[one.turn.place]) > 1
    ]
    entailed = ask_all(
        (
            any_reference(one.act, candidate.utterance, words[one.act.service], one.context)
            for one, _, candidate in pairs
        ),
        scorer,
    )
    points: Counter[tuple[Place, int]] = Counter()
    for (one, i, _), is_entailed in zip(pairs, entailed, strict=True):
        points[one.turn.place, i] += is_entailed

    def best(place: Place) -> Candidate:
        ranked = enumerate(candidates[place])
        return max(ranked, key=lambda pair: (points[place, pair[0]], pair[1].score, -pair[0]))[1]

    return {place: best(place).utterance for place in candidates}


def candidates_of(prediction: Prediction) -> Sequence[Candidate]:
    """Those of an ensemble, or the utterance alone."""
    return prediction.candidates or (Candidate(prediction.utterance, 0.0),)


class Ranked(msgspec.Struct, frozen=True):
    """The utterances that ranking chose from the candidates, and how faithful they are."""

    utterances: dict[Place, str]
    acts: list[ScoredAct]


class Scores(msgspec.Struct, frozen=True):
    """The scores of a system.

    Attributes:
      utterances: the system's, by place; ``acts`` how faithful they are.
      ranked: None where there are no candidates.
      checks: for the original and each variant, what the ground truth says of the references from its words.
    """

    utterances: dict[Place, str]
    acts: list[ScoredAct]
    ranked: Ranked | None
    checks: dict[str, list[tuple[TurnAct, Validated]]]


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
      corpus: what they are compared with.
      predictions: for each of its turns.
      scorer: the judge of entailment.
      seed: of the tampered values.
      validation: whether acts count only if the ground truth entails a reference, and none with tampered values.
      stage: is called with the name of what is done next.
    """
    with_tampered = acts_of(corpus, scorer, seed, validation or len(corpus.words) > 1)
    acts = with_tampered if validation else [msgspec.structs.replace(one, tampered=None) for one in with_tampered]
    stage("references")
    validated = check_references(acts, corpus.words[ORIGINAL], scorer)
    stage("utterances")
    utterances = {place: prediction.utterance for place, prediction in predictions.items()}
    scored = score(acts, validated, utterances, scorer)
    ranked = None
    if any(prediction.candidates for prediction in predictions.values()):
        stage("candidates")
        chosen = rank(corpus, acts, predictions, scorer)
        ranked = Ranked(chosen, score(acts, validated, chosen, scorer))
    checks = {}
    for name, words in corpus.words.items():
        if name == ORIGINAL and (validation or len(corpus.words) == 1):
            references = validated
        else:
            stage(name)
            references = check_references(with_tampered, words, scorer)
        checks[name] = list(zip(with_tampered, references, strict=True))
    return Scores(utterances, scored, ranked, checks)
