"""Folders of translation models: what is in them, and whether it can be used; nothing is loaded here."""

from __future__ import annotations

import functools
import hashlib
import json
from pathlib import Path
from typing import Any, Literal, get_args

import msgspec

from schemas.errors import InputError

Kind = Literal["marian", "m2m_100", "nllb"]

_TAKEN = "Marian (OPUS-MT), M2M100 and NLLB models are taken"
_FETCH = "models are not downloaded here; 'hf download HUB/NAME --local-dir FOLDER' does it"

_OF_TOKENIZER: dict[str, Kind] = {"MarianTokenizer": "marian", "M2M100Tokenizer": "m2m_100", "NllbTokenizer": "nllb"}
# NLLB's is the architecture of M2M100.
_OF_MODEL: dict[str, tuple[Kind, ...]] = {"marian": ("marian",), "m2m_100": ("m2m_100", "nllb")}
# Any of the lines will do.
_FILES: dict[Kind, list[tuple[str, ...]]] = {
    "marian": [("source.spm", "target.spm", "vocab.json")],
    "m2m_100": [("vocab.json", "sentencepiece.bpe.model")],
    "nllb": [("tokenizer.json",), ("sentencepiece.bpe.model",)],
}
_WEIGHTS = ["model.safetensors", "model.safetensors.index.json", "pytorch_model.bin", "pytorch_model.bin.index.json"]
CONVERTED = "model.bin"  # by CTranslate2

# What a translation may depend on. A folder off the hub has more: a README, the weights for other frameworks.
_PARTS = [
    "config.json",
    "generation_config.json",
    "model*.safetensors",
    "model*.safetensors.index.json",
    CONVERTED,
    "*vocab*",
    "*.spm",
    "sentencepiece*.model",
    "tokenizer*.json",
    "special_tokens_map.json",
    "added_tokens.json",
]
_OLD_PARTS = ["pytorch_model*.bin", "pytorch_model.bin.index.json"]  # not read where there are safetensors


class Folder(msgspec.Struct, frozen=True):
    """A model that can be used.

    Attributes:
      path: where it is.
      kind: its tokenizer's.
      converted: whether it is for CTranslate2.
      digest: of all files that count; another model's is another, the same model's is the same in any folder.
    """

    path: str
    kind: Kind
    converted: bool
    digest: str


def inspect(path: str) -> Folder:
    """What is in a folder.

    Raises:
      InputError: there is none, or no model in it that can be used.
    """
    folder = Path(path)
    if not folder.is_dir():
        raise InputError(f"there is no such folder; {_FETCH}", path)
    config = _read_json(folder, "config.json")
    if not config:
        raise InputError(f"has no config.json, so it holds no model; {_FETCH}", path)
    converted = (folder / CONVERTED).is_file()
    if not converted:
        _check_model(folder, config)
    kind = _kind(folder, config)
    if not converted and kind not in _OF_MODEL[config["model_type"]]:
        raise InputError(f"holds a {config['model_type']} model with the tokenizer of {kind}", path)
    return Folder(path, kind, converted, _digest(folder))


def _check_model(folder: Path, config: dict[str, Any]) -> None:
    if config.get("model_type") not in _OF_MODEL:
        raise InputError(f"holds a model of type {config.get('model_type')!r}: {_TAKEN}", folder)
    if not any((folder / name).is_file() for name in _WEIGHTS):
        raise InputError(f"has no weights ({_WEIGHTS[0]} or {_WEIGHTS[2]}); {_FETCH}", folder)


def _kind(folder: Path, config: dict[str, Any]) -> Kind:
    """Which tokenizer a folder has: the one it names, or else the one whose files it has."""
    settings = _read_json(folder, "tokenizer_config.json")
    named = settings.get("tokenizer_class") or config.get("tokenizer_class")
    if named:
        kind = _OF_TOKENIZER.get(str(named).removesuffix("Fast"))
        if kind is None:
            raise InputError(f"its tokenizer is a {named}: {_TAKEN}", folder)
        if not _has_tokenizer(folder, kind):
            files = " or ".join(", ".join(names) for names in _FILES[kind])
            raise InputError(f"lacks files of its tokenizer ({files}): copy them from where the model is from", folder)
        return kind
    # NLLB's file names are anyone's: such a tokenizer has to be named.
    for kind in get_args(Kind)[:2]:
        if _has_tokenizer(folder, kind):
            return kind  # type: ignore[no-any-return]
    advice = "copy them from where the model is from (ct2-transformers-converter --copy_files)"
    raise InputError(f"lacks the files of a tokenizer: {advice}", folder)


def _has_tokenizer(folder: Path, kind: Kind) -> bool:
    return any(all((folder / name).is_file() for name in names) for names in _FILES[kind])


def _read_json(folder: Path, name: str) -> dict[str, Any]:
    """Empty where there is no such file."""
    try:
        found = json.loads((folder / name).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise InputError(f"cannot be read: {error}", folder / name) from None
    if not isinstance(found, dict):
        raise InputError("is no JSON object", folder / name)
    return found


def _digest(folder: Path) -> str:
    patterns = _PARTS if list(folder.glob("model*.safetensors")) else _PARTS + _OLD_PARTS
    files = sorted({file for pattern in patterns for file in folder.glob(pattern) if file.is_file()})
    parts = [(file.name, _digest_of(file, file.stat().st_size, file.stat().st_mtime_ns)) for file in files]
    return hashlib.sha256(msgspec.json.encode(parts)).hexdigest()[:12]


@functools.lru_cache(maxsize=1024)
def _digest_of(file: Path, size: int, changed: int) -> str:
    """Of one file as it was then: a process reads it once."""
    with file.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()
