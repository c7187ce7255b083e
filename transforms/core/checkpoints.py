"""Inspect folders of models written by transformers' ``save_pretrained`` before anything heavy is imported."""

import functools
import hashlib
import os
from collections.abc import Iterable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import msgspec

from parapet.schemas import layout, limits
from parapet.schemas.errors import InputError, MissingExtra

CONFIG = "config.json"
WEIGHTS = ("model.safetensors", "model.safetensors.index.json", "pytorch_model.bin", "pytorch_model.bin.index.json")
FETCH = "Parapet does not download models; 'hf download HUB/NAME --local-dir FOLDER' does"

# Sets of files of a tokenizer, one of which is required. Without any, transformers silently creates a tokenizer that
# knows no words.
TOKENIZERS = (
    ("tokenizer.json",),
    ("vocab.json", "merges.txt"),
    ("vocab.txt",),
    ("spiece.model",),
    ("sentencepiece.bpe.model",),
    ("spm.model",),
)

# Files that may affect a result. Folders from the hub have others, such as a README and weights for other frameworks.
_PARTS = (
    CONFIG,
    "generation_config.json",
    "model*.safetensors",
    "model*.safetensors.index.json",
    "*vocab*",
    "merges.txt",
    "*.spm",
    "*.model",
    "tokenizer*.json",
    "special_tokens_map.json",
    "added_tokens.json",
)
_OLD_PARTS = ("pytorch_model*.bin", "pytorch_model.bin.index.json")  # not read if there are safetensors


class Checkpoint(msgspec.Struct, frozen=True):
    """A model's folder with a configuration.

    Attributes:
      path: the path of the folder.
      config: the content of ``config.json``.
      flag: the flag that names it for messages.
    """

    path: str
    config: dict[str, Any]
    flag: str = ""

    @property
    def kind(self) -> str:
        """Returns the name of the architecture, such as ``t5`` or ``bert``; may be empty."""
        return str(self.config.get("model_type") or "")

    @property
    def heads(self) -> list[str]:
        """Returns the classes from which it was saved, such as ``T5ForConditionalGeneration``."""
        return [str(architecture) for architecture in self.config.get("architectures") or []]

    def refused(self, reason: str) -> InputError:
        """Returns an error about this folder."""
        return InputError(reason, self.path, self.flag)


def opened(path: str, flag: str = "") -> Checkpoint:
    """Reads the configuration of a model's folder.

    Raises:
      InputError: the folder does not exist (names on the hub are not supported), has no readable configuration, or is
        from an interrupted training run.
    """
    folder = Path(path)
    if not folder.is_dir():
        raise InputError(f"there is no such folder; {FETCH}", path, flag)
    layout.check_published(path, flag)
    if not (config := read_json(folder, CONFIG, flag)):
        raise InputError(f"has no {CONFIG}, so it contains no model; {FETCH}", path, flag)
    return Checkpoint(path, config, flag)


def inspect(path: str, kinds: Sequence[str], flag: str = "") -> Checkpoint:
    """Checks that a model's folder has a supported architecture, weights and a tokenizer.

    Args:
      path: the folder.
      kinds: the supported architectures, such as ``t5``.
      flag: the flag that names it for messages.

    Raises:
      InputError: the model cannot be loaded.
    """
    checkpoint = opened(path, flag)
    if checkpoint.kind not in kinds:
        holds = (
            f"contains a model of type {checkpoint.kind!r}" if checkpoint.kind else "config.json names no model_type"
        )
        taken = " or ".join(part for part in (", ".join(kinds[:-1]), kinds[-1]) if part)
        raise checkpoint.refused(f"{holds}: expected {taken}")
    check_weights(checkpoint)
    check_tokenizer(checkpoint)
    return checkpoint


def check_weights(checkpoint: Checkpoint) -> None:
    """Raises InputError if a folder has no weights."""
    if not any((Path(checkpoint.path) / name).is_file() for name in WEIGHTS):
        raise checkpoint.refused(f"has no weights ({WEIGHTS[0]} or {WEIGHTS[2]}); {FETCH}")


def check_tokenizer(checkpoint: Checkpoint, files: Iterable[Sequence[str]] = TOKENIZERS) -> None:
    """Raises InputError if a folder has none of the sets of tokenizer files."""
    if not any(all((Path(checkpoint.path) / name).is_file() for name in names) for names in files):
        choices = " or ".join(", ".join(names) for names in files)
        raise checkpoint.refused(f"lacks the files of a tokenizer ({choices}): copy them from the source of the model")


def read_json(folder: Path, name: str, flag: str = "") -> dict[str, Any]:
    """Reads a JSON object; empty if the file does not exist. Raises InputError if it is invalid."""
    try:
        if not (folder / name).exists():
            return {}
        value = layout.parse_json(limits.read_whole(folder / name), name)
    except InputError as error:
        raise InputError(f"cannot be read: {error.reason}", folder / name, flag) from None
    if not isinstance(value, dict):
        raise InputError("is not a JSON object", folder / name, flag)
    return value


def digest(path: str) -> str:
    """Hashes all files that affect a result, so that the hash identifies the model independently of its folder."""
    folder = Path(path)
    patterns = _PARTS if list(folder.glob("model*.safetensors")) else (*_PARTS, *_OLD_PARTS)
    files = sorted({file for pattern in patterns for file in folder.glob(pattern) if file.is_file()})
    parts = [(file.name, _digest_of(file, file.stat().st_size, file.stat().st_mtime_ns)) for file in files]
    return hashlib.sha256(msgspec.json.encode(parts)).hexdigest()[:12]


@functools.lru_cache(maxsize=1024)
def _digest_of(file: Path, size: int, changed: int) -> str:
    """Hashes a file in a given state, cached so that a process reads it once."""
    with file.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


def check_packages(names: Iterable[str], extra: str, flag: str = "") -> None:
    """Imports the packages of a model. Raises MissingExtra if a package cannot be imported.

    Args:
      names: the names of the packages.
      extra: the extra that installs them.
      flag: the flag that requires them, for messages.
    """
    # read by huggingface_hub when it is imported; Parapet never downloads models
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    for name in names:
        try:
            import_module(name)
        except ImportError as error:
            reason = "is not installed" if error.name == name else f"cannot be imported ({error})"
            raise MissingExtra(name, extra, flag, reason=reason) from None
