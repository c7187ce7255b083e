"""How similar two texts are in meaning.

The measure uses MiniLM's sentence embeddings with the extra ``meaning``, else character n-grams.

Neither notices a negation, a changed person or a wrong preposition (see ``gate``); both notice a text about something
else.
"""

import contextlib
import functools
import importlib.util
import json
import math
import re
import zipfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

PACKAGE = "all_minilm_l6_v2"  # ships the weights of sentence-transformers/all-MiniLM-L6-v2
_GRAMS = (2, 3, 4)
_MOST_TOKENS = 256  # as in the training of the model


@functools.cache
def has_model() -> bool:
    """Whether the extra ``meaning`` is installed; does not import it."""
    return all(importlib.util.find_spec(name) for name in (PACKAGE, "torch", "transformers"))


def measure() -> str:
    """Describes for cards how :func:`similarity` is computed."""
    return "cosine of MiniLM embeddings" if has_model() else "cosine of character n-grams"


def similarity(text: str, other: str) -> float:
    """Returns the cosine of two texts, from -1 to 1: of their embeddings if the model is installed, else of n-grams."""
    return float(embedding(text) @ embedding(other)) if has_model() else of_grams(text, other)


def of_grams(text: str, other: str) -> float:
    """Returns the cosine of the counts of character 2- to 4-grams, from 0 to 1; case and punctuation are ignored."""
    left, right = _grams(text), _grams(other)
    length = math.sqrt(sum(n * n for n in left.values()) * sum(n * n for n in right.values()))
    return sum(n * right[gram] for gram, n in left.items()) / length if length else 0.0


@functools.lru_cache(maxsize=10_000)
def _grams(text: str) -> Counter[str]:
    plain = " ".join(["", *re.findall(r"\w+", text.lower()), ""])
    return Counter(plain[i : i + n] for n in _GRAMS for i in range(len(plain) - n + 1))


@functools.lru_cache(maxsize=10_000)
def embedding(text: str) -> Any:
    """Returns the mean of the last layer, of length 1.

    Texts are embedded singly, because batches change the last digits.
    """
    import torch

    model, tokenizer = _model()
    with one_thread():
        states = model(input_ids=torch.tensor([tokenizer.encode(text).ids])).last_hidden_state
        return torch.nn.functional.normalize(states[0].mean(0), dim=0)


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """Limits torch to one thread: for inputs of a dozen words, synchronising threads makes it ten times slower."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with torch.inference_mode():
            yield
    finally:
        torch.set_num_threads(threads)


@functools.cache
def _model() -> tuple[Any, Any]:
    # Importing the package prints a line, and its own functions unpack 90 MB into the home directory.
    from safetensors.torch import load
    from tokenizers import Tokenizer
    from transformers import BertConfig, BertModel

    spec = importlib.util.find_spec(PACKAGE)
    assert spec is not None
    assert spec.submodule_search_locations
    with zipfile.ZipFile(Path(next(iter(spec.submodule_search_locations))) / "model.zip") as files:
        model = BertModel(BertConfig(**json.loads(files.read("config.json"))), add_pooling_layer=False)
        # the weights of the pooling layer are not used
        model.load_state_dict(load(files.read("model.safetensors")), strict=False)
        tokenizer = Tokenizer.from_str(files.read("tokenizer.json").decode())
    tokenizer.no_padding()
    tokenizer.enable_truncation(_MOST_TOKENS)
    return model.eval(), tokenizer
