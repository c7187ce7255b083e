"""The folder of a model, and what it needs of the machine: packages, a device, memory.

``model.json`` has the kind, settings and vocabulary, ``weights.safetensors`` or a checkpoint of transformers the
weights. None of these can run code, and all are checked when they are read, as folders may come from strangers.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import msgspec

from parapet.schemas.errors import InputError
from parapet.transforms.core import files
from parapet.transforms.core.checkpoints import Checkpoint, check_packages, inspect
from parapet.transforms.core.seeding import stable_hash

if TYPE_CHECKING:
    import torch
    from torch import Tensor, nn


MODEL, WEIGHTS = "model.json", "weights.safetensors"
Positive = Annotated[int, msgspec.Meta(ge=1)]


class Card(msgspec.Struct, frozen=True, kw_only=True):
    """The common content of ``model.json``; each model extends it.

    Attributes:
      model: the name of the model.
      format: the version of the folder's format.
    """

    model: str
    format: int


CardType = TypeVar("CardType", bound=Card)


def card_bytes(card: Card) -> bytes:
    """Encodes ``model.json``."""
    return msgspec.json.format(msgspec.json.encode(card), indent=1) + b"\n"


def weights_bytes(weights: Mapping[str, Tensor]) -> bytes:
    """Encodes ``weights.safetensors``."""
    from safetensors.torch import save

    return save({name: value.cpu().contiguous() for name, value in weights.items()})


def read_card(folder: str, kind: type[CardType], model: str = "") -> CardType:
    """Reads the card of a model's folder.

    Args:
      folder: the folder.
      kind: the struct of its card, whose defaults are the expected name of the model and the supported format.
      model: the expected name, if it is no default.

    Raises:
      InputError: the folder has no model, or another one than ``model``, or the file is damaged.
    """
    defaults = {field.name: field.default for field in msgspec.structs.fields(kind)}
    model = model or defaults["model"]
    place = files.join(folder, MODEL)
    try:
        data = files.read_bytes(place)
    except Exception:  # a file system's or a bucket's own
        raise InputError(f"contains no model: expected {MODEL}, as 'parapet train {model}' writes it", folder) from None
    try:
        base = msgspec.json.decode(data, type=Card)
        if base.model != model:
            reason = f"is a model of another kind, {base.model!r}: use 'parapet predict {base.model}'"
            raise InputError(reason, place)
        if base.format != defaults["format"]:
            reason = f"has format {base.format}, but this version of Parapet reads {defaults['format']}"
            raise InputError(f"{reason}: train the model again", place)
        return msgspec.json.decode(data, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InputError(f"is damaged, or was not written by Parapet: {error}", place) from None


def load_weights(net: nn.Module, folder: str) -> None:
    """Loads a net's weights. Raises InputError if they are missing, damaged, or do not fit."""
    from safetensors import SafetensorError
    from safetensors.torch import load

    place = files.join(folder, WEIGHTS)
    try:
        net.load_state_dict(load(files.read_bytes(place)))
    except SafetensorError as error:
        raise InputError(f"is truncated or damaged ({error}): train the model again", place) from None
    except (KeyError, RuntimeError) as error:  # shapes that do not fit
        message = " ".join(str(error).split())[:300]
        raise InputError(f"does not match {MODEL} beside it: {message}", place) from None
    except OSError as error:
        raise InputError(f"cannot be read: {error}", place) from None


FOLDER = "checkpoint"  # in the folder of a trained model

# The architectures that a model's checkpoint may have, by the ``model_type`` in its ``config.json``.
BY_MODEL = {
    "t5dst": ("t5", "mt5", "umt5", "longt5"),  # relative positions, so any length is possible
    "sgp_dst": ("bert", "distilbert", "electra", "roberta"),
    "sgd_baseline": ("bert", "distilbert", "electra", "roberta"),
    "ft_t5": ("t5", "mt5"),
    "pt_t5": ("t5", "mt5"),
    "classifier": ("bert", "roberta", "distilbert", "electra", "xlm-roberta", "camembert"),
    "soloist": ("gpt2", "gpt_neo", "llama"),
}


def inside(folder: str, model: str, part: str = FOLDER) -> Checkpoint:
    """Opens a checkpoint in the folder of a trained model. Raises InputError if it does not fit the model."""
    return inspect(files.join(folder, part), BY_MODEL[model])


