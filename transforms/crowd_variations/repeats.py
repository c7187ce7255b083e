"""What a worker wrote again and again: the same words for sentences that have nothing in common."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from parapet.transforms.crowd_variations.canonical import words_of
from parapet.transforms.crowd_variations.vet import Answer
from parapet.transforms.seeding import stable_hash

# "Yes please" is a good answer to many turns.
LEAST_WORDS, LEAST_SENTENCES = 4, 3

Given = tuple[int, int]  # what was written, and for what: hashes of their words


def given_by(answers: Iterable[tuple[str, str, str]]) -> Iterator[tuple[str, list[Given]]]:
    """(worker hash, what that worker gave) of a dialogue.

    Args:
      answers: (worker hash, text, the sentence that it rewrites).
    """
    by_worker: dict[str, set[Given]] = defaultdict(set)
    for worker, text, sentence in answers:
        said = words_of(text)
        if worker and len(said) >= LEAST_WORDS:
            by_worker[worker].add((_digest(said), _digest(words_of(sentence))))
    for worker, found in by_worker.items():
        yield worker, sorted(found)


def repeated(worker: str, given: Iterable[Sequence[Given]]) -> list[str]:
    """Keys of what a worker gave for several different sentences, as :func:`is_repeated` looks them up."""
    sentences: dict[int, set[int]] = defaultdict(set)
    for found in given:
        for said, sentence in found:
            sentences[said].add(sentence)
    return sorted(f"{worker} {said}" for said, of in sentences.items() if len(of) >= LEAST_SENTENCES)


def is_repeated(worker: str, answer: Answer, found: Mapping[str, object]) -> bool:
    """Whether an answer is among what :func:`repeated` has found."""
    return bool(found) and f"{worker} {_digest(answer.words)}" in found


def _digest(said: tuple[str, ...]) -> int:
    return stable_hash(*said) >> 1  # fits into the 64 bits that Beam's coders have, sign included
