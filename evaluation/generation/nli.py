"""Entailment by a model of natural language inference in a folder of one's own (RoBERTa and its like). No network."""

from __future__ import annotations

import os
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from parapet.evaluation.generation.scorers import Judgement, Pair
from parapet.schemas.errors import InputError, MissingExtra
from parapet.transforms import checkpoints

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
