"""Judges of textual entailment: called in batches, never twice for one pair; one is a model in the user's folder."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Sequence
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import Any, Protocol

import msgspec

from parapet.schemas.errors import InputError, MissingExtra
from parapet.transforms import checkpoints
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


AT_ONCE = 512  # questions: enough to fill a model's batches, and memory does not grow with the corpus


def ask(questions: Iterable[tuple[str, Sequence[str]]], scorer: Scorer) -> list[list[Judgement]]:
    """The judgements of the hypotheses of each question (premise, hypotheses), many questions at a time."""
    answers: list[list[Judgement]] = []
    remaining = iter(questions)
    while batch := list(islice(remaining, AT_ONCE)):
        pairs = [(premise, hypothesis) for premise, hypotheses in batch for hypothesis in hypotheses]
        judged = iter(scorer.entailment(pairs))
        answers += [list(islice(judged, len(hypotheses))) for _, hypotheses in batch]
    return answers


def best_of(judgements: Sequence[Judgement]) -> int:
    """The most entailed; the first of equals."""
    return max(range(len(judgements)), key=lambda i: (judgements[i][0], -i))


def any_entailed(judgements: Iterable[Judgement]) -> bool:
    """Whether one of them is entailment."""
    return any(map(entails, judgements))


LABELS = ("entailment", "neutral", "contradiction")

_FLAG = "--nli_model"
_HEAD = "ForSequenceClassification"


class Nli:
    """A classifier of text pairs that has the labels entailment, neutral and contradiction.

    Sums are rounded by the shape of a batch: where two classes are equally likely but for the sixth digit, either may
    come out on another machine.

    Args:
      folder: config.json, weights and tokenizer, as ``save_pretrained`` writes them.
      batch: pairs at a time.

    Raises:
      InputError: there is no such folder, or no such model in it; see :func:`inspect`.
    """

    name = "nli"
    joint = " "

    def __init__(self, folder: str, batch: int = 32) -> None:
        if batch < 1:
            raise InputError("is 1 or more", "--batch", str(batch))
        self.order = inspect(folder)
        for package in ("torch", "transformers"):  # imported when a pair is asked that no cache has
            if find_spec(package) is None:
                raise MissingExtra(package, "local", "--scorer nli")
        self.folder, self.batch = folder, batch
        self.model = f"{Path(folder).resolve().name}@{checkpoints.digest(folder)}"
        self._loaded: tuple[Any, Any] | None = None

    def entailment(self, pairs: Sequence[Pair]) -> list[Judgement]:
        """The judgement of each pair, in order. The model is loaded when it is asked first.

        Raises:
          InputError: it cannot be loaded.
        """
        if not pairs:
            return []
        if self._loaded is None:
            self._loaded = self._load()
        import torch

        tokenizer, model = self._loaded
        rows = self._tokens(tokenizer, model, pairs)
        found: list[Judgement] = [(0.0, 0.0, 0.0)] * len(pairs)
        # The short with the short: little padding. The texts decide among equals, not the order of asking.
        order = sorted(range(len(pairs)), key=lambda i: (len(rows[i]["input_ids"]), pairs[i]))
        for start in range(0, len(order), self.batch):
            chunk = order[start : start + self.batch]
            inputs = tokenizer.pad([rows[i] for i in chunk], return_tensors="pt").to(model.device)
            with torch.inference_mode():
                shares = torch.softmax(model(**inputs).logits.double(), dim=-1).cpu().tolist()
            for i, row in zip(chunk, shares, strict=True):
                found[i] = row[self.order[0]], row[self.order[1]], row[self.order[2]]
        return found

    def _tokens(self, tokenizer: Any, model: Any, pairs: Sequence[Pair]) -> list[dict[str, list[int]]]:
        """The tokens of each pair; where there are too many, the beginning of the premise is cut off."""
        # RoBERTa counts positions from 2 on.
        longest = min(tokenizer.model_max_length, model.config.max_position_embeddings - 2)
        firsts, seconds = zip(*pairs, strict=True)
        encoded = tokenizer(list(firsts), list(seconds), truncation="longest_first", max_length=longest)
        return [{key: encoded[key][i] for key in encoded} for i in range(len(pairs))]

    def _load(self) -> tuple[Any, Any]:
        # Read when huggingface_hub is imported first. The calls here ask for no network either.
        os.environ.setdefault("HF_HUB_OFFLINE", "1")
        import torch
        from transformers import AutoModelForSequenceClassification, AutoTokenizer
        from transformers.utils import logging as transformers_logging

        transformers_logging.disable_progress_bar()
        try:
            tokenizer = AutoTokenizer.from_pretrained(self.folder, local_files_only=True, truncation_side="left")
            model, told = AutoModelForSequenceClassification.from_pretrained(
                self.folder, local_files_only=True, output_loading_info=True
            )
        except Exception as error:  # theirs are of a dozen kinds
            said = " ".join(str(error).split())[:300]
            raise InputError(f"the model cannot be loaded ({type(error).__name__}): {said}", self.folder) from None
        if told["missing_keys"]:  # which would be filled with noise
            raise InputError(f"its file lacks weights, {sorted(told['missing_keys'])[0]} for one", self.folder)
        device = "cuda" if torch.cuda.is_available() else "cpu"
        return tokenizer, model.float().eval().to(device)


def inspect(folder: str) -> tuple[int, int, int]:
    """At which positions of the model's output entailment, neutral and contradiction are: as its config.json says.

    Raises:
      InputError: no folder (a hub's name is none), no classifier, no weights, or other labels.
    """
    found = checkpoints.opened(folder, _FLAG)
    if not any(one.endswith(_HEAD) for one in found.heads):
        what = found.heads[0] if found.heads else f"model of type {found.config.get('model_type')!r}"
        raise found.refused(f"holds a {what}: a classifier of text pairs (...{_HEAD}) is needed")
    checkpoints.check_weights(found)
    checkpoints.check_tokenizer(found)
    return _positions(found)


def _positions(checkpoint: checkpoints.Checkpoint) -> tuple[int, int, int]:
    labels = checkpoint.config.get("id2label")
    given = labels if isinstance(labels, dict) else {}
    found = {str(label).lower(): str(key) for key, label in given.items()}
    if sorted(found) != sorted(LABELS) or sorted(found.values()) != ["0", "1", "2"]:
        there = ", ".join(str(label) for label in given.values()) or "none"
        wanted = ", ".join(LABELS)
        reason = f"its labels are {there}: id2label of config.json has to say which output is which of {wanted}"
        raise checkpoint.refused(reason)
    entailment, neutral, contradiction = (int(found[label]) for label in LABELS)
    return entailment, neutral, contradiction
