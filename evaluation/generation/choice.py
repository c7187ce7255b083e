"""SGSAcc of one act (Chen, Lin and Byrne 2023, section 3): which reference, whether it is valid, who is faithful."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Literal

import msgspec

from parapet.evaluation.generation.asking import Told, Wanted, any_entailed, best_of
from parapet.evaluation.generation.references import Act, references
from parapet.evaluation.generation.scorers import entails
from parapet.evaluation.generation.words import ServiceWords

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