def load(checkpoint: Checkpoint, model_class: str, new: tuple[str, ...] = (), **options: Any) -> tuple[Any, Any]:
    """Loads the tokenizer and the model of a checkpoint; in single precision, on the CPU, in evaluation mode.

    Args:
      checkpoint: from :func:`parapet.transforms.core.checkpoints.inspect`.
      model_class: a class of transformers, such as ``AutoModelForSeq2SeqLM``.
      new: prefixes of the names of weights that may be missing in the file, as the task adds them.
      options: for the configuration, such as ``num_labels``.

    Raises:
      InputError: it cannot be loaded, or its file lacks weights.
    """
    # Must be set before huggingface_hub is imported. The calls below do not use the network either.
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    import transformers
    from transformers.utils import logging as transformers_logging

    transformers_logging.disable_progress_bar()
    transformers_logging.set_verbosity_error()  # missing weights are reported below
    try:
        tokenizer = transformers.AutoTokenizer.from_pretrained(checkpoint.path, local_files_only=True)
        model, info = getattr(transformers, model_class).from_pretrained(
            checkpoint.path, local_files_only=True, output_loading_info=True, **options
        )
    except Exception as error:  # the library raises a dozen kinds of errors
        message = " ".join(str(error).split())[:300]
        raise checkpoint.refused(f"the model cannot be loaded ({type(error).__name__}): {message}") from None
    missing = sorted(name for name in info["missing_keys"] if not name.startswith(new or ("\0",)))
    if missing:  # which would be filled with noise
        raise checkpoint.refused(f"its file lacks weights, such as {missing[0]}")
    return tokenizer, model.float().eval()


def saved(tokenizer: Any, model: Any, folder: str = FOLDER) -> dict[str, bytes]:
    """Makes the files of a checkpoint below a folder, as path to content."""
    with tempfile.TemporaryDirectory() as place:
        model.save_pretrained(place)
        tokenizer.save_pretrained(place)
        paths = sorted(path for path in Path(place).rglob("*") if path.is_file())
        return {f"{folder}/{path.relative_to(place).as_posix()}": path.read_bytes() for path in paths}


def longest(tokenizer: Any, model: Any, wanted: int, flag: str) -> int:
    """Returns the maximum number of tokens in an input: the requested one, if the checkpoint has as many positions.

    Args:
      tokenizer, model: the checkpoint.
      wanted: the requested number.
      flag: the flag that requests it, for messages.

    Raises:
      InputError: the checkpoint has fewer positions.
    """
    config = model.config
    positions = getattr(config, "max_position_embeddings", None) or getattr(config, "n_positions", None)
    if positions is None or config.model_type == "t5":  # relative positions
        return wanted
    # RoBERTa counts positions from after its padding token.
    most = positions - 2 if config.model_type in ("roberta", "camembert", "xlm-roberta") else positions
    if wanted > most:
        raise InputError(f"must be at most {most}, the number of positions of the checkpoint", flag, str(wanted))
    return wanted


def module_of(model: str) -> Any:
    """Returns the module of a tracker or a whole system, which has functions ``check`` and ``load``."""
    return import_module(f"parapet.evaluation.models.{model}")


_OF_MEMORY = ("out of memory", "can't allocate memory", "CUBLAS_STATUS_ALLOC_FAILED")
_OF_LOCAL = ("transformers", "tokenizers", "sentencepiece")  # packages of the extra "local"; others are in "models"


def check_installed(*names: str) -> None:
    """Raises InputError if a package is missing, with the command that installs it."""
    for name in names:
        check_packages([name], "local" if name in _OF_LOCAL else "models")


def device_of(name: str) -> torch.device:
    """Returns a device; ``auto`` is the GPU if there is one. Raises InputError for ``cuda`` without a GPU."""
    import torch

    if name == "cuda" and not torch.cuda.is_available():
        raise InputError("torch finds no GPU on this machine: give cpu, or install torch for CUDA", "--device")
    return torch.device("cuda" if torch.cuda.is_available() and name != "cpu" else "cpu")


def seed_all(*parts: str) -> None:
    """Seeds all generators of torch, on every device, from a key."""
    import torch

    torch.manual_seed(stable_hash(*parts) % 2**63)


@contextmanager
def enough_memory(batch_size: int) -> Iterator[None]:
    """Turns torch's various errors for exhausted memory into one.

    Args:
      batch_size: the value of ``--batch_size``, for the advice.

    Raises:
      InputError: memory is exhausted.
    """
    try:
        yield
    except (MemoryError, RuntimeError) as error:  # torch.OutOfMemoryError is a RuntimeError
        if not isinstance(error, MemoryError) and not any(sign in str(error) for sign in _OF_MEMORY):
            raise
        advice = f"lower --batch_size, which is {batch_size}, or the flags for sizes and lengths"
        raise InputError(f"out of memory: {advice}") from None
