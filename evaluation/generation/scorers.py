"""What says whether one text entails another. A scorer is asked in batches, and never twice for one pair."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

from parapet.schemas.errors import InputError

Pair = tuple[str, str]  # premise, hypothesis
Judgement = tuple[float, float, float]  # entailment, neutral, contradiction: they add up to 1

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
    """A scorer that remembers, during the run and in a file if one is given.

    The file has a JSON line for each pair: the hash of scorer, premise and hypothesis, and the three numbers. Lines are
    added as they come, so that a run that was stopped goes on where it was.

    Args:
      scorer: the one that is asked.
      path: the file; nothing for none.

    Raises:
      InputError: the file cannot be read or written, or has a line that is none of ours.
    """

    def __init__(self, scorer: Scorer, path: str = "") -> None:
        self.scorer, self.path = scorer, path
        self.name, self.model, self.joint = scorer.name, scorer.model, scorer.joint
        self.asked = 0  # pairs, those that were known among them
        self.judged = 0  # pairs that the scorer was asked
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
        for start in range(0, len(new), _PORTION):
            portion = new[start : start + _PORTION]
            self._known.update(zip(portion, self.scorer.entailment(portion), strict=True))
            self.judged += len(portion)
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
    """The judgements of a file; lines that were cut off by a kill are left out."""
    try:
        # Opened for writing as well: what cannot be kept should be known before hours of work.
        with Path(path).open("a+", encoding="utf-8") as handle:
            handle.seek(0)
            lines = handle.read().split("\n")
            if lines[-1]:  # the next line must not be glued to it
                handle.write("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot be read and written: {error}", path, "--cache") from None
    found = {}
    for number, line in enumerate(lines, 1):
        row = _parse(line)
        if row is not None:
            found[row[0]] = row[1]
        elif line and not line.startswith("["):  # one that a kill cut off begins as it should
            raise InputError("is no line of a cache of judgements: name another file", path, f"line {number}")
    return found


def _parse(line: str) -> tuple[str, Judgement] | None:
    try:
        row: Any = json.loads(line)
        key, *numbers = row
        if isinstance(key, str) and len(numbers) == 3 and all(math.isfinite(one) for one in numbers):
            return key, (float(numbers[0]), float(numbers[1]), float(numbers[2]))
    except (ValueError, TypeError, RecursionError):
        pass
    return None
