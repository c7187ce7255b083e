"""SGSAcc (Chen, Lin and Byrne 2023, section 2): references chosen and validated, utterances judged and ranked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Literal

import msgspec

from parapet.evaluation.generation.corpus import Candidate, Corpus, Place, Prediction, SystemTurn, tampered
from parapet.evaluation.generation.references import Act, Rules, ServiceWords, references
from parapet.evaluation.generation.scorers import Judgement, Scorer, any_entailed, ask, best_of
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
      premise: which entails a candidate, be it the reference or another; None where none does.
      tampered: whether it entails a reference built from tampered values; None where there is none.
    """

    reference: str
    premise: Premise | None
    tampered: bool | None

    @property
    def valid(self) -> bool:
        """Whether a candidate is entailed and no tampered reference is."""
        return self.premise is not None and not self.tampered


Premises = tuple[tuple[Premise, str], ...]  # those of an utterance, see Context.premises


def first_entailing(
    questions: Sequence[tuple[Premises, Sequence[str]]], scorer: Scorer
) -> list[tuple[Premise | None, list[Judgement]]]:
    """Which premise entails any of the hypotheses: the utterance or, if it does not, the augmented one.

    Args:
      questions: (premises, hypotheses) each.
      scorer: the judge of entailment.

    Returns:
      For each question the premise, None where neither entails a hypothesis; and how the utterance alone was judged.
    """
    alone = ask(((premises[0][1], hypotheses) for premises, hypotheses in questions), scorer)
    found: list[Premise | None] = ["utterance" if any_entailed(judged) else None for judged in alone]
    left = [i for i, (premises, _) in enumerate(questions) if found[i] is None and len(premises) > 1]
    augmented = ask(((questions[i][0][1][1], questions[i][1]) for i in left), scorer)
    for i, judged in zip(left, augmented, strict=True):
        if any_entailed(judged):
            found[i] = "augmented"
    return list(zip(found, alone, strict=True))


def validate(questions: Sequence[tuple[Premises, Sequence[str], Sequence[str]]], scorer: Scorer) -> list[Validated]:
    """Chooses the reference of each act by the ground truth, and tests it.

    The paper names the steps that have the augmented premise: validation and the final evaluation. The choice is not
    among them.

    Args:
      questions: of each act the premises of the ground truth, the candidates for the reference, and references of the
        same act with tampered values; none of these where it has no value, or is not validated.
      scorer: the judge of entailment.
    """
    found = first_entailing([(premises, candidates) for premises, candidates, _ in questions], scorer)
    with_negatives = [(premises, negatives) for premises, _, negatives in questions if negatives]
    tampered_entailed = iter(first_entailing(with_negatives, scorer))
    validated = []
    for (_, candidates, negatives), (premise, alone) in zip(questions, found, strict=True):
        is_entailed = next(tampered_entailed)[0] is not None if negatives else None
        validated.append(Validated(candidates[best_of(alone)], premise, is_entailed))
    return validated


def judge(questions: Sequence[tuple[Premises, str]], scorer: Scorer) -> list[Premise | None]:
    """By which premise each utterance entails its reference: alone, or if it does not, with its context; or by none."""
    return [
        premise
        for premise, _ in first_entailing([(premises, (reference,)) for premises, reference in questions], scorer)
    ]


Outcome = Literal["faithful", "unfaithful", "no_reference", "tampered_entailed"]


class TurnAct(msgspec.Struct, frozen=True):
    """An act of a turn, the same with other values, and its context under the original's words."""

    turn: SystemTurn
    act: Act
    tampered: Act | None
    context: Context


class ScoredAct(msgspec.Struct, frozen=True):
    """An act with what the ground truth says of its references, and by which premise the prediction is faithful to it.

    Attributes:
      has_negative: whether there was a reference with tampered values to test.
      valid: whether it passes the validation; where nothing is validated, all do.
    """

    turn: SystemTurn
    act: Act
    has_negative: bool
    valid: bool
    validated: Validated
    premise: Premise | None

    @property
    def outcome(self) -> Outcome:
        """How it counts."""
        if self.valid:
            return "faithful" if self.premise else "unfaithful"
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
    acts: Sequence[TurnAct], words: Mapping[str, ServiceWords], rules: Rules, scorer: Scorer
) -> list[Validated]:
    """What the ground truth says of each act's references, built from some schema's words by some rules."""
    questions = []
    for one in acts:
        of = words[one.act.service]
        negatives = references(one.tampered, of, rules) if one.tampered is not None else ()
        premises = context_of(one.act, one.turn.previous, of, scorer.joint).premises(one.turn.utterance)
        questions.append((premises, references(one.act, of, rules), negatives))
    return validate(questions, scorer)


def score(
    acts: Sequence[TurnAct],
    validated: Sequence[Validated],
    utterances: Mapping[Place, str],
    scorer: Scorer,
    validation: bool,
) -> list[ScoredAct]:
    """Whether utterances are faithful to each act, by its reference; also for acts that are not valid."""
    pairs = list(zip(acts, validated, strict=True))
    judged = judge(
        [(one.context.premises(utterances[one.turn.place]), reference.reference) for one, reference in pairs], scorer
    )
    return [
        ScoredAct(one.turn, one.act, one.tampered is not None, reference.valid or not validation, reference, premise)
        for (one, reference), premise in zip(pairs, judged, strict=True)
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
    candidates = {
        place: prediction.candidates or (Candidate(prediction.utterance, 0.0),)
        for place, prediction in predictions.items()
    }
    asked = [
        (one, i, candidate)
        for one in acts
        for i, candidate in enumerate(candidates[one.turn.place])
        if len(candidates[one.turn.place]) > 1
    ]
    questions = (
        (line_of(candidate.utterance), references(one.act, words[one.act.service], rules))
        for one, _, candidate in asked
    )
    points: Counter[tuple[Place, int]] = Counter()
    for (one, i, _), judged in zip(asked, ask(questions, scorer), strict=True):
        points[one.turn.place, i] += any_entailed(judged)

    def best(place: Place) -> Candidate:
        ranked = enumerate(candidates[place])
        return max(ranked, key=lambda pair: (points[place, pair[0]], pair[1].score, -pair[0]))[1]

    return {turn.place: best(turn.place).utterance for turn in corpus.turns}


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
