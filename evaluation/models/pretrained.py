"""Pretrained checkpoints of transformers: which a model takes, loaded from a local folder, and saved again."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from parapet.schemas.errors import InputError
from parapet.transforms.checkpoints import Checkpoint, inspect

FOLDER = "checkpoint"  # below the folder of a model of ours

# The architectures that a model's checkpoint may have, by the ``model_type`` in its ``config.json``.
BY_MODEL = {
    "t5dst": ("t5", "mt5", "umt5", "longt5"),  # whose positions are relative, so that any length will do
    "sgp_dst": ("bert", "distilbert", "electra", "roberta"),
    "ft_t5": ("t5", "mt5"),
    "pt_t5": ("t5", "mt5"),
    "classifier": ("bert", "roberta", "distilbert", "electra", "xlm-roberta", "camembert"),
    "soloist": ("gpt2", "gpt_neo"),
}


def models_of(architecture: str) -> list[str]:
    """The models that begin with checkpoints of an architecture; none of one that no model takes."""
    return [model for model, taken in BY_MODEL.items() if architecture in taken]


def inside(folder: str, kinds: Sequence[str]) -> Checkpoint:
    """The checkpoint in the folder of a model of ours, as :func:`parapet.transforms.checkpoints.inspect` gives it."""
    return inspect(f"{folder}/{FOLDER}", kinds)


def load(checkpoint: Checkpoint, model_class: str, new: tuple[str, ...] = (), **options: Any) -> tuple[Any, Any]:
    """The tokenizer and the model of a checkpoint; in single precision, on the CPU, not training.

    Args:
      checkpoint: as :func:`parapet.transforms.checkpoints.inspect` gave it.
      model_class: of transformers, such as ``AutoModelForSeq2SeqLM``.
      new: beginnings of the names of weights that may be missing in the file: those that a task adds.
      options: for the configuration, such as ``num_labels``.

    Raises:
      InputError: it cannot be loaded, or its file lacks weights.
    """
    # Read when huggingface_hub is imported first. The calls here ask for no network either.
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    import transformers
    from transformers.utils import logging as transformers_logging

    transformers_logging.disable_progress_bar()
    transformers_logging.set_verbosity_error()  # missing weights are reported here
    try:
        tokenizer = transformers.AutoTokenizer.from_pretrained(checkpoint.path, local_files_only=True)
        model, info = getattr(transformers, model_class).from_pretrained(
            checkpoint.path, local_files_only=True, output_loading_info=True, **options
        )
    except Exception as error:  # theirs are of a dozen kinds
        message = " ".join(str(error).split())[:300]
        raise checkpoint.refused(f"the model cannot be loaded ({type(error).__name__}): {message}") from None
    missing = sorted(name for name in info["missing_keys"] if not name.startswith(new or ("\0",)))
    if missing:  # which would be filled with noise
        raise checkpoint.refused(f"its file lacks weights, {missing[0]} for one")
    return tokenizer, model.float().eval()


def saved(tokenizer: Any, model: Any) -> dict[str, bytes]:
    """The files of a checkpoint, below ``FOLDER``: path to content."""
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        paths = sorted(path for path in Path(folder).rglob("*") if path.is_file())
        return {f"{FOLDER}/{path.relative_to(folder).as_posix()}": path.read_bytes() for path in paths}


def longest(tokenizer: Any, model: Any, wanted: int, flag: str) -> int:
    """How many tokens an input may have: what is requested, where the checkpoint has as many positions.

    Args:
      tokenizer, model: of the checkpoint.
      wanted: what is requested.
      flag: the flag that names it, for messages.

    Raises:
      InputError: it has fewer positions.
    """
    config = model.config
    positions = getattr(config, "max_position_embeddings", None) or getattr(config, "n_positions", None)
    if positions is None or config.model_type == "t5":  # whose positions are relative
        return wanted
    # RoBERTa counts positions from behind its padding token on.
    most = positions - 2 if config.model_type in ("roberta", "camembert", "xlm-roberta") else positions
    if wanted > most:
        raise InputError(f"the checkpoint has {most} positions: use {most} or fewer", flag, str(wanted))
    return wanted
