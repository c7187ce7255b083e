"""Many questions to a scorer at a time: each says what it wants to know next, and all are answered in one batch.

A question is a generator that yields pairs and is sent their judgements, so that it may stop as soon as it knows
enough; what it returns is its answer.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from itertools import islice
from typing import TypeVar

from parapet.evaluation.generation.scorers import Judgement, Pair, Scorer, entails

Answer = TypeVar("Answer")
Wanted = list[Pair]
Told = list[Judgement]

AT_ONCE = 512  # questions: a model's batches are filled, and what is asked for does not grow with the corpus


def ask_all(
    questions: Iterable[Generator[Wanted, Told, Answer]], scorer: Scorer, at_once: int = AT_ONCE
) -> list[Answer]:
    """The answers, in order."""
    found: list[Answer] = []
    left = iter(questions)
    while some := list(islice(left, at_once)):
        found += _ask(some, scorer)
    return found


def _ask(questions: list[Generator[Wanted, Told, Answer]], scorer: Scorer) -> list[Answer]:
    answers: dict[int, Answer] = {}
    told: dict[int, Told | None] = dict.fromkeys(range(len(questions)))
    while told:
        wanted: dict[int, Wanted] = {}
        for i, judgements in told.items():
            try:
                # send(None) begins.
                wanted[i] = questions[i].send(judgements)  # type: ignore[arg-type]
            except StopIteration as stop:
                answers[i] = stop.value
        judged = iter(scorer.entailment([pair for pairs in wanted.values() for pair in pairs]))
        told = {i: list(islice(judged, len(pairs))) for i, pairs in wanted.items()}
    return [answers[i] for i in range(len(questions))]


def best_of(judgements: Told) -> int:
    """The most entailed; the first of equals."""
    return max(range(len(judgements)), key=lambda i: (judgements[i][0], -i))


def any_entailed(judgements: Told) -> bool:
    """Whether one is."""
    return any(map(entails, judgements))
