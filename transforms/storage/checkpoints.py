"""Folders of models as ``save_pretrained`` of transformers writes them: looked at before anything heavy is imported."""

from __future__ import annotations

import functools
import hashlib
import os
from collections.abc import Iterable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import msgspec

from parapet.schemas.errors import InputError, MissingExtra
from parapet.schemas.layout import check_published, parse_json
from parapet.schemas.limits import read_whole

CONFIG = "config.json"
WEIGHTS = ("model.safetensors", "model.safetensors.index.json", "pytorch_model.bin", "pytorch_model.bin.index.json")
FETCH = "Parapet does not download models; 'hf download HUB/NAME --local-dir FOLDER' does"

# The files of a tokenizer: any of the lines will do. Without these transformers makes a tokenizer that knows no word,
# and says nothing of it.
TOKENIZERS = (
    ("tokenizer.json",),
    ("vocab.json", "merges.txt"),
    ("vocab.txt",),
    ("spiece.model",),
    ("sentencepiece.bpe.model",),
    ("spm.model",),
)

# What a result may depend on. A folder off the hub has more: a README, the weights for other frameworks.
_PARTS = (
    CONFIG,
    "generation_config.json",
    "model*.safetensors",
    "model*.safetensors.index.json",
    "model.bin",  # by CTranslate2
    "*vocab*",
    "merges.txt",
    "*.spm",
    "*.model",
    "tokenizer*.json",
    "special_tokens_map.json",
    "added_tokens.json",
)
_OLD_PARTS = ("pytorch_model*.bin", "pytorch_model.bin.index.json")  # not read where there are safetensors


class Checkpoint(msgspec.Struct, frozen=True):
    """A folder with a configuration.

    Attributes:
      path: where it is.
      config: what ``config.json`` says.
      flag: the flag that named it, for messages.
    """

    path: str
    config: dict[str, Any]
    flag: str = ""

    @property
    def kind(self) -> str:
        """The architecture's name, ``t5``, ``bert``; empty where the configuration has none."""
        return str(self.config.get("model_type") or "")

    @property
    def heads(self) -> list[str]:
        """The classes that it was saved from, such as ``T5ForConditionalGeneration``."""
        return [str(one) for one in self.config.get("architectures") or []]

    def refused(self, reason: str) -> InputError:
        """An error about this folder."""
        return InputError(reason, self.path, self.flag)


def opened(path: str, flag: str = "") -> Checkpoint:
    """A model's folder with its configuration.

    Raises:
      InputError: there is no such folder (a hub's name is none), no configuration that can be read in it, or a training
        that was broken off.
    """
    folder = Path(path)
    if not folder.is_dir():
        raise InputError(f"there is no such folder; {FETCH}", path, flag)
    check_published(path, flag)
    config = read_json(folder, CONFIG, flag)
    if not config:
        raise InputError(f"has no {CONFIG}, so it contains no model; {FETCH}", path, flag)
    return Checkpoint(path, config, flag)


def inspect(path: str, kinds: Sequence[str], flag: str = "") -> Checkpoint:
    """A model's folder that can be loaded: of an architecture that is taken, with weights and a tokenizer.

    Args:
      path: the folder.
      kinds: the architectures that are taken, such as ``t5``.
      flag: the flag that named it.

    Raises:
      InputError: it cannot be loaded, and why.
    """
    found = opened(path, flag)
    if found.kind not in kinds:
        holds = f"contains a model of type {found.kind!r}" if found.kind else "config.json names no model_type"
        taken = " or ".join(part for part in (", ".join(kinds[:-1]), kinds[-1]) if part)
        raise found.refused(f"{holds}: expected {taken}")
    check_weights(found)
    check_tokenizer(found)
    return found


def check_weights(checkpoint: Checkpoint) -> None:
    """Raises InputError where a folder has no weights."""
    if not any((Path(checkpoint.path) / name).is_file() for name in WEIGHTS):
        raise checkpoint.refused(f"has no weights ({WEIGHTS[0]} or {WEIGHTS[2]}); {FETCH}")


def check_tokenizer(checkpoint: Checkpoint, files: Iterable[Sequence[str]] = TOKENIZERS) -> None:
    """Raises InputError where a folder lacks a tokenizer's files: any of the lines will do."""
    if not has_files(checkpoint.path, files):
        told = " or ".join(", ".join(names) for names in files)
        raise checkpoint.refused(f"lacks the files of a tokenizer ({told}): copy them from the source of the model")


def has_files(path: str, files: Iterable[Sequence[str]]) -> bool:
    """Whether a folder has all files of any of the lines."""
    return any(all((Path(path) / name).is_file() for name in names) for names in files)


def read_json(folder: Path, name: str, flag: str = "") -> dict[str, Any]:
    """Empty where there is no such file. Raises InputError where it is no JSON object."""
    try:
        if not (folder / name).exists():
            return {}
        found = parse_json(read_whole(folder / name), name)
    except InputError as error:
        raise InputError(f"cannot be read: {error.reason}", folder / name, flag) from None
    except OSError as error:
        raise InputError(f"cannot be read: {error}", folder / name, flag) from None
    if not isinstance(found, dict):
        raise InputError("is not a JSON object", folder / name, flag)
    return found


def digest(path: str) -> str:
    """Of all files that a result depends on: another model's is another, the same model's the same in any folder."""
    folder = Path(path)
    patterns = _PARTS if list(folder.glob("model*.safetensors")) else (*_PARTS, *_OLD_PARTS)
    files = sorted({file for pattern in patterns for file in folder.glob(pattern) if file.is_file()})
    parts = [(file.name, _digest_of(file, file.stat().st_size, file.stat().st_mtime_ns)) for file in files]
    return hashlib.sha256(msgspec.json.encode(parts)).hexdigest()[:12]


@functools.lru_cache(maxsize=1024)
def _digest_of(file: Path, size: int, changed: int) -> str:
    """Of one file as it was then: a process reads it once."""
    with file.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


def check_packages(names: Iterable[str], extra: str, flag: str = "") -> None:
    """Imports what a model is computed with. Raises MissingExtra where a package cannot be imported.

    Args:
      names: of the packages.
      extra: that installs them.
      flag: that asks for them, for the message.
    """
    # huggingface_hub reads it when it is imported. No call of Parapet's uses the network either.
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    for name in names:
        try:
            import_module(name)
        except ImportError as error:
            reason = "is not installed" if error.name == name else f"cannot be imported ({error})"
            raise MissingExtra(name, extra, flag, reason=reason) from None
