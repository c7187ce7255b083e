"""SGSAcc (Chen, Lin and Byrne 2023, section 3): references chosen and validated, utterances judged and ranked."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from typing import Literal

import msgspec

from parapet.evaluation.generation.corpus import ORIGINAL, Corpus, Place, SystemTurn, tampered
from parapet.evaluation.generation.predictions import Candidate, Prediction
from parapet.evaluation.generation.references import Act, ServiceWords, references
from parapet.evaluation.generation.scorers import Scorer, Told, Wanted, any_entailed, ask_all, best_of, entails

Premise = Literal["utterance", "augmented"]


class Context(msgspec.Struct, frozen=True):
    """What an act's premise is augmented with where the utterance alone entails nothing.

    Attributes:
      previous: the turn before.
      description: of the act's slot, or nothing.
      joint: what stands between the parts.
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
) -> Generator[Wanted, Told, Validated]:
    """Chooses the reference by the ground truth, and tests it.

    Args:
      act: the act.
      tampered: the same with other values, or None: it has no value, or validation is not wanted.
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
    found = None
    if tampered is not None:
        found = yield from _any(references(tampered, words), utterance, context)
    return Validated(candidates[best[0]], best[1], premise, found)


def any_reference(act: Act, utterance: str, words: ServiceWords, context: Context) -> Generator[Wanted, Told, bool]:
    """Whether an utterance entails any of an act's references: what can be asked without the ground truth."""
    return (yield from _any(references(act, words), utterance, context))


def _any(candidates: Sequence[str], utterance: str, context: Context) -> Generator[Wanted, Told, bool]:
    for _, text in context.premises(utterance):
        if any_entailed((yield [(text, candidate) for candidate in candidates])):
            return True
    return False


class Faithful(msgspec.Struct, frozen=True):
    """Whether an utterance is faithful to an act, by which premise, and how much it entails the reference."""

    premise: Premise | None
    entailment: float


def judge(reference: str, utterance: str, context: Context) -> Generator[Wanted, Told, Faithful]:
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
