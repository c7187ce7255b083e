"""Paraphrases by a checkpoint of the user's, such as a T5 that was trained to paraphrase. No network.

It is an engine like those that translate, so that its answers are kept, checked and replayed like theirs: English into
English in other words (``en-x-para``), and from there back, which changes nothing.
"""

from __future__ import annotations

import os
from importlib import import_module
from typing import Any

from parapet.schemas.errors import InputError, MissingExtra
from parapet.transforms import checkpoints
from parapet.transforms.refusals import Refused
from parapet.transforms.text import words
from parapet.transforms.translation.engine import Limits

PARAPHRASED = "en-x-para"  # a language tag: English, and a private subtag

# Encoder-decoders, and what their paraphrasers expect before a text.
PREFIXES = {"t5": "paraphrase: ", "mt5": "paraphrase: ", "bart": "", "mbart": "", "pegasus": ""}

_MAX_TOKENS = 256


class Paraphraser:
    """Paraphrases by beam search: of the best results, the first that is no copy.

    As with :class:`parapet.transforms.translation.local.Local`, rounding may decide between results of nearly the same
    score; one that is in the memory is kept.

    Args:
      folder: of the checkpoint, as ``save_pretrained`` of transformers writes it.
      beams: of the search, and how many results there are to choose from.
      prefix: what stands before each text; by default as :data:`PREFIXES` has it for the architecture.
      batch: texts at a time.

    Raises:
      InputError: an invalid argument, or a folder without a checkpoint that can be used.
    """

    provider = "checkpoint"
    dollars_per_million = 0.0
    parallel = 1  # torch uses all cores for one batch

    def __init__(self, folder: str, beams: int = 4, prefix: str | None = None, batch: int = 32) -> None:
        if beams < 1:
            raise InputError("must be 1 or more", "--beams", str(beams))
        self.checkpoint = checkpoints.inspect(folder, tuple(PREFIXES), "--model")
        self.beams = beams
        self.prefix = PREFIXES[self.checkpoint.kind] if prefix is None else prefix
        self.limits = Limits(batch, 20_000)
        self.model = f"{self.checkpoint.kind}@{checkpoints.digest(folder)},beams={beams},prefix={self.prefix!r}"
        self._loaded: tuple[Any, Any] | None = None

    def open(self) -> None:
        """Checks that the packages are installed. The model is loaded with its first text.

        Raises:
          MissingExtra: one is not installed.
        """
        os.environ.setdefault("HF_HUB_OFFLINE", "1")  # read when huggingface_hub is first imported
        for name in ("torch", "transformers"):
            try:
                import_module(name)
            except ImportError:
                raise MissingExtra(name, "models", "--engine") from None

    def close(self) -> None:
        """Unloads the model."""
        self._loaded = None

    def translate(self, texts: list[str], source: str, target: str) -> list[str]:
        """The texts in other words, in order; back from there as they are; ``""`` where nothing came of one.

        Raises:
          Refused: the languages are others.
          InputError: the model cannot be loaded.
        """
        if (source, target) == (PARAPHRASED, "en"):
            return texts
        if (source, target) != ("en", PARAPHRASED):
            raise Refused(f"pair: {source} to {target}: a paraphraser translates nothing")
        import torch

        tokenizer, model = self._loaded = self._loaded or self._load()
        inputs = tokenizer([self.prefix + text for text in texts], return_tensors="pt", padding=True)
        with torch.inference_mode():
            rows = model.generate(
                input_ids=inputs["input_ids"],
                attention_mask=inputs["attention_mask"],
                num_beams=self.beams,
                num_return_sequences=self.beams,
                max_new_tokens=_MAX_TOKENS,
                do_sample=False,
            )
        results = [result.strip() for result in tokenizer.batch_decode(rows, skip_special_tokens=True)]
        return [_first_other(text, results[i * self.beams : (i + 1) * self.beams]) for i, text in enumerate(texts)]

    def _load(self) -> tuple[Any, Any]:
        import transformers
        from transformers.utils import logging as transformers_logging

        transformers_logging.disable_progress_bar()
        path = self.checkpoint.path
        try:
            tokenizer = transformers.AutoTokenizer.from_pretrained(path, local_files_only=True)
            model, info = transformers.AutoModelForSeq2SeqLM.from_pretrained(
                path, local_files_only=True, output_loading_info=True
            )
        except Exception as error:  # theirs are of a dozen kinds
            message = " ".join(str(error).split())[:300]
            raise self.checkpoint.refused(f"the model cannot be loaded ({type(error).__name__}): {message}") from None
        if info["missing_keys"]:  # which would be filled with noise
            raise self.checkpoint.refused(f"its file lacks weights, {sorted(info['missing_keys'])[0]} for one")
        model.generation_config.max_length = None  # in favour of ours
        return tokenizer, model.float().eval()


def _first_other(text: str, results: list[str]) -> str:
    """The first result with other words than the text; a copy where all are."""
    return next((result for result in results if words(result) != words(text)), results[0])
