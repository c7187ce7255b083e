"""Judges of textual entailment, called in batches and never twice for one pair."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from itertools import islice
from pathlib import Path
from typing import Protocol

import msgspec

from parapet.schemas.errors import InputError
from parapet.transforms.progress import advance, expect

Pair = tuple[str, str]  # premise, hypothesis
Judgement = tuple[float, float, float]  # entailment, neutral, contradiction: they add up to 1

_decode = msgspec.json.Decoder(tuple[str, float, float, float]).decode
_PORTION = 256  # pairs between two writes: a minute or two of a large model


class Scorer(Protocol):
    """A judge of textual entailment.

    Attributes:
      name: what it is, for every output.
      model: which one, with its version: judgements of another are others.
      joint: what stands between the parts of a premise (the turn before, the slot's description, the utterance).
    """

    name: str
    model: str
    joint: str

    def entailment(self, pairs: Sequence[Pair]) -> list[Judgement]:
        """The judgement of each pair, in order."""
        ...


def entails(judgement: Judgement) -> bool:
    """Whether entailment is the top class; a tie is none."""
    entailment, neutral, contradiction = judgement
    return entailment > neutral and entailment > contradiction


class Cached:
    """A scorer that remembers its judgements, during the run and in a file if one is given.

    The file has a JSON line for each pair: the hash of scorer, premise and hypothesis, and the three numbers. Lines are
    added as they come, so that an interrupted run does not repeat them.

    Args:
      scorer: the one that judges.
      path: the file; empty for none.

    Raises:
      InputError: the file cannot be read or written, or has a line that is not a judgement.
    """

    def __init__(self, scorer: Scorer, path: str = "") -> None:
        self.scorer, self.path = scorer, path
        self.name, self.model, self.joint = scorer.name, scorer.model, scorer.joint
        self.asked = 0  # pairs, those already known included
        self.judged = 0  # pairs that the scorer judged
        self._known: dict[Pair, Judgement] = {}
        self._filed = _read(path) if path else {}

    def entailment(self, pairs: Sequence[Pair]) -> list[Judgement]:
        """The judgement of each pair, in order."""
        self.asked += len(pairs)
        new = []
        for pair in dict.fromkeys(pairs):
            if pair not in self._known:
                filed = self._filed.get(self._key(pair)) if self.path else None
                if filed is None:
                    new.append(pair)
                else:
                    self._known[pair] = filed
        # By length, so that a portion's texts are about as long.
        new.sort(key=lambda pair: (len(pair[0]) + len(pair[1]), pair))
        expect(len(new), "pairs", "entailment")
        for start in range(0, len(new), _PORTION):
            portion = new[start : start + _PORTION]
            self._known.update(zip(portion, self.scorer.entailment(portion), strict=True))
            self.judged += len(portion)
            advance(len(portion), "pairs", "entailment")
            if self.path:
                self._write(portion)
        return [self._known[pair] for pair in pairs]

    def _key(self, pair: Pair) -> str:
        parts = json.dumps([self.name, self.model, *pair]).encode()
        return hashlib.sha256(parts).hexdigest()[:32]

    def _write(self, pairs: Sequence[Pair]) -> None:
        lines = (json.dumps([self._key(pair), *self._known[pair]]) for pair in pairs)
        try:
            with Path(self.path).open("a", encoding="utf-8") as handle:
                handle.write("".join(f"{line}\n" for line in lines))
        except OSError as error:
            raise InputError(f"cannot be written: {error.strerror}", self.path, "--cache") from None


def _read(path: str) -> dict[str, Judgement]:
    """The judgements of a file; lines that a killed run has cut off are left out."""
    try:
        # Opened for writing as well: an error should come before hours of work.
        with Path(path).open("a+", encoding="utf-8") as handle:
            handle.seek(0)
            lines = handle.read().split("\n")
            if lines[-1]:  # the next line must not continue it
                handle.write("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot be read and written: {error}", path, "--cache") from None
    judgements = {}
    for number, line in enumerate(lines, 1):
        try:
            key, *judgement = _decode(line)
            judgements[key] = (judgement[0], judgement[1], judgement[2])
        except (msgspec.DecodeError, RecursionError):
            if line.strip("\0") and not line.startswith("["):  # what a kill or a power failure cuts off begins so
                reason = "is not a line of a cache of judgements: name another file"
                raise InputError(reason, path, f"line {number}") from None
    return judgements


def ask(questions: Iterable[tuple[str, Sequence[str]]], scorer: Scorer) -> list[list[Judgement]]:
    """The judgements of the hypotheses of each question (premise, hypotheses), all in one batch."""
    questions = list(questions)
    pairs = [(premise, hypothesis) for premise, hypotheses in questions for hypothesis in hypotheses]
    judged = iter(scorer.entailment(pairs))
    return [list(islice(judged, len(hypotheses))) for _, hypotheses in questions]


def best_of(judgements: Sequence[Judgement]) -> int:
    """The most entailed; the first of equals."""
    return max(range(len(judgements)), key=lambda i: (judgements[i][0], -i))


def any_entailed(judgements: Iterable[Judgement]) -> bool:
    """Whether one of them is entailment."""
    return any(map(entails, judgements))
