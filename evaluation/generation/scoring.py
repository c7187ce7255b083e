"""SGSAcc (Chen, Lin and Byrne 2023, section 2): references chosen and validated, utterances judged and ranked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

import msgspec

from parapet.evaluation.generation.corpus import Corpus, Place, SystemTurn, tampered
from parapet.evaluation.generation.predictions import Candidate, Prediction
from parapet.evaluation.generation.references import Act, Rules, ServiceWords, references
from parapet.evaluation.generation.scorers import Judgement, Question, Scorer, any_entailed, ask_all, best_of, entails
from parapet.evaluation.sets import ORIGINAL
from parapet.evaluation.task import Stage

Premise = Literal["utterance", "augmented"]


class Context(msgspec.Struct, frozen=True):
    """What augments an act's premise where the utterance alone entails nothing (section 2.1, Figure 1).

    Attributes:
      previous: the turn before.
      description: of the act's slot, or nothing.
      joint: is put between the parts.
    """

    previous: str
    description: str
    joint: str

    def premises(self, utterance: str) -> tuple[tuple[Premise, str], ...]:
        """The utterance, and after it the augmented one, where that is another. Each part is one line.

        Those before the utterance are sentences: they get a full stop where they have no mark at the end.
        """
        plain = line_of(utterance)
        before = [part if part[-1] in ".?!" else f"{part}." for part in map(line_of, (self.previous, self.description))
                  if part]  # fmt: skip
        whole = self.joint.join([*before, plain]) if plain else ""
        return (("utterance", plain), ("augmented", whole)) if plain != whole else (("utterance", plain),)


def context_of(act: Act, previous: str, words: ServiceWords, joint: str) -> Context:
    """The context of an act."""
    return Context(previous, words.slot(act.slot).description if act.slot else "", joint)


def line_of(text: str) -> str:
    """Without line breaks and doubled blanks."""
    return " ".join(text.split())


class Validated(msgspec.Struct, frozen=True):
    """What the ground truth says of an act's references.

    Attributes:
      reference: the candidate that it entails most, without context.
      entailment: how much.
      premise: which entails a candidate, be it the reference or another; None where none does.
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
    candidates: Sequence[str], negatives: Sequence[str], utterance: str, context: Context
) -> Question[Validated]:
    """Chooses the reference by the ground truth, and tests it.

    The paper names the steps that have the augmented premise: validation and the final evaluation. The choice is not
    among them.

    Args:
      candidates: for the reference.
      negatives: references of the same act with tampered values; none where it has no value, or is not validated.
      utterance: the ground truth.
      context: of the act.
    """
    judged: list[list[Judgement]] = []
    premise: Premise | None = None
    for name, text in context.premises(utterance):
        judged.append((yield [(text, candidate) for candidate in candidates]))
        if any_entailed(judged[-1]):
            premise = name
            break
    best = best_of(judged[0])
    entails_tampered = (yield from any_of(negatives, utterance, context)) if negatives else None
    return Validated(candidates[best], judged[0][best][0], premise, entails_tampered)


def any_of(candidates: Sequence[str], utterance: str, context: Context) -> Question[bool]:
    """Whether an utterance entails any reference, alone or with its context."""
    for _, text in context.premises(utterance):
        if any_entailed((yield [(text, candidate) for candidate in candidates])):
            return True
    return False


def any_of_alone(candidates: Sequence[str], utterance: str) -> Question[bool]:
    """Whether an utterance alone entails any reference: needs no ground truth."""
    return any_entailed((yield [(line_of(utterance), candidate) for candidate in candidates]))


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
    """An act with what the ground truth says of its references, and whether the prediction is faithful to it.

    Attributes:
      has_negative: whether there was a reference with tampered values to test.
      valid: whether it passes the validation; where nothing is validated, all do.
    """

    turn: SystemTurn
    act: Act
    has_negative: bool
    valid: bool
    validated: Validated
    faithful: Faithful

    @property
    def outcome(self) -> Outcome:
        """How it counts."""
        if self.valid:
            return "faithful" if self.faithful.premise else "unfaithful"
        return "tampered_entailed" if self.validated.premise else "no_reference"


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


def check_references(
    acts: Iterable[TurnAct], words: Mapping[str, ServiceWords], rules: Rules, scorer: Scorer
) -> list[Validated]:
    """What the ground truth says of each act's references, built from some schema's words by some rules."""

    def question(one: TurnAct) -> Question[Validated]:
        of = words[one.act.service]
        candidates = references(one.act, of, rules)
        negatives = references(one.tampered, of, rules) if one.tampered is not None else ()
        context = context_of(one.act, one.turn.previous, of, scorer.joint)
        return validate(candidates, negatives, one.turn.utterance, context)

    return ask_all(map(question, acts), scorer)


def score(
    acts: Sequence[TurnAct],
    validated: Sequence[Validated],
    utterances: Mapping[Place, str],
    scorer: Scorer,
    validation: bool,
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
        ScoredAct(one.turn, one.act, one.tampered is not None, reference.valid or not validation, reference, faithful)
        for one, reference, faithful in zip(acts, validated, judged, strict=True)
    ]


def rank(
    corpus: Corpus,
    acts: Sequence[TurnAct],
    predictions: Mapping[Place, Prediction],
    scorer: Scorer,
    rules: Rules = "paper",
) -> dict[Place, str]:
    """For each turn the candidate that is faithful to the most acts (the paper's ensemble, section 3).

    An act gives a point where the candidate alone entails any of its references: neither the ground truth nor its
    choice of a reference is used. Among equals the one with the highest score is taken, then the first.
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
            any_of_alone(references(one.act, words[one.act.service], rules), candidate.utterance)
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
    rules: Rules = "paper",
    stage: Stage = lambda _: None,
) -> Scores:
    """Scores predictions.

    Args:
      corpus: what they are compared with.
      predictions: for each of its turns.
      scorer: the judge of entailment.
      seed: of the tampered values.
      validation: whether acts count only if the ground truth entails a reference, and none with tampered values.
        Without it all count, and no reference with tampered values is asked for.
      rules: by which references are built.
      stage: is called with the name of what is done next.
    """
    with_tampered = acts_of(corpus, scorer, seed, validation or len(corpus.words) > 1)
    acts = with_tampered if validation else [msgspec.structs.replace(one, tampered=None) for one in with_tampered]
    stage("references")
    validated = check_references(acts, corpus.words[ORIGINAL], rules, scorer)
    stage("utterances")
    utterances = {place: prediction.utterance for place, prediction in predictions.items()}
    scored = score(acts, validated, utterances, scorer, validation)
    ranked = None
    if any(prediction.candidates for prediction in predictions.values()):
        stage("candidates")
        chosen = rank(corpus, acts, predictions, scorer, rules)
        ranked = Ranked(chosen, score(acts, validated, chosen, scorer, validation))
    checks = {}
    for name, words in corpus.words.items():
        if name == ORIGINAL and (validation or len(corpus.words) == 1):
            found = validated
        else:
            stage(name)
            found = check_references(with_tampered, words, rules, scorer)
        checks[name] = list(zip(with_tampered, found, strict=True))
    return Scores(utterances, scored, ranked, checks)
